package recrawlsim

import "math"

// dual bounds the freshness that any schedule of mode shoal reaches in the long run, by what its peers can do where they are. It is the Lagrangian dual of a
// transport problem:
//
//	maximise   sum over channels c of F_c(sum over its near peers p of x_cp / pages_c)
//	such that  sum over c of x_cp m_cp <= the thread minutes that p has,
//	           and no channel is updated more often than mostOften says.
//
// x_cp is how many pages of c peer p downloads a minute, m_cp how many minutes of a thread a page takes there, its distance counted; F_c(r) is how fresh c
// is if it is updated r times a minute at even distances, which is the best way. F_c is concave, so that no schedule in which peers come and go,
// and tasks go on elsewhere, exceeds it on average. With a price for the minutes of each peer every channel answers for itself, and whatever the prices are,
// what all of it is worth is an upper bound. The prices are improved step by step.
//
// Beside that each quartile of channels by size may have to be as fresh as told. A prize for the freshness of its channels takes the place of that condition: a
// schedule that meets it gains at least as much by the prizes as it must, so that again any prizes give a bound.
//
// It leaves out that rates are learnt, that tasks wait, that threads take whole tasks, and that intervals are uneven. It holds from the time on at which the first
// quarter of the minutes is over. What was crawled before may add to these minutes, at most as much as two crawls of each channel.
type dual struct {
	w      *world
	most   []float64
	gain   gains
	supply []float64 // thread minutes of each peer, a minute
	price  []float64 // of one of them, in channels that are fresh
	prize  quartiles // for the freshness of a channel of each quartile of size, beside its own
	demand []float64 // minutes that are asked for at these prices
	soft   float64   // a peer that is dearer by such a share gets 1/e of the work
	free   float64   // updates a minute that each channel has beside them
	costs  []float64
	near   []int32

	minutes []float64 // of a page of each channel at each of its near peers; nil: there are too many, and each is reckoned when it is needed
	of      []float64 // of the channel that cheapest was called for
}

const (
	dualWork  = 300_000_000 // distances looked at, about
	dualSteps = 80          // at most
	dualSoft  = .02         // soft, at first
	dualEven  = 40          // steps in which the prices come to rest at that
	dualHalf  = 10          // further steps in which soft halves: what it lets stray to dearer peers loosens the bound
	dualSpeed = .1          // of the prices of single peers, at first
	dualAll   = 1           // of all prices together, by how much more is asked for than there is
	dualPrize = 3           // of the prizes
	dualKeeps = 1 << 22     // minutes of pages that are kept: 32 MiB
	largest   = 3           // quartile
)

// newDual begins with the same price of a page everywhere: what the last one is worth if distances do not count.
func newDual(w *world, most []float64) *dual {
	d := &dual{w: w, most: most, gain: newGains(), supply: w.threadMinutes(w.steps / 4)}
	d.price, d.demand = make([]float64, len(d.supply)), make([]float64, len(d.supply))
	page := w.pagePrice(d.gain, most, w.pagesPerMinute())
	for p, v := range w.perPage {
		d.price[p] = page * 60 / float64(v)
	}
	if n := len(most) * w.near.each; n <= dualKeeps {
		d.minutes = make([]float64, 0, n)
		for c := range most {
			d.near = w.near.list(int32(c), d.near[:0])
			d.minutes = d.reckon(int32(c), d.minutes)
		}
	}
	return d
}

// reckon appends the minutes of a page of a channel at each of its near peers.
func (d *dual) reckon(c int32, to []float64) []float64 {
	for _, p := range d.near {
		to = append(to, d.w.minutesPerPage(c, p))
	}
	return to
}

// quartiles is a freshness for each quartile of channels by size, smallest first.
type quartiles [4]float64

// bound is the least that the dual is found to be. atLeast is how fresh each quartile of channels must be at least. It goes on from the prices that it
// ended with.
func (d *dual) bound(atLeast quartiles) float64 {
	best := math.Inf(1)
	d.prize = quartiles{}
	for step := range min(max(dualWork/(len(d.most)*d.w.near.each), 1), dualSteps) {
		d.soft = dualSoft * math.Exp2(-max(float64(step)-dualEven, 0)/dualHalf)
		worth, fresh, count := d.answer()
		for q, a := range atLeast {
			worth -= d.prize[q] * a * count[q]
		}
		best = min(best, worth/float64(len(d.most)))
		speed := dualSpeed / math.Sqrt(1+float64(step)/4) * math.Sqrt(d.soft/dualSoft)
		all := dualAll * min(max(ratio(sum(d.demand), sum(d.supply))-1, -1), 1)
		for p, s := range d.supply {
			if s > 0 {
				d.price[p] *= math.Exp(all + speed*min(max(d.demand[p]/s-1, -1), 1))
			}
		}
		for q, a := range atLeast {
			if a > 0 && count[q] > 0 {
				d.prize[q] = max(d.prize[q]+dualPrize*(a-fresh[q]/count[q]), 0)
			}
		}
	}
	return best
}

// promise bounds the schedules that leave each quartile of channels at least as fresh as fixed does, if it is among the rows of a seed.
func (d *dual) promise(rows []Row) {
	fixed := byStrategy(rows, "fixed")
	if len(fixed) == 0 {
		return
	}
	least := quartiles(fixed[0].SettledQuartile)
	kept := d.bound(least)
	for i := range rows {
		r := &rows[i]
		r.KeptBound, r.Keeps = kept, math.Inf(1)
		for q, a := range least {
			if a > 0 {
				r.Keeps = min(r.Keeps, r.SettledQuartile[q]/a)
			}
		}
		if math.IsInf(r.Keeps, 1) { // fixed has crawled nothing
			r.Keeps = 0
		}
	}
}

// answer lets each channel take what is best for it at these prices, and gives what all is worth: the freshness, prizes counted, less what it costs, and
// what all minutes are worth. It also gives the sum of the freshness of each quartile, and its channels.
func (d *dual) answer() (worth float64, fresh, count quartiles) {
	clear(d.demand)
	for p, s := range d.supply {
		worth += d.price[p] * s
	}
	for c, most := range d.most {
		q := d.w.quartile[c]
		tau, pages, prize := d.w.tau[c], float64(d.w.pages[c]), 1+d.prize[q]
		count[q]++
		page := d.cheapest(int32(c))
		r := max(min(most, 1/(d.gain.longest(page*pages/(tau*prize))*tau)-d.free), 0)
		if r+d.free == 0 {
			continue
		}
		x := 1 / ((r + d.free) * tau)
		f := -math.Expm1(-x) / x
		worth += prize*f - r*pages*page
		fresh[q] += f
		d.spread(page, r*pages)
	}
	return worth, fresh, count
}

// cheapest is the least price of a page of a channel, of its near peers that are ever there.
func (d *dual) cheapest(c int32) float64 {
	d.near = d.w.near.list(c, d.near[:0])
	if d.minutes != nil {
		d.of = of(d.minutes, d.w.near.each, c)
	} else {
		d.of = d.reckon(c, d.of[:0])
	}
	d.costs = d.costs[:0]
	least := math.Inf(1)
	for i, p := range d.near {
		cost := math.Inf(1)
		if d.supply[p] > 0 {
			cost = d.price[p] * d.of[i]
		}
		d.costs = append(d.costs, cost)
		least = min(least, cost)
	}
	return least
}

// spread gives the pages to the peers that are the cheapest or nearly so: with all at the cheapest prices would swing. It only steers the prices, and any prices
// give a bound, so that neither how soft it is nor when that halves can make the bound too low.
func (d *dual) spread(least, pages float64) {
	sum, most := 0., least*(1+7*d.soft) // which is surely too dear, without a division
	for i, cost := range d.costs {
		if cost > most {
			d.costs[i] = 0
			continue
		}
		x := (cost/least - 1) / d.soft
		if x > 6 {
			d.costs[i] = 0
			continue
		}
		d.costs[i] = math.Exp(-x)
		sum += d.costs[i]
	}
	for i, share := range d.costs {
		if share > 0 {
			p := d.near[i]
			d.demand[p] += share / sum * pages * d.of[i]
		}
	}
}

// threadMinutes is how many minutes of its threads each peer has, a minute, from a minute on to the end.
func (w *world) threadMinutes(from int) []float64 {
	n := threads
	if w.scale != nil {
		n = w.scale.Threads
	}
	since, sum := make([]int, len(w.perPage)), make([]float64, len(w.perPage))
	here := newPresence(w)
	here.begin(w, func(c int32) { since[c] = 0 })
	for minute := range w.steps {
		here.step(minute, w, func(c int32) { since[c] = minute }, func(c int32, _ bool) { sum[c] += float64(max(minute-max(since[c], from), 0)) })
	}
	for c, alive := range here.alive {
		if alive {
			sum[c] += float64(w.steps - max(since[c], from))
		}
		sum[c] *= float64(n) / float64(max(w.steps-from, 1))
	}
	return sum
}
