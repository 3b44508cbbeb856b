package overlaysim

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"shoal/coords"
)

// TestSampledIsLikeWhole places tasks in a network that is simulated whole and in one whose nodes are made when they are needed: hops, questions, tables and
// what is found come out alike.
func TestSampledIsLikeWhole(t *testing.T) {
	c := Command{Peers: 400, Hosts: 400, Tasks: 60, Places: Apart, Coordinates: "product", Overlay: "rings", Churn: "none", Settle: 20 * time.Minute, Seed: 1}
	rows, err := c.measure(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	whole := rows[0]
	rows, err = Sampled{Peers: c.Peers, Hosts: c.Hosts, Tasks: c.Tasks, Error: whole.CoordErr, Seed: 1}.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := rows[0]
	for _, x := range []struct {
		what             string
		got, want, apart float64
	}{
		{"table", got.TableMean, whole.TableMean, 12}, {"hops", got.Hops, whole.Hops, 1.5}, {"queries", got.Queries, whole.Queries, 3}, {"RTT", got.RTT50, whole.RTT50, 4},
		{"recall", got.Recall8, whole.Recall8, .1}, {"coordinates' error", got.CoordErr, whole.CoordErr, .02}, {"placed", got.Success, whole.Success, .05},
	} {
		if math.Abs(x.got-x.want) > x.apart {
			t.Errorf("%s: %.2f, and %.2f in the whole network", x.what, x.got, x.want)
		}
	}
	t.Logf("sampled %+v", got)
	t.Logf("whole %+v", whole)
}

// TestGrid finds the nearest points as going through all of them does.
func TestGrid(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	at := make([]coords.Coord, 700)
	for i := range at {
		spread := math.Exp(3 * rng.NormFloat64())
		at[i].Vec[0], at[i].Vec[1] = spread*rng.NormFloat64(), spread*rng.NormFloat64()
	}
	p := newGrid(at)
	for range 200 {
		x, y := 30*rng.NormFloat64(), 30*rng.NormFloat64()
		all := make([]int, len(at))
		for i := range all {
			all[i] = i
		}
		far := func(i int) float64 { return math.Hypot(at[i].Vec[0]-x, at[i].Vec[1]-y) }
		slices.SortFunc(all, func(a, b int) int {
			if far(a) < far(b) {
				return -1
			}
			return 1
		})
		if got := p.around(x, y, 9); !slices.Equal(got, all[:9]) {
			t.Fatalf("nearest to %v, %v: %v, want %v", x, y, got, all[:9])
		}
	}
}
