package overlay

import (
	"math"

	"shoal/coords"
)

// index finds the nearest of some thousand places without looking at all of them. It is a tree of boxes: each box knows within what its places
// lie in every dimension, and the shortest access line among them, so that none of its places can be nearer than those say. A leaf holds a few
// places. Every other box holds two, split where its places are spread most (Bentley, "Multidimensional Binary Search Trees Used for
// Associative Searching", CACM 1975; Guttman, "R-Trees", SIGMOD 1984). Predicted round-trip times are no metric, because of the access
// lines, but a lower bound is all that a search needs.
//
// Places have numbers, which the owner gives out, from 0. A place that moves makes the boxes around it grow. When places have moved,
// come and gone about as often as there are places, the tree is built again. Either costs the logarithm of their number, in the mean.
//
// A place may carry marks, and a search may ask for one: it passes over boxes in which no place has it.
type index struct {
	at    []coords.Coord
	leaf  []int32 // of each place; absent: it is not in the tree
	marks []uint8 // of each place
	boxes []box   // the root first
	size  int     // places in the tree
	stale int     // changes since it was built
	order []int32 // scratch of build
}

// box holds places, or two boxes.
type box struct {
	low    [coords.Dims]float64
	high   [coords.Dims]float64
	access float64 // the shortest access line
	parent int32
	halves [2]int32 // absent: a leaf
	places []int32  // of a leaf
	marked [markKinds]int32
}

const (
	absent    = -1
	leafMost  = 24 // places of a leaf
	markKinds = 2
)

// access is what a place adds to the round-trip time to everywhere.
func access(c *coords.Coord) float64 { return c.Height + c.Adjust }

// put adds a place, or moves it.
func (x *index) put(i int, at *coords.Coord) {
	for len(x.at) <= i {
		x.at, x.leaf, x.marks = append(x.at, coords.Coord{}), append(x.leaf, absent), append(x.marks, 0)
	}
	x.at[i] = *at
	if x.leaf[i] != absent { // its boxes grow until it is in them
		for b := x.leaf[i]; b != absent; b = x.boxes[b].parent {
			x.boxes[b].include(at)
		}
		x.changed()
		return
	}
	x.size++
	if len(x.boxes) == 0 {
		x.boxes = append(x.boxes, box{parent: absent, halves: [2]int32{absent, absent}, low: at.Vec, high: at.Vec, access: access(at)})
	}
	b := int32(0)
	for {
		x.boxes[b].include(at)
		l, r := x.boxes[b].halves[0], x.boxes[b].halves[1]
		if l == absent {
			break
		}
		if b = l; x.boxes[r].apart(&at.Vec) < x.boxes[l].apart(&at.Vec) {
			b = r
		}
	}
	x.boxes[b].places = append(x.boxes[b].places, int32(i))
	x.leaf[i] = b
	x.count(b, x.marks[i], 1)
	if len(x.boxes[b].places) > leafMost {
		x.split(b)
	}
	x.changed()
}

// include makes a box grow until a place is in it.
func (b *box) include(at *coords.Coord) {
	for k, v := range at.Vec {
		b.low[k], b.high[k] = min(b.low[k], v), max(b.high[k], v)
	}
	b.access = min(b.access, access(at))
}

// apart is how far a place is from a box, squared, access lines left aside.
func (b *box) apart(at *[coords.Dims]float64) float64 {
	sum := 0.0
	for k, v := range at {
		if d := max(b.low[k]-v, v-b.high[k]); d > 0 {
			sum += d * d
		}
	}
	return sum
}

// drop takes a place out.
func (x *index) drop(i int) {
	if i >= len(x.leaf) || x.leaf[i] == absent {
		return
	}
	b := x.leaf[i]
	x.count(b, x.marks[i], -1)
	p := x.boxes[b].places
	for k := range p {
		if p[k] == int32(i) {
			p[k] = p[len(p)-1]
			x.boxes[b].places = p[:len(p)-1]
			break
		}
	}
	x.leaf[i], x.marks[i] = absent, 0
	x.size--
	x.changed()
}

// rename gives a place a number that is free.
func (x *index) rename(from, to int) {
	b := x.leaf[from]
	for k, p := range x.boxes[b].places {
		if p == int32(from) {
			x.boxes[b].places[k] = int32(to)
		}
	}
	x.at[to], x.leaf[to], x.marks[to] = x.at[from], b, x.marks[from]
	x.leaf[from], x.marks[from] = absent, 0
}

// mark sets or takes away a mark of a place.
func (x *index) mark(i, kind int, on bool) {
	bit := uint8(1) << kind
	if x.leaf[i] == absent || x.marks[i]&bit != 0 == on {
		return
	}
	x.marks[i] ^= bit
	by := int32(-1)
	if on {
		by = 1
	}
	x.count(x.leaf[i], bit, by)
}

func (x *index) marked(i, kind int) bool { return x.marks[i]>>kind&1 != 0 }

// count changes the numbers of marked places of a box and those around it.
func (x *index) count(b int32, marks uint8, by int32) {
	if marks == 0 {
		return
	}
	for ; b != absent; b = x.boxes[b].parent {
		for k := range markKinds {
			x.boxes[b].marked[k] += by * int32(marks>>k&1)
		}
	}
}

// changed builds the tree again when it has changed about as much as it is large.
func (x *index) changed() {
	if x.stale++; x.stale <= x.size+leafMost {
		return
	}
	x.stale = 0
	x.order = x.order[:0]
	for i, b := range x.leaf {
		if b != absent {
			x.order = append(x.order, int32(i))
		}
	}
	for b := range x.boxes { // they keep their room
		x.boxes[b].places = x.boxes[b].places[:0]
	}
	x.boxes = x.boxes[:0]
	if len(x.order) > 0 {
		x.build(x.box(absent), x.order)
	}
}

// box makes a box, in the room of a former one if there is some.
func (x *index) box(parent int32) int32 {
	var places []int32
	if n := len(x.boxes); n < cap(x.boxes) {
		places = x.boxes[:n+1][n].places[:0]
	}
	x.boxes = append(x.boxes, box{parent: parent, halves: [2]int32{absent, absent}, places: places})
	return int32(len(x.boxes) - 1)
}

// split makes two leaves of one.
func (x *index) split(b int32) {
	places := x.boxes[b].places
	x.boxes[b].places = nil
	x.build(b, places)
}

// build fills an empty box with places, whose order it changes.
func (x *index) build(b int32, places []int32) {
	n := &x.boxes[b]
	n.low, n.high, n.access, n.marked = x.at[places[0]].Vec, x.at[places[0]].Vec, math.Inf(1), [markKinds]int32{}
	for _, i := range places {
		n.include(&x.at[i])
		for k := range markKinds {
			n.marked[k] += int32(x.marks[i] >> k & 1)
		}
	}
	if len(places) <= leafMost {
		n.places = append(n.places, places...)
		for _, i := range places {
			x.leaf[i] = b
		}
		return
	}
	widest := 0
	for k := range n.low {
		if n.high[k]-n.low[k] > n.high[widest]-n.low[widest] {
			widest = k
		}
	}
	half := len(places) / 2
	x.partition(places, half, widest)
	for k, part := range [2][]int32{places[:half], places[half:]} {
		child := x.box(b)
		x.boxes[b].halves[k] = child
		x.build(child, part)
	}
}

// partition orders places until those before the k-th are not beyond it in a dimension and those after it are not below (Hoare's FIND).
func (x *index) partition(places []int32, k, dim int) {
	key := func(i int) float64 { return x.at[places[i]].Vec[dim] }
	for lo, hi := 0, len(places)-1; lo < hi; {
		pivot := key(lo + (hi-lo)/2)
		i, j := lo, hi
		for i <= j {
			for key(i) < pivot {
				i++
			}
			for pivot < key(j) {
				j--
			}
			if i <= j {
				places[i], places[j] = places[j], places[i]
				i, j = i+1, j-1
			}
		}
		switch {
		case k <= j:
			hi = j
		case k >= i:
			lo = i
		default:
			return
		}
	}
}

// search is what is looked for: the n nearest places, none farther than limit, of those that have a mark if mark is not absent, and none
// that is passed over.
type search struct {
	at    *coords.Coord
	n     int
	limit float64
	mark  int
	pass  func(i int) bool // nil: none
	best  []far            // found so far, the nearest first
}

// nearest finds places, the nearest first; of two at one distance the one with the lower number comes first.
func (x *index) nearest(s *search) []far {
	if x.size > 0 && s.n > 0 {
		x.within(0, s)
	}
	return s.best
}

// worst is the distance beyond which nothing is of use any more.
func (s *search) worst() float64 {
	if len(s.best) == s.n {
		return min(s.limit, s.best[s.n-1].ms)
	}
	return s.limit
}

func (x *index) within(b int32, s *search) {
	n := &x.boxes[b]
	if n.halves[0] == absent {
		own := access(s.at)
		for _, i := range n.places {
			if s.mark != absent && !x.marked(int(i), s.mark) {
				continue
			}
			worst := s.worst()
			if at := &x.at[i]; beyond(&at.Vec, &s.at.Vec, worst-own-access(at)) {
				continue
			}
			if d := coords.Distance(s.at, &x.at[i]); d <= worst && (s.pass == nil || !s.pass(int(i))) {
				s.add(far{d, int(i)})
			}
		}
		return
	}
	near, other := n.halves[0], n.halves[1]
	nearest, next := x.boxes[near].bound(s), x.boxes[other].bound(s)
	if next < nearest {
		near, other, nearest, next = other, near, next, nearest
	}
	if nearest <= s.worst() {
		x.within(near, s)
	}
	if next <= s.worst() {
		x.within(other, s)
	}
}

// beyond says whether two places are farther apart than a distance for certain. It saves a root, and mostly half of the dimensions.
func beyond(a, b *[coords.Dims]float64, most float64) bool {
	if most < 0 {
		return true
	}
	most *= most * (1 + 1e-9)
	sum := 0.0
	for k := range a {
		d := a[k] - b[k]
		if sum += d * d; sum > most {
			return true
		}
	}
	return false
}

// bound is a distance that no place in a box falls below; infinite: there is none with the mark.
func (b *box) bound(s *search) float64 {
	if s.mark != absent && b.marked[s.mark] == 0 {
		return math.Inf(1)
	}
	return math.Sqrt(b.apart(&s.at.Vec))*(1-1e-9) + b.access + access(s.at)
}

// add puts a place among the best, which are sorted.
func (s *search) add(f far) {
	before := func(a, b far) bool { return a.ms < b.ms || a.ms == b.ms && a.i < b.i }
	j := len(s.best)
	if j < s.n {
		s.best = append(s.best, far{})
	} else if j--; !before(f, s.best[j]) {
		return
	}
	for ; j > 0 && before(f, s.best[j-1]); j-- {
		s.best[j] = s.best[j-1]
	}
	s.best[j] = f
}
