// Package share decides which of several managers has which partition of the hosts: evenly, with as few moves as possible, and none to a manager that
// is leaving. Every manager asks it the same question and comes to the same answer, so that none has to tell another what to do: each gives what should
// be another's, and takes what is free and should be its own.
//
// It says as well what part of the swarm each manager may count on (Quotas), which moves to where the next crawl is worth most.
//
// It is not for who is alive (channel/postgres), nor for what a move does (package manager). It is pure.
package share

import (
	"cmp"
	"slices"

	"shoal/channel"
)

// Moves are what one manager does next.
type Moves struct {
	Give []uint8 // that it has and another should have
	Take []uint8 // that none has and it should have
}

// Next says what the manager of a tenancy does.
func Next(t *channel.Tenure, me channel.Epoch) (m Moves) {
	aim := Aim(t)
	for p := range channel.Parts {
		switch owner := t.Owner[p]; {
		case owner == me && aim[p] != me:
			m.Give = append(m.Give, uint8(p))
		case owner == 0 && aim[p] == me:
			m.Take = append(m.Take, uint8(p))
		}
	}
	return m
}

// Aim says who should have each partition; 0: nobody, as all managers are leaving. Each of n managers has 256/n, rounded down or up. Who has most
// already is rounded up, so that nothing moves that need not.
func Aim(t *channel.Tenure) (aim [channel.Parts]channel.Epoch) {
	room := rooms(t)
	for p, owner := range t.Owner { // who has one keeps it
		if n := room[owner]; n > 0 {
			aim[p], room[owner] = owner, n-1
		}
	}
	next := staying(t)
	for p := range aim {
		if aim[p] != 0 {
			continue
		}
		for len(next) > 0 && room[next[0]] == 0 {
			next = next[1:]
		}
		if len(next) == 0 {
			break
		}
		aim[p] = next[0]
		room[next[0]]--
	}
	return aim
}

// staying are the managers that take partitions, by ID.
func staying(t *channel.Tenure) (ids []channel.Epoch) {
	for i := range t.Tenants {
		if !t.Tenants[i].Leaving {
			ids = append(ids, t.Tenants[i].ID)
		}
	}
	slices.Sort(ids)
	return ids
}

// rooms is how many partitions each should have.
func rooms(t *channel.Tenure) map[channel.Epoch]int {
	ids, has := staying(t), map[channel.Epoch]int{}
	for _, owner := range t.Owner {
		has[owner]++
	}
	slices.SortStableFunc(ids, func(a, b channel.Epoch) int { return cmp.Compare(has[b], has[a]) })
	room := map[channel.Epoch]int{}
	for i, id := range ids {
		room[id] = channel.Parts / len(ids)
		if i < channel.Parts%len(ids) {
			room[id]++
		}
	}
	return room
}
