package dispatch

import "math/bits"

// index finds slots by a key that each slot tells itself, by open addressing: 5 bytes a slot and what is left free. It is in parts that grow
// one by one, so that growing never needs twice the memory.
type index struct {
	keyOf func(at uint32) uint64
	parts [1 << indexBits]indexPart
}

type indexPart struct {
	at   []uint32 // slot+1; zero: free
	tag  []uint8  // of the key, so that few slots are asked for theirs
	used int
}

const indexBits = 10

// spot is where a key belongs: its part, its place in there, its tag.
func (x *index) spot(key uint64) (p *indexPart, i int, tag uint8) {
	h := key * 0x9e3779b97f4a7c15
	h ^= h >> 29
	h *= 0xbf58476d1ce4e5b9
	p = &x.parts[h>>(64-indexBits)]
	at, _ := bits.Mul64(h<<indexBits, uint64(len(p.at)))
	return p, int(at), uint8(h)
}

func (p *indexPart) next(i int) int {
	if i++; i == len(p.at) {
		return 0
	}
	return i
}

func (x *index) find(key uint64) (uint32, bool) {
	p, i, tag := x.spot(key)
	if len(p.at) == 0 {
		return 0, false
	}
	for ; p.at[i] != 0; i = p.next(i) {
		if at := p.at[i] - 1; p.tag[i] == tag && x.keyOf(at) == key {
			return at, true
		}
	}
	return 0, false
}

// add adds a slot whose key is not there yet.
func (x *index) add(at uint32) {
	p, i, tag := x.spot(x.keyOf(at))
	if (p.used+1)*8 > len(p.at)*7 {
		old := p.at
		size := len(old) + len(old)/2 + 8
		p.at, p.tag = make([]uint32, size), make([]uint8, size)
		for _, a := range old {
			if a != 0 {
				_, j, t := x.spot(x.keyOf(a - 1))
				p.set(j, a, t)
			}
		}
		_, i, tag = x.spot(x.keyOf(at))
	}
	p.set(i, at+1, tag)
	p.used++
}

// set writes into the first free place from i on.
func (p *indexPart) set(i int, a uint32, tag uint8) {
	for p.at[i] != 0 {
		i = p.next(i)
	}
	p.at[i], p.tag[i] = a, tag
}

// remove takes a slot out, whose key it still tells, and closes the gap.
func (x *index) remove(at uint32) {
	p, i, _ := x.spot(x.keyOf(at))
	if len(p.at) == 0 {
		return
	}
	for ; p.at[i] != at+1; i = p.next(i) {
		if p.at[i] == 0 {
			return
		}
	}
	p.at[i] = 0
	p.used--
	n := len(p.at)
	for j := p.next(i); p.at[j] != 0; j = p.next(j) {
		_, home, _ := x.spot(x.keyOf(p.at[j] - 1))
		if (j-home+n)%n >= (j-i+n)%n { // its home does not lie between the gap and it
			p.at[i], p.tag[i], p.at[j] = p.at[j], p.tag[j], 0
			i = j
		}
	}
}
