package dispatch

import (
	"slices"

	"shoal/recrawl"
)

// timers ring at their times, the earliest first. Those of the near future are a heap. Later ones lie in buckets by time, in no order. Most tasks
// end long before their leases do, so most timers are stale when their bucket is opened, and are never sorted.
type timers struct {
	soon   []timer               // a heap: all timers of buckets before opened
	later  [timerBuckets][]timer // bucket b is at b%timerBuckets; the last one has what is farther, too
	opened int64                 // the first bucket that is not open yet
	n      int                   // timers in soon and later
	spare  []timer               // the memory of an opened bucket
	stale  func(timer) bool      // says which timers need not ring
}

// timer wakes a flight up. It is stale if it does not ring at flight.wake.
type timer struct {
	at   int64 // nanoseconds
	slot recrawl.Slot
}

const (
	timerBits    = 36 // of the nanoseconds of a bucket: 69 s
	timerBuckets = 1 << 10
)

func (t timer) before(u timer) bool { return t.at < u.at || t.at == u.at && t.slot < u.slot }

func (h *timers) push(t timer) {
	if h.n == 0 {
		h.opened = t.at >> timerBits
	}
	h.n++
	h.put(t)
}

func (h *timers) put(t timer) {
	b := t.at >> timerBits
	if b < h.opened {
		h.soon = append(h.soon, t)
		h.up(len(h.soon) - 1)
		return
	}
	bucket := &h.later[min(b, h.opened+timerBuckets-1)%timerBuckets]
	if *bucket == nil {
		*bucket, h.spare = h.spare, nil
	}
	*bucket = append(*bucket, t)
}

// open puts the timers of the next bucket where they belong.
func (h *timers) open() {
	bucket := &h.later[h.opened%timerBuckets]
	list := *bucket
	*bucket = nil
	h.opened++
	for _, t := range list {
		if h.stale(t) {
			h.n--
		} else {
			h.put(t)
		}
	}
	if list != nil {
		h.spare = list[:0]
	}
}

// pop takes the earliest timer that rings until then; false: none does.
func (h *timers) pop(until int64) (t timer, ok bool) {
	for len(h.soon) < h.n && h.opened <= until>>timerBits {
		h.open()
	}
	if len(h.soon) == 0 || h.soon[0].at > until {
		return timer{}, false
	}
	t = h.soon[0]
	last := len(h.soon) - 1
	h.soon[0], h.soon = h.soon[last], h.soon[:last]
	h.down(0)
	h.n--
	return t, true
}

// first is when the earliest timer rings, which may be stale; zero: there is none.
func (h *timers) first() int64 {
	for len(h.soon) == 0 && h.n > 0 {
		h.open()
	}
	if h.n == 0 {
		return 0
	}
	return h.soon[0].at
}

// tidy forgets the stale timers.
func (h *timers) tidy() {
	h.soon = slices.DeleteFunc(h.soon, h.stale)
	for i := len(h.soon)/2 - 1; i >= 0; i-- {
		h.down(i)
	}
	h.n = len(h.soon)
	for i, list := range h.later {
		h.later[i] = slices.DeleteFunc(list, h.stale)
		h.n += len(h.later[i])
	}
}

func (h *timers) up(i int) {
	for t := h.soon[i]; i > 0; {
		above := (i - 1) / 2
		if !t.before(h.soon[above]) {
			break
		}
		h.soon[i], h.soon[above] = h.soon[above], t
		i = above
	}
}

func (h *timers) down(i int) {
	q := h.soon
	for {
		child := 2*i + 1
		if child+1 < len(q) && q[child+1].before(q[child]) {
			child++
		}
		if child >= len(q) || !q[child].before(q[i]) {
			return
		}
		q[i], q[child] = q[child], q[i]
		i = child
	}
}
