package allocate

import (
	"fmt"
	"math"
	"slices"
)

// Sizes of the flow fallback.
const (
	maxFlowCells = 1 << 20 // tasks times slots up to which a restricted problem is solved as a whole
	windowTasks  = 192     // tasks of a window around a crawl that its bars displace
)

// keepBars repairs a schedule whose tasks stand where they may not. If nothing stands in a barred place, or swapping crawlers within a group helps, the
// schedule stays exact: bars can only cost. Else a problem of up to maxFlowCells is solved as a whole by min-cost flow, exactly; in a larger one each displaced
// task and the slots around its old and its nearest open place are solved again, exactly within that window only.
func (s *Schedule) keepBars(p *TimetableProblem, total int) error {
	bars := map[int][]Bar{}
	var barred []int
	for _, b := range p.Barred {
		if _, ok := bars[b.Task]; !ok {
			barred = append(barred, b.Task)
		}
		bars[b.Task] = append(bars[b.Task], b)
	}
	slices.Sort(barred)
	open := func(task int, pos uint32) bool {
		c, _, t := s.line.slot(pos, s.span)
		for _, b := range bars[task] {
			if (b.Crawler == -1 || b.Crawler == c) && t >= b.From && t < b.To {
				return false
			}
		}
		return p.Release == nil || !p.Release[task] || t >= p.Ideal[task]
	}
	holder := make([]int32, total) // task of each slot, or -1
	for i := range holder {
		holder[i] = -1
	}
	for i, pos := range s.Position {
		holder[pos] = int32(i)
	}
	for _, i := range barred {
		if !open(i, s.Position[i]) {
			s.swapInGroup(i, holder, open)
		}
	}
	var displaced []int
	for _, i := range barred {
		if !open(i, s.Position[i]) {
			displaced = append(displaced, i)
		}
	}
	if len(displaced) == 0 {
		return nil
	}
	if len(p.Ideal)*total <= maxFlowCells {
		all, slots := make([]int, len(p.Ideal)), make([]uint32, total)
		for i := range all {
			all[i] = i
		}
		for i := range slots {
			slots[i] = uint32(i)
		}
		if !s.flow(p, all, slots, holder, open) {
			return s.errBars(p, displaced[0], open, total)
		}
	} else {
		s.Exact = false
		for _, i := range displaced {
			if !s.window(p, i, holder, open, total) {
				return s.errBars(p, i, open, total)
			}
		}
	}
	s.Cost = 0
	for i := range p.Ideal {
		s.Cost += math.Abs(s.line.time[s.line.group(s.Position[i])] - p.Ideal[i])
	}
	return nil
}

func (s *Schedule) errBars(p *TimetableProblem, task int, open func(int, uint32) bool, total int) error {
	for pos := range total {
		if open(task, uint32(pos)) {
			return fmt.Errorf("%w: the restrictions on task %d and its neighbours leave them too few slots", ErrInfeasible, task)
		}
	}
	return fmt.Errorf("%w: the restrictions on task %d leave it no slot at all", ErrInfeasible, task)
}

// swapInGroup exchanges crawlers with another task, or an idle slot, of the same time: at no cost.
func (s *Schedule) swapInGroup(i int, holder []int32, open func(int, uint32) bool) {
	mine := s.Position[i]
	g := s.line.group(mine)
	for k := range uint32(s.line.count[g]) {
		pos := s.line.base[g] + k
		other := holder[pos]
		if open(i, pos) && (other < 0 || open(int(other), mine)) {
			holder[mine], holder[pos] = other, int32(i)
			s.Position[i] = pos
			if other >= 0 {
				s.Position[other] = mine
			}
			return
		}
	}
}

// window solves again around the old place of a displaced task and the nearest places that are open to it.
func (s *Schedule) window(p *TimetableProblem, i int, holder []int32, open func(int, uint32) bool, total int) bool {
	home := int(s.Position[i])
	for size := windowTasks; ; size *= 4 {
		var slots []uint32
		add := func(from, to int) {
			for pos := max(from, 0); pos < min(to, total); pos++ {
				slots = append(slots, uint32(pos))
			}
		}
		add(home-size/4, home+size/4)
		left, right := home, home
		for left >= 0 && !open(i, uint32(left)) {
			left--
		}
		for right < total && !open(i, uint32(right)) {
			right++
		}
		if left < 0 && right == total {
			return false
		}
		if left >= 0 {
			add(left-size/4, left+size/4)
		}
		if right < total {
			add(right-size/4, right+size/4)
		}
		slices.Sort(slots)
		slots = slices.Compact(slots)
		var tasks []int
		for _, pos := range slots {
			if holder[pos] >= 0 {
				tasks = append(tasks, int(holder[pos]))
			}
		}
		if s.flow(p, tasks, slots, holder, open) {
			return true
		}
		if len(slots) == total || size > windowTasks {
			return false
		}
	}
}

// flow assigns tasks to slots at least cost by successive shortest paths with potentials (the transportation problem of equations 23-26, barred arcs
// infinite), O(tasks^2 * slots). It changes nothing if there is no assignment.
func (s *Schedule) flow(p *TimetableProblem, tasks []int, slots []uint32, holder []int32, open func(int, uint32) bool) bool {
	times := make([]float64, len(slots))
	for j, pos := range slots {
		times[j] = s.line.time[s.line.group(pos)]
	}
	cost := func(i, j int) float64 {
		if !open(tasks[i], slots[j]) {
			return math.Inf(1)
		}
		return math.Abs(times[j] - p.Ideal[tasks[i]])
	}
	got, ok := assign(len(tasks), len(slots), cost)
	if !ok {
		return false
	}
	for _, pos := range slots {
		holder[pos] = -1
	}
	for i, j := range got {
		s.Position[tasks[i]] = slots[j]
		holder[slots[j]] = int32(tasks[i])
	}
	return true
}

// assign gives each of n rows its own of m columns at least total cost, n <= m; infinite cost is no arc.
func assign(n, m int, cost func(i, j int) float64) (column []int, ok bool) {
	u, v := make([]float64, n+1), make([]float64, m+1)
	row, way := make([]int, m+1), make([]int, m+1) // row of each column, from 1; column 0 stands for the row being placed
	dist, done := make([]float64, m+1), make([]bool, m+1)
	for i := 1; i <= n; i++ {
		row[0] = i
		for j := range dist {
			dist[j], done[j] = math.Inf(1), false
		}
		j0 := 0
		for row[j0] != 0 {
			done[j0] = true
			i0, delta, j1 := row[j0], math.Inf(1), -1
			for j := 1; j <= m; j++ {
				if done[j] {
					continue
				}
				if c := cost(i0-1, j-1) - u[i0] - v[j]; c < dist[j] {
					dist[j], way[j] = c, j0
				}
				if dist[j] < delta {
					delta, j1 = dist[j], j
				}
			}
			if j1 < 0 {
				return nil, false
			}
			for j := 0; j <= m; j++ {
				if done[j] {
					u[row[j]] += delta
					v[j] -= delta
				} else {
					dist[j] -= delta
				}
			}
			j0 = j1
		}
		for j0 != 0 {
			row[j0] = row[way[j0]]
			j0 = way[j0]
		}
	}
	column = make([]int, n)
	for j := 1; j <= m; j++ {
		if row[j] > 0 {
			column[row[j]-1] = j - 1
		}
	}
	return column, true
}

// Assign is the general solver that Timetable falls back on, for comparison: n rows to their own of m columns at least total cost; nil if there is no way.
func Assign(n, m int, cost func(i, j int) float64) []int {
	if n > m {
		return nil
	}
	c, ok := assign(n, m, cost)
	if !ok {
		return nil
	}
	return c
}
