package ledger

import (
	"sync"

	"shoal/manager/archive/segment"
)

// maxWriters is how many batches with records are written at a time to a segment store that is far away: while one waits for its object, others
// gather and send theirs. The ledger store commits one at a time.
const maxWriters = 4

// writers are those of the segment store. Each batch with records has one of them for itself; one that ends segments has all.
type writers struct {
	n int // of all

	mu   sync.Mutex
	free []segment.Writer
	back sync.Cond // some were given back
	all  int       // batches that wait for all of them; others let them go first
}

// newWriters makes them: one, unless several are wanted and the store has them.
func newWriters(store segment.Store, several bool) *writers {
	w := &writers{free: []segment.Writer{store}}
	if many, ok := store.(segment.Many); ok && several {
		for range maxWriters - 1 {
			w.free = append(w.free, many.Another())
		}
	}
	w.n, w.back.L = len(w.free), &w.mu
	return w
}

// take waits for one writer, or for all. The one that was used last comes first, so that few segments grow while little comes.
func (w *writers) take(all bool) []segment.Writer {
	w.mu.Lock()
	defer w.mu.Unlock()
	want := 1
	if all {
		want = w.n
		w.all++
		defer func() { w.all-- }()
	}
	for len(w.free) < want || !all && w.all > 0 {
		w.back.Wait()
	}
	taken := append([]segment.Writer(nil), w.free[len(w.free)-want:]...)
	w.free = w.free[:len(w.free)-want]
	return taken
}

// give gives writers back.
func (w *writers) give(back []segment.Writer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.free = append(w.free, back...)
	w.back.Broadcast()
}
