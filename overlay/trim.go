package overlay

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"net/netip"
	"strings"
)

// trim keeps the nearest and, in each ring, a random choice of the others. Surplus entries are removed where one
// address prefix or account has most of a ring, beyond its share, and otherwise from the fullest ring.
func (t *table) trim(rng *rand.Rand) {
	if t.all > MaxTable { // a manager's sample of all: rings would only tell where the manager is
		for len(t.entries) > t.all {
			t.overfull = true
			t.remove(rng.IntN(len(t.entries)))
		}
		return
	}
	if len(t.entries) <= MaxTable {
		return
	}
	t.away()
	near := t.nearestOwn()
	var ring [mostEntries]int8 // of each entry; -1: one of the nearest, which stay
	var members [rings]set     // of each ring
	var count [rings]int
	for i, ms := range t.ms {
		if ring[i] = -1; !near.has(i) {
			k := ringAt(ms)
			ring[i] = int8(k)
			members[k].add(i)
			count[k]++
		}
	}
	for len(t.entries) > MaxTable {
		var k, n int
		var g group
		if t.grouped {
			k, g, n = t.crowd(&ring)
		}
		if n == 0 {
			for i := range count {
				if count[i] > count[k] {
					k = i
				}
			}
			n = count[k]
		}
		in := members[k] // the entries of which one goes
		if g.name != "" {
			for i := range t.entries {
				if t.entries[i].of(g.kind) != g.name {
					in.drop(i)
				}
			}
		}
		i := t.older(in.nth(rng.IntN(n)), in.nth(rng.IntN(n)))
		members[k].drop(i)
		count[k]--
		if last := len(t.entries) - 1; i != last {
			if ring[i] = ring[last]; ring[i] >= 0 {
				members[ring[i]].drop(last)
				members[ring[i]].add(i)
			}
		}
		t.remove(i)
	}
}

// nearestOwn marks the nearest entries, of one prefix or account only nearShare as long as there are others. It reads ms. Where no prefix or account is known,
// only the nearest need to be in order.
func (t *table) nearestOwn() (near set) {
	var room [mostEntries]far
	if !t.grouped {
		for _, f := range t.closest(room[:0]) {
			near.add(f.i)
		}
		return near
	}
	order := nearestOf(t.ms, room[:0], len(t.ms), math.MaxFloat64)
	kept := 0
	for _, bounded := range []bool{true, false} {
		for k, f := range order {
			if kept == nearestKept {
				return near
			}
			if !near.has(f.i) && !(bounded && t.full(order[:k], &near, f.i)) {
				near.add(f.i)
				kept++
			}
		}
	}
	return near
}

// far is the position of an entry and how far it is.
type far struct {
	ms float64
	i  int
}

// nearestOf sorts the positions of up to n of the shortest distances into best, the shortest first; of two that are the same the first comes first.
// None is longer than limit.
func nearestOf(ms []float64, best []far, n int, limit float64) []far {
	for i, d := range ms {
		if d > limit {
			continue
		}
		j := len(best)
		if j < n {
			best = append(best, far{})
		} else if j--; best[j].ms <= d {
			continue
		}
		for ; j > 0 && best[j-1].ms > d; j-- {
			best[j] = best[j-1]
		}
		best[j] = far{d, i}
	}
	return best
}

// closest are the nearest entries, nearest first. It reads ms. Mostly they are about as far as the last time, and the others need not be compared with one another.
func (t *table) closest(best []far) []far {
	within := 0
	for _, ms := range t.ms {
		if ms <= t.reach {
			within++
		}
	}
	limit := t.reach
	if within < nearestKept {
		limit = math.MaxFloat64
	}
	if best = nearestOf(t.ms, best, nearestKept, limit); len(best) > 0 {
		t.reach = best[len(best)-1].ms * farther
	}
	return best
}

// farther is how many times as far as the last of the nearest was those are looked at that may be of the nearest now.
const farther = 1.1

// full says whether the prefix or account of entry i has its share of the near ones among some entries.
func (t *table) full(some []far, near *set, i int) bool {
	for kind := range kinds {
		name := t.entries[i].of(kind)
		if name == "" {
			continue
		}
		same := 0
		for _, f := range some {
			if near.has(f.i) && t.entries[f.i].of(kind) == name {
				same++
			}
		}
		if same >= nearShare {
			return true
		}
	}
	return false
}

// group is who may be one and the same behind many members: of kind 0 an address prefix, of kind 1 an account.
type group struct {
	kind int
	name string
}

const kinds = 2

// of is the name of an entry's group of a kind; empty: unknown.
func (e *entry) of(kind int) string {
	switch {
	case e.more == nil:
		return ""
	case kind == 0:
		return e.more.prefix
	}
	return e.more.account
}

// crowd is the group that has the most of a ring, if that is more than its share, with the ring and how many it has; else none.
func (t *table) crowd(ring *[mostEntries]int8) (k int, worst group, most int) {
	most = ringShare
	for kind := range kinds {
		for i := range t.entries {
			name := t.entries[i].of(kind)
			if name == "" || ring[i] < 0 {
				continue
			}
			n := 0
			for j := range t.entries {
				if ring[j] == ring[i] && t.entries[j].of(kind) == name {
					n++
				}
			}
			if n > most {
				k, worst, most = int(ring[i]), group{kind, name}, n
			}
		}
	}
	if worst == (group{}) {
		most = 0
	}
	return k, worst, most
}

// Many members from one place or account are certain of at most this many of the nearest entries, and of a full ring,
// as long as there are others.
const (
	nearShare = 4
	ringShare = 2
)

// prefixOf is the network of the first public address among a record's: the first three bytes of an IPv4 address, the first three groups of an
// IPv6 one. Addresses that are not public tell nothing.
func prefixOf(addrs []string) string {
	for _, a := range addrs {
		parts := strings.SplitN(a, "/", 4)
		if len(parts) < 3 || parts[1] != "ip4" && parts[1] != "ip6" {
			continue
		}
		ip, err := netip.ParseAddr(parts[2])
		if err != nil || !ip.IsGlobalUnicast() || ip.IsPrivate() {
			continue
		}
		bits := 24
		if ip.Is6() {
			bits = 48
		}
		if p, err := ip.Prefix(bits); err == nil {
			return p.String()
		}
	}
	return ""
}

// mostEntries is how many entries a table has at any time that is to be trimmed: MaxTable and what one message brings.
const mostEntries = MaxTable + MaxNear

// set is some of a table's entries, a bit for each position.
type set [(mostEntries + 63) / 64]uint64

func (s *set) has(i int) bool { return s[i/64]>>(i%64)&1 != 0 }
func (s *set) add(i int)      { s[i/64] |= 1 << (i % 64) }
func (s *set) drop(i int)     { s[i/64] &^= 1 << (i % 64) }

// nth is the position of the n-th member, from 0; there must be so many.
func (s *set) nth(n int) int {
	k := 0
	for c := bits.OnesCount64(s[0]); n >= c; c = bits.OnesCount64(s[k]) {
		n -= c
		k++
	}
	w := s[k]
	for range n {
		w &= w - 1
	}
	return 64*k + bits.TrailingZeros64(w)
}
