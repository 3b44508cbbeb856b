package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"shoal/internal/plain"
	"shoal/manager/api"
	"shoal/manager/desk"
	"shoal/recrawl"
)

type strategyCmd struct {
	Show strategyShowCmd `cmd:"" help:"Show the recrawl strategy in force."`
	Set  strategySetCmd  `cmd:"" help:"Go on with another strategy or other parameters; kept over a restart."`
	Try  strategyTryCmd  `cmd:"" help:"Show what another strategy would change, on a copy."`
}

type strategyShowCmd struct {
	target
}

func (c *strategyShowCmd) Run(ctx context.Context, s streams) error {
	return c.with(ctx, true, func(a *api.Client) error {
		var i desk.Strategy
		if err := a.Do(ctx, http.MethodGet, "/strategy", nil, nil, &i); err != nil {
			return err
		}
		return showStrategy(s.out, i)
	})
}

// strategyArgs name a strategy and its parameters.
type strategyArgs struct {
	Name     string   `arg:"" optional:"" help:"Strategy: ${strategies}. By default the one in force."`
	Params   []string `arg:"" optional:"" name:"param" help:"Parameters, as delta=.4 or targetwait=60."`
	NewShare *float64 `help:"Share of room that channels never crawled get while others wait too, below 1; 0: as the strategy says. By default it stays as it is." placeholder:"SHARE"`
}

func (c *strategyArgs) choice() (desk.StrategyAsk, error) {
	out := desk.StrategyAsk{Name: c.Name, NewShare: c.NewShare}
	m := map[string]json.RawMessage{}
	for _, p := range c.Params {
		name, v, ok := strings.Cut(p, "=")
		if !ok || v == "" {
			return out, fmt.Errorf("parameter %q: write name=value, as delta=.4", p)
		}
		if strings.HasPrefix(v, ".") {
			v = "0" + v
		}
		if !json.Valid([]byte(v)) {
			b, err := json.Marshal(v)
			if err != nil {
				return out, err
			}
			v = string(b)
		}
		name = strings.ToLower(name)
		if _, ok := m[name]; ok {
			return out, fmt.Errorf("parameter %s is there twice", name)
		}
		if f, err := strconv.ParseFloat(v, 64); err == nil && f == 0 {
			return out, fmt.Errorf("parameter %s: 0 would stand for its default; leave it out", name)
		}
		m[name] = json.RawMessage(v)
	}
	b, err := json.Marshal(m)
	if err != nil {
		return out, err
	}
	d := json.NewDecoder(strings.NewReader(string(b)))
	d.DisallowUnknownFields()
	if err := d.Decode(&out.Params); err != nil {
		if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
			return out, fmt.Errorf("no parameter %s: want one of %s", name, strings.Join(paramNames(), ", "))
		}
		var kind *json.UnmarshalTypeError
		if errors.As(err, &kind) {
			want := map[reflect.Kind]string{reflect.Float64: "a number", reflect.Int: "a whole number", reflect.Bool: "true or false", reflect.String: "a word"}[kind.Type.Kind()]
			return out, fmt.Errorf("parameter %s: want %s", strings.ToLower(kind.Field), want)
		}
		return out, fmt.Errorf("parameters: %w", err)
	}
	return out, nil
}

// misnamed is a command's error, or what is wrong with the strategy's name where no manager runs that could say so.
func (c *strategyArgs) misnamed(err error) error {
	if errors.Is(err, errNoManager) && c.Name != "" && !slices.Contains(recrawl.Names(), c.Name) {
		return fmt.Errorf("%w %q: want one of %s", recrawl.ErrUnknown, c.Name, strings.Join(recrawl.Names(), ", "))
	}
	return err
}

// paramNames are what may be set.
func paramNames() []string {
	var names []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[recrawl.Params]()) {
		names = append(names, strings.ToLower(f.Name))
	}
	slices.Sort(names)
	return names
}

type strategySetCmd struct {
	target
	strategyArgs
	Cap         *float64       `help:"A channel is recrawled at most so many times its change rate, whatever the strategy; 0: no limit; 2 unless it was set. By default it stays as it is." placeholder:"X"`
	Weights     string         `enum:"pages,equal,rank," default:"" help:"What a channel counts for the strategies that look at weights (price, optimal, cycle, lambda), times its own --weight: by its pages, all equal, or by the rank of its group (16, 8, 4, 2, 1); pages unless it was set. By default it stays as it is." placeholder:"HOW"`
	MinInterval *time.Duration `help:"And never sooner than this after its last task, a tick (1m, 1s in the pond) to a year; 0: a tick; 10m unless it was set (2s in the pond). By default it stays as it is." placeholder:"TIME"`
}

func (c *strategySetCmd) Run(ctx context.Context, s streams) error {
	choice, err := c.choice()
	if err != nil {
		return err
	}
	if c.Cap != nil && (math.IsNaN(*c.Cap) || math.IsInf(*c.Cap, 0)) {
		return fmt.Errorf("--cap: want 0 (no limit) or a factor of the change rate, not %v", *c.Cap)
	}
	if c.Cap != nil || c.MinInterval != nil || c.Weights != "" {
		choice.Limits = &desk.LimitsAsk{Cap: c.Cap, Weights: c.Weights}
		if c.MinInterval != nil {
			s := desk.Seconds(*c.MinInterval)
			choice.Limits.MinInterval = &s
		}
	}
	if c.Name == "" && c.NewShare == nil && choice.Limits == nil {
		return errors.New("name a strategy, or give --new-share, --cap, --min-interval or --weights")
	}
	return c.misnamed(c.with(ctx, true, func(a *api.Client) error {
		var i desk.Strategy
		if err := a.Do(ctx, http.MethodPut, "/strategy", nil, choice, &i); err != nil {
			return err
		}
		return showStrategy(s.out, i)
	}))
}

type strategyTryCmd struct {
	target
	strategyArgs
}

func (c *strategyTryCmd) Run(ctx context.Context, s streams) error {
	choice, err := c.choice()
	if err != nil {
		return err
	}
	if c.Name == "" && c.NewShare == nil {
		return errors.New("name a strategy, or give --new-share")
	}
	return c.misnamed(c.with(ctx, true, func(a *api.Client) error {
		var t desk.Trial
		if err := a.Do(ctx, http.MethodPost, "/strategy/try", nil, choice, &t); err != nil {
			return err
		}
		if t.Note != "" { // the figures would be zeros
			_, err := fmt.Fprintln(s.out, t.Note)
			return err
		}
		w := tabwriter.NewWriter(s.out, 0, 8, 2, ' ', 0)
		fmt.Fprintf(w, "in the next %s\t%s (now)\t%s\n", plain.Span(t.Ahead.Duration()), t.Now.Strategy, t.Then.Strategy)
		fmt.Fprintf(w, "tasks\t%d\t%d\n", t.Now.Tasks, t.Then.Tasks)
		fmt.Fprintf(w, "  of channels never crawled\t%d\t%d\n", t.Now.New, t.Then.New)
		for g := range max(len(t.Now.ByGroup), len(t.Then.ByGroup)) {
			fmt.Fprintf(w, "  of group %d\t%s\t%s\n", g+1, at(t.Now.ByGroup, g), at(t.Then.ByGroup, g))
		}
		fmt.Fprintf(w, "fresh at its end\t%.1f%%\t%.1f%%\n", 100*t.Now.Freshness, 100*t.Then.Freshness)
		if err := w.Flush(); err != nil {
			return err
		}
		_, err := fmt.Fprintf(s.err, "From %d of %d channels, with room for %.1f tasks in %s. Nothing was changed.\n", t.Channels, t.Of, t.Capacity, plain.Span(t.Tick.Duration()))
		return err
	}))
}

func at(v []int, i int) string {
	if i < len(v) {
		return fmt.Sprint(v[i])
	}
	return "-"
}
