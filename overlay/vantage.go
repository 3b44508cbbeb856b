package overlay

import (
	"math"
	"math/rand/v2"
	"slices"

	"shoal/coords"
)

// Measuring a host of which little is known: after some random peers, up to NearRounds times NearProbes near ones, as long as the
// shortest time found falls below NearGain of what it was.
const (
	NearRounds = 4
	NearProbes = 4
	NearGain   = .9
)

// The parameters of choosing who measures.
const (
	guesses   = 64 // places that a host may be at, at most
	sharpness = 12 // how much likelier a place is whose misfit is less by one
)

// NearVantages chooses up to n of the known peers to time a host next: those that are probably nearest to it by the samples so far; random ones where there
// are none.
func NearVantages(r *coords.HostRecord, known []PeerRecord, n int, rng *rand.Rand) []PeerRecord {
	var takers []PeerRecord
	for _, p := range known {
		if p.Load.Threads > 0 {
			takers = append(takers, p)
		}
	}
	if len(r.Samples) > 0 {
		timed := make(map[ID]bool, len(r.Samples))
		for i := range r.Samples {
			timed[ID(r.Samples[i].Vantage)] = true
		}
		return likely(r, takers, func(id ID) bool { return timed[id] }, n, rng)
	}
	rng.Shuffle(len(takers), func(i, j int) { takers[i], takers[j] = takers[j], takers[i] })
	return takers[:min(n, len(takers))]
}

// likely chooses n of some peers to time a host, none that is skipped. Each peer's own place is a guess where the host may be, the likelier the less it contradicts
// the samples (HostRecord.Misfit). The first one chosen is nearest to the best guess; for each other one a guess is drawn by its likelihood, and whoever is nearest
// to that is chosen (Thompson, "On the likelihood that one unknown probability exceeds another", Biometrika 1933). To choose the best four instead asks
// four peers of one building mostly, and where the samples mislead, of the wrong one.
func likely(r *coords.HostRecord, peers []PeerRecord, skip func(ID) bool, n int, rng *rand.Rand) []PeerRecord {
	best := make([]ranked, 0, guesses+1)
	for i := range peers {
		best = rank(best, guesses, ranked{r.Misfit(peers[i].Coord), &peers[i]})
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
	for i := range peers {
		if !skip(peers[i].ID) {
			fresh = append(fresh, &peers[i])
		}
	}
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
		out = append(out, *fresh[i])
		fresh = slices.Delete(fresh, i, i+1)
	}
	return out
}

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
