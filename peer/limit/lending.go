package limit

import "time"

// Budget is a number of bytes for a time, which several networks share.
type Budget struct {
	Whole  int64
	Begins time.Time
	Ends   time.Time
	Steps  int // equal parts of the time; at the end of each one, what was left unused is lent
}

// Waits returns for each network until when it must wait; the zero time: it may go on now.
//
// Each network has a share by its weight, and owns it until it has had the time to use it. A share's part for the steps that have passed is lent to networks
// that have used up theirs, as far as its owner has not used it. So a network that comes back always finds the part of its share for the time that
// remains, and a network that does nothing leaves the whole budget to the others in the end.
func (b Budget) Waits(now time.Time, weights []int, used []int64) []time.Time {
	out := make([]time.Time, len(weights))
	shares, sum, borrowed := make([]int64, len(weights)), int64(0), int64(0)
	for _, w := range weights {
		sum += int64(w)
	}
	for i, w := range weights {
		shares[i] = b.Whole * int64(w) / max(sum, 1)
		borrowed += max(used[i]-shares[i], 0)
	}
	length := b.Ends.Sub(b.Begins) / time.Duration(b.Steps)
	step := min(int64(max(now.Sub(b.Begins), 0)/max(length, 1)), int64(b.Steps)-1)
	lent := func(step int64) (bytes int64) {
		for i, s := range shares {
			bytes += max(s*step/int64(b.Steps)-used[i], 0)
		}
		return bytes
	}
	if lent(step) > borrowed {
		return out
	}
	again := b.Ends
	for s := int64(b.Steps) - 1; s > step && lent(s) > borrowed; s-- {
		again = b.Begins.Add(time.Duration(s) * length)
	}
	for i := range out {
		if used[i] >= shares[i] {
			out[i] = again
		}
	}
	return out
}
