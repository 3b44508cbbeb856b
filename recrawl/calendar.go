package recrawl

import "slices"

// cell is a slot's whole state: 56 bytes.
type cell struct {
	Facts
	due        Tick   // in the calendar: when
	prev, next uint32 // in the calendar: neighbours in its bucket; a free slot: next free
}

const (
	none       = ^uint32(0)
	chunkBits  = 14
	chunkCells = 1 << chunkBits
	wheelSize  = 1 << 16 // ticks that the calendar spans at once; what is due later waits for a further turn
)

// table is a growing array of cells that never moves them.
type table struct {
	chunks []*[chunkCells]cell
	n      int
}

func (t *table) at(s Slot) *cell { return &t.chunks[s>>chunkBits][s&(chunkCells-1)] }

func (t *table) grow() Slot {
	if t.n>>chunkBits == len(t.chunks) {
		t.chunks = append(t.chunks, new([chunkCells]cell))
	}
	t.n++
	return Slot(t.n - 1)
}

// calendar is a hashed wheel of intrusive lists: adding, removing and moving a slot cost O(1).
type calendar struct {
	cells *table
	heads []uint32
	at    Tick // all that was due up to here has been seen

	touched Tick // sum of what was read ahead, so that it is read
}

func newCalendar(cells *table) calendar {
	heads := make([]uint32, wheelSize)
	for i := range heads {
		heads[i] = none
	}
	return calendar{cells: cells, heads: heads}
}

func (w *calendar) add(s Slot, c *cell, due Tick) {
	due = max(due, w.at+1)
	h := &w.heads[int(due)&(wheelSize-1)]
	c.due, c.prev, c.next = due, none, *h
	if *h != none {
		w.cells.at(Slot(*h)).prev = uint32(s)
	}
	*h = uint32(s)
	c.Flags |= inWheel
}

func (w *calendar) remove(c *cell) {
	if c.prev == none {
		w.heads[int(c.due)&(wheelSize-1)] = c.next
	} else {
		w.cells.at(Slot(c.prev)).next = c.next
	}
	if c.next != none {
		w.cells.at(Slot(c.next)).prev = c.prev
	}
	c.Flags &^= inWheel
}

// advance takes out all that is due up to now and hands it to f, in an order that depends on the calls before only.
func (w *calendar) advance(now Tick, f func(Slot, *cell)) {
	from := w.at + 1
	if now-from >= wheelSize { // a long sleep: once round is enough
		from = now - wheelSize + 1
	}
	w.at = max(w.at, now) // whatever f adds comes after now
	for t := from; t <= now; t++ {
		at := w.heads[int(t)&(wheelSize-1)]
		for at != none {
			c := w.cells.at(Slot(at))
			next := c.next
			if next != none {
				w.touched += w.cells.at(Slot(next)).due // which comes from memory while this one is ranked
			}
			if c.due <= now {
				w.remove(c)
				f(Slot(at), c)
			}
			at = next
		}
	}
}

// ready is a heap of slots by value, highest first; equal values by slot, so that the order is one.
// It is a sequence.Sequencer of what is worth at least its floor.
type ready struct {
	heap   []readyItem
	cursor int // next to refresh
	floor  float32
}

type readyItem struct {
	value float32
	slot  Slot
}

func (a readyItem) before(b readyItem) bool {
	return a.value > b.value || a.value == b.value && a.slot < b.slot
}

// Backlog implements sequence.Sequencer.
func (r *ready) Backlog() int { return len(r.heap) }

// Next implements sequence.Sequencer.
func (r *ready) Next() (top readyItem, ok bool) {
	if !r.waits() {
		return top, false
	}
	top = r.heap[0]
	r.removeAt(0)
	return top, true
}

// Load implements sequence.Sequencer.
func (r *ready) Load(v readyItem) bool {
	r.push(v.slot, v.value)
	return true
}

// Flush implements sequence.Sequencer.
func (r *ready) Flush() []readyItem {
	all := r.heap
	slices.SortFunc(all, func(a, b readyItem) int {
		if a.before(b) {
			return -1
		}
		return 1
	})
	r.heap = nil
	return all
}

// waits tells whether anything is worth the floor.
func (r *ready) waits() bool { return len(r.heap) > 0 && r.heap[0].value >= r.floor }

// ordered takes from two queues whichever has the better entry: the strategy's order alone.
type ordered struct{ a, b *ready }

func (o ordered) Backlog() int { return o.a.Backlog() + o.b.Backlog() }

func (o ordered) Next() (readyItem, bool) {
	if o.b.waits() && (!o.a.waits() || o.b.heap[0].before(o.a.heap[0])) {
		return o.b.Next()
	}
	return o.a.Next()
}

func (o ordered) Load(v readyItem) bool { return o.a.Load(v) }

func (o ordered) Flush() []readyItem { return append(o.a.Flush(), o.b.Flush()...) }

func (r *ready) push(s Slot, value float32) {
	r.heap = append(r.heap, readyItem{value, s})
	r.up(len(r.heap) - 1)
}

func (r *ready) removeAt(i int) {
	last := len(r.heap) - 1
	r.heap[i] = r.heap[last]
	r.heap = r.heap[:last]
	if i < last {
		r.fix(i)
	}
}

func (r *ready) remove(s Slot) {
	for i := range r.heap {
		if r.heap[i].slot == s {
			r.removeAt(i)
			return
		}
	}
}

func (r *ready) fix(i int) {
	if !r.down(i) {
		r.up(i)
	}
}

func (r *ready) up(i int) {
	h, item := r.heap, r.heap[i]
	for i > 0 {
		p := (i - 1) / 4
		if !item.before(h[p]) {
			break
		}
		h[i] = h[p]
		i = p
	}
	h[i] = item
}

func (r *ready) down(i int) (moved bool) {
	h, item, from := r.heap, r.heap[i], i
	for {
		c := 4*i + 1
		if c >= len(h) {
			break
		}
		best := c
		for j := c + 1; j < min(c+4, len(h)); j++ {
			if h[j].before(h[best]) {
				best = j
			}
		}
		if !h[best].before(item) {
			break
		}
		h[i] = h[best]
		i = best
	}
	h[i] = item
	return i != from
}
