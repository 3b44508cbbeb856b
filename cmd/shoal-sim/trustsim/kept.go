package trustsim

import (
	"slices"

	"shoal/manager/trust"
)

// kept counts page-time, in seconds, and fetches.
type kept struct {
	time, poison           float64 // of all pages; with a forged or falsely confirmed current version
	verified, verifiedLies float64
	provisional            float64
	target, targetPoison   float64
	fetches, audits        int
	arbiter                int
	tasks, anywhere        int // of all, and those that went to any peer, not to a near one
	honest, honestLost     int // audits of honest peers by honest checkers, and lost ones
}

// settle counts a page's kept time up to now. It is called before the page's record changes.
func (r *run) settle(i int, now int64) {
	p := &r.web.pages[i]
	dt := float64(now - p.settled)
	p.settled = now
	if dt <= 0 {
		return
	}
	k := &r.kept
	k.time += dt
	v := p.rec.Shown()
	bad := v != nil && (forged(v.Digest) || p.stale)
	if bad {
		k.poison += dt
	}
	switch {
	case v == nil:
	case v.State == trust.Verified:
		k.verified += dt
		if forged(v.Digest) {
			k.verifiedLies += dt
		}
	default:
		k.provisional += dt
	}
	if r.attack.target && r.isTarget(i) {
		k.target += dt
		if bad {
			k.targetPoison += dt
		}
	}
}

func (r *run) isTarget(i int) bool {
	for n := range r.web.sites {
		if s := &r.web.sites[n]; s.target {
			return i >= s.first && i < s.first+s.pages
		}
	}
	return false
}

// Row is the result of one simulation. Shares are fractions.
type Row struct {
	Attack      string  `json:"attack"`
	F           float64 `json:"f"`
	Defence     string  `json:"defence"`
	Seed        uint64  `json:"seed"`
	Poison      float64 `json:"poison"`
	Verified    float64 `json:"verified_forged"`
	Target      float64 `json:"target_poison"`
	Extra       float64 `json:"extra"`
	Arbiter     float64 `json:"arbiter"`
	Honest      float64 `json:"honest_suspended_1000y"`
	P50         float64 `json:"tasks_to_suspend_p50"`
	P90         float64 `json:"tasks_to_suspend_p90"`
	Provisional float64 `json:"provisional_share"`

	lost   float64 // audits of honest peers that they lost
	honest Honest
	credit Credit
}

// row sums a simulation up. Liars that were never suspended count as infinitely many tasks, which JSON writes as -1.
func (r *run) row(s setup) Row {
	k := &r.kept
	row := Row{Attack: s.attack.name, F: s.f, Defence: s.defence.name, Seed: s.seed, Poison: k.poison / k.time, Verified: ratio(k.verifiedLies, k.verified),
		Target: ratio(k.targetPoison, k.target), Extra: float64(k.audits+k.arbiter) / float64(k.fetches), Arbiter: float64(k.arbiter) / float64(k.fetches),
		Provisional: ratio(k.provisional, k.provisional+k.verified), lost: ratio(float64(k.honestLost), float64(k.honest)),
		credit: r.credits()}
	years, suspended := 0., 0.
	var tasks []float64
	for _, m := range r.members {
		if m.liar {
			if m.gone {
				tasks = append(tasks, float64(m.lied))
			} else if m.lied > 0 {
				tasks = append(tasks, never)
			}
			continue
		}
		until := r.last
		if m.gone {
			until = m.ended
			suspended++
		}
		years += float64(until-m.joined) / (365.25 * 86400)
	}
	row.Honest, row.honest = suspended/years*1000, Honest{suspended, years, ratio(float64(k.anywhere), float64(k.tasks))}
	row.P50, row.P90 = quantile(tasks, .5), quantile(tasks, .9)
	return row
}

const never = 1e9

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// quantile of the tasks until suspension; -1: the liar at it was never suspended, or there was none.
func quantile(x []float64, q float64) float64 {
	if len(x) == 0 {
		return -1
	}
	slices.Sort(x)
	if v := x[min(int(q*float64(len(x))), len(x)-1)]; v < never {
		return v
	}
	return -1
}
