package overlay

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"shoal/coords"
)

// Measuring a host of which little is known: after some random peers, up to NearRounds times NearProbes near ones,
// until one is as near as NearEnough. If a round finds no nearer peer, the next one looks elsewhere.
const (
	NearRounds = 4
	NearProbes = 4
	NearEnough = 2 * time.Millisecond
)

// The parameters of choosing who measures.
const (
	guesses   = 64 // places that a host may be at, at most
	sharpness = 12 // how much likelier a place is whose misfit is less by one
	ruledOut  = .3 // who is nearer to a vantage than this part of what it is too far is too far too
	asunder   = .2 // those who measure at a time are this part of the shortest time from one another
)

// NearVantages chooses up to n of the known peers to time a host next: those that are probably nearest to it by the samples so far; random ones where there
// are none.
func NearVantages(r *coords.HostRecord, known []PeerRecord, n int, rng *rand.Rand) []PeerRecord {
	takers := make([]*PeerRecord, 0, len(known))
	for i := range known {
		if known[i].Load.Threads > 0 {
			takers = append(takers, &known[i])
		}
	}
	return vantagesOf(r, takers, n, rng)
}

// vantagesOf chooses among peers that take tasks. It changes their order.
func vantagesOf(r *coords.HostRecord, takers []*PeerRecord, n int, rng *rand.Rand) []PeerRecord {
	if len(r.Samples) > 0 {
		timed := make(map[ID]bool, len(r.Samples))
		for i := range r.Samples {
			timed[ID(r.Samples[i].Vantage)] = true
		}
		return likely(r, takers, func(id ID) bool { return timed[id] }, n, rng)
	}
	rng.Shuffle(len(takers), func(i, j int) { takers[i], takers[j] = takers[j], takers[i] })
	var out []PeerRecord
	for _, p := range takers[:min(n, len(takers))] {
		out = append(out, *p)
	}
	return out
}

// likely chooses n of some peers to time a host, and none that skip refuses. Each peer's own place is a guess of the
// host's place; the guess is the likelier the less it contradicts the samples (HostRecord.Misfit). The first chosen
// peer is nearest to the best guess. For each other one, likely draws a guess by its likelihood and takes the peer
// nearest to it (Thompson, "On the likelihood that one unknown probability exceeds another", Biometrika 1933).
// Choosing the best four instead would mostly ask four peers of one building, and of the wrong one if the samples
// mislead. likely leaves out peers beside a vantage that has proved far from the host (by the triangle inequality,
// which the Internet keeps only roughly), and peers beside another chosen one.
func likely(r *coords.HostRecord, peers []*PeerRecord, skip func(ID) bool, n int, rng *rand.Rand) []PeerRecord {
	best := make([]ranked, 0, guesses+1)
	for _, p := range peers {
		best = rank(best, guesses, ranked{r.Misfit(p.Coord), p})
	}
	if len(best) == 0 {
		return nil
	}
	weight := make([]float64, len(best))
	sum := 0.
	for i, g := range best {
		weight[i] = math.Exp(sharpness * (best[0].ms - g.ms))
		sum += weight[i]
	}
	fresh := make([]*PeerRecord, 0, len(peers))
	for _, p := range peers {
		if !skip(p.ID) {
			fresh = append(fresh, p)
		}
	}
	least := math.Inf(1)
	for i := range r.Samples {
		least = min(least, milliseconds(r.Samples[i].RTT))
	}
	fresh = without(fresh, n, func(p *PeerRecord) bool {
		for i := range r.Samples {
			if s := &r.Samples[i]; coords.Apart(&p.Coord, &s.At) < ruledOut*(milliseconds(s.RTT)-least) {
				return true
			}
		}
		return false
	})
	var out []PeerRecord
	for k := 0; k < n && len(fresh) > 0; k++ {
		guess := best[0].rec.Coord
		if k > 0 {
			i := 0
			for x := rng.Float64() * sum; i < len(weight)-1 && x >= weight[i]; i++ {
				x -= weight[i]
			}
			guess = best[i].rec.Coord
		}
		guess.Height, guess.Adjust = 0, 0
		i := nearestTo(&guess, fresh)
		chosen := fresh[i]
		out = append(out, *chosen)
		fresh = without(slices.Delete(fresh, i, i+1), n-k-1, func(p *PeerRecord) bool { return coords.Apart(&p.Coord, &chosen.Coord) < asunder*least })
	}
	return out
}

// without are the peers of which bad is not true, if these are at least n; else all.
func without(peers []*PeerRecord, n int, bad func(*PeerRecord) bool) []*PeerRecord {
	good := make([]*PeerRecord, 0, len(peers))
	for _, p := range peers {
		if !bad(p) {
			good = append(good, p)
		}
	}
	if len(good) < n {
		return peers
	}
	return good
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// nearestTo is the index of the peer that is nearest to a place; of two at one distance the id decides.
func nearestTo(at *coords.Coord, peers []*PeerRecord) int {
	best, least := 0, math.Inf(1)
	for i, p := range peers {
		if d := coords.Distance(&p.Coord, at); d < least || d == least && p.ID < peers[best].ID {
			best, least = i, d
		}
	}
	return best
}
