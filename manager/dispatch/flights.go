package dispatch

import (
	"iter"

	"shoal/recrawl"
)

// flights are the channels that are not idle. They are found by slot, by open addressing with linear probing: a look-up reads one line of
// memory in most cases, and then the flight's own two. The flights lie in chunks that never move; a flight that has ended is used again.
type flights struct {
	places []place // a power of two of them, at most half of them used
	shift  uint    // of a slot's hash, down to a place
	n      int
	chunks []*[flightChunk]flight
	spare  []uint32 // flights that have ended
}

// place is where a flight is found.
type place struct {
	slot recrawl.Slot
	at   uint32 // the flight's number plus 1; zero: the place is free
}

const (
	flightBits  = 8
	flightChunk = 1 << flightBits
	firstPlaces = 6 // bits
)

func (x *flights) at(number uint32) *flight {
	return &x.chunks[number>>flightBits][number&(flightChunk-1)]
}

// home is the place at which the search for a slot begins.
func (x *flights) home(s recrawl.Slot) int { return int(uint32(s) * 0x9e3779b1 >> x.shift) }

func (x *flights) next(i int) int { return (i + 1) & (len(x.places) - 1) }

// find is the flight of a channel; nil: it has none.
func (x *flights) find(s recrawl.Slot) *flight {
	if x.n == 0 {
		return nil
	}
	for i := x.home(s); x.places[i].at != 0; i = x.next(i) {
		if p := x.places[i]; p.slot == s {
			return x.at(p.at - 1)
		}
	}
	return nil
}

// add makes a flight for a channel that has none.
func (x *flights) add(s recrawl.Slot) *flight {
	if 2*(x.n+1) > len(x.places) {
		x.grow()
	}
	number := uint32(x.n)
	if last := len(x.spare) - 1; last >= 0 {
		number, x.spare = x.spare[last], x.spare[:last]
	} else if x.n>>flightBits == len(x.chunks) {
		x.chunks = append(x.chunks, new([flightChunk]flight))
	}
	x.n++
	x.put(place{s, number + 1})
	f := x.at(number)
	*f = flight{slot: s}
	return f
}

// put writes into the first free place.
func (x *flights) put(p place) {
	i := x.home(p.slot)
	for x.places[i].at != 0 {
		i = x.next(i)
	}
	x.places[i] = p
}

func (x *flights) grow() {
	old := x.places
	size := max(2*len(old), 1<<firstPlaces)
	x.places = make([]place, size)
	for x.shift = 32; size > 1; size /= 2 {
		x.shift--
	}
	for _, p := range old {
		if p.at != 0 {
			x.put(p)
		}
	}
}

// remove ends the flight of a channel that has one, and closes the gap among the places.
func (x *flights) remove(s recrawl.Slot) {
	i := x.home(s)
	for x.places[i].slot != s || x.places[i].at == 0 {
		i = x.next(i)
	}
	x.spare = append(x.spare, x.places[i].at-1)
	x.n--
	mask := len(x.places) - 1
	for j := x.next(i); x.places[j].at != 0; j = x.next(j) {
		if away := (j - x.home(x.places[j].slot)) & mask; away >= (j-i)&mask { // its home does not lie between the gap and it
			x.places[i] = x.places[j]
			i = j
		}
	}
	x.places[i] = place{}
}

// all are the flights, in no order that means anything.
func (x *flights) all() iter.Seq[*flight] {
	return func(yield func(*flight) bool) {
		for _, p := range x.places {
			if p.at != 0 && !yield(x.at(p.at-1)) {
				return
			}
		}
	}
}
