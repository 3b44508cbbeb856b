package recrawlsim

import "math"

// ends holds running tasks by the minute in which they end, latest come first. A bucket is an array, not a list, so that all of it can be read at once.
type ends struct {
	of   [endWheel][]int32
	took []int32
}

const endWheel = 1 << 13

// add has a task looked at in the minute in which it ends, in the next one at the earliest; or earlier, if that is more than once round.
func (e *ends) add(minute int, end float64, i int32) {
	at := &e.of[max(int(math.Ceil(end)), minute+1)&(endWheel-1)]
	*at = append(*at, i)
}

// take empties a minute's bucket. What it returns holds until the next call.
func (e *ends) take(minute int) []int32 {
	at := &e.of[minute&(endWheel-1)]
	e.took = e.took[:0]
	for k := len(*at) - 1; k >= 0; k-- {
		e.took = append(e.took, (*at)[k])
	}
	*at = (*at)[:0]
	return e.took
}
