package overlay

// index finds an entry of a table by its id: a hash table with linear probing that holds hashes and positions, so that a node's is a kilobyte and
// a look-up touches one line of memory beside the entry. Whoever makes up ids that collide makes look-ups as slow as going through the table, no slower.
type index struct {
	slots []slot // a power of two of them, at most half taken
}

// slot is where an entry is: its position, plus one, below its id's hash; 0: free.
type slot uint64

func slotFor(hash uint32, i int) slot { return slot(hash)<<32 | slot(i+1) }

func (s slot) at() int      { return int(uint32(s)) - 1 }
func (s slot) hash() uint32 { return uint32(s >> 32) }

// hashOf is FNV-1a, its halves mixed.
func hashOf(id ID) uint32 {
	h := uint32(2166136261)
	for i := range len(id) {
		h = (h ^ uint32(id[i])) * 16777619
	}
	return h ^ h>>15
}

// find is the position of an id among the entries; -1: it is not there.
func (x *index) find(entries []entry, id ID, hash uint32) int {
	if len(x.slots) == 0 {
		return -1
	}
	mask := len(x.slots) - 1
	for k := int(hash) & mask; x.slots[k] != 0; k = (k + 1) & mask {
		if s := x.slots[k]; s.hash() == hash && entries[s.at()].rec.ID == id {
			return s.at()
		}
	}
	return -1
}

// add takes in an entry that was appended to n-1 others.
func (x *index) add(hash uint32, n int) {
	if 2*n > len(x.slots) {
		old := x.slots
		x.slots = make([]slot, max(2*len(old), 16))
		for _, s := range old {
			if s != 0 {
				x.put(s)
			}
		}
	}
	x.put(slotFor(hash, n-1))
}

func (x *index) put(s slot) {
	mask := len(x.slots) - 1
	k := int(s.hash()) & mask
	for x.slots[k] != 0 {
		k = (k + 1) & mask
	}
	x.slots[k] = s
}

// move says that the entry at position from, of a hash, will be at position to.
func (x *index) move(hash uint32, from, to int) { x.slots[x.slot(hash, from)] = slotFor(hash, to) }

// drop forgets the entry at a position, of a hash. Those behind it that it kept from their own slot move up.
func (x *index) drop(hash uint32, i int) {
	mask := len(x.slots) - 1
	free := x.slot(hash, i)
	x.slots[free] = 0
	for k := (free + 1) & mask; x.slots[k] != 0; k = (k + 1) & mask {
		home := int(x.slots[k].hash()) & mask
		if (k-home)&mask >= (k-free)&mask {
			x.slots[free], x.slots[k] = x.slots[k], 0
			free = k
		}
	}
}

// slot is where the position i is, of a hash.
func (x *index) slot(hash uint32, i int) int {
	mask := len(x.slots) - 1
	k := int(hash) & mask
	for x.slots[k] != slotFor(hash, i) {
		k = (k + 1) & mask
	}
	return k
}
