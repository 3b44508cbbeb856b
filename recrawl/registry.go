package recrawl

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"

	"shoal/recrawl/cycle"
)

// strategies is the table of all strategies: how to make each, and which parameters it reads. A name's line here is all that New, the
// operator's commands and the simulator need.
var strategies = map[string]struct {
	make  func(Params) Strategy
	reads []string // fields of Params, in lower case
}{
	"fixed":        {func(p Params) Strategy { return newInterval("fixed", p, .36, 2) }, nil},
	"iir":          {func(p Params) Strategy { return newInterval("iir", p, .36, 2) }, []string{"delta", "sigma", "mu", "iir"}},
	"icr":          {func(p Params) Strategy { return newInterval("icr", p, .38, 3) }, []string{"delta", "sigma", "mu"}},
	"price":        {func(p Params) Strategy { return newPrice("price", p, freshIndex{}) }, priceParams},
	"uniform":      {costless("uniform", ageIndex{}), []string{"targetwait"}},
	"proportional": {costless("proportional", ratioIndex{}), []string{"targetwait"}},
	"lambda":       {costless("lambda", lambdaIndex{}), []string{"targetwait"}},
	"optimal":      {func(p Params) Strategy { return newOptimal(p) }, slices.Concat(priceParams, []string{"planevery"})},
	"cycle":        {func(p Params) Strategy { return newCyclic(p) }, slices.Concat(priceParams, []string{"planevery", "periods"})},
	"adaptive":     {func(p Params) Strategy { return &adaptive{storm: p.Rule == "stormcrawler"} }, []string{"rule"}},
}

var priceParams = []string{"targetwait", "costbase", "costknee", "costshare", "nocost", "nosurvival", "nocorners"}

// costless makes the machine of price with another index, for which all tasks cost the same.
func costless(name string, ix index) func(Params) Strategy {
	return func(p Params) Strategy {
		p.NoCost = true
		return newPrice(name, p, ix)
	}
}

// Params are the parameters of all strategies. A zero field means the strategy's own default.
type Params struct {
	Delta float64 `json:"delta,omitempty"` // iir, icr: encouragement, in [0, 1); default .36 (iir), .38 (icr)
	Sigma float64 `json:"sigma,omitempty"` // iir, icr: smallest multiple between neighbouring groups where order was lost; default 1.5
	Mu    float64 `json:"mu,omitempty"`    // iir, icr: largest multiple; default 2 (iir), 3 (icr)
	IIR   string  `json:"iir,omitempty"`   // iir: "pooled" or "channel" mean of the gaps between updates; default pooled

	TargetWait float64 `json:"targetwait,omitempty"` // price and its kin: mean ticks that a task should wait for its start; default 100 where peers tell it beforehand, else 60
	CostBase   float64 `json:"costbase,omitempty"`   // price: ticks added to a task's own; default 2
	CostKnee   float64 `json:"costknee,omitempty"`   // price: how dear for its weight, in means, a channel is half way between the cheap, all of whose cost counts, and the dear, CostShare; default 1.6
	CostShare  float64 `json:"costshare,omitempty"`  // price: the share of what a dear channel costs that counts; default 1/7, in optimal and cycle 1/5
	NoCost     bool    `json:"nocost,omitempty"`     // price: ignore what a task costs, for comparison
	NoSurvival bool    `json:"nosurvival,omitempty"` // price: ignore how likely a task's peer lives to its end, for comparison
	NoCorners  bool    `json:"nocorners,omitempty"`  // price: ignore how long the tasks of a channel wait, for comparison

	PlanEvery float64 `json:"planevery,omitempty"` // optimal: ticks between two plans; cycle: ticks of a period; default 1440
	Periods   int     `json:"periods,omitempty"`   // cycle: periods of a cycle; default 14

	Rule string `json:"rule,omitempty"` // adaptive: "nutch" or "stormcrawler"; default nutch
}

// PlanDay is Params.PlanEvery by default: a day of minutes.
const PlanDay = 1440

// The errors of New and Params.Validate.
var (
	ErrUnknown = errors.New("recrawl: unknown strategy")
	ErrParams  = errors.New("recrawl: bad parameters")
)

// Names of all strategies, sorted.
func Names() []string { return slices.Sorted(maps.Keys(strategies)) }

// New makes a strategy by name.
func New(name string, p Params) (Strategy, error) {
	strategy, ok := strategies[name]
	if !ok {
		return nil, fmt.Errorf("%w %q: want one of %s", ErrUnknown, name, strings.Join(Names(), ", "))
	}
	if err := p.Validate(); err != nil {
		return nil, err
	}
	return strategy.make(p), nil
}

// Larger ones are slips, which an operator is told of.
const (
	mostTicks    = Far / 64
	mostMultiple = 1_000_000 // of intervals, or of the mean weight
)

// Validate names the first bad field, as an operator sets it.
func (p Params) Validate() error {
	switch {
	case !(p.Delta >= 0 && p.Delta < 1):
		return fmt.Errorf("%w: delta %v: want at least 0 and less than 1", ErrParams, p.Delta)
	case p.Sigma != 0 && !(p.Sigma >= 1 && !math.IsInf(p.Sigma, 0)):
		return fmt.Errorf("%w: sigma %v: want 1 to %d", ErrParams, p.Sigma, mostMultiple)
	case p.Mu != 0 && !(p.Mu >= 1 && !math.IsInf(p.Mu, 0)):
		return fmt.Errorf("%w: mu %v: want 1 to %d", ErrParams, p.Mu, mostMultiple)
	case p.PlanEvery != 0 && !(p.PlanEvery >= 1 && p.PlanEvery <= float64(mostTicks)):
		return fmt.Errorf("%w: planevery %v ticks: want 1 to %d", ErrParams, p.PlanEvery, mostTicks)
	case p.Periods < 0 || p.Periods > cycle.MaxPeriods:
		return fmt.Errorf("%w: periods %d: want 1 to %d", ErrParams, p.Periods, cycle.MaxPeriods)
	case p.IIR != "" && p.IIR != "pooled" && p.IIR != "channel":
		return fmt.Errorf("%w: iir %q: want pooled or channel", ErrParams, p.IIR)
	case p.Rule != "" && p.Rule != "nutch" && p.Rule != "stormcrawler":
		return fmt.Errorf("%w: rule %q: want nutch or stormcrawler", ErrParams, p.Rule)
	case !(p.TargetWait >= 0) || math.IsInf(p.TargetWait, 0):
		return fmt.Errorf("%w: targetwait %v ticks: want 0 to %d", ErrParams, p.TargetWait, mostTicks)
	case !(p.CostBase >= 0) || math.IsInf(p.CostBase, 0):
		return fmt.Errorf("%w: costbase %v ticks: want 0 to %d", ErrParams, p.CostBase, mostTicks)
	case !(p.CostShare >= 0 && p.CostShare <= 1):
		return fmt.Errorf("%w: costshare %v: want 0 to 1", ErrParams, p.CostShare)
	case !(p.CostKnee >= 0) || math.IsInf(p.CostKnee, 0):
		return fmt.Errorf("%w: costknee %v means: want 0 to %d", ErrParams, p.CostKnee, mostMultiple)
	}
	return nil
}

// Fits refuses parameters that are set though the strategy does not read them, and slips. A strategy that an earlier version took with these goes on.
func (p Params) Fits(name string) error {
	for _, x := range []struct {
		name       string
		value, top float64
	}{{"sigma", p.Sigma, mostMultiple}, {"mu", p.Mu, mostMultiple}, {"targetwait", p.TargetWait, float64(mostTicks)}, {"costbase", p.CostBase, float64(mostTicks)}, {"costknee", p.CostKnee, mostMultiple}} {
		if x.value > x.top {
			return fmt.Errorf("%w: %s %v: want at most %.0f", ErrParams, x.name, x.value, x.top)
		}
	}
	reads := strategies[name].reads
	for i, f := 0, reflect.ValueOf(p); i < f.NumField(); i++ {
		field := strings.ToLower(f.Type().Field(i).Name)
		if f.Field(i).IsZero() || slices.Contains(reads, field) {
			continue
		}
		if len(reads) == 0 {
			return fmt.Errorf("%w: strategy %s has no parameters, %s neither", ErrParams, name, field)
		}
		return fmt.Errorf("%w: strategy %s has no parameter %s: want %s", ErrParams, name, field, strings.Join(reads, ", "))
	}
	return nil
}

func newInterval(name string, p Params, delta, mu float64) *interval {
	p.Delta, p.Sigma, p.Mu = or(p.Delta, delta), or(p.Sigma, 1.5), or(p.Mu, mu)
	return &interval{name: name, p: p}
}

func or(v, otherwise float64) float64 {
	if v == 0 {
		return otherwise
	}
	return v
}
