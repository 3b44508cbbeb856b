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

// Params of the strategies. A zero field means the strategy's own default.
type Params struct {
	Delta float64 // iir, icr: encouragement, in [0, 1); default .36 (iir), .38 (icr)
	Sigma float64 // iir, icr: smallest multiple between neighbouring groups where order was lost; default 1.5
	Mu    float64 // iir, icr: largest multiple; default 2 (iir), 3 (icr)
	IIR   string  // iir: "pooled" or "channel" mean of the gaps between updates; default pooled

	TargetWait float64 // price and its kin: mean ticks that a task should wait for its start; default 100 where peers tell it beforehand, else 60
	CostBase   float64 // price: ticks added to a task's own; default 2
	CostKnee   float64 // price: how dear for its weight, in means, a channel is half way between the cheap, all of whose cost counts, and the dear, CostShare; default 1.6
	CostShare  float64 // price: the share of what a dear channel costs that counts; default 1/7, in optimal and cycle 1/5
	NoCost     bool    // price: what a task costs does not matter, for comparison
	NoSurvival bool    // price: nor how likely its peer lives to its end, for comparison
	NoCorners  bool    // price: nor how long the tasks of a channel wait, for comparison

	PlanEvery float64 // optimal: ticks between two plans; cycle: ticks of a period; default 1440
	Periods   int     // cycle: periods of a cycle; default 14

	Rule string // adaptive: "nutch" or "stormcrawler"; default nutch
}

// PlanDay is Params.PlanEvery by default: a day of minutes.
const PlanDay = 1440

// The errors of New and Params.Validate.
var (
	ErrUnknown = errors.New("recrawl: unknown strategy")
	ErrParams  = errors.New("recrawl: bad parameters")
)

var makers = map[string]func(Params) Strategy{
	"fixed": func(p Params) Strategy { return newInterval("fixed", p, .36, 2) },
	"iir":   func(p Params) Strategy { return newInterval("iir", p, .36, 2) },
	"icr":   func(p Params) Strategy { return newInterval("icr", p, .38, 3) },
	"price": func(p Params) Strategy { return newPrice("price", p, freshIndex{}) },
	"uniform": func(p Params) Strategy {
		p.NoCost = true
		return newPrice("uniform", p, ageIndex{})
	},
	"proportional": func(p Params) Strategy {
		p.NoCost = true
		return newPrice("proportional", p, ratioIndex{})
	},
	"lambda": func(p Params) Strategy {
		p.NoCost = true
		return newPrice("lambda", p, lambdaIndex{})
	},
	"optimal":  func(p Params) Strategy { return newOptimal(p) },
	"cycle":    func(p Params) Strategy { return newCyclic(p) },
	"adaptive": func(p Params) Strategy { return &adaptive{storm: p.Rule == "stormcrawler"} },
}

// Names of all strategies, sorted.
func Names() []string { return slices.Sorted(maps.Keys(makers)) }

// New makes a strategy by name.
func New(name string, p Params) (Strategy, error) {
	mk, ok := makers[name]
	if !ok {
		return nil, fmt.Errorf("%w %q: want one of %s", ErrUnknown, name, strings.Join(Names(), ", "))
	}
	if err := p.Validate(); err != nil {
		return nil, err
	}
	return mk(p), nil
}

// Validate names the first bad field.
func (p Params) Validate() error {
	switch {
	case !(p.Delta >= 0 && p.Delta < 1):
		return fmt.Errorf("%w: delta %v: want at least 0 and less than 1", ErrParams, p.Delta)
	case p.Sigma != 0 && !(p.Sigma >= 1 && !math.IsInf(p.Sigma, 0)):
		return fmt.Errorf("%w: sigma %v: want at least 1", ErrParams, p.Sigma)
	case p.Mu != 0 && !(p.Mu >= 1 && !math.IsInf(p.Mu, 0)):
		return fmt.Errorf("%w: mu %v: want at least 1", ErrParams, p.Mu)
	case p.PlanEvery != 0 && !(p.PlanEvery >= 1 && p.PlanEvery <= float64(Far/64)):
		return fmt.Errorf("%w: %v ticks between plans: want at least 1", ErrParams, p.PlanEvery)
	case p.Periods < 0 || p.Periods > cycle.MaxPeriods:
		return fmt.Errorf("%w: %d periods: want 1 to %d", ErrParams, p.Periods, cycle.MaxPeriods)
	case p.IIR != "" && p.IIR != "pooled" && p.IIR != "channel":
		return fmt.Errorf("%w: iir reading %q: want pooled or channel", ErrParams, p.IIR)
	case p.Rule != "" && p.Rule != "nutch" && p.Rule != "stormcrawler":
		return fmt.Errorf("%w: adaptive rule %q: want nutch or stormcrawler", ErrParams, p.Rule)
	case !(p.TargetWait >= 0) || math.IsInf(p.TargetWait, 0):
		return fmt.Errorf("%w: target wait %v ticks: want at least 0", ErrParams, p.TargetWait)
	case !(p.CostBase >= 0) || math.IsInf(p.CostBase, 0):
		return fmt.Errorf("%w: cost base %v ticks: want at least 0", ErrParams, p.CostBase)
	case !(p.CostShare >= 0 && p.CostShare <= 1):
		return fmt.Errorf("%w: cost share %v: want 0 to 1", ErrParams, p.CostShare)
	case !(p.CostKnee >= 0) || math.IsInf(p.CostKnee, 0):
		return fmt.Errorf("%w: cost knee %v means: want at least 0", ErrParams, p.CostKnee)
	}
	return nil
}

// uses names the parameters that each strategy looks at.
var uses = map[string][]string{
	"fixed": {}, "iir": {"delta", "sigma", "mu", "iir"}, "icr": {"delta", "sigma", "mu"},
	"price":   {"targetwait", "costbase", "costknee", "costshare", "nocost", "nosurvival", "nocorners"},
	"uniform": {"targetwait"}, "proportional": {"targetwait"}, "lambda": {"targetwait"},
	"optimal":  {"targetwait", "costbase", "costknee", "costshare", "nocost", "nosurvival", "nocorners", "planevery"},
	"cycle":    {"targetwait", "costbase", "costknee", "costshare", "nocost", "nosurvival", "nocorners", "planevery", "periods"},
	"adaptive": {"rule"},
}

// Fits refuses parameters that are set though the strategy does not look at them.
func (p Params) Fits(name string) error {
	for i, f := 0, reflect.ValueOf(p); i < f.NumField(); i++ {
		field := strings.ToLower(f.Type().Field(i).Name)
		if f.Field(i).IsZero() || slices.Contains(uses[name], field) {
			continue
		}
		if len(uses[name]) == 0 {
			return fmt.Errorf("%w: strategy %s has no parameters, %s neither", ErrParams, name, field)
		}
		return fmt.Errorf("%w: strategy %s has no parameter %s: want %s", ErrParams, name, field, strings.Join(uses[name], ", "))
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
