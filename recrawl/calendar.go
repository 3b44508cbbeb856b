package recrawl

import (
	"math"
	"slices"
)

// cell is a slot's whole state: 48 bytes.
type cell struct {
	Facts
	due Tick // in the calendar: when; a free slot: the next free one
}

const (
	none       = ^uint32(0)
	chunkBits  = 14
	chunkCells = 1 << chunkBits
	wheelSize  = 1 << 16 // ticks that the calendar spans at once; what is due later waits for a further turn
)

// table is a growing array of cells that never moves them.
type table struct {
	chunks  []*[chunkCells]cell
	n       int
	touched Tick // sum of what was read ahead, so that it is read
}

func (t *table) at(s Slot) *cell { return &t.chunks[s>>chunkBits][s&(chunkCells-1)] }

// touch reads both ends of a cell, which may lie across two lines of memory. A processor waits as long for many lines as for one, so the
// scheduler reads ahead in one go what it needs next.
func (t *table) touch(s Slot) {
	c := t.at(s)
	t.touched += c.Submitted + c.due
}

func (t *table) grow() Slot {
	if t.n>>chunkBits == len(t.chunks) {
		t.chunks = append(t.chunks, new([chunkCells]cell))
	}
	t.n++
	return Slot(t.n - 1)
}

// calendar is a hashed wheel. A bucket is a chain of blocks of slots, the latest first. Adding a slot touches no other slot's cell. A bucket
// names the cells that will be needed long before they are, so the processor waits for memory once for many of them. Taking a slot out only
// marks its cell: the entry is stale from then on, and is skipped when its tick comes, or dropped when stale entries are too many. Everything
// costs O(1) a slot.
type calendar struct {
	cells   *table
	buckets []bucket
	blocks  []*[chunkBlocks]block
	used    uint32 // blocks made so far
	free    uint32 // the first free one of them
	at      Tick   // everything due up to here has been handed out
	entries int    // in all buckets
	live    int    // entries that are not stale
}

// bucket holds what is due at one tick of each turn.
type bucket struct {
	last uint32 // its newest block
	n    uint32 // entries in that one; the others are full. No block: blockSlots
}

type block struct {
	slots [blockSlots]Slot
	older uint32 // the next block of its bucket; a free block: the next free one
}

const (
	blockSlots  = 15 // a line of memory, with the link
	blockBits   = 10
	chunkBlocks = 1 << blockBits
	readAhead   = 4 // blocks whose slots' cells are read in one go
)

func newCalendar(cells *table) calendar {
	w := calendar{cells: cells, buckets: make([]bucket, wheelSize), free: none}
	for i := range w.buckets {
		w.buckets[i] = bucket{none, blockSlots}
	}
	return w
}

func (w *calendar) bucket(due Tick) *bucket { return &w.buckets[int(due)&(wheelSize-1)] }

func (w *calendar) block(i uint32) *block { return &w.blocks[i>>blockBits][i&(chunkBlocks-1)] }

func (w *calendar) add(s Slot, c *cell, due Tick) {
	c.due = max(due, w.at+1)
	c.Flags |= inWheel
	w.live++
	w.put(w.bucket(c.due), s)
}

// remove leaves the slot's entry behind.
func (w *calendar) remove(c *cell) {
	c.Flags &^= inWheel
	w.live--
}

// put makes a slot the latest of a bucket.
func (w *calendar) put(b *bucket, s Slot) {
	if b.n == blockSlots {
		b.last, b.n = w.newBlock(b.last), 0
	}
	w.block(b.last).slots[b.n] = s
	b.n++
	w.entries++
}

func (w *calendar) newBlock(older uint32) uint32 {
	i := w.free
	if i == none {
		if i = w.used; i>>blockBits == uint32(len(w.blocks)) {
			w.blocks = append(w.blocks, new([chunkBlocks]block))
		}
		w.used++
	} else {
		w.free = w.block(i).older
	}
	w.block(i).older = older
	return i
}

// line is some entries of a bucket, latest first.
type line struct {
	slots [readAhead * blockSlots]Slot
	n     int
}

// take moves the latest entries of a bucket into l, reads their cells, and tells whether there were any.
func (w *calendar) take(b *bucket, l *line) bool {
	l.n = 0
	for range readAhead {
		if b.last == none {
			break
		}
		of := w.block(b.last)
		for k := int(b.n) - 1; k >= 0; k-- {
			l.slots[l.n] = of.slots[k]
			l.n++
		}
		was := b.last
		b.last, b.n = of.older, blockSlots
		of.older, w.free = w.free, was
	}
	for _, s := range l.slots[:l.n] {
		w.cells.touch(s)
	}
	w.entries -= l.n
	return l.n > 0
}

// advance takes out everything due up to now and hands it to f, in an order that depends only on the calls before.
func (w *calendar) advance(now Tick, f func(Slot, *cell)) {
	if w.entries > w.live+w.live/2+wheelSize {
		w.compact()
	}
	from := w.at + 1
	if now-from >= wheelSize { // a long sleep: once round is enough
		from = now - wheelSize + 1
	}
	w.at = max(w.at, now) // whatever f adds comes after now
	for t := from; t <= now; t++ {
		b := w.bucket(t)
		if b.last == none {
			continue
		}
		all := *b
		*b = bucket{none, blockSlots}
		later := w.due(&all, t, now, f)
		if len(later) > 0 { // goes below what f has added
			added := w.all(b, t)
			w.refill(b, later)
			w.refill(b, added)
		}
	}
}

// due hands what is due of a bucket that was taken out to f, and returns the rest, latest first.
func (w *calendar) due(all *bucket, t, now Tick, f func(Slot, *cell)) (later []Slot) {
	var l line
	for w.take(all, &l) {
		for _, s := range l.slots[:l.n] {
			c := w.cells.at(s)
			switch {
			case !c.waits(t):
			case c.due > now:
				c.Flags &^= inWheel
				later = append(later, s)
			default:
				w.remove(c)
				f(s, c)
			}
		}
	}
	return later
}

// waits reports whether the cell's place is the bucket of tick t: an entry for it there is not stale.
func (c *cell) waits(t Tick) bool { return c.Flags&inWheel != 0 && (c.due-t)&(wheelSize-1) == 0 }

// all takes out what is in the bucket of tick t and not stale, latest first. A slot that left the bucket and came back has two entries. Once
// the newer one is taken out the slot is no longer marked, and the older one is stale.
func (w *calendar) all(b *bucket, t Tick) (slots []Slot) {
	var l line
	for w.take(b, &l) {
		for _, s := range l.slots[:l.n] {
			if c := w.cells.at(s); c.waits(t) {
				c.Flags &^= inWheel
				slots = append(slots, s)
			}
		}
	}
	return slots
}

// refill puts back what was taken out, and marks it.
func (w *calendar) refill(b *bucket, slots []Slot) {
	for _, s := range slices.Backward(slots) {
		w.cells.at(s).Flags |= inWheel
		w.put(b, s)
	}
}

// compact drops all stale entries.
func (w *calendar) compact() {
	for t := range w.buckets {
		if b := &w.buckets[t]; b.last != none {
			w.refill(b, w.all(b, Tick(t)))
		}
	}
}

// ready is a heap of slots by value, highest first; equal values by slot, so that the order is one.
// It gives out what is worth at least its floor.
type ready struct {
	heap   []readyItem
	cursor int // next to refresh
	floor  float32
}

// readyItem is a value and a slot in one number that is the smaller the earlier it comes.
type readyItem uint64

func newReadyItem(value float32, s Slot) readyItem {
	if value == 0 {
		value = 0 // not minus zero
	}
	bits := math.Float32bits(value)
	if bits>>31 == 0 {
		bits = ^bits &^ (1 << 31)
	}
	return readyItem(bits)<<32 | readyItem(s)
}

func (a readyItem) slot() Slot { return Slot(a) }

func (a readyItem) value() float32 {
	bits := uint32(a >> 32)
	if bits>>31 == 0 {
		bits = ^bits &^ (1 << 31)
	}
	return math.Float32frombits(bits)
}

// next takes out the best slot; false: none is worth the floor.
func (r *ready) next() (top readyItem, ok bool) {
	if !r.waits() {
		return top, false
	}
	top = r.heap[0]
	r.removeAt(0)
	return top, true
}

// waits reports whether anything is worth the floor.
func (r *ready) waits() bool { return len(r.heap) > 0 && r.heap[0].value() >= r.floor }

func (r *ready) push(s Slot, value float32) {
	r.heap = append(r.heap, newReadyItem(value, s))
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
		if r.heap[i].slot() == s {
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
		if item >= h[p] {
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
		if c+4 > len(h) {
			i = last(h, i, item)
			break
		}
		of := h[c : c+4 : c+4] // without branches: which one is least is chance
		least := min(min(of[0], of[1]), min(of[2], of[3]))
		if item <= least {
			break
		}
		h[i] = least
		i = c
		if of[1] == least {
			i = c + 1
		}
		if of[2] == least {
			i = c + 2
		}
		if of[3] == least {
			i = c + 3
		}
	}
	h[i] = item
	return i != from
}

// last moves what is less than item up to i, if i has fewer than four children, and tells where item belongs now.
func last(h []readyItem, i int, item readyItem) int {
	c := 4*i + 1
	if c >= len(h) {
		return i
	}
	for j := c + 1; j < len(h); j++ {
		if h[j] < h[c] {
			c = j
		}
	}
	if item <= h[c] {
		return i
	}
	h[i] = h[c]
	return c
}
