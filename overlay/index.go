package overlay

// index finds an entry of a table by its id: a hash table with linear probing that holds nothing but positions, so that a node's is half a kilobyte and
// a look-up touches one line of memory beside the entry. Whoever makes up ids that collide makes look-ups as slow as going through the table, no slower.
type index struct {
	slots []uint16 // positions in entries, plus one; 0: free. A power of two, at most half of them taken
}

// slotOf is where the search for an id begins (FNV-1a).
func (x *index) slotOf(id ID) int {
	h := uint32(2166136261)
	for i := range len(id) {
		h = (h ^ uint32(id[i])) * 16777619
	}
	return int(h^h>>15) & (len(x.slots) - 1)
}

// find is the position of an id among the entries; -1: it is not there.
func (x *index) find(entries []entry, id ID) int {
	if len(x.slots) == 0 {
		return -1
	}
	for s := x.slotOf(id); x.slots[s] != 0; s = (s + 1) & (len(x.slots) - 1) {
		if i := int(x.slots[s]) - 1; entries[i].rec.ID == id {
			return i
		}
	}
	return -1
}

// add takes in the last of the entries.
func (x *index) add(entries []entry) {
	if 2*len(entries) > len(x.slots) {
		x.slots = make([]uint16, max(2*len(x.slots), 16))
		for i := range entries {
			x.put(entries[i].rec.ID, i)
		}
		return
	}
	x.put(entries[len(entries)-1].rec.ID, len(entries)-1)
}

func (x *index) put(id ID, i int) {
	s := x.slotOf(id)
	for x.slots[s] != 0 {
		s = (s + 1) & (len(x.slots) - 1)
	}
	x.slots[s] = uint16(i + 1)
}

// move says that the entry at position from will be at position to.
func (x *index) move(entries []entry, from, to int) { x.slots[x.slot(entries, from)] = uint16(to + 1) }

// drop forgets the entry at a position. Those behind it that it kept from their own slot move up.
func (x *index) drop(entries []entry, i int) {
	mask := len(x.slots) - 1
	free := x.slot(entries, i)
	x.slots[free] = 0
	for s := (free + 1) & mask; x.slots[s] != 0; s = (s + 1) & mask {
		home := x.slotOf(entries[x.slots[s]-1].rec.ID)
		if (s-home)&mask >= (s-free)&mask {
			x.slots[free], x.slots[s] = x.slots[s], 0
			free = s
		}
	}
}

// slot is where the position i is.
func (x *index) slot(entries []entry, i int) int {
	s := x.slotOf(entries[i].rec.ID)
	for x.slots[s] != uint16(i+1) {
		s = (s + 1) & (len(x.slots) - 1)
	}
	return s
}
