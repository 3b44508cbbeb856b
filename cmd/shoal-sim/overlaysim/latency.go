package overlaysim

import (
	"bufio"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"shoal/internal/datafile"
	"shoal/internal/sim"
)

// ground is where things are: sites with round-trip times between them, and members and Web hosts at the sites.
type ground struct {
	matrix [][]float64 // ms; nil: points
	points []sim.Point
	access []float64 // of each place, ms, for a matrix
	site   []int     // of each place
	faulty int       // nodes of the matrix that were left out
}

// rtt is the round-trip time between two places in milliseconds.
func (g *ground) rtt(a, b int) float64 {
	if g.matrix == nil {
		return max(2*g.points[a].To(g.points[b]), .3)
	}
	return max(g.matrix[g.site[a]][g.site[b]]+g.access[a]+g.access[b], .3)
}

// How peers and Web hosts share the base nodes of a latency file.
const (
	Apart  = "apart"  // peers are replicas of some base nodes, hosts of all others, as in the recrawl paper
	Shared = "shared" // both are replicas of all base nodes
)

// peerSites is how many base nodes the recrawl paper makes its crawlers of: 140, of which 1,400 and 2,800 are replicas; hosts have the others.
const peerSites = 140

// sites deals base nodes to peers and to hosts, at random.
func sites(count int, places string, rng *rand.Rand) (peers, hosts []int) {
	order := rng.Perm(count)
	if places == Shared {
		return order, order
	}
	n := min(peerSites, count/2)
	return order[:n], order[n:]
}

// deal gives n places their sites, as many to each as to any other, in random order.
func deal(sites []int, n int, rng *rand.Rand) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = sites[i%len(sites)]
	}
	rng.Shuffle(n, func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// newGround spreads peers, then hosts over the base nodes of a latency file, or over made-up places. A replica lies 10% to 50% of the way to its base
// node's nearest neighbour away from it, as in the recrawl paper. Nodes that cannot be where a matrix says are left out, unless all are wanted.
func newGround(path, places string, peers, hosts int, all bool, rng *rand.Rand) (*ground, error) {
	if path == "" {
		return &ground{points: sim.Synthetic(peers+hosts, rng)}, nil
	}
	matrix, err := isMatrix(path)
	if err != nil {
		return nil, err
	}
	if !matrix {
		base, err := sim.LoadEmbedding(path)
		if err != nil {
			return nil, err
		}
		g := &ground{}
		ours, theirs := sites(len(base), places, rng)
		for _, side := range []struct {
			sites []int
			n     int
		}{{ours, peers}, {theirs, hosts}} {
			var around []sim.Point
			for _, at := range side.sites {
				around = append(around, base[at])
			}
			all := sim.Replicate(around, base, (side.n+len(around)-1)/len(around), rng)
			rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			g.points = append(g.points, all[:side.n]...)
		}
		return g, nil
	}
	m, err := loadMatrix(path)
	if err != nil {
		return nil, err
	}
	faulty := 0
	if !all {
		m, faulty = without(m, impossible(m))
	}
	near := make([]float64, len(m))
	for i := range m {
		near[i] = math.Inf(1)
		for j, d := range m[i] {
			if i != j && d > 0 {
				near[i] = min(near[i], d)
			}
		}
		if math.IsInf(near[i], 1) {
			return nil, fmt.Errorf("%w: %s: node %d is 0 ms from every other node: want measured times above 0", sim.ErrLatency, path, i+1)
		}
	}
	g := &ground{matrix: m, faulty: faulty}
	ours, theirs := sites(len(m), places, rng)
	g.site = append(deal(ours, peers, rng), deal(theirs, hosts, rng)...)
	for _, at := range g.site {
		g.access = append(g.access, near[at]*(.1+.4*rng.Float64()))
	}
	return g, nil
}

// Bounds of a matrix.
const (
	minSites = 20
	maxSites = 5000
)

// isMatrix reports whether a latency file is a matrix, whose lines have commas, and not an embedding. A matrix's header
// may be one word, so the first two lines count.
func isMatrix(path string) (bool, error) {
	f, err := datafile.Open(path)
	if err != nil {
		return false, fmt.Errorf("%w: %w", sim.ErrLatency, err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	seen := 0
	for seen < 2 && lines.Scan() {
		s := strings.TrimSpace(lines.Text())
		if strings.Contains(s, ",") {
			return true, nil
		}
		if s != "" {
			seen++
		}
	}
	if seen > 0 {
		return false, nil
	}
	if err := lines.Err(); err != nil {
		return false, fmt.Errorf("%w: %s: %w", sim.ErrLatency, path, err)
	}
	return false, fmt.Errorf("%w: %s is empty", sim.ErrLatency, path)
}

// loadMatrix reads a square matrix of round-trip times in milliseconds, comma-separated, with a header line. It may have one side of the diagonal alone.
func loadMatrix(path string) ([][]float64, error) {
	f, err := datafile.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", sim.ErrLatency, err)
	}
	defer f.Close()
	var m [][]float64
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan() && lines.Err() == nil; n++ { // before the error there may be a piece of a line
		if n == 1 {
			continue
		}
		fields := strings.Split(lines.Text(), ",")
		row := make([]float64, len(fields))
		for i, s := range fields {
			if row[i], err = strconv.ParseFloat(strings.TrimSpace(s), 64); err != nil || !(row[i] >= 0 && row[i] <= 1e4) {
				return nil, fmt.Errorf("%w: %s:%d: %q is no time in milliseconds", sim.ErrLatency, path, n, s)
			}
		}
		if m = append(m, row); len(m) > maxSites || len(row) != len(m[0]) {
			return nil, fmt.Errorf("%w: %s:%d: %d fields, want %d, at most %d lines", sim.ErrLatency, path, n, len(row), len(m[0]), maxSites)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", sim.ErrLatency, path, err)
	}
	if len(m) > 0 && len(m) == len(m[0])-1 {
		return nil, fmt.Errorf("%w: %s: %d lines after the header for %d nodes: want a header line, which is not read, and then a line for each node", sim.ErrLatency, path, len(m), len(m[0]))
	}
	if len(m) < minSites || len(m) != len(m[0]) {
		return nil, fmt.Errorf("%w: %s: %d lines after the header, want a square of at least %d", sim.ErrLatency, path, len(m), minSites)
	}
	if err := symmetric(m); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", sim.ErrLatency, path, err)
	}
	return m, nil
}

// symmetric gives each pair of a matrix the mean of its two directions. A matrix that has times on one side of the diagonal only, and zeros on the other,
// holds each pair once. Elsewhere a time one way and zero the other way is an error: zero is no measured time, and a mean with it would be half of one.
func symmetric(m [][]float64) error {
	var below, above bool
	for i := range m {
		for j := range m[:i] {
			below, above = below || m[i][j] > 0, above || m[j][i] > 0
		}
	}
	for i := range m {
		for j := range m[:i] {
			d := (m[i][j] + m[j][i]) / 2
			switch {
			case below != above:
				d = m[i][j] + m[j][i]
			case (m[i][j] > 0) != (m[j][i] > 0):
				return fmt.Errorf("%g ms from node %d to node %d, and %g ms back: want a measured time both ways, 0 both ways where there is none, or one side of the diagonal alone", m[i][j], i+1, j+1, m[j][i])
			}
			m[i][j], m[j][i] = d, d
		}
	}
	return nil
}

// A node is impossible that is within besideMS of besideLeast others or more, half of whose pairs are more than apartMS from one another: by way of that node each
// pair would be ten milliseconds apart. Such a node answers for others, as a proxy does, or was measured wrongly.
const (
	besideMS    = 5.0
	besideLeast = 8
	apartMS     = 50.0
)

// impossible are the nodes of a matrix that cannot be where it says.
func impossible(m [][]float64) (out []int) {
	for i := range m {
		var beside []int
		for j, d := range m[i] {
			if i != j && d > 0 && d <= besideMS {
				beside = append(beside, j)
			}
		}
		if len(beside) < besideLeast {
			continue
		}
		var pairs []float64
		for k, a := range beside {
			for _, b := range beside[:k] {
				pairs = append(pairs, m[a][b])
			}
		}
		if quantile(pairs, .5) > apartMS {
			out = append(out, i)
		}
	}
	return out
}

// without is a matrix without some of its nodes, unless too few were left, and how many were left out.
func without(m [][]float64, out []int) ([][]float64, int) {
	if len(out) == 0 || len(m)-len(out) < minSites {
		return m, 0
	}
	drop := func(i int) bool { _, there := slices.BinarySearch(out, i); return there }
	var kept [][]float64
	for i := range m {
		if drop(i) {
			continue
		}
		var row []float64
		for j, d := range m[i] {
			if !drop(j) {
				row = append(row, d)
			}
		}
		kept = append(kept, row)
	}
	return kept, len(out)
}
