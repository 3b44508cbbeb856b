package share

import "math"

// Need is what a manager tells of its part of the swarm.
type Need struct {
	// Share is the part of the swarm that it asks for now; 0: it has just begun.
	Share float64
	// Price is what the last crawl that it asked for was worth; 0: it does not know yet.
	Price float64
}

// Bounds of quotas.
const (
	haste     = .1 // how much of what the prices say is done in one move
	leastPart = .1 // of an even share: nobody gets less, so that each goes on learning what crawls are worth to it
	mostStep  = 2. // times what prices differ, at most, that one move looks at
)

// Quotas moves capacity to where the next crawl is worth most, a little with each call, and says what share each manager has then. Where all are
// worth alike nothing moves. Those that do not know what a crawl is worth come to have even shares: else the one that began last would have less for
// ever. Each manager asks for all shares from what all have told, and takes its own.
func Quotas(needs []Need) []float64 {
	out := make([]float64, len(needs))
	if len(needs) == 0 {
		return out
	}
	even, known, sum := 1/float64(len(needs)), 0, 0.
	for i, n := range needs {
		if out[i] = n.Share; !(n.Share > 0) {
			out[i] = even
		}
		if n.Price > 0 {
			known++
			sum += math.Log(n.Price)
		}
	}
	for i, n := range needs {
		if !(n.Price > 0) {
			out[i] *= math.Pow(even/out[i], haste)
		} else {
			differs := math.Exp(math.Log(n.Price) - sum/float64(known))
			out[i] *= math.Pow(min(max(differs, 1/mostStep), mostStep), haste)
		}
	}
	level(out)
	for i := range out {
		out[i] = max(out[i], leastPart*even)
	}
	level(out)
	return out
}

// level has shares sum to 1.
func level(all []float64) {
	sum := 0.
	for _, s := range all {
		sum += s
	}
	for i := range all {
		all[i] /= sum
	}
}
