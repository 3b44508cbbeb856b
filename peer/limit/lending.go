package limit

import (
	"math/bits"
	"slices"
	"time"
)

// Budget is a number of bytes for a time, which several networks share.
type Budget struct {
	Whole  int64
	Begins time.Time
	Ends   time.Time
	Steps  int // equal parts of the time; after each one, what was left unused is lent
}

// Lending divides a budget among networks. Each has a share by its weight, and owns it until it has had the time to use it: of what a network has left, the
// part beyond its share for the time that remains goes to networks that have used theirs up. So a network that comes back always finds the part of its
// share for the time that remains, and one that does nothing leaves the whole budget to the others in the end. The zero value has lent nothing.
type Lending struct {
	budget  Budget
	who     []string
	weights []int
	allowed []int64 // by network; together at most the whole
}

// Waits returns for each network until when it must wait; the zero time: it may go on now.
func (l *Lending) Waits(b Budget, now time.Time, who []string, weights []int, used []int64) []time.Time {
	step := b.step(now)
	if l.budget != b || !slices.Equal(l.who, who) || !slices.Equal(l.weights, weights) {
		l.begin(b, step, who, weights, used)
	}
	spare, pool := l.spare(step, used)
	hungry, sum := 0, int64(0)
	for i := range used {
		if used[i] >= l.allowed[i] {
			hungry++
			sum += int64(weights[i])
		}
	}
	out := make([]time.Time, len(who))
	if hungry == 0 {
		return out
	}
	if pool > 0 {
		left := pool
		for i := range used {
			if used[i] < l.allowed[i] {
				l.allowed[i] -= spare[i]
				continue
			}
			part := pool * int64(weights[i]) / sum
			if hungry--; hungry == 0 {
				part = left // what does not divide goes to the last one
			}
			l.allowed[i] += part
			left -= part
		}
	}
	again := b.Ends
	for s := b.Steps - 1; s > step; s-- {
		if _, pool := l.spare(s, used); pool > 0 {
			again = b.at(s)
		}
	}
	for i := range used {
		if used[i] >= l.allowed[i] {
			out[i] = again
		}
	}
	return out
}

// begin gives each network its share. What one has used beyond it, as it is after a restart, the others have lent it.
func (l *Lending) begin(b Budget, step int, who []string, weights []int, used []int64) {
	*l = Lending{b, slices.Clone(who), slices.Clone(weights), make([]int64, len(who))}
	over := int64(0)
	for i := range who {
		l.allowed[i] = l.share(i)
		if more := used[i] - l.allowed[i]; more > 0 {
			l.allowed[i] += more
			over += more
		}
	}
	spare, pool := l.spare(step, used)
	for i := range who {
		if over > 0 && pool > 0 {
			l.allowed[i] -= min(spare[i], portion(over, spare[i], pool))
		}
	}
}

// portion is all*part/of, rounded up. The product may have more than 64 bits; part is at most of.
func portion(all, part, of int64) int64 {
	hi, lo := bits.Mul64(uint64(all), uint64(part))
	q, rest := bits.Div64(hi, lo, uint64(of))
	if rest > 0 {
		q++
	}
	return int64(q)
}

func (l *Lending) share(i int) int64 {
	sum := int64(0)
	for _, w := range l.weights {
		sum += int64(w)
	}
	return l.budget.Whole * int64(l.weights[i]) / max(sum, 1)
}

// spare returns what each network can lend after some steps, and all of that.
func (l *Lending) spare(step int, used []int64) (each []int64, pool int64) {
	each = make([]int64, len(used))
	steps := int64(l.budget.Steps)
	for i := range used {
		own := (l.share(i)*(steps-int64(step)) + steps - 1) / steps // for the time that remains
		each[i] = max(l.allowed[i]-used[i]-own, 0)
		pool += each[i]
	}
	return each, pool
}

// step is how many steps have passed.
func (b Budget) step(now time.Time) int {
	length := max(b.Ends.Sub(b.Begins)/time.Duration(b.Steps), 1)
	return int(min(max(now.Sub(b.Begins), 0)/length, time.Duration(b.Steps-1)))
}

// at is when so many steps have passed.
func (b Budget) at(step int) time.Time {
	return b.Begins.Add(time.Duration(step) * (b.Ends.Sub(b.Begins) / time.Duration(b.Steps)))
}
