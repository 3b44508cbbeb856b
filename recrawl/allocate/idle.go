package allocate

// chooseSlots says how many slots of every group are used when there are more slots than tasks. It walks along the line, gives each task the
// cheapest slot behind it and each slot to the task behind it that gains most by moving, and leaves in two heaps what undoing each step would cost: the
// regrets. O(n log n). It agreed with a general solver on every random case tried; that it always does is not proved, so layers, which is exact for
// the slots chosen, computes the cost.
func chooseSlots(tasks []task, line *slotLine) ([]int32, error) {
	used := make([]int32, len(line.time))
	movers := regretHeap{} // tasks behind: v + y is what changes if one moves to a slot at y
	places := regretHeap{} // slots behind: v + x is what it costs to give one to a task at x
	take := func(g int32, n int32) {
		if g >= 0 {
			used[g] += n
		}
	}
	unmatched := 0
	i := 0
	visit := func(t task) {
		cost, gain := amount{1, 0}, int32(-1) // left without a slot
		if !t.release && len(places) > 0 {
			if c := places[0].v.plus(t.t); c.less(cost) {
				cost, gain = c, places[0].group
				places.pop()
			}
		}
		take(gain, 1)
		unmatched += int(cost.inf)
		movers.push(regret{amount{-cost.inf, -cost.v - t.t}, gain, 1})
	}
	for g, y := range line.time {
		for ; i < len(tasks) && tasks[i].t <= y; i++ {
			visit(tasks[i])
		}
		taken := int32(0)
		for taken < line.count[g] && len(movers) > 0 && movers[0].v.plus(y).less(amount{}) {
			m := movers.pop()
			unmatched += int(m.v.inf)
			take(m.group, -1)
			take(int32(g), 1)
			places.push(regret{amount{-m.v.inf, -m.v.v - 2*y}, m.group, 1})
			taken++
		}
		if taken > 0 {
			movers.push(regret{amount{0, -y}, int32(g), taken})
		}
		if free := line.count[g] - taken; free > 0 {
			places.push(regret{amount{0, -y}, int32(g), free})
		}
	}
	for ; i < len(tasks); i++ {
		visit(tasks[i])
	}
	if unmatched > 0 {
		return nil, errRelease(tasks, int32(unmatched))
	}
	return used, nil
}

// amount counts tasks without a slot before it counts time.
type amount struct {
	inf int32
	v   float64
}

func (a amount) plus(t float64) amount { return amount{a.inf, a.v + t} }
func (a amount) less(b amount) bool    { return a.inf < b.inf || a.inf == b.inf && a.v < b.v }

// regret is n equal entries of a heap; group is the group of slots of which one more is used when a place is given away, or one fewer when a mover moves.
type regret struct {
	v     amount
	group int32
	n     int32
}

type regretHeap []regret

func (h *regretHeap) push(r regret) {
	*h = append(*h, r)
	a := *h
	for i := len(a) - 1; i > 0; {
		p := (i - 1) / 2
		if !a[i].v.less(a[p].v) {
			break
		}
		a[i], a[p] = a[p], a[i]
		i = p
	}
}

// pop takes one entry.
func (h *regretHeap) pop() regret {
	a := *h
	top := a[0]
	if a[0].n > 1 {
		a[0].n--
		top.n = 1
		return top
	}
	n := len(a) - 1
	a[0] = a[n]
	a = a[:n]
	*h = a
	for i := 0; ; {
		c := 2*i + 1
		if c >= n {
			break
		}
		if c+1 < n && a[c+1].v.less(a[c].v) {
			c++
		}
		if !a[c].v.less(a[i].v) {
			break
		}
		a[i], a[c] = a[c], a[i]
		i = c
	}
	return top
}
