package overlaysim

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"

	"shoal/internal/sim"
)

// ground is where things are: sites with round-trip times between them, and members and Web hosts at the sites.
type ground struct {
	matrix [][]float64 // ms; nil: points
	points []sim.Point
	access []float64 // of each place, ms, for a matrix
	site   []int     // of each place
}

// rtt is the round-trip time between two places in milliseconds.
func (g *ground) rtt(a, b int) float64 {
	if g.matrix == nil {
		return max(2*g.points[a].To(g.points[b]), .3)
	}
	return max(g.matrix[g.site[a]][g.site[b]]+g.access[a]+g.access[b], .3)
}

// newGround spreads places over the sites of a latency file, or over made-up ones.
func newGround(path string, places int, rng *rand.Rand) (*ground, error) {
	if path == "" {
		return &ground{points: sim.Synthetic(places, rng)}, nil
	}
	if !strings.Contains(path, ".csv") {
		base, err := sim.LoadEmbedding(path)
		if err != nil {
			return nil, err
		}
		all := sim.Replicate(base, base, (places+len(base)-1)/len(base), rng)
		rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		return &ground{points: all[:places]}, nil
	}
	m, err := loadMatrix(path)
	if err != nil {
		return nil, err
	}
	g := &ground{matrix: m, site: make([]int, places), access: make([]float64, places)}
	near := make([]float64, len(m))
	for i := range m {
		near[i] = math.Inf(1)
		for j, d := range m[i] {
			if i != j && d > 0 {
				near[i] = min(near[i], d)
			}
		}
	}
	order := rng.Perm(len(m))
	for i := range places { // replicas lie 10% to 50% of the way to the site's nearest neighbour
		g.site[i] = order[i%len(m)]
		g.access[i] = near[g.site[i]] * (.1 + .4*rng.Float64())
	}
	perm := rng.Perm(places)
	site, access := slices.Clone(g.site), slices.Clone(g.access)
	for i, p := range perm {
		g.site[i], g.access[i] = site[p], access[p]
	}
	return g, nil
}

// maxSites bounds a matrix.
const maxSites = 5000

// loadMatrix reads a square matrix of round-trip times in milliseconds, comma-separated, with a header line; gzip by its name.
func loadMatrix(path string) ([][]float64, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", sim.ErrLatency, err)
	}
	defer f.Close()
	var in io.Reader = f
	if strings.HasSuffix(path, ".gz") {
		if in, err = gzip.NewReader(f); err != nil {
			return nil, fmt.Errorf("%w: %s: %w", sim.ErrLatency, path, err)
		}
	}
	var m [][]float64
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
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
	if len(m) < 20 || len(m) != len(m[0]) {
		return nil, fmt.Errorf("%w: %s: %d lines, want a square of at least 20", sim.ErrLatency, path, len(m))
	}
	for i := range m { // both directions were measured
		for j := range m[:i] {
			d := (m[i][j] + m[j][i]) / 2
			m[i][j], m[j][i] = d, d
		}
	}
	return m, nil
}
