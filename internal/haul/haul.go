// Package haul solves the transport problem: supplies are hauled to places of limited room at the least cost (Hitchcock, "The distribution of a product
// from several sources to numerous localities", 1941). The experiments use it for the least mean round-trip time at which peers can do the
// work that they did. It is made for many supplies and few places, and is pure.
package haul

import (
	"errors"
	"math"
)

// ErrRoom says that the supplies do not fit.
var ErrRoom = errors.New("haul: more supply than room")

// Least is the least cost of hauling all supplies, where a unit of supply i costs cost(i, j) at place j. Supplies and rooms are at least 0.
//
// One supply after the other goes the cheapest way there is: to a place with room, or to one from which an earlier supply moves on, and so forth. That is
// the method of successive shortest paths; it keeps the total least for what was hauled so far.
func Least(supply, room []float64, cost func(i, j int) float64) (total float64, err error) {
	h := newHaul(room, cost)
	left := 0.
	for _, r := range room {
		left += r
	}
	for i, s := range supply {
		left -= s
		if left < -tiny*max(s, 1) {
			return 0, ErrRoom
		}
		for s > 0 {
			moved, price := h.add(i, s)
			if moved <= 0 { // all is full but for rounding
				break
			}
			total += moved * price
			s -= moved
		}
	}
	return total, nil
}

const tiny = 1e-9 // of a unit, lost to rounding

// hauling is what lies where.
type hauling struct {
	cost func(i, j int) float64
	room []float64
	at   []map[int]float64 // by place: what it has of each supply
	move [][]step          // from place to place: the cheapest unit to move
	far  []float64         // cost of the cheapest way to each place
	from []int             // the place before it on that way; origin: none
}

// step is a move of a unit of a supply to another place.
type step struct {
	cost   float64
	supply int
}

const origin = -1

func newHaul(room []float64, cost func(i, j int) float64) *hauling {
	n := len(room)
	h := &hauling{cost: cost, room: append([]float64(nil), room...), at: make([]map[int]float64, n), move: make([][]step, n), far: make([]float64, n), from: make([]int, n)}
	for j := range n {
		h.at[j], h.move[j] = map[int]float64{}, make([]step, n)
		for k := range n {
			h.move[j][k] = step{math.Inf(1), origin}
		}
	}
	return h
}

// add hauls as much of s units of supply i as one way takes, and returns how much, and the cost of a unit.
func (h *hauling) add(i int, s float64) (moved, price float64) {
	end := h.ways(i)
	if end < 0 {
		return 0, 0
	}
	moved, price = min(s, h.room[end]), h.far[end]
	for k := end; h.from[k] != origin; k = h.from[k] {
		j := h.from[k]
		moved = min(moved, h.at[j][h.move[j][k].supply])
	}
	h.room[end] -= moved
	for k := end; ; k = h.from[k] {
		j := h.from[k]
		if j == origin {
			h.put(k, i, moved)
			return moved, price
		}
		m := h.move[j][k].supply
		h.put(k, m, moved)
		h.take(j, m, moved)
	}
}

// ways finds the cheapest way for a unit of supply i to each place, and returns the cheapest place with room; below 0: there is none.
func (h *hauling) ways(i int) (end int) {
	for j := range h.far {
		h.far[j], h.from[j] = h.cost(i, j), origin
	}
	for again := true; again; {
		again = false
		for j := range h.far {
			for k, m := range h.move[j] {
				if d := h.far[j] + m.cost; d < h.far[k]-tiny {
					h.far[k], h.from[k], again = d, j, true
				}
			}
		}
	}
	end = -1
	for j := range h.far {
		if h.room[j] > tiny && (end < 0 || h.far[j] < h.far[end]) {
			end = j
		}
	}
	return end
}

// put adds to what a place has of a supply.
func (h *hauling) put(j, i int, units float64) {
	h.at[j][i] += units
	here := h.cost(i, j)
	for k := range h.move[j] {
		if d := h.cost(i, k) - here; k != j && d < h.move[j][k].cost {
			h.move[j][k] = step{d, i}
		}
	}
}

// take takes from it. Where nothing is left, the cheapest moves that were its are found anew.
func (h *hauling) take(j, i int, units float64) {
	if h.at[j][i] -= units; h.at[j][i] > tiny {
		return
	}
	delete(h.at[j], i)
	for k := range h.move[j] {
		if h.move[j][k].supply != i {
			continue
		}
		best := step{math.Inf(1), origin}
		for m := range h.at[j] {
			if d := h.cost(m, k) - h.cost(m, j); d < best.cost || d == best.cost && m < best.supply {
				best = step{d, m}
			}
		}
		h.move[j][k] = best
	}
}
