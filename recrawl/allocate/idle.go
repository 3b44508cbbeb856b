package allocate

// chooseSlots says how many slots of every group are used when there are more slots than tasks. It walks along the line, gives each task the
// cheapest slot behind it and each slot to the task behind it that gains most by moving, and leaves in two queues what undoing each step would cost: the
// regrets. O(n log n), and nearly O(n) where crawls do not bunch: slots left free are a stack, the last one best, and movers that have become too dear are dropped
// together. It agreed with a general solver on every random case tried; that it always does is not proved, so layers, which is exact for
// the slots chosen, computes the cost.
func chooseSlots(tasks []task, line *slotLine) ([]int32, error) {
	c := chooser{used: make([]int32, len(line.time))}
	i := 0
	for g, y := range line.time {
		for ; i < len(tasks) && tasks[i].t <= y; i++ {
			c.task(&tasks[i])
		}
		c.slots(int32(g), y, line.count[g])
	}
	for ; i < len(tasks); i++ {
		c.task(&tasks[i])
	}
	if c.unmatched > 0 {
		return nil, errRelease(tasks, int32(c.unmatched))
	}
	return c.used, nil
}

// chooser is the state of the walk.
type chooser struct {
	used      []int32
	unmatched int
	movers    regretHeap // tasks behind: v + y is what changes if one moves to a slot at y
	places    regretHeap // slots behind that have a task: v + x is what it costs to give one to a task at x
	free      []regret   // slots behind that have none; v falls, so the last one is cheapest
}

// task gives a task the cheapest slot behind it, if any may be had.
func (c *chooser) task(t *task) {
	cost, group := amount{1, 0}, int32(-1) // left without a slot
	if !t.release {
		n := len(c.free)
		switch {
		case n > 0 && (len(c.places) == 0 || !c.places[0].v.less(c.free[n-1].v)):
			cost, group = c.free[n-1].v.plus(t.t), c.free[n-1].group
			if c.free[n-1].n--; c.free[n-1].n == 0 {
				c.free = c.free[:n-1]
			}
		case len(c.places) > 0:
			if v := c.places[0].v.plus(t.t); v.less(cost) {
				cost, group = v, c.places[0].group
				c.places.pop()
			}
		}
	}
	if group >= 0 {
		c.used[group]++
	}
	c.unmatched += int(cost.inf)
	c.movers.push(regret{amount{-cost.inf, -cost.v - t.t}, group, 1})
}

// slots gives the slots of a group to tasks behind it that gain by moving there.
func (c *chooser) slots(g int32, y float64, count int32) {
	taken := int32(0)
	for taken < count && len(c.movers) > 0 {
		if !c.movers[0].v.plus(y).less(amount{}) { // nor will any other gain here, or at a later slot
			c.movers = c.movers[:0]
			break
		}
		m := c.movers.pop()
		c.unmatched += int(m.v.inf)
		if m.group >= 0 {
			c.used[m.group]--
		}
		c.used[g]++
		c.places.push(regret{amount{-m.v.inf, -m.v.v - 2*y}, m.group, 1})
		taken++
	}
	if left := count - taken; left > 0 {
		c.free = append(c.free, regret{amount{0, -y}, g, left})
	}
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
