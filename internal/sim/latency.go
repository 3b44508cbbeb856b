package sim

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"shoal/internal/datafile"
)

// Point is a position in a two-dimensional embedding of the Internet; distances are one-way latencies in milliseconds.
type Point struct{ X, Y float64 }

// To returns the distance to q.
func (p Point) To(q Point) float64 { return math.Hypot(p.X-q.X, p.Y-q.Y) }

// ErrLatency is returned for a latency file that cannot be used. The text names file and line.
var ErrLatency = errors.New("sim: bad latency file")

// MaxPoints bounds the size of a latency file.
const MaxPoints = 1 << 20

// LoadEmbedding reads a file of lines "id x y", such as the published 1740-point embedding of the King data set.
func LoadEmbedding(path string) ([]Point, error) {
	f, err := datafile.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrLatency, err)
	}
	defer f.Close()
	return ReadEmbedding(f, path)
}

// ReadEmbedding reads lines "id x y". Errors call the file name.
func ReadEmbedding(r io.Reader, name string) ([]Point, error) {
	var points []Point
	lines := bufio.NewScanner(r)
	n := 1
	for ; lines.Scan() && lines.Err() == nil; n++ { // before the error there may be a piece of a line
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 {
			continue
		}
		if strings.Contains(lines.Text(), ",") {
			return nil, fmt.Errorf("%w: %s:%d: this is a matrix of times, with commas; want an embedding, lines of: id x y", ErrLatency, name, n)
		}
		if len(fields) != 3 {
			return nil, fmt.Errorf("%w: %s:%d: %d fields, want 3: id x y (a matrix of times, which shoal-sim overlay takes, has commas between its cells)", ErrLatency, name, n, len(fields))
		}
		var v [2]float64
		for i, s := range fields[1:] {
			x, err := strconv.ParseFloat(s, 64)
			if err != nil || math.IsNaN(x) || math.Abs(x) > 1e6 {
				return nil, fmt.Errorf("%w: %s:%d: %q is no position in milliseconds", ErrLatency, name, n, s)
			}
			v[i] = x
		}
		if len(points) == MaxPoints {
			return nil, fmt.Errorf("%w: %s:%d: more than %d points", ErrLatency, name, n, MaxPoints)
		}
		points = append(points, Point{v[0], v[1]})
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%w: %s:%d: %w", ErrLatency, name, n, err)
	}
	if len(points) < 20 {
		return nil, fmt.Errorf("%w: %s: %d points, want at least 20", ErrLatency, name, len(points))
	}
	if !slices.ContainsFunc(points, func(p Point) bool { return p != points[0] }) {
		return nil, fmt.Errorf("%w: %s: all %d points are in one place: no distance is above 0", ErrLatency, name, len(points))
	}
	return points, nil
}

// Synthetic returns an embedding of n points drawn from rng: dense clusters (regions) of different sizes on two
// continents, and some points far off. Distances spread as in the King embedding (median about 150 ms, tenth
// percentile 33, ninetieth 340).
func Synthetic(n int, rng *rand.Rand) []Point {
	type region struct {
		at     Point
		spread float64
		share  float64
	}
	regions := make([]region, 40)
	var total float64
	for i := range regions {
		side := 1.
		if i%3 == 0 {
			side = -1
		}
		regions[i] = region{
			at:     Point{side*75 + 60*rng.NormFloat64(), 60 * rng.NormFloat64()},
			spread: 10 + 40*rng.Float64(),
			share:  math.Exp(.5 * rng.NormFloat64()),
		}
		total += regions[i].share
	}
	points := make([]Point, n)
	for i := range points {
		pick, r := rng.Float64()*total, 0
		for r < len(regions)-1 && pick > regions[r].share {
			pick -= regions[r].share
			r++
		}
		spread := regions[r].spread
		if rng.Float64() < .08 { // badly connected
			spread *= 6
		}
		points[i] = Point{regions[r].at.X + spread*rng.NormFloat64(), regions[r].at.Y + spread*rng.NormFloat64()}
	}
	return points
}

// Replicate returns that many replicas of each point. Each lies in a random direction at 10% to 50% of the distance
// to the point's nearest neighbour among all, as in the recrawl paper. For points in the same place the nearest other
// place counts.
func Replicate(points, all []Point, copies int, rng *rand.Rand) []Point {
	out := make([]Point, 0, len(points)*copies)
	for _, p := range points {
		near := math.Inf(1)
		for _, q := range all {
			if d := p.To(q); d > 0 {
				near = min(near, d)
			}
		}
		if math.IsInf(near, 1) {
			near = 1
		}
		for range copies {
			d, a := near*(.1+.4*rng.Float64()), 2*math.Pi*rng.Float64()
			out = append(out, Point{p.X + d*math.Cos(a), p.Y + d*math.Sin(a)})
		}
	}
	return out
}

// Nearest finds the nearest of many points to a position.
type Nearest struct {
	points []Point
	cell   float64
	minX   float64
	minY   float64
	nx, ny int
	first  []int32 // of each cell in order
	order  []int32
}

// NewNearest indexes points in a grid with about two points per cell.
func NewNearest(points []Point) *Nearest {
	n := &Nearest{points: points, minX: math.Inf(1), minY: math.Inf(1)}
	maxX, maxY := math.Inf(-1), math.Inf(-1)
	for _, p := range points {
		n.minX, maxX = min(n.minX, p.X), max(maxX, p.X)
		n.minY, maxY = min(n.minY, p.Y), max(maxY, p.Y)
	}
	side := max(maxX-n.minX, maxY-n.minY, 1e-6)
	n.cell = side / max(1, math.Sqrt(float64(len(points))/2))
	n.nx, n.ny = int((maxX-n.minX)/n.cell)+1, int((maxY-n.minY)/n.cell)+1
	n.first = make([]int32, n.nx*n.ny+1)
	for _, p := range points {
		n.first[n.cellOf(p)+1]++
	}
	for i := 1; i < len(n.first); i++ {
		n.first[i] += n.first[i-1]
	}
	n.order = make([]int32, len(points))
	fill := append([]int32(nil), n.first...)
	for i, p := range points {
		c := n.cellOf(p)
		n.order[fill[c]] = int32(i)
		fill[c]++
	}
	return n
}

func (n *Nearest) cellOf(p Point) int {
	x := min(max(int((p.X-n.minX)/n.cell), 0), n.nx-1)
	y := min(max(int((p.Y-n.minY)/n.cell), 0), n.ny-1)
	return y*n.nx + x
}

type found struct {
	d2 float64
	i  int32
}

func (a found) farther(b found) bool { return a.d2 > b.d2 || a.d2 == b.d2 && a.i > b.i }

// Find appends the k points nearest to p, nearest first, to out. It skips points that ok refuses; a nil ok accepts
// all.
func (n *Nearest) Find(p Point, k int, ok func(i int32) bool, out []int32) []int32 {
	best := make([]found, 0, k+1) // sorted, nearest first
	cx, cy := int(math.Floor((p.X-n.minX)/n.cell)), int(math.Floor((p.Y-n.minY)/n.cell))
	cx, cy = min(max(cx, 0), n.nx-1), min(max(cy, 0), n.ny-1)
	for ring := 0; ring <= max(n.nx, n.ny); ring++ {
		if len(best) == k { // beyond ring-1 cells nothing is nearer; that also holds outside the grid, which is convex
			if d := float64(ring-1) * n.cell; d > 0 && d*d > best[k-1].d2 {
				break
			}
		}
		for y := cy - ring; y <= cy+ring; y++ {
			if y < 0 || y >= n.ny {
				continue
			}
			step := 2 * ring
			if y == cy-ring || y == cy+ring || ring == 0 {
				step = 1
			}
			for x := cx - ring; x <= cx+ring; x += step {
				if x < 0 || x >= n.nx {
					continue
				}
				c := y*n.nx + x
				for _, i := range n.order[n.first[c]:n.first[c+1]] {
					if ok != nil && !ok(i) {
						continue
					}
					q := n.points[i]
					f := found{(p.X-q.X)*(p.X-q.X) + (p.Y-q.Y)*(p.Y-q.Y), i}
					switch {
					case len(best) < k:
						best = append(best, f)
					case !best[k-1].farther(f):
						continue
					}
					j := len(best) - 1
					for ; j > 0 && best[j-1].farther(f); j-- {
						best[j] = best[j-1]
					}
					best[j] = f
				}
			}
		}
	}
	for _, f := range best {
		out = append(out, f.i)
	}
	return out
}
