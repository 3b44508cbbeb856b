package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"shoal/internal/plain"
	"shoal/manager"
	"shoal/manager/desk"
	"shoal/recrawl"
)

func showStrategy(out io.Writer, i desk.Strategy) error {
	fmt.Fprintf(out, "strategy   %s\n", i.Name)
	most := "at any multiple of its change rate"
	if i.Limits.Cap > 0 {
		most = fmt.Sprintf("at most %.4g times its change rate", i.Limits.Cap)
	}
	fmt.Fprintf(out, "limits     a channel is recrawled %s, never within %s\n", most, plain.Span(max(i.Limits.MinInterval, i.Tick).Duration()))
	fmt.Fprintf(out, "weights    %s\n", i.Limits.Weights)
	if i.Params != (recrawl.Params{}) {
		text, err := paramsText(i.Params)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "parameters %s\n", text)
	}
	for g, n := range i.GroupSizes {
		every := ""
		if g < len(i.Intervals) {
			every = "every " + plain.Span(i.Intervals[g].Duration())
		}
		fmt.Fprintf(out, "group %d    %s %s\n", g+1, plain.Count(n, "channel"), every)
	}
	showSequencers(out, i.Sequencers)
	if i.Note != "" {
		fmt.Fprintln(out, i.Note)
	}
	if i.Plan != nil {
		showPlan(out, i.Plan)
	}
	_, err := fmt.Fprintf(out, "choose from %s\n", strings.Join(i.Names, ", "))
	return err
}

// paramsText are the parameters that were set, as an operator writes them.
func paramsText(p recrawl.Params) (string, error) {
	b, err := json.Marshal(p)
	if err != nil {
		return "", err
	}
	var all map[string]any
	if err := json.Unmarshal(b, &all); err != nil {
		return "", err
	}
	var set []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if v := all[name]; v != 0.0 && v != "" && v != false {
			set = append(set, fmt.Sprintf("%s=%v", strings.ToLower(name), v))
		}
	}
	return strings.Join(set, " "), nil
}

// showSequencers tells where tasks come from: what waits, what was taken, and by whose share new and old are mixed.
func showSequencers(out io.Writer, q manager.Sequencers) {
	fmt.Fprintf(out, "at once    %d wait, %d taken since the start\n", q.NowWaits, q.NowTaken)
	fmt.Fprintf(out, "new        %d wait, %d taken\n", q.NewWaits, q.NewTaken)
	fmt.Fprintf(out, "old        %d wait, %d taken\n", q.OldWaits, q.OldTaken)
	fmt.Fprintf(out, "mixed      %s\n", q.Mixed())
	fmt.Fprintf(out, "sites      %d have a task out, one channel of each\n", q.Sites)
}

// showPlan tells what a strategy has planned, and from what.
func showPlan(out io.Writer, p *desk.Plan) {
	fmt.Fprintf(out, "plan       made %s for %d channels, the next one %s; capacity measured: %.4g busy threads\n", when(p.MadeAt), p.Channels, when(p.NextAt), p.Capacity)
	if p.Periods == 0 { // optimal
		fmt.Fprintf(out, "expects    freshness %.4f by weight, %.4f a channel, from %.4g updates a tick; %d channels get all that the cap allows\n", p.Freshness, p.Plain, p.Updates, p.AtCap)
		fmt.Fprintf(out, "timetable  moves a crawl by %.3g ticks on average\n", p.Moves)
		var models []string
		for _, k := range slices.Sorted(maps.Keys(p.Models)) {
			models = append(models, fmt.Sprintf("%d %s", p.Models[k], k))
		}
		fmt.Fprintf(out, "models     %s\n", strings.Join(models, ", "))
		return
	}
	fmt.Fprintf(out, "cycle      %d, by the paper's Strategy %d, period %d of %d, gap to the bound %.2f%%\n", p.Cycle, p.Strategy, p.Period, p.Periods, 100*p.Gap)
	fmt.Fprintf(out, "period     %d known channels and %d new ones: %.4g%% new\n", p.Old, p.New, 100*p.Ratio)
	for k, b := range p.Buckets {
		fmt.Fprintf(out, "bucket %-3d %.3g%% of its channels in this period\n", b, 100*p.Shares[k])
	}
}
