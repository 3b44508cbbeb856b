package overlaysim

import (
	"math"
	"slices"

	"shoal/coords"
)

// can is the paper's overlay: Ratnasamy, Francis, Handley, Karp, Shenker, "A Scalable Content-Addressable Network" (SIGCOMM 2001), with
// the members' coordinates in d dimensions as keys. A joining member splits the zone that its coordinate lies in at the midpoint and
// takes the half with its coordinate in it, or the other one if both fall into the same; messages go greedily to the neighbour
// whose zone is nearest to the key. Everyone is up and stays where it joined, which is CAN at its best.
type can struct {
	dims       int
	axes       []int // of coords.Coord.Vec that span furthest: CAN gets the ones that tell most
	lo, hi     [][]float64
	owner      []int // zone: its member
	neighbours [][]int
}

func newCAN(dims int, members []int, at []coords.Coord) *can {
	c := &can{dims: dims}
	var low, high [coords.Dims]float64
	for k := range coords.Dims {
		low[k], high[k] = math.Inf(1), math.Inf(-1)
		for i := range at {
			low[k], high[k] = min(low[k], at[i].Vec[k]), max(high[k], at[i].Vec[k])
		}
	}
	var spread [coords.Dims]float64
	for k := range coords.Dims {
		mean, sum := 0., 0.
		for i := range at {
			mean += at[i].Vec[k] / float64(len(at))
		}
		for i := range at {
			sum += (at[i].Vec[k] - mean) * (at[i].Vec[k] - mean)
		}
		spread[k] = sum
		c.axes = append(c.axes, k)
	}
	slices.SortFunc(c.axes, func(a, b int) int { return int(math.Copysign(1, spread[b]-spread[a])) })
	c.axes = c.axes[:dims]
	lo, hi := make([]float64, dims), make([]float64, dims)
	for j, k := range c.axes {
		lo[j], hi[j] = low[k]-1, high[k]+1
	}
	c.lo, c.hi, c.owner = [][]float64{lo}, [][]float64{hi}, []int{members[0]}
	point := [][]float64{c.key(&at[0])}
	depth := []int{0}
	for i := 1; i < len(members); i++ {
		key := c.key(&at[i])
		z := c.zoneOf(key)
		axis := depth[z] % dims
		depth[z]++
		mid := (c.lo[z][axis] + c.hi[z][axis]) / 2
		lo, hi := slices.Clone(c.lo[z]), slices.Clone(c.hi[z])
		if joinerHigh := key[axis] >= mid; joinerHigh == (point[z][axis] >= mid) { // both in one half: the joiner gets the other
			joinerHigh = point[z][axis] < mid
			lo, hi = c.split(z, axis, mid, joinerHigh, lo, hi)
		} else {
			lo, hi = c.split(z, axis, mid, joinerHigh, lo, hi)
		}
		c.lo, c.hi, c.owner = append(c.lo, lo), append(c.hi, hi), append(c.owner, members[i])
		point, depth = append(point, key), append(depth, depth[z])
	}
	c.neighbours = make([][]int, len(c.owner))
	for a := range c.owner {
		for b := range a {
			if c.touch(a, b) {
				c.neighbours[a], c.neighbours[b] = append(c.neighbours[a], b), append(c.neighbours[b], a)
			}
		}
	}
	return c
}

// split leaves one half of a zone to its owner and returns the other.
func (c *can) split(z, axis int, mid float64, high bool, lo, hi []float64) ([]float64, []float64) {
	if high {
		lo[axis] = mid
		c.hi[z][axis] = mid
	} else {
		hi[axis] = mid
		c.lo[z][axis] = mid
	}
	return lo, hi
}

func (c *can) key(at *coords.Coord) []float64 {
	key := make([]float64, c.dims)
	for j, k := range c.axes {
		key[j] = at.Vec[k]
	}
	return key
}

func (c *can) zoneOf(key []float64) int {
	best, least := 0, math.Inf(1)
	for z := range c.owner {
		if d := c.distance(z, key); d < least {
			best, least = z, d
		}
	}
	return best
}

// distance is how far a key is from a zone; 0: inside.
func (c *can) distance(z int, key []float64) float64 {
	sum := 0.
	for k, x := range key {
		d := max(c.lo[z][k]-x, 0, x-c.hi[z][k])
		sum += d * d
	}
	return sum
}

// touch says whether zones share a face: they overlap in all dimensions but one, in which they abut.
func (c *can) touch(a, b int) bool {
	abut := 0
	for k := range c.dims {
		switch {
		case c.lo[a][k] < c.hi[b][k] && c.lo[b][k] < c.hi[a][k]:
		case c.lo[a][k] == c.hi[b][k] || c.lo[b][k] == c.hi[a][k]:
			abut++
		default:
			return false
		}
	}
	return abut == 1
}

// route goes from a zone toward a key and returns the zones on the way, the start among them.
func (c *can) route(from int, key []float64) []int {
	path := []int{from}
	seen := map[int]bool{from: true}
	for at := from; c.distance(at, key) > 0; {
		next, least := -1, math.Inf(1)
		for _, b := range c.neighbours[at] {
			if d := c.distance(b, key); !seen[b] && d < least {
				next, least = b, d
			}
		}
		if next < 0 {
			break
		}
		at = next
		seen[at] = true
		path = append(path, at)
	}
	return path
}
