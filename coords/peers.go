package coords

import "bytes"

// recent counts the samples of each peer among the last ones. A peer has a slot while it has a sample there.
type recent struct {
	ring     [window]uint8  // for each of the last samples its peer's slot plus one; 0: no sample yet
	next     int            // of ring
	counts   [window]byte   // samples of each slot's peer; 0: the slot is free
	tags     [window]byte   // of each slot's peer
	names    [window]string // of each slot's peer
	distinct int            // peers
}

// tagOf gives different bytes for most names, so that a search for a name runs over a few bytes in a row.
func tagOf(name string) byte {
	tag := byte(0)
	for i := max(0, len(name)-4); i < len(name); i++ {
		tag = 31*tag + name[i]
	}
	return tag
}

// find gives a peer's slot, or -1.
func (r *recent) find(peer string) int {
	tag := tagOf(peer)
	for from := 0; ; from++ {
		i := bytes.IndexByte(r.tags[from:], tag)
		if i < 0 {
			return -1
		}
		if from += i; r.counts[from] > 0 && r.names[from] == peer {
			return from
		}
	}
}

// add takes in a sample of a peer, which has the given slot or, with -1, none yet. The oldest sample goes. If it was its peer's last
// one, left names that peer.
func (r *recent) add(peer string, slot int) (left string) {
	if old := int(r.ring[r.next]) - 1; old >= 0 {
		if r.counts[old]--; r.counts[old] == 0 {
			r.distinct--
			if old != slot {
				left, r.names[old] = r.names[old], ""
			}
		}
	}
	if slot < 0 {
		slot = bytes.IndexByte(r.counts[:], 0)
		r.names[slot], r.tags[slot] = peer, tagOf(peer)
	}
	if r.counts[slot]++; r.counts[slot] == 1 {
		r.distinct++
	}
	r.ring[r.next] = uint8(slot + 1)
	r.next = (r.next + 1) % window
	return left
}
