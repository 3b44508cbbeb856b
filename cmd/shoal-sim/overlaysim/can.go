package overlaysim

import (
	"math"
	"slices"

	"shoal/coords"
)

// can is the paper's overlay: Ratnasamy, Francis, Handley, Karp, Shenker, "A Scalable Content-Addressable Network" (SIGCOMM 2001), with
// the members' coordinates in d dimensions as keys. A joining member splits the zone that its coordinate lies in at the midpoint and
// takes the half with its coordinate in it, or the other one if both fall into the same; messages go greedily to the neighbour
// whose zone is nearest to the key. Members stay where they joined.
//
// The zone of one that leaves is taken over as CAN does it in the end, after its background reassignment: by its sibling if that is one zone,
// else by one of the two owners of the deepest pair of siblings beyond, of which the other takes both. A polite leaver's zone changes hands at once;
// that of one that vanished after takeOver, and until then messages go around it.
type can struct {
	dims  int
	axes  []int     // of coords.Coord.Vec that span furthest: CAN gets the ones that tell most
	nodes []canNode // the tree of splits, of which the leaves are zones; 0 is the root
	free  []int32   // unused nodes
	zone  map[int]int32
	up    func(member int) bool // nil: all are
}

// canNode is a zone, or one that was split.
type canNode struct {
	lo, hi    []float64
	up        int32 // the zone that it is a half of; -1: the root
	low, high int32 // its halves; 0: it is a zone
	depth     int
	owner     int       // none if the member has no zone
	point     []float64 // where its owner was when it joined
	near      []int32   // zones that touch it
}

const none = -1

// newCAN lets members join one after the other.
func newCAN(dims int, members []int, at []coords.Coord) *can {
	c := &can{dims: dims, zone: map[int]int32{}}
	var low, high, spread [coords.Dims]float64
	for k := range coords.Dims {
		low[k], high[k] = math.Inf(1), math.Inf(-1)
		mean := 0.
		for i := range at {
			low[k], high[k] = min(low[k], at[i].Vec[k]), max(high[k], at[i].Vec[k])
			mean += at[i].Vec[k] / float64(len(at))
		}
		for i := range at {
			spread[k] += (at[i].Vec[k] - mean) * (at[i].Vec[k] - mean)
		}
		c.axes = append(c.axes, k)
	}
	slices.SortFunc(c.axes, func(a, b int) int { return int(math.Copysign(1, spread[b]-spread[a])) })
	c.axes = c.axes[:dims]
	root := canNode{up: none, owner: none}
	for _, k := range c.axes {
		root.lo, root.hi = append(root.lo, low[k]-1), append(root.hi, high[k]+1)
	}
	c.nodes = []canNode{root}
	for i, m := range members {
		c.join(m, c.key(&at[i]))
	}
	return c
}

// key is where a coordinate lies among the zones; one from beyond their bounds lies at the edge.
func (c *can) key(at *coords.Coord) []float64 {
	key := make([]float64, c.dims)
	for j, k := range c.axes {
		key[j] = at.Vec[k]
		if len(c.nodes) > 0 {
			key[j] = min(max(key[j], c.nodes[0].lo[j]), c.nodes[0].hi[j])
		}
	}
	return key
}

func (c *can) leaf(key []float64) int32 {
	z := int32(0)
	for n := &c.nodes[z]; n.low != 0; n = &c.nodes[z] {
		axis := n.depth % c.dims
		if z = n.low; key[axis] >= c.nodes[n.high].lo[axis] {
			z = n.high
		}
	}
	return z
}

func (c *can) join(member int, key []float64) {
	if _, there := c.zone[member]; there {
		return
	}
	z := c.leaf(key)
	if c.nodes[z].owner == none {
		c.own(z, member, key)
		return
	}
	n := &c.nodes[z]
	axis := n.depth % c.dims
	mid := (n.lo[axis] + n.hi[axis]) / 2
	high := key[axis] >= mid
	if high == (n.point[axis] >= mid) { // both in one half: the joiner gets the other
		high = !high
	}
	a, b := c.half(z, axis, mid, false), c.half(z, axis, mid, true)
	c.nodes[z].low, c.nodes[z].high = a, b
	old, point := c.nodes[z].owner, c.nodes[z].point
	if high {
		c.own(a, old, point)
		c.own(b, member, key)
	} else {
		c.own(a, member, key)
		c.own(b, old, point)
	}
	near := c.nodes[z].near
	c.nodes[z].near, c.nodes[z].owner, c.nodes[z].point = nil, none, nil
	c.link(a, append(slices.Clone(near), b), z)
	c.link(b, near, z)
}

func (c *can) own(z int32, member int, point []float64) {
	c.nodes[z].owner, c.nodes[z].point = member, point
	c.zone[member] = z
}

// half makes a half of a zone.
func (c *can) half(z int32, axis int, mid float64, high bool) int32 {
	n := canNode{lo: slices.Clone(c.nodes[z].lo), hi: slices.Clone(c.nodes[z].hi), up: z, depth: c.nodes[z].depth + 1, owner: none}
	if high {
		n.lo[axis] = mid
	} else {
		n.hi[axis] = mid
	}
	if last := len(c.free) - 1; last >= 0 {
		i := c.free[last]
		c.free = c.free[:last]
		c.nodes[i] = n
		return i
	}
	c.nodes = append(c.nodes, n)
	return int32(len(c.nodes) - 1)
}

// link makes those of some zones neighbours of z that touch it, and none of what z came from.
func (c *can) link(z int32, others []int32, from ...int32) {
	for _, o := range others {
		c.nodes[o].near = slices.DeleteFunc(c.nodes[o].near, func(k int32) bool { return k == z || slices.Contains(from, k) })
		if c.touch(z, o) {
			c.nodes[o].near = append(c.nodes[o].near, z)
			if !slices.Contains(c.nodes[z].near, o) {
				c.nodes[z].near = append(c.nodes[z].near, o)
			}
		}
	}
}

// leave gives a member's zone to another.
func (c *can) leave(member int) {
	z, there := c.zone[member]
	if !there {
		return
	}
	delete(c.zone, member)
	parent := c.nodes[z].up
	if parent == none { // it was the last
		c.nodes[z].owner, c.nodes[z].point = none, nil
		return
	}
	sibling := c.nodes[parent].low + c.nodes[parent].high - z
	if c.nodes[sibling].low == 0 {
		c.merge(parent, sibling)
		return
	}
	pair := c.deepest(sibling)
	stays, moves := c.nodes[pair].low, c.nodes[pair].high
	mover, point := c.nodes[moves].owner, c.nodes[moves].point
	c.merge(pair, stays)
	c.own(z, mover, point)
}

// merge makes one zone of two halves, for the owner of one of them.
func (c *can) merge(z, heir int32) {
	a, b := c.nodes[z].low, c.nodes[z].high
	owner, point := c.nodes[heir].owner, c.nodes[heir].point
	near := slices.Concat(c.nodes[a].near, c.nodes[b].near)
	near = slices.DeleteFunc(near, func(k int32) bool { return k == a || k == b })
	slices.Sort(near)
	near = slices.Compact(near)
	c.nodes[z].low, c.nodes[z].high = 0, 0
	c.own(z, owner, point)
	c.link(z, near, a, b)
	c.nodes[a], c.nodes[b] = canNode{}, canNode{}
	c.free = append(c.free, a, b)
}

// deepest is the zone below z, split once, that lies deepest.
func (c *can) deepest(z int32) int32 {
	n := &c.nodes[z]
	a, b := c.nodes[n.low].low != 0, c.nodes[n.high].low != 0
	switch {
	case !a && !b:
		return z
	case !b:
		return c.deepest(n.low)
	case !a:
		return c.deepest(n.high)
	}
	low, high := c.deepest(n.low), c.deepest(n.high)
	if c.nodes[high].depth > c.nodes[low].depth {
		return high
	}
	return low
}

// distance is how far a key is from a zone; 0: inside.
func (c *can) distance(z int32, key []float64) float64 {
	sum := 0.
	n := &c.nodes[z]
	for k, x := range key {
		d := max(n.lo[k]-x, 0, x-n.hi[k])
		sum += d * d
	}
	return sum
}

// touch says whether zones share a face: they overlap in all dimensions but one, in which they abut.
func (c *can) touch(a, b int32) bool {
	abut, x, y := 0, &c.nodes[a], &c.nodes[b]
	for k := range c.dims {
		switch {
		case x.lo[k] < y.hi[k] && y.lo[k] < x.hi[k]:
		case x.lo[k] == y.hi[k] || y.lo[k] == x.hi[k]:
			abut++
		default:
			return false
		}
	}
	return abut == 1
}

const longestPath = 512

// route goes from a member toward a key. It returns the members on the way, the start among them, and how many messages went to one that is no more.
func (c *can) route(from int, key []float64) (path []int, lost int) {
	at := c.zone[from]
	seen := map[int32]bool{at: true}
	for path = []int{from}; c.distance(at, key) > 0 && len(path) < longestPath; {
		next, least := int32(none), math.Inf(1)
		for _, b := range c.nodes[at].near {
			if seen[b] {
				continue
			}
			if d := c.distance(b, key); d < least {
				next, least = b, d
			}
		}
		if next == none {
			break
		}
		seen[next] = true
		if c.up != nil && !c.up(c.nodes[next].owner) {
			lost++
			continue
		}
		at = next
		path = append(path, c.nodes[at].owner)
	}
	return path, lost
}

// neighbours are the owners of the zones that touch a member's.
func (c *can) neighbours(member int) []int {
	z, there := c.zone[member]
	if !there {
		return nil
	}
	var out []int
	for _, b := range c.nodes[z].near {
		if o := c.nodes[b].owner; c.up == nil || c.up(o) {
			out = append(out, o)
		}
	}
	return out
}

// state is how many neighbours a member has, mean and most.
func (c *can) state() (mean float64, most int) {
	sum := 0
	for _, z := range c.zone {
		sum += len(c.nodes[z].near)
		most = max(most, len(c.nodes[z].near))
	}
	return float64(sum) / float64(max(len(c.zone), 1)), most
}
