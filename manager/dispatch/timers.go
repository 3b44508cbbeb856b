package dispatch

// timers are a heap, the earliest first.
type timers []timer

func (h *timers) push(t timer) {
	*h = append(*h, t)
	q := *h
	for i := len(q) - 1; i > 0; {
		up := (i - 1) / 2
		if q[up].at <= t.at {
			break
		}
		q[i], q[up] = q[up], t
		i = up
	}
}

func (h *timers) pop() timer {
	q := *h
	top := q[0]
	last := len(q) - 1
	q[0] = q[last]
	*h = q[:last]
	h.down(0)
	return top
}

// keep forgets the timers that are of no use.
func (h *timers) keep(use func(timer) bool) {
	kept := (*h)[:0]
	for _, t := range *h {
		if use(t) {
			kept = append(kept, t)
		}
	}
	*h = kept
	for i := len(kept)/2 - 1; i >= 0; i-- {
		h.down(i)
	}
}

func (h *timers) down(i int) {
	q := *h
	if i >= len(q) {
		return
	}
	t := q[i]
	for {
		child := 2*i + 1
		if child >= len(q) {
			break
		}
		if child+1 < len(q) { // the earlier one, without a branch: which it is is chance
			child += int(uint64(q[child+1].at-q[child].at) >> 63)
		}
		if t.at <= q[child].at {
			break
		}
		q[i] = q[child]
		i = child
	}
	q[i] = t
}
