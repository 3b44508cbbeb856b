package pgledger

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"shoal/channel/postgres"
	"shoal/internal/again"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/ledger/badgerledger"
)

// Several programs may append to one log. What an entry does depends on the entries before it alone, so each program appends without asking what
// the others have appended since it looked: its conditions are in the entry, and when all entries before it are applied, they tell.
//
// A program is a writer as long as its row in the table writers is there. Who takes its work over removes the row first, under the lock of the
// log's head, and then reads the log to its end: nothing of that program comes after it.

// Times of several writers.
const (
	lookEvery   = 200 * time.Millisecond // between two looks at what others have appended
	beatEvery   = 2 * time.Second
	tellEvery   = 10 * time.Second // between two messages of what fails
	lookWithin  = 10 * time.Second // that a look may take, or the server's patience if that is less: who commits waits for it meanwhile
	leaveWithin = 5 * time.Second
	aliveFor    = "10 seconds" // a writer that was heard of within this may still append
	steadyGap   = "5 seconds"  // a writer that was not heard of for so long has not seen whether others were
)

// ErrSeveral says that a program wants an archive for itself on which others work.
var ErrSeveral = errors.New("archive: several managers work on it")

var _ ledger.Follower = (*Store)(nil) // else it is taken for a store to which no other program writes

// Several reports whether this store is one of several writers.
func (s *Store) Several() bool { return s.cfg.Writer != "" }

// register makes this program a writer. The first of several shuts out a program that has the log for itself. Other writers stay, however long they have been
// silent: after an outage of the server any of them may be the first to come back.
func (s *Store) register(ctx context.Context) error {
	return s.patiently(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if err := lockHead(ctx, tx); err != nil {
			return err
		}
		var others int
		if err := tx.QueryRow(ctx, `SELECT count(*) FROM writers WHERE part = $1 AND at > '-infinity'`, part).Scan(&others); err != nil {
			return err
		}
		if others == 0 {
			if _, err := tx.Exec(ctx, `UPDATE heads SET epoch = epoch + 1 WHERE part = $1`, part); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, `DELETE FROM writers WHERE part = $1`, part); err != nil {
				return err
			}
		}
		if _, err := tx.Exec(ctx, `INSERT INTO writers (part, token, first) SELECT part, $2, segments FROM heads WHERE part = $1
			ON CONFLICT (part, token) DO UPDATE SET at = now()`, part, s.cfg.Writer); err != nil {
			return err
		}
		return tx.QueryRow(ctx, `SELECT epoch FROM heads WHERE part = $1`, part).Scan(&s.epoch)
	})
}

// lockHead has all who append wait until the transaction ends.
func lockHead(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, `SELECT FROM heads WHERE part = $1 FOR UPDATE`, part)
	return err
}

// writers counts those that were heard of lately.
func writers(ctx context.Context, tx pgx.Tx) (n int, err error) {
	err = tx.QueryRow(ctx, `SELECT count(*) FROM writers WHERE part = $1 AND at > now() - $2::interval`, part, aliveFor).Scan(&n)
	return n, err
}

// patiently runs a transaction that may be repeated, until it is known to be done.
func (s *Store) patiently(ctx context.Context, run func(context.Context, pgx.Tx) error) error {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	return s.server.Explain(s.server.Patiently(ctx, func() error {
		err := s.server.Transact(ctx, run)
		if errors.Is(err, postgres.ErrUnknown) {
			return postgres.ErrAgain
		}
		return err
	}))
}

// ShutOut removes writers, by their tokens. When it returns, nothing that they send is appended any more, and this store has read all that was.
func (s *Store) ShutOut(ctx context.Context, tokens []string) error {
	if len(tokens) > 0 {
		err := s.patiently(ctx, func(ctx context.Context, tx pgx.Tx) error {
			if err := lockHead(ctx, tx); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, `DELETE FROM writers WHERE part = $1 AND token = ANY($2)`, part, tokens)
			return err
		})
		if err != nil {
			return fmt.Errorf("shut managers out of the archive: %w", err)
		}
	}
	return s.Sync(ctx)
}

// NextSegment gives the ID of a new segment, which no other writer gets.
func (s *Store) NextSegment() (id uint32, err error) {
	last := int64(s.Head().Segment)
	err = s.patiently(context.Background(), func(ctx context.Context, tx pgx.Tx) error {
		var n int64
		err := tx.QueryRow(ctx, `UPDATE heads SET segments = greatest(segments, $2) + 1 WHERE part = $1 RETURNING segments`, part, last).Scan(&n)
		id = uint32(n)
		return err
	})
	return id, err
}

// Hear has f told of each entry that others have appended, when its writes are applied. f must not call the store.
func (s *Store) Hear(f func([]ledger.Write)) {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.hear = f
}

// Sync applies what others have appended before the call.
func (s *Store) Sync(ctx context.Context) error {
	if err := s.writing.LockWithin(ctx); err != nil {
		return fmt.Errorf("read what other managers have stored: %w", err)
	}
	defer s.writing.Unlock()
	return s.readLog(ctx)
}

// look is Sync that does not wait for a server which has fallen silent.
func (s *Store) look(ctx context.Context) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	within := min(lookWithin, max(s.cfg.Server.Patience, time.Second))
	bound, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	before := s.at.Seq
	switch err := s.readLog(bound); {
	case bound.Err() == nil || ctx.Err() != nil:
		return err
	case s.at.Seq > before: // there was much to read
		return nil
	default:
		return fmt.Errorf("%w: it has not answered for %v", postgres.ErrUnreachable, within)
	}
}

// follow applies what others append, until ctx ends, and lets them know that this writer is alive.
func (s *Store) follow(ctx context.Context) {
	var failing atomic.Bool
	var beats sync.WaitGroup
	beats.Go(func() { s.beat(ctx, &failing) })
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	told := time.Time{}
	for {
		select {
		case <-ctx.Done():
			beats.Wait()
			s.leave()
			return
		case <-look.C:
		}
		err := s.look(ctx)
		failing.Store(err != nil)
		if errors.Is(err, ledger.ErrReplaced) || errors.Is(err, errDiverged) {
			s.shutOut(err)
		}
		if now := time.Now(); err != nil && ctx.Err() == nil && now.Sub(told) >= tellEvery {
			told = now
			s.log.Warn("what other managers have stored is not read, will try again", "err", s.server.Explain(err))
		}
	}
}

// shutOut notes why this writer can do nothing more.
func (s *Store) shutOut(why error) { s.out.CompareAndSwap(nil, &why) }

// Out implements ledger.Follower.
func (s *Store) Out() error {
	if why := s.out.Load(); why != nil {
		return *why
	}
	return nil
}

// End implements ledger.Follower.
func (s *Store) End() { s.endLife() }

// beat lets other writers know that this one is alive, unless it fails to read what they write: then it answers none of them. It waits neither for a commit nor
// for this machine's disk, so that a writer that is slow is not shut out.
func (s *Store) beat(ctx context.Context, failing *atomic.Bool) {
	t := time.NewTicker(beatEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		if failing.Load() {
			continue
		}
		bound, cancel := context.WithTimeout(ctx, lookWithin) // a server that is silent for so long has not heard of it in time
		tag, err := s.server.Pool().Exec(bound, `UPDATE writers SET since = CASE WHEN at BETWEEN now() - $3::interval AND now() THEN since ELSE now() END, at = now() WHERE part = $1 AND token = $2`,
			part, s.cfg.Writer, steadyGap)
		cancel()
		switch {
		case err == nil && tag.RowsAffected() == 0:
			s.shutOut(s.replaced())
		case err != nil && ctx.Err() == nil:
			s.log.Debug("other managers were not told that this one is alive, will try again", "err", s.server.Explain(err))
		}
	}
}

// leave says that this writer ends by itself, so that another program may have the log at once.
func (s *Store) leave() {
	// After aliveFor it would tell nothing new. A busy server takes more than a moment for the new connection that this may need.
	ctx, cancel := context.WithTimeout(context.Background(), min(max(s.cfg.Server.Patience, time.Second), leaveWithin))
	defer cancel()
	if _, err := s.server.Pool().Exec(ctx, `UPDATE writers SET at = '-infinity' WHERE part = $1 AND token = $2`, part, s.cfg.Writer); err != nil {
		s.log.Debug("the archive's server was not told of the end", "err", err)
	}
}

// commitBeside is Commit for one of several writers. fit are writes that fit.
func (s *Store) commitBeside(ctx context.Context, fit []ledger.Write) ([]error, error) {
	var key [16]byte
	rand.Read(key[:])
	seq, err := s.appendBeside(ctx, key, s.packer.pack(fit))
	if err != nil {
		return nil, err
	}
	return s.readBefore(ctx, &badgerledger.Logged{Seq: seq, Key: key, Writes: fit})
}

// readBefore applies the entries before one of this writer's own that is in the log already, and that one. What it did is known only then, so a server that has
// gone away meanwhile is waited for.
func (s *Store) readBefore(ctx context.Context, own *badgerledger.Logged) ([]error, error) {
	said, err := s.readUpTo(ctx, own.Seq-1, own)
	if !away(err) {
		return said, err
	}
	s.log.Warn("the database has gone away before it was known what a commit did; waiting for it", "err", s.server.Explain(err))
	ctx, cancel := s.untilEnd()
	defer cancel()
	for wait := again.Every(pace); away(err) && wait.Wait(ctx, nil, nil) == nil; {
		said, err = s.readUpTo(ctx, own.Seq-1, own)
	}
	return said, err
}

// away reports whether an error says that the server cannot be reached.
func away(err error) bool { return errors.Is(err, postgres.ErrUnreachable) || postgres.Passes(err) }

// untilEnd bounds what waits for a server that must be asked: to when the store is closed, or to settleMost, after which the store is opened anew.
func (s *Store) untilEnd() (context.Context, context.CancelFunc) {
	return context.WithTimeout(s.life, settleMost)
}

// settleMost is how long a commit waits for the server to say what became of it.
const settleMost = 5 * time.Minute

// appendBeside puts an entry behind whatever the log has, and tells its number.
func (s *Store) appendBeside(ctx context.Context, key [16]byte, body []byte) (seq uint64, err error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	err = s.server.Patiently(ctx, func() error {
		err := s.server.Transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
			var b pgx.Batch
			b.Queue(`SELECT FROM heads WHERE part = $1 FOR UPDATE`, part) // what follows sees all that was done before the lock was had
			if s.at.Seq > 0 {
				b.Queue(`SELECT EXISTS (SELECT FROM log WHERE part = $1 AND seq = $2 AND key = $3)`, part, int64(s.at.Seq), s.at.Key[:]).QueryRow(func(row pgx.Row) error {
					var is bool
					if err := row.Scan(&is); err != nil || is {
						return err
					}
					return s.diverged()
				})
			}
			b.Queue(`WITH moved AS (UPDATE heads SET seq = seq + 1, key = $3, grown = grown + $5
					WHERE part = $1 AND epoch = $6 AND EXISTS (SELECT FROM writers WHERE part = $1 AND token = $2) RETURNING part, seq)
				INSERT INTO log (part, seq, key, body) SELECT part, seq, $3, $4 FROM moved RETURNING seq`, part, s.cfg.Writer, key[:], body, len(body), s.epoch).QueryRow(func(row pgx.Row) error {
				var n int64
				err := row.Scan(&n)
				if errors.Is(err, pgx.ErrNoRows) {
					return s.replaced()
				}
				seq = uint64(n)
				return err
			})
			return tx.SendBatch(ctx, &b).Close()
		})
		if errors.Is(err, postgres.ErrUnknown) {
			seq, err = s.settleBeside(key, err)
		}
		return err
	})
	switch {
	case err == nil:
		return seq, nil
	case errors.Is(err, ledger.ErrReplaced):
		s.gone = true
		s.shutOut(err)
		return 0, err
	case errors.Is(err, errUnsettled), errors.Is(err, errDiverged):
		return 0, err
	}
	return 0, s.away(err)
}

// settleBeside is settle for one of several writers: its entry may be anywhere behind what was read.
func (s *Store) settleBeside(key [16]byte, cause error) (seq uint64, err error) {
	s.log.Warn("the answer to a commit was lost; asking whether it was made", "err", s.server.Explain(cause))
	ctx, cancel := s.untilEnd()
	defer cancel()
	wait := again.Every(pace)
	for {
		err := s.server.Transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, `UPDATE heads SET looked = now() WHERE part = $1`, part); err != nil {
				return err
			}
			var n int64
			err := tx.QueryRow(ctx, `SELECT seq FROM log WHERE part = $1 AND seq > $2 AND key = $3`, part, int64(s.at.Seq), key[:]).Scan(&n)
			if errors.Is(err, pgx.ErrNoRows) {
				seq = 0
				return nil
			}
			seq = uint64(n)
			return err
		})
		switch {
		case err == nil && seq > 0:
			return seq, nil
		case err == nil:
			return 0, postgres.ErrAgain // whether this is a writer still, the next try finds out
		}
		if wait.Wait(ctx, nil, nil) != nil {
			return 0, fmt.Errorf("%w, and the server does not come back to tell: %w", errUnsettled, s.server.Explain(err))
		}
	}
}
