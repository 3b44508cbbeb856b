package manager

import (
	"shoal/channel"
	"shoal/recrawl"
)

// places are what the loop keeps of every channel beside its facts: 18 bytes a channel, and about 14 for the two indexes, without
// pointers. Names, leases and all else are in the database, or in memory only while something is out. Owned by the loop.
type places struct {
	chunks []*placeChunk
	n      int   // slots, with those that are free
	byID   index // of channels
	byHost index // of each host's first channel
}

const (
	chunkBits   = 14
	chunkPlaces = 1 << chunkBits
	chunkMask   = chunkPlaces - 1
)

// placeChunk never moves, so that growing leaves no garbage behind.
type placeChunk struct {
	id   [chunkPlaces]channel.ID // zero: the slot is free
	host [chunkPlaces]channel.HostKey
	note [chunkPlaces]uint16
}

// A note has the number of links known before the first crawl, and two flags.
const (
	noteLinks   = channel.MaxLinks >> 1
	noteGrows   = 1 << 14 // the last crawl was ended by its page budget
	noteSibling = 1 << 15 // of a host's first channel: there are others
)

func newPlaces() *places {
	p := &places{}
	p.byID.keyOf = func(at uint32) uint64 { return uint64(p.id(recrawl.Slot(at))) }
	p.byHost.keyOf = func(at uint32) uint64 { return uint64(p.host(recrawl.Slot(at))) }
	return p
}

func (p *places) id(s recrawl.Slot) channel.ID { return p.chunks[s>>chunkBits].id[s&chunkMask] }

func (p *places) host(s recrawl.Slot) channel.HostKey {
	return p.chunks[s>>chunkBits].host[s&chunkMask]
}

func (p *places) note(s recrawl.Slot) *uint16 { return &p.chunks[s>>chunkBits].note[s&chunkMask] }

// used tells whether a slot has a channel.
func (p *places) used(s recrawl.Slot) bool { return int(s) < p.n && p.id(s) != 0 }

// put sets a slot, which is free.
func (p *places) put(s recrawl.Slot, id channel.ID, host channel.HostKey) {
	for int(s)>>chunkBits >= len(p.chunks) {
		p.chunks = append(p.chunks, new(placeChunk))
	}
	p.n = max(p.n, int(s)+1)
	c := p.chunks[s>>chunkBits]
	c.id[s&chunkMask], c.host[s&chunkMask], c.note[s&chunkMask] = id, host, 0
	p.byID.add(uint32(s))
	if first, ok := p.byHost.find(uint64(host)); ok {
		*p.note(recrawl.Slot(first)) |= noteSibling
		return
	}
	p.byHost.add(uint32(s))
}

// drop frees a slot. If it was its host's first, another becomes that.
func (p *places) drop(s recrawl.Slot) {
	c, host := p.chunks[s>>chunkBits], p.host(s)
	p.byID.remove(uint32(s))
	first, _ := p.byHost.find(uint64(host))
	if first == uint32(s) {
		p.byHost.remove(uint32(s))
	}
	siblings := *p.note(s)&noteSibling != 0
	c.id[s&chunkMask], c.host[s&chunkMask], c.note[s&chunkMask] = 0, 0, 0
	if first == uint32(s) && siblings {
		p.adopt(host)
	}
}

// adopt finds a new first channel of a host: rare enough to look at all.
func (p *places) adopt(host channel.HostKey) {
	found := false
	for s := range recrawl.Slot(p.n) {
		switch {
		case p.host(s) != host || p.id(s) == 0:
		case !found:
			found = true
			p.byHost.add(uint32(s))
			*p.note(s) &^= noteSibling
		default:
			first, _ := p.byHost.find(uint64(host))
			*p.note(recrawl.Slot(first)) |= noteSibling
			return
		}
	}
}

// of is where a channel is; false: the manager does not have it.
func (p *places) of(id channel.ID) (recrawl.Slot, bool) {
	s, ok := p.byID.find(uint64(id))
	return recrawl.Slot(s), ok
}

// first is a host's first channel, and whether there are others; 0: it has none.
func (p *places) first(host channel.HostKey) (id channel.ID, more bool) {
	s, ok := p.byHost.find(uint64(host))
	if !ok {
		return 0, false
	}
	return p.id(recrawl.Slot(s)), *p.note(recrawl.Slot(s))&noteSibling != 0
}

// links is how many pages of a channel are known beside its copy.
func (p *places) links(s recrawl.Slot) int { return int(*p.note(s) & noteLinks) }

func (p *places) setLinks(s recrawl.Slot, n int) {
	note := p.note(s)
	*note = *note&^noteLinks | uint16(min(n, noteLinks))
}

func (p *places) grows(s recrawl.Slot) bool { return *p.note(s)&noteGrows != 0 }

func (p *places) setGrows(s recrawl.Slot, grows bool) {
	if *p.note(s) &^= noteGrows; grows {
		*p.note(s) |= noteGrows
	}
}
