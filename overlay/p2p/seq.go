package p2p

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"shoal/internal/member"
	"shoal/overlay"
)

// Sequence numbers follow the clock, in milliseconds. Where a clock that was ahead is set right, they run on from what it had shown. The
// next run must begin above them, or nobody hears it before that time has come: a record with a lower number is an older one.
const (
	seqFile  = "seq"
	seqAhead = 1000   // a record whose number is further than this before its time needs the file
	seqRoom  = 10_000 // how many records go out before the file is written again
)

// sequence keeps in a file a number that none of the own records has reached. While the clock goes right there is nothing to keep.
type sequence struct {
	dir string // empty: nothing is kept

	mu   sync.Mutex
	kept uint64
}

// readSeq returns the number that an earlier run kept, or 0. A file that cannot be read is as good as none.
func readSeq(dir string) uint64 {
	if dir == "" {
		return 0
	}
	b, err := os.ReadFile(filepath.Join(dir, seqFile))
	if err != nil {
		return 0
	}
	n, err := strconv.ParseUint(string(b), 10, 63)
	if err != nil {
		return 0
	}
	return n
}

// use keeps what a later run must know of a record that is about to leave. It fails once for each seqRoom records at most.
func (s *sequence) use(r *overlay.PeerRecord) error {
	if s.dir == "" || r.Seq <= uint64(max(r.Issued.UnixMilli(), 0))+seqAhead {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Seq < s.kept {
		return nil
	}
	s.kept = r.Seq + seqRoom
	return errors.Join(os.MkdirAll(s.dir, 0o700), member.WriteFile(filepath.Join(s.dir, seqFile), strconv.AppendUint(nil, s.kept, 10)))
}

// sealOwn signs the node's own record, after its number is kept. It runs beside the loop: both take time.
func (r *Runner) sealOwn(own *overlay.PeerRecord) {
	if err := r.seq.use(own); err != nil {
		r.log.Warn("number of own records not kept", "err", err)
	}
	if err := r.sealer.seal(own); err != nil {
		r.log.Error("own record not signed", "err", err)
	}
}
