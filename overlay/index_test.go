package overlay

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"shoal/coords"
)

// somewhere draws a place: in towns, with access lines, as members are.
func somewhere(rng *rand.Rand) coords.Coord {
	c := coords.Coord{Err: .1, Height: rng.ExpFloat64() * 3}
	town := rand.New(rand.NewPCG(uint64(rng.IntN(40)), 1))
	for k := range c.Vec {
		c.Vec[k] = town.NormFloat64()*60/float64(k+1) + rng.NormFloat64()*2
	}
	if rng.IntN(5) == 0 {
		c.Adjust = rng.NormFloat64() * 4
	}
	return c
}

// The index agrees with looking at all places, whatever comes, goes, moves and is marked.
func TestIndexAgreesWithLookingAtAll(t *testing.T) {
	for seed := range uint64(4) {
		rng := rand.New(rand.NewPCG(seed, 7))
		var x index
		at := map[int]coords.Coord{}
		marks := map[int][markKinds]bool{}
		free := []int{}
		next := 0
		for step := range 4000 {
			switch k := rng.IntN(10); {
			case k < 4 || len(at) == 0:
				i := next
				if len(free) > 0 {
					i, free = free[len(free)-1], free[:len(free)-1]
				} else {
					next++
				}
				c := somewhere(rng)
				x.put(i, &c)
				at[i], marks[i] = c, [markKinds]bool{}
			case k < 6:
				i := anyOf(at, rng)
				c := at[i]
				c.Vec[rng.IntN(coords.Dims)] += rng.NormFloat64() * 5
				x.put(i, &c)
				at[i] = c
			case k < 7:
				i := anyOf(at, rng)
				x.drop(i)
				delete(at, i)
				delete(marks, i)
				free = append(free, i)
			case k < 8 && len(free) > 0:
				from, to := anyOf(at, rng), free[0]
				x.rename(from, to)
				at[to], marks[to], free[0] = at[from], marks[from], from
				delete(at, from)
				delete(marks, from)
			default:
				i, kind, on := anyOf(at, rng), rng.IntN(markKinds), rng.IntN(2) == 0
				x.mark(i, kind, on)
				m := marks[i]
				m[kind] = on
				marks[i] = m
			}
			if step%7 != 0 {
				continue
			}
			goal := somewhere(rng)
			s := search{at: &goal, n: 1 + rng.IntN(20), limit: math.MaxFloat64, mark: rng.IntN(markKinds+1) - 1}
			if rng.IntN(2) == 0 {
				s.limit = rng.Float64() * 80
			}
			if rng.IntN(2) == 0 {
				s.pass = func(i int) bool { return i%3 == 0 }
			}
			var want []far
			for i, c := range at {
				d := coords.Distance(&goal, &c)
				if d <= s.limit && (s.mark == absent || marks[i][s.mark]) && (s.pass == nil || !s.pass(i)) {
					want = append(want, far{d, i})
				}
			}
			slices.SortFunc(want, func(a, b far) int { return cmp.Or(cmp.Compare(a.ms, b.ms), cmp.Compare(a.i, b.i)) })
			want = want[:min(len(want), s.n)]
			if got := x.nearest(&s); !slices.Equal(got, want) {
				t.Fatalf("seed %d, step %d: %d places, %+v: got %v, want %v", seed, step, len(at), s, got, want)
			}
		}
	}
}

func anyOf(at map[int]coords.Coord, rng *rand.Rand) int {
	ids := make([]int, 0, len(at))
	for i := range at {
		ids = append(ids, i)
	}
	slices.Sort(ids)
	return ids[rng.IntN(len(ids))]
}

// BenchmarkIndex finds the sixteen nearest of some places; the baseline looks at all of them.
func BenchmarkIndex(b *testing.B) {
	for _, n := range []int{256, 1024, MaxKnown} {
		rng := rand.New(rand.NewPCG(1, 2))
		var x index
		for i := range n {
			c := somewhere(rng)
			x.put(i, &c)
		}
		goals := make([]coords.Coord, 256)
		for i := range goals {
			goals[i] = somewhere(rng)
		}
		var room [nearestKept]far
		b.Run(fmt.Sprint("index/", n), func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				x.nearest(&search{at: &goals[i%len(goals)], n: len(room), limit: math.MaxFloat64, mark: absent, best: room[:0]})
			}
		})
		b.Run(fmt.Sprint("all/", n), func(b *testing.B) {
			ms := make([]float64, n)
			for i := 0; b.Loop(); i++ {
				for k := range x.at {
					ms[k] = coords.Distance(&goals[i%len(goals)], &x.at[k])
				}
				nearestOf(ms, room[:0], len(room), math.MaxFloat64)
			}
		})
		b.Run(fmt.Sprint("move/", n), func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				c := x.at[i%n]
				c.Vec[0] += .01
				x.put(i%n, &c)
			}
		})
	}
}
