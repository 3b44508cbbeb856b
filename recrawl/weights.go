package recrawl

import (
	"fmt"
	"slices"
	"strings"
)

// Weights say what a channel counts beside others, before its own importance.
type Weights string

// The ways. By pages, a large site is worth what it costs: with equal weights the strategies that know costs would leave the large ones to the last.
const (
	EqualWeights Weights = "equal" // each as much as any other
	RankWeights  Weights = "rank"  // by its group: 16, 8, 4, 2, 1 for five groups, fastest first
	PageWeights  Weights = "pages" // by its pages, in means of all channels
)

// Validate reports whether the weights are known.
func (w Weights) Validate() error {
	all := []Weights{PageWeights, EqualWeights, RankWeights}
	if slices.Contains(all, w) {
		return nil
	}
	return fmt.Errorf("recrawl: weights %q: want one of %s", string(w), strings.Trim(fmt.Sprint(all), "[]"))
}

// Of is the weight of a channel of pages pages in one of so many groups. mean is the mean number of pages of all channels. A number of 0 is
// unknown and counts as the mean.
func (w Weights) Of(pages, mean float32, group, groups int) float32 {
	switch {
	case w == RankWeights:
		return float32(int(1) << (groups - 1 - group))
	case w == PageWeights && pages > 0 && mean > 0:
		return pages / mean
	}
	return 1
}

// Weigh changes what a slot counts beside others.
func (s *Scheduler) Weigh(at Slot, weight float32) {
	c := s.cells.at(at)
	if c.Flags&gone != 0 || c.Weight == weight {
		return
	}
	s.unplace(at, c)
	c.Weight = weight
	s.place(at, c)
}
