package allocate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// TimetableProblem is the scheduling problem of section 3: R crawls with ideal times, C crawlers with equal slots.
type TimetableProblem struct {
	Ideal   []float64 // t*, within 0..Span
	Release []bool    // crawls that must not begin before their ideal time (quasi-deterministic pages); nil: none
	Slots   []int     // S_k: slots of crawler k; slot l (from 0) begins at l*Span/S_k
	Span    float64   // T
	Barred  []Bar     // restrictions; empty: none
}

// Bar says that a task may not begin on a crawler within From <= time < To.
type Bar struct {
	Task     int
	Crawler  int // -1: any
	From, To float64
}

// Schedule gives every task its slot.
type Schedule struct {
	Position []uint32 // per task: where its slot stands in the order of (time, crawler); At unpacks it
	Cost     float64  // sum over tasks of |slot - ideal|
	// Exact says that no schedule costs less. It is false only when bars had to be kept on a problem too large for the flow fallback. Bound is
	// then the cost without bars: no schedule with them costs less than that.
	Exact bool
	Bound float64
	line  *slotLine
	span  float64
}

// At is the crawler, its slot and the slot's time of a task.
func (s *Schedule) At(task int) (crawler, slot int, t float64) {
	return s.line.slot(s.Position[task], s.span)
}

// Limits of timetables.
const (
	MaxTasks    = 1 << 28
	MaxCrawlers = 1 << 12
)

// Timetable finds a cheapest schedule. A crawl costs |t-t*|, or infinitely much before t* if it has a release time.
//
// All times lie on a line, so what crosses a point of it is a flow: f tasks that go on to a later slot, and b slots that wait for a later
// task. With as many tasks as slots, D = tasks minus slots to the left of the point is fixed, f = b + D, and the cost is the sum over gaps of
// length*(2b + D). What remains to find is the least b >= max(0,-D), where b may fall leftwards by up to c over a group of c slots, rise by up
// to 1 over an ordinary task, and not change over a task with a release time. These are lower bounds and bounds on differences, whose solutions
// have a least one, componentwise. Two sweeps find it. The assignment is first in, first out in each layer. With idle slots a greedy choice
// with regrets first says which slots are used.
func Timetable(p TimetableProblem) (*Schedule, error) {
	total, err := p.check()
	if err != nil {
		return nil, err
	}
	line := newSlotLine(p.Slots, p.Span)
	tasks := sortTasks(p.Ideal, p.Release, p.Span)
	s := &Schedule{Position: make([]uint32, len(tasks)), Exact: true, line: line, span: p.Span}
	used := line.count
	if len(tasks) < total {
		if used, err = chooseSlots(tasks, line); err != nil {
			return nil, err
		}
	}
	if s.Cost, err = layers(tasks, line, used, s.Position); err != nil {
		return nil, err
	}
	s.Bound = s.Cost
	if len(p.Barred) > 0 {
		if err := s.keepBars(&p, total); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (p *TimetableProblem) check() (total int, err error) {
	if !(p.Span > 0) || math.IsInf(p.Span, 0) {
		return 0, fmt.Errorf("%w: interval of length %g; it must be a finite number above 0", ErrProblem, p.Span)
	}
	if len(p.Slots) > MaxCrawlers || len(p.Ideal) > MaxTasks {
		return 0, fmt.Errorf("%w: %d crawlers and %d tasks; at most %d and %d", ErrProblem, len(p.Slots), len(p.Ideal), MaxCrawlers, MaxTasks)
	}
	for k, n := range p.Slots {
		if n < 0 || n > MaxTasks || total+n > MaxTasks {
			return 0, fmt.Errorf("%w: crawler %d has %d slots; at most %d in all", ErrProblem, k, n, MaxTasks)
		}
		total += n
	}
	if p.Release != nil && len(p.Release) != len(p.Ideal) {
		return 0, fmt.Errorf("%w: %d ideal times but %d release marks", ErrProblem, len(p.Ideal), len(p.Release))
	}
	for i, t := range p.Ideal {
		if !(t >= 0 && t <= p.Span) {
			return 0, fmt.Errorf("%w: task %d has ideal time %g, outside 0..%g", ErrProblem, i, t, p.Span)
		}
	}
	for _, b := range p.Barred {
		if b.Task < 0 || b.Task >= len(p.Ideal) || b.Crawler < -1 || b.Crawler >= len(p.Slots) || math.IsNaN(b.From) || math.IsNaN(b.To) {
			return 0, fmt.Errorf("%w: restriction %+v names no task or crawler of the problem", ErrProblem, b)
		}
	}
	if len(p.Ideal) > total {
		return 0, fmt.Errorf("%w: %d tasks do not fit into %d slots", ErrInfeasible, len(p.Ideal), total)
	}
	return total, nil
}

// slotLine holds all slots in order of time, grouped where crawlers begin slots together.
type slotLine struct {
	time  []float64 // per group
	count []int32   // slots in the group
	base  []uint32  // position of the group's first slot
	even  int       // number of crawlers if all have equally many slots; else 0 and order says which slot stands where
	order []slotRef
}

type slotRef struct {
	crawler uint16
	slot    uint32
}

func newSlotLine(slots []int, span float64) *slotLine {
	l := &slotLine{}
	even := len(slots) > 0
	for _, n := range slots {
		even = even && n == slots[0]
	}
	if even {
		l.even = len(slots)
		l.time, l.count, l.base = make([]float64, slots[0]), make([]int32, slots[0]), make([]uint32, slots[0])
		for g := range l.time {
			l.time[g], l.count[g], l.base[g] = slotTime(g, slots[0], span), int32(len(slots)), uint32(g*len(slots))
		}
		return l
	}
	next := make([]int, len(slots))
	for {
		at := math.Inf(1)
		for k, n := range slots {
			if next[k] < n {
				at = min(at, slotTime(next[k], n, span))
			}
		}
		if math.IsInf(at, 1) {
			return l
		}
		base := len(l.order)
		for k, n := range slots {
			if next[k] < n && slotTime(next[k], n, span) == at {
				l.order = append(l.order, slotRef{uint16(k), uint32(next[k])})
				next[k]++
			}
		}
		l.time, l.count, l.base = append(l.time, at), append(l.count, int32(len(l.order)-base)), append(l.base, uint32(base))
	}
}

// slotTime rounds equal fractions equally, so that slots that begin together are one group.
func slotTime(l, n int, span float64) float64 { return span * (float64(l) / float64(n)) }

func (l *slotLine) slot(pos uint32, span float64) (crawler, slot int, t float64) {
	if l.even > 0 {
		g := int(pos) / l.even
		return int(pos) % l.even, g, l.time[g]
	}
	r := l.order[pos]
	return int(r.crawler), int(r.slot), l.time[l.group(pos)]
}

// group is the group that a position belongs to.
func (l *slotLine) group(pos uint32) int {
	if l.even > 0 {
		return int(pos) / l.even
	}
	g, found := slices.BinarySearch(l.base, pos)
	if !found {
		g--
	}
	return g
}

// task is a crawl in order of its ideal time.
type task struct {
	t       float64
	id      uint32
	release bool
}

// sortTasks orders by ideal time, then by index: spread over coarse cells, each cell over fine ones in cache, each of these by insertion.
func sortTasks(ideal []float64, release []bool, span float64) []task {
	n := len(ideal)
	out := make([]task, n)
	if n < 4096 {
		for i, t := range ideal {
			out[i] = task{t, uint32(i), release != nil && release[i]}
		}
		sortSmall(out)
		return out
	}
	const coarse = 1024
	var at [coarse + 1]int
	scale := coarse / span
	cell := func(t float64) int { return min(int(t*scale), coarse-1) }
	for _, t := range ideal {
		at[cell(t)+1]++
	}
	for c := range coarse {
		at[c+1] += at[c]
	}
	next := at
	for i, t := range ideal {
		c := cell(t)
		out[next[c]] = task{t, uint32(i), release != nil && release[i]}
		next[c]++
	}
	var tmp []task
	var fine []int32
	for c := range coarse {
		part := out[at[c]:at[c+1]]
		if len(part) < 64 {
			sortSmall(part)
			continue
		}
		tmp = append(tmp[:0], part...)
		k := len(part) / 2
		if cap(fine) < k+1 {
			fine = make([]int32, k+k/4+1)
		}
		fine = fine[:k+1]
		clear(fine)
		lo := float64(c) / scale
		fs := float64(k) * scale
		sub := func(t float64) int { return min(max(int((t-lo)*fs), 0), k-1) }
		for i := range tmp {
			fine[sub(tmp[i].t)+1]++
		}
		for i := range k {
			fine[i+1] += fine[i]
		}
		for i := range tmp {
			j := sub(tmp[i].t)
			part[fine[j]] = tmp[i]
			fine[j]++
		}
		sortNearly(part)
	}
	return out
}

// sortNearly is insertion sort. Where a part is far from sorted (many equal cells) it uses the library's sort instead.
func sortNearly(a []task) {
	budget := 24 * len(a)
	for i := 1; i < len(a); i++ {
		v := a[i]
		j := i
		for j > 0 && (a[j-1].t > v.t || a[j-1].t == v.t && a[j-1].id > v.id) {
			a[j] = a[j-1]
			j--
		}
		a[j] = v
		if budget -= i - j; budget < 0 {
			sortSmall(a)
			return
		}
	}
}

func sortSmall(a []task) {
	slices.SortFunc(a, func(x, y task) int {
		if c := cmp.Compare(x.t, y.t); c != 0 {
			return c
		}
		return cmp.Compare(x.id, y.id)
	})
}

// Events on the line. A task stands before a slot of the same time.
const (
	evSlots = iota
	evTask
	evRelease
)

// layers solves the case in which used[g] slots of every group are taken and there are as many of them as tasks.
func layers(tasks []task, line *slotLine, used []int32, position []uint32) (cost float64, err error) {
	kinds := make([]uint8, 0, len(tasks)+len(used))
	i := 0
	for g, t := range line.time {
		for ; i < len(tasks) && tasks[i].t <= t; i++ {
			kinds = append(kinds, kindOf(tasks[i]))
		}
		if used[g] > 0 {
			kinds = append(kinds, evSlots)
		}
	}
	for ; i < len(tasks); i++ {
		kinds = append(kinds, kindOf(tasks[i]))
	}
	// b[e] is the backward flow over the gap before event e; d the surplus of tasks to its left.
	b := make([]int32, len(kinds)+1)
	d := int32(0)
	g := len(used) - 1
	for e := len(kinds) - 1; e >= 0; e-- {
		v := b[e+1]
		if kinds[e] == evSlots {
			for used[g] == 0 {
				g--
			}
			d += used[g]
			v -= used[g]
			g--
		} else {
			d--
		}
		b[e] = max(v, -d, 0)
	}
	if b[0] > 0 {
		return 0, errRelease(tasks, b[0])
	}
	return forward(tasks, line, used, kinds, b, position)
}

func kindOf(t task) uint8 {
	if t.release {
		return evRelease
	}
	return evTask
}

func errRelease(tasks []task, n int32) error {
	last := 0.
	for _, t := range tasks {
		if t.release {
			last = t.t
		}
	}
	return fmt.Errorf("%w: %d tasks cannot begin at or after their release times (the last is released at %g)", ErrInfeasible, n, last)
}

// forward is the second sweep, and hands out slots on its way.
func forward(tasks []task, line *slotLine, used []int32, kinds []uint8, b []int32, position []uint32) (cost float64, err error) {
	var waiting, vacant fifo // tasks that go on to a later slot; slots that wait for a later task
	i, g := 0, 0
	d, last := int32(0), 0.
	for e, k := range kinds {
		left, right := b[e], b[e+1]
		if k == evSlots {
			for used[g] == 0 {
				g++
			}
			t := line.time[g]
			cost += (t - last) * float64(2*left+d)
			last = t
			right = max(right, left)
			back := right - left
			pos := line.base[g]
			for range used[g] - back {
				position[waiting.pop()] = pos
				pos++
			}
			for range back {
				vacant.push(pos)
				pos++
			}
			d -= used[g]
			g++
		} else {
			t := tasks[i]
			cost += (t.t - last) * float64(2*left+d)
			last = t.t
			if k == evTask {
				right = max(right, left-1)
			} else {
				right = max(right, left)
			}
			if left > right {
				position[t.id] = vacant.pop()
			} else {
				waiting.push(t.id)
			}
			d++
			i++
		}
		b[e+1] = right
	}
	if over := b[len(kinds)]; over > 0 {
		return 0, errRelease(tasks, over)
	}
	return cost, nil
}

// fifo is a queue of positions or task numbers; popping from an empty one cannot happen after the sweeps have made the flows consistent, except
// in an infeasible case, whose result is thrown away.
type fifo struct {
	q    []uint32
	head int
}

func (f *fifo) push(v uint32) { f.q = append(f.q, v) }

func (f *fifo) pop() uint32 {
	if f.head == len(f.q) {
		return 0
	}
	v := f.q[f.head]
	if f.head++; f.head == len(f.q) {
		f.q, f.head = f.q[:0], 0
	} else if f.head > 4096 && f.head > len(f.q)/2 {
		f.q, f.head = f.q[:copy(f.q, f.q[f.head:])], 0
	}
	return v
}
