package overlaysim

import "shoal/internal/haul"

// bound is for the least mean round-trip time with which the peers could have done the tasks that they did: a transport problem of pages over the peers'
// thread time. A peer's time is counted as if all hosts were at its side, so that nothing can come below the bound.
type bound struct {
	tasks []*task   // that were placed while it was counted
	there []float64 // minutes that each member was there meanwhile
}

const boundPeers = 200 // with more peers it would take too long

// look counts a minute of a member.
func (b *bound) look(s *swarm, member int) {
	if b.there == nil {
		b.there = make([]float64, len(s.pageTime))
	}
	b.there[member]++
}

// least is the bound in milliseconds; 0: it is not known.
func (b *bound) least(s *swarm) float64 {
	if len(b.tasks) == 0 || s.c.Peers > boundPeers {
		return 0
	}
	var pages, room []float64
	var who []int
	for _, t := range b.tasks {
		pages = append(pages, t.pages)
	}
	for i, minutes := range b.there {
		if minutes > 0 {
			room, who = append(room, minutes*60*threads/s.pageTime[i]), append(who, i)
		}
	}
	// Tasks that began before and ended meanwhile, or began and go on, are as many; a rounding must not make the problem insoluble.
	if need, have := sum(pages), sum(room); need > have {
		for i := range room {
			room[i] *= need / have * (1 + 1e-9)
		}
	}
	total, err := haul.Least(pages, room, func(i, j int) float64 { return s.n.ground.rtt(who[j], b.tasks[i].place) / pages[i] })
	if err != nil {
		return 0
	}
	return total / float64(len(b.tasks))
}

func sum(v []float64) (all float64) {
	for _, x := range v {
		all += x
	}
	return all
}

func mean(v []float64) float64 { return sum(v) / float64(max(len(v), 1)) }
