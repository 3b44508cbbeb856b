package cycle

import "math"

// PaperRates names a way to fill in the change rates, costs and capacity that the paper does not give.
type PaperRates int

// The two fits to the paper's tables.
const (
	// Lifetimes: the paper's table 2 interpolated linearly, rates times .8, capacity for one crawl of everything in a cycle, last weight .8.
	Lifetimes PaperRates = iota + 1
	// Power: a_i = .237 (1-q)^4.28, capacity for two, last weight .85.
	Power
)

// Paper is the instance of section 5: 255 buckets, 510 million pages that double in 400 days, periods of a day. Version 1 has 2 million pages in every
// bucket; version 2 has 3 million in the fastest 64 and the slowest 63 and 1 million between; version 3 is version 1 with half the change rates.
func Paper(strategy, version, periods int, rates PaperRates) *Model {
	const buckets = 255
	m := &Model{Periods: periods, NewCost: []float64{1}}
	last := .8
	if rates == Power {
		last = .85
	}
	w := Strategy1(periods)
	switch strategy {
	case 2:
		w = Strategy2(periods)
	case 3:
		w = Strategy3(periods, last)
	}
	total := 0.
	for i := range buckets {
		q := (float64(i) + .5) / buckets // bucket 0 changes fastest
		pages := 2e6
		if version == 2 {
			pages = 1e6
			if i < 64 || i >= buckets-63 {
				pages = 3e6
			}
		}
		a := .237 * math.Pow(1-q, 4.28)
		if rates == Lifetimes {
			a = -math.Expm1(-.8 / lifetime(q))
		}
		if version == 3 {
			a /= 2
		}
		total += pages
		m.Buckets = append(m.Buckets, Bucket{Pages: pages, Change: []float64{a}, Cost: []float64{1}, Weight: w})
	}
	for i := range m.Buckets {
		m.Buckets[i].Share = m.Buckets[i].Pages / total
	}
	m.NewWeight = w
	m.Arrive = total * math.Ln2 / 400
	m.New = m.Arrive
	m.Capacity = []float64{total / 14}
	if rates == Power {
		m.Capacity[0] *= 2
	}
	return m
}

// lifetime is the mean lifetime in days that a share q of pages does not reach: table 2, linear between its points.
func lifetime(q float64) float64 {
	days := [...]float64{1, 10, 100, 600}
	prob := [...]float64{0, .12, .40, 1}
	for k := 1; k < len(prob); k++ {
		if q <= prob[k] {
			return days[k-1] + (days[k]-days[k-1])*(q-prob[k-1])/(prob[k]-prob[k-1])
		}
	}
	return days[len(days)-1]
}
