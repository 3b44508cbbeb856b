package dispatch

import (
	"shoal/channel"
	"shoal/recrawl"
)

// Table is what the manager keeps in memory of every channel beside its recrawl.Facts: id, host, a note and who crawled it last. A channel takes 22 bytes, and
// about 14 in the two indexes; nothing holds a pointer, so that the garbage collector passes by ten million channels. Names, leases and
// all else stay in the database, or in memory only while a task is out.
//
// The scheduler gives the slots out; the Table follows it. Owned by one goroutine.
type Table struct {
	chunks []*chunk
	n      int   // slots, free ones included
	byID   index // of channels
	byHost index // of each host's first channel
}

const (
	chunkBits  = 14
	chunkSlots = 1 << chunkBits
	chunkMask  = chunkSlots - 1
)

// chunk never moves, so that growing leaves no garbage behind.
type chunk struct {
	id   [chunkSlots]channel.ID // zero: the slot is free
	host [chunkSlots]channel.HostKey
	note [chunkSlots]uint16
	last [chunkSlots]uint32
}

// A note has the number of links known before the first crawl, and two flags.
const (
	noteLinks   = channel.MaxLinks >> 1
	noteGrows   = 1 << 14 // the last crawl was ended by its page budget
	noteSibling = 1 << 15 // of a host's first channel: there are others
)

// NewTable makes an empty table.
func NewTable() *Table {
	t := &Table{}
	t.byID.keyOf = func(at uint32) uint64 { return uint64(t.ID(recrawl.Slot(at))) }
	t.byHost.keyOf = func(at uint32) uint64 { return uint64(t.Host(recrawl.Slot(at))) }
	return t
}

// Len is the number of slots, free ones included: all are below it.
func (t *Table) Len() int { return t.n }

// ID is the channel at a slot below Len; 0: the slot is free.
func (t *Table) ID(s recrawl.Slot) channel.ID { return t.chunks[s>>chunkBits].id[s&chunkMask] }

// Host is the host of the channel at a slot below Len.
func (t *Table) Host(s recrawl.Slot) channel.HostKey {
	return t.chunks[s>>chunkBits].host[s&chunkMask]
}

// Used reports whether a slot has a channel.
func (t *Table) Used(s recrawl.Slot) bool { return int(s) < t.n && t.ID(s) != 0 }

// Find is the slot of a channel; false: the table does not have it.
func (t *Table) Find(id channel.ID) (recrawl.Slot, bool) {
	s, ok := t.byID.find(uint64(id))
	return recrawl.Slot(s), ok
}

// First is a host's first channel, and whether there are others; 0: the host has none.
func (t *Table) First(host channel.HostKey) (id channel.ID, more bool) {
	s, ok := t.byHost.find(uint64(host))
	if !ok {
		return 0, false
	}
	return t.ID(recrawl.Slot(s)), *t.note(recrawl.Slot(s))&noteSibling != 0
}

// Put sets a slot, which must be free.
func (t *Table) Put(s recrawl.Slot, id channel.ID, host channel.HostKey) {
	for int(s)>>chunkBits >= len(t.chunks) {
		t.chunks = append(t.chunks, new(chunk))
	}
	t.n = max(t.n, int(s)+1)
	c := t.chunks[s>>chunkBits]
	c.id[s&chunkMask], c.host[s&chunkMask], c.note[s&chunkMask], c.last[s&chunkMask] = id, host, 0, 0
	t.byID.add(uint32(s))
	if first, ok := t.byHost.find(uint64(host)); ok {
		*t.note(recrawl.Slot(first)) |= noteSibling
		return
	}
	t.byHost.add(uint32(s))
}

// Drop frees a slot. If its channel was its host's first, another one becomes that.
func (t *Table) Drop(s recrawl.Slot) {
	c, host := t.chunks[s>>chunkBits], t.Host(s)
	t.byID.remove(uint32(s))
	first, _ := t.byHost.find(uint64(host))
	if first == uint32(s) {
		t.byHost.remove(uint32(s))
	}
	siblings := *t.note(s)&noteSibling != 0
	c.id[s&chunkMask], c.host[s&chunkMask], c.note[s&chunkMask], c.last[s&chunkMask] = 0, 0, 0, 0
	if first == uint32(s) && siblings {
		t.adopt(host)
	}
}

// DropAll is Drop for a channel of a host of which all channels are dropped.
func (t *Table) DropAll(s recrawl.Slot) {
	c, host := t.chunks[s>>chunkBits], t.Host(s)
	t.byID.remove(uint32(s))
	if first, ok := t.byHost.find(uint64(host)); ok && first == uint32(s) {
		t.byHost.remove(uint32(s))
	}
	c.id[s&chunkMask], c.host[s&chunkMask], c.note[s&chunkMask], c.last[s&chunkMask] = 0, 0, 0, 0
}

// adopt finds a new first channel of a host. It is rare enough to look at all slots.
func (t *Table) adopt(host channel.HostKey) {
	found := false
	for s := range recrawl.Slot(t.n) {
		switch {
		case t.Host(s) != host || t.ID(s) == 0:
		case !found:
			found = true
			t.byHost.add(uint32(s))
			*t.note(s) &^= noteSibling
		default:
			first, _ := t.byHost.find(uint64(host))
			*t.note(recrawl.Slot(first)) |= noteSibling
			return
		}
	}
}

func (t *Table) note(s recrawl.Slot) *uint16 { return &t.chunks[s>>chunkBits].note[s&chunkMask] }

// Last is the number that SetLast was given of a channel: it stands for who crawled it last. Zero: none was given since the start.
func (t *Table) Last(s recrawl.Slot) uint32 { return t.chunks[s>>chunkBits].last[s&chunkMask] }

// SetLast notes it.
func (t *Table) SetLast(s recrawl.Slot, n uint32) { t.chunks[s>>chunkBits].last[s&chunkMask] = n }

// Links is how many pages of a channel are known beside its stored copy.
func (t *Table) Links(s recrawl.Slot) int { return int(*t.note(s) & noteLinks) }

// SetLinks notes that number; it saturates.
func (t *Table) SetLinks(s recrawl.Slot, n int) {
	note := t.note(s)
	*note = *note&^noteLinks | uint16(min(n, noteLinks))
}

// Grows reports whether a channel's last crawl was ended by its page budget, so that the next one gets a larger one.
func (t *Table) Grows(s recrawl.Slot) bool { return *t.note(s)&noteGrows != 0 }

// SetGrows notes it.
func (t *Table) SetGrows(s recrawl.Slot, grows bool) {
	if *t.note(s) &^= noteGrows; grows {
		*t.note(s) |= noteGrows
	}
}
