package overlay

// index finds an entry of a table by its id: a hash table with linear probing that holds nothing but positions, so that a node's is half a kilobyte and
// a look-up touches one line of memory beside the entry. Whoever makes up ids that collide makes look-ups as slow as going through the table, no slower.
type index struct {
	slots []uint32 // position in entries, plus one, below the upper half of the hash; 0: free. A power of two of them, at most half taken
}

// hashOf is FNV-1a, its halves mixed.
func hashOf(id ID) uint32 {
	h := uint32(2166136261)
	for i := range len(id) {
		h = (h ^ uint32(id[i])) * 16777619
	}
	return h ^ h>>15
}

func slotFor(hash uint32, i int) uint32 { return hash&^0xffff | uint32(i+1) }

func at(slot uint32) int { return int(slot&0xffff) - 1 }

// find is the position of an id among the entries; -1: it is not there.
func (x *index) find(entries []entry, id ID, hash uint32) int {
	if len(x.slots) == 0 {
		return -1
	}
	mask := len(x.slots) - 1
	for s := int(hash) & mask; x.slots[s] != 0; s = (s + 1) & mask {
		if i := at(x.slots[s]); (x.slots[s]^hash)>>16 == 0 && entries[i].rec.ID == id {
			return i
		}
	}
	return -1
}

// add takes in the last of the entries.
func (x *index) add(entries []entry) {
	if 2*len(entries) > len(x.slots) {
		x.slots = make([]uint32, max(2*len(x.slots), 16))
		for i := range entries {
			x.put(entries[i].hash, i)
		}
		return
	}
	x.put(entries[len(entries)-1].hash, len(entries)-1)
}

func (x *index) put(hash uint32, i int) {
	mask := len(x.slots) - 1
	s := int(hash) & mask
	for x.slots[s] != 0 {
		s = (s + 1) & mask
	}
	x.slots[s] = slotFor(hash, i)
}

// move says that the entry at position from will be at position to.
func (x *index) move(entries []entry, from, to int) {
	x.slots[x.slot(entries, from)] = slotFor(entries[from].hash, to)
}

// drop forgets the entry at a position. Those behind it that it kept from their own slot move up.
func (x *index) drop(entries []entry, i int) {
	mask := len(x.slots) - 1
	free := x.slot(entries, i)
	x.slots[free] = 0
	for s := (free + 1) & mask; x.slots[s] != 0; s = (s + 1) & mask {
		home := int(entries[at(x.slots[s])].hash) & mask
		if (s-home)&mask >= (s-free)&mask {
			x.slots[free], x.slots[s] = x.slots[s], 0
			free = s
		}
	}
}

// slot is where the position i is.
func (x *index) slot(entries []entry, i int) int {
	mask := len(x.slots) - 1
	s := int(entries[i].hash) & mask
	for at(x.slots[s]) != i {
		s = (s + 1) & mask
	}
	return s
}
