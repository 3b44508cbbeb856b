package desk

import (
	"context"
	"fmt"
	"strings"
	"time"

	"shoal/manager"
	"shoal/recrawl"
)

// Limits hold for every strategy.
type Limits struct {
	Cap         float64         `json:"cap"`            // a channel is recrawled at most so many times its change rate; 0: no limit
	MinInterval Seconds         `json:"min_interval_s"` // and never sooner than this after its last task, in whole ticks; 0: a tick
	Weights     recrawl.Weights `json:"weights"`        // what a channel counts, times its own weight
}

// Strategy is what an operator sees of the strategy in force.
type Strategy struct {
	manager.StrategyChoice
	Limits     Limits             `json:"limits"`
	Names      []string           `json:"names"` // to choose from
	Intervals  []Seconds          `json:"intervals_s"`
	GroupSizes []int              `json:"group_sizes"`
	Tick       Seconds            `json:"tick_s"`
	Sequencers manager.Sequencers `json:"sequencers"`
	Plan       *Plan              `json:"plan,omitempty"` // of a strategy that plans
	Note       string             `json:"note,omitempty"` // what an operator should know of these figures
}

// Plan is a plan in force, with its times.
type Plan struct {
	recrawl.PlanReport
	MadeAt time.Time `json:"made_at,omitzero"`
	NextAt time.Time `json:"next_at,omitzero"`
}

// StrategyAsk is a strategy, and limits that hold for all. What is left out stays as it is.
type StrategyAsk struct {
	Name     string         `json:"name"`
	Params   recrawl.Params `json:"params"`
	NewShare *float64       `json:"new_share,omitempty"`
	Limits   *LimitsAsk     `json:"limits,omitempty"`
}

// LimitsAsk are those limits that are to change.
type LimitsAsk struct {
	Cap         *float64 `json:"cap,omitempty"`
	MinInterval *Seconds `json:"min_interval_s,omitempty"`
	Weights     string   `json:"weights,omitempty"`
}

// Outlook is what a strategy would do in the time ahead.
type Outlook struct {
	Strategy  string    `json:"strategy"`
	Tasks     int       `json:"tasks"`          // in the time ahead
	New       int       `json:"tasks_of_new"`   // of channels never crawled
	ByGroup   []int     `json:"tasks_by_group"` // fastest first
	Freshness float64   `json:"freshness"`      // expected share of fresh channels at the end
	Intervals []Seconds `json:"intervals_s"`
}

// Trial compares the strategy in force with another one, on a copy of what was learnt.
type Trial struct {
	Ahead    Seconds `json:"ahead_s"`
	Channels int     `json:"channels"` // looked at
	Of       int     `json:"of"`
	Capacity float64 `json:"tasks_a_tick"` // taken from what the swarm did last
	Tick     Seconds `json:"tick_s"`
	Now      Outlook `json:"now"`
	Then     Outlook `json:"then"`
	Note     string  `json:"note,omitempty"` // what an operator should know of these figures
}

// Strategy tells which strategy is in force.
func (d *Desk) Strategy(ctx context.Context) (Strategy, error) {
	if err := d.Live(); err != nil {
		return Strategy{}, err
	}
	i, err := d.m.Strategy(ctx)
	if err != nil {
		return Strategy{}, err
	}
	out := Strategy{StrategyChoice: i.StrategyChoice, Limits: Limits{i.Limits.Cap, Seconds(i.Limits.MinInterval), i.Limits.Weights}, Names: i.Names,
		Intervals: seconds(i.Intervals), GroupSizes: i.GroupSizes, Tick: Seconds(i.Tick), Sequencers: i.Sequencers,
		Note: missing(i.Silent)}
	if i.Plan != nil {
		out.Plan = &Plan{i.Plan.PlanReport, i.Plan.MadeAt, i.Plan.NextAt}
	}
	return out, nil
}

// missing says that parts of managers are missing from sums; empty: none is.
func missing(machines []string) string {
	switch len(machines) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("The manager on %s does not answer: what it has taken and done is missing here. Ask again; shoal managers shows how it is.", machines[0])
	}
	return fmt.Sprintf("The managers on %s do not answer: what they have taken and done is missing here. Ask again; shoal managers shows how they are.", strings.Join(machines, ", "))
}

// SetStrategy goes on with another strategy, other parameters or other limits. The choice is kept over a restart.
func (d *Desk) SetStrategy(ctx context.Context, ask StrategyAsk) (Strategy, error) {
	if err := d.Live(); err != nil {
		return Strategy{}, err
	}
	now, err := d.m.Strategy(ctx)
	if err != nil {
		return Strategy{}, err
	}
	choice, limits, err := ask.fill(now)
	if err != nil {
		return Strategy{}, err
	}
	other := ask.Name != "" || choice != now.StrategyChoice
	if other { // before anything is changed
		if err := choice.Validate(); err != nil {
			return Strategy{}, err
		}
	}
	if limits != now.Limits {
		if err := d.m.UseLimits(ctx, limits); err != nil {
			return Strategy{}, err
		}
	}
	if other {
		if err := d.m.UseStrategy(ctx, choice); err != nil {
			return Strategy{}, err
		}
	}
	return d.Strategy(ctx)
}

// TryStrategy tells what another strategy would change, on a copy.
func (d *Desk) TryStrategy(ctx context.Context, ask StrategyAsk) (Trial, error) {
	if err := d.Live(); err != nil {
		return Trial{}, err
	}
	now, err := d.m.Strategy(ctx)
	if err != nil {
		return Trial{}, err
	}
	choice, limits, err := ask.fill(now)
	if err != nil {
		return Trial{}, err
	}
	if limits != now.Limits {
		return Trial{}, asks("a strategy is tried within the limits in force")
	}
	t, err := d.m.TryStrategy(ctx, choice)
	look := func(l manager.Outlook) Outlook {
		return Outlook{l.Strategy, l.Tasks, l.New, l.ByGroup, l.Freshness, seconds(l.Intervals)}
	}
	out := Trial{Ahead: Seconds(t.Ahead), Channels: t.Channels, Of: t.Of, Capacity: t.Capacity, Tick: Seconds(d.m.Overview().Unit), Now: look(t.Now), Then: look(t.Then)}
	if err == nil && t.Capacity == 0 {
		out.Note = "No peer has joined, so nothing is crawled with either strategy. Try again when volunteers crawl: shoal peer invite makes a join string."
	}
	return out, err
}

// fill takes what is left out from what is in force. Without a name that is all but the share of new channels and the limits.
func (a *StrategyAsk) fill(now manager.StrategyInfo) (manager.StrategyChoice, manager.Limits, error) {
	choice, limits := manager.StrategyChoice{Name: a.Name, Params: a.Params, NewShare: now.NewShare}, now.Limits
	if a.Name == "" {
		if a.Params != (recrawl.Params{}) {
			return choice, limits, asks("parameters without the name of their strategy")
		}
		choice.Name, choice.Params = now.Name, now.Params
	}
	if a.NewShare != nil {
		choice.NewShare = *a.NewShare
	}
	if l := a.Limits; l != nil {
		if l.Cap != nil {
			limits.Cap = *l.Cap
		}
		if l.MinInterval != nil {
			limits.MinInterval = l.MinInterval.Duration()
		}
		if l.Weights != "" {
			limits.Weights = recrawl.Weights(l.Weights)
		}
		if err := limits.Validate(now.Tick); err != nil {
			return choice, limits, err
		}
	}
	return choice, limits, nil
}
