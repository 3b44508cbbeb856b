package archive

import (
	"sync"
	"sync/atomic"
	"time"
)

// counters is what Stats tells; those of one process unless they say otherwise.
type counters struct {
	failures, rejected, foreign, mismatched atomic.Uint64

	stored atomic.Int64 // when the last chunk was, in Unix nanoseconds of this machine's clock

	mu        sync.Mutex
	files     map[uint32]string
	pages     uint64 // of the State: over all processes
	unchanged uint64
	chunks    uint64
	bytes     uint64
	events    uint64
	texted    uint64    // page events that text extraction is done with
	oldest    time.Time // of the first one that it is not
}

// Stats is what an archive has done.
type Stats struct {
	Pages      uint64        // payloads stored, ever
	Unchanged  uint64        // visits that found what was stored, ever
	Chunks     uint64        // ever
	Bytes      uint64        // of payloads stored, ever
	Files      int           // WARC files
	Leases     int           // that run
	Rejected   uint64        // chunks not on the head, or from behind the fence
	Foreign    uint64        // pages outside their channel's scope, dropped
	Mismatched uint64        // pages said to be unchanged that are not stored, or whose digest is another
	Failures   uint64        // writes that failed
	Damaged    float64       // 1 when bytes of the database are not what was written
	Events     uint64        // changes of pages told in the feed, ever
	TextLag    uint64        // of which text extraction has still to see
	TextDelay  time.Duration // since the first of these
}

// Stats gives the figures as they are.
func (a *Archive) Stats() Stats {
	s := Stats{
		Rejected: a.stats.rejected.Load(), Foreign: a.stats.foreign.Load(), Mismatched: a.stats.mismatched.Load(),
		Failures: a.stats.failures.Load(), Leases: a.slots.pins(),
	}
	if a.damaged.Load() != nil {
		s.Damaged = 1
	}
	a.stats.mu.Lock()
	defer a.stats.mu.Unlock()
	s.Pages, s.Unchanged, s.Chunks, s.Bytes = a.stats.pages, a.stats.unchanged, a.stats.chunks, a.stats.bytes
	s.Files, s.Events = len(a.stats.files), a.stats.events
	if a.stats.events > a.stats.texted {
		s.TextLag = a.stats.events - a.stats.texted
		if !a.stats.oldest.IsZero() {
			s.TextDelay = max(0, a.cfg.Clock().Sub(a.stats.oldest))
		}
	}
	return s
}

// busy tells whether a chunk was stored within d.
func (c *counters) busy(d time.Duration) bool {
	return time.Now().UnixNano()-c.stored.Load() < int64(d)
}

// count adds what became durable.
func (c *counters) count(t tally) {
	if t.chunks > 0 {
		c.stored.Store(time.Now().UnixNano())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pages += t.pages
	c.unchanged += t.unchanged
	c.chunks += t.chunks
	c.bytes += t.bytes
	c.events += t.events
}

// addFile names a WARC file.
func (c *counters) addFile(n uint32, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.files == nil {
		c.files = make(map[uint32]string)
	}
	c.files[n] = name
}

// dropFile forgets a WARC file that was removed.
func (c *counters) dropFile(n uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.files, n)
}

// fileName finds the name of a WARC file; empty: there is none.
func (c *counters) fileName(n uint32) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.files[n]
}

// textedTo says how far text extraction is, and from when the first event is that it has not seen.
func (c *counters) textedTo(events uint64, oldest time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.texted, c.oldest = events, oldest
}
