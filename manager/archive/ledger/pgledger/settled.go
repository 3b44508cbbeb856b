package pgledger

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"shoal/manager/archive/ledger"
)

// A reader can see a commit that no standby has yet: its program was cut off while it waited, or the server itself has just come back from a crash. If that
// server is lost next, so is the commit. Cursors must not go beyond such entries.

var _ ledger.Settler = (*Store)(nil) // else its feeds are read to their ends

// settled is how far the feeds are known to be on all standbys that commits wait for.
type settled struct {
	asking sync.Mutex
	before atomic.Uint64 // the number of the first entry that may not be there
}

// raise notes that all entries below a number are there.
func (k *settled) raise(to uint64) {
	for {
		was := k.before.Load()
		if to <= was || k.before.CompareAndSwap(was, to) {
			return
		}
	}
}

const settledWithin = 5 * time.Second // that a reader of a feed waits for standbys

// Settled implements ledger.Settler. It asks by a write, which is answered when the standbys have it and with it all that was there to be read before. A
// writer's own commits were answered in that way, so only what others have appended costs such a write.
func (s *Store) Settled(ctx context.Context) uint64 {
	next := s.copied.Next()
	if s.settled.before.Load() >= next {
		return next
	}
	s.settled.asking.Lock()
	defer s.settled.asking.Unlock()
	if next = s.copied.Next(); s.settled.before.Load() >= next { // who had the lock before has asked
		return next
	}
	ctx, cancel := context.WithTimeout(ctx, settledWithin)
	defer cancel()
	if _, err := s.server.Pool().Exec(ctx, `UPDATE heads SET looked = now() WHERE part = $1`, part); err != nil {
		s.log.Debug("the newest entries of the archive's feeds are not told yet, since standbys may not have them", "err", s.server.Explain(err))
	} else {
		s.settled.raise(next)
	}
	return s.settled.before.Load()
}
