package joint

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"shoal/manager"
	"shoal/manager/conduct"
)

// Paces of looking at the others.
const (
	lookEvery = 2 * time.Second
	lookKept  = 30 * time.Second // after which what a manager said that answers no more is left out, but for its plots
)

// look is what another manager said last.
type look struct {
	is      manager.Overview
	history []manager.Point
	at      time.Time
}

// What is asked about the whole.
var (
	// overview asks for a manager's own state, with the points of its plots since a time.
	overview = question[time.Time, manager.Overview]{"overview", func(_ context.Context, c *Config, since time.Time) (manager.Overview, error) {
		o := c.Own.Overview()
		i, _ := slices.BinarySearchFunc(o.History, since, func(p manager.Point, t time.Time) int {
			if p.At.After(t) {
				return 1
			}
			return -1
		})
		o.History = o.History[i:]
		return o, nil
	}}
	strategy = question[none, manager.StrategyInfo]{"strategy", func(ctx context.Context, c *Config, _ none) (manager.StrategyInfo, error) {
		return c.Own.Strategy(ctx)
	}}
	try = question[manager.StrategyChoice, manager.Trial]{"try strategy", func(ctx context.Context, c *Config, of manager.StrategyChoice) (manager.Trial, error) {
		return c.Own.TryStrategy(ctx, of)
	}}
)

// Watch asks the other managers now and then how they are, until ctx ends.
func (r *Running) Watch(ctx context.Context) {
	t := time.NewTicker(lookEvery)
	defer t.Stop()
	for {
		r.look(ctx)
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

func (r *Running) look(ctx context.Context) {
	silent := map[string]bool{}
	defer func() {
		r.mu.Lock()
		r.silent = silent
		r.mu.Unlock()
	}()
	for _, o := range r.cfg.Others() {
		var since time.Time
		r.mu.Lock()
		if l := r.seen[o.Peer]; l != nil && len(l.history) > 0 {
			since = l.history[len(l.history)-1].At
		}
		r.mu.Unlock()
		got, err := overview.ask(ctx, &r.cfg, o.Peer, since)
		if err != nil {
			silent[o.Peer] = errors.Is(err, errAway)
			continue
		}
		r.mu.Lock()
		l := r.seen[o.Peer]
		if l == nil {
			if len(r.seen) >= mostSeen {
				clear(r.seen)
			}
			l = &look{}
			r.seen[o.Peer] = l
		}
		l.is, l.at = got, time.Now()
		l.history = append(l.history, got.History...)
		l.history = l.history[max(0, len(l.history)-pointsSeen):]
		r.mu.Unlock()
	}
	r.recall(ctx)
}

// recall reads what managers wrote down that have gone, when one has come or gone since that was read. What one that has gone wrote last stays so.
func (r *Running) recall(ctx context.Context) {
	if r.cfg.Kept == nil {
		return
	}
	with := []string{}
	for _, o := range r.cfg.Others() {
		with = append(with, o.Peer)
	}
	slices.Sort(with)
	r.mu.Lock()
	same := r.kept != nil && slices.Equal(with, r.with)
	r.mu.Unlock()
	if same {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	kept, err := r.cfg.Kept(ctx)
	if err != nil {
		return // the database is away, which the manager tells; it is tried again
	}
	r.mu.Lock()
	r.kept, r.with = kept, with
	r.mu.Unlock()
}

// What is kept of other managers.
const (
	mostSeen   = 64
	pointsSeen = 1200 // of one's plots
)

// Overview implements desk.Running. Counters and rates are this manager's own, to which the desk adds what the others tell of theirs; what only some manager
// sees is put together here: errors, groups, notices, members to look at, what holds channels back, plots. Of a manager that has gone, or does not answer, errors and
// members to look at are as it told or wrote them last.
func (r *Running) Overview() manager.Overview {
	o := r.cfg.Own.Overview()
	others := map[string]bool{}
	names := map[string]string{}
	for _, x := range r.cfg.Others() {
		others[x.Peer], names[x.Peer] = true, x.Machine
	}
	o.Errors, o.GroupSizes = maps.Clone(o.Errors), slices.Clone(o.GroupSizes)
	o.Notices, o.Blocking, o.Suspects = slices.Clone(o.Notices), slices.Clone(o.Blocking), slices.Clone(o.Suspects)
	histories := [][]manager.Point{o.History}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, peer := range slices.Sorted(maps.Keys(r.seen)) {
		l := r.seen[peer]
		histories = append(histories, l.history)
		if others[peer] && time.Since(l.at) <= lookKept {
			add(&o, &l.is, names[peer])
			continue
		}
		addGone(&o, &l.is, r.kept[peer], others[peer])
	}
	for _, peer := range slices.Sorted(maps.Keys(r.kept)) {
		if r.seen[peer] == nil && peer != r.cfg.Me {
			addGone(&o, nil, r.kept[peer], false)
		}
	}
	o.History = joined(histories)
	return o
}

// add adds what another manager says.
func add(o, x *manager.Overview, machine string) {
	addErrors(o, x.Errors)
	for i, n := range x.GroupSizes {
		if i < len(o.GroupSizes) {
			o.GroupSizes[i] += n
		}
	}
	tell := func(to *[]string, of []string) {
		for _, text := range of {
			if !slices.ContainsFunc(*to, func(have string) bool { return strings.HasPrefix(have, text) }) {
				*to = append(*to, fmt.Sprintf("%s (at the manager on %s)", text, machine))
			}
		}
	}
	tell(&o.Notices, x.Notices)
	// That another manager hands nothing out blocks its share, not this manager: it is told, and only there it is blocking.
	if n := o.Lookups + x.Lookups; n > 0 {
		weigh := func(a, b float64) float64 { return (a*float64(o.Lookups) + b*float64(x.Lookups)) / float64(n) }
		o.HopsMean, o.RTTChosenMS, o.RTTRandomMS = weigh(o.HopsMean, x.HopsMean), weigh(o.RTTChosenMS, x.RTTChosenMS), weigh(o.RTTRandomMS, x.RTTRandomMS)
		o.Lookups = n
	}
	if x.Since.Before(o.Since) && !x.Since.IsZero() {
		o.Since = x.Since
	}
	// The peers are the same to all managers; each knows its own tasks.
	busy := max(o.Threads-o.Idle, 0) + max(x.Threads-x.Idle, 0)
	o.Threads = max(o.Threads, x.Threads)
	o.Idle = max(o.Threads-busy, 0)
	o.Holds.Add(x.Holds)
	o.Suspects = suspects(o.Suspects, x.Suspects)
	o.AllSuspects = max(len(o.Suspects), o.AllSuspects, x.AllSuspects)
	o.Trust.Blind = blind(o.Trust.Blind, x.Trust.Blind, machine)
	o.Trust.Undone = undone(o.Trust.Undone, x.Trust.Undone, machine)
	for standing, n := range x.Trust.Standings { // each knows of most peers
		o.Trust.Standings = maps.Clone(o.Trust.Standings)
		if o.Trust.Standings == nil {
			o.Trust.Standings = map[standingOf]int{}
		}
		o.Trust.Standings[standing] = max(o.Trust.Standings[standing], n)
	}
}

func addErrors(o *manager.Overview, errors map[string]int64) {
	if o.Errors == nil {
		o.Errors = map[string]int64{}
	}
	for kind, n := range errors {
		o.Errors[kind] += n
	}
}

// addGone adds what a manager has counted that does not tell: last is what it told last, nil: nothing; kept what it had written down. One that is here still has
// written more since.
func addGone(o, last *manager.Overview, kept manager.Overview, here bool) {
	errors := maps.Clone(kept.Errors)
	if errors == nil {
		errors = map[string]int64{}
	}
	bad, all := kept.Suspects, kept.AllSuspects
	if last != nil {
		for kind, n := range last.Errors { // a kill loses what was not written
			errors[kind] = max(errors[kind], n)
		}
		if here || len(bad) == 0 {
			bad, all = last.Suspects, last.AllSuspects
		}
	}
	addErrors(o, errors)
	now, more := time.Now(), []conduct.Member{}
	for _, m := range bad {
		m.Faults = slices.DeleteFunc(slices.Clone(m.Faults), func(f conduct.Fault) bool { return f == conduct.Attracts }) // it gives them no tasks any more
		if m.Full = (time.Time{}); len(m.Faults) > 0 && now.Sub(m.Last) <= badFor {
			more = append(more, m)
		}
	}
	all -= len(bad) - len(more)
	o.Suspects = suspects(o.Suspects, more)
	o.AllSuspects = max(len(o.Suspects), o.AllSuspects, all)
}

// suspects puts members together of whom several managers tell.
func suspects(all, more []conduct.Member) []conduct.Member {
	for _, m := range more {
		i := slices.IndexFunc(all, func(have conduct.Member) bool { return have.Name() == m.Name() })
		if i < 0 {
			all = append(all, m)
			continue
		}
		have := &all[i]
		have.Counts = maps.Clone(have.Counts)
		for deed, n := range m.Counts {
			have.Counts[deed] += n
		}
		for _, f := range m.Faults {
			if !slices.Contains(have.Faults, f) {
				have.Faults = append(slices.Clone(have.Faults), f)
			}
		}
		if m.Since.Before(have.Since) {
			have.Since = m.Since
		}
		if m.Last.After(have.Last) {
			have.Last = m.Last
		}
	}
	return all
}

// badFor is for how long a member is held to what a manager that has gone had noticed: as long as a book of package conduct holds it to that.
const badFor = 7 * 24 * time.Hour

// nearPoint is how far a manager's point may lie from that of another to be counted with it.
const nearPoint = 10 * time.Second

// joined adds plots up: the points are those of the longest one, each with what the others had about then.
func joined(all [][]manager.Point) []manager.Point {
	base := 0
	for i := range all {
		if len(all[i]) > 0 && (len(all[base]) == 0 || all[i][0].At.Before(all[base][0].At)) {
			base = i
		}
	}
	out := slices.Clone(all[base])
	for i := range all {
		if i == base || len(all[i]) == 0 {
			continue
		}
		k := 0
		for j := range out {
			for k+1 < len(all[i]) && apart(all[i][k+1].At, out[j].At) <= apart(all[i][k].At, out[j].At) {
				k++
			}
			within := nearPoint
			if j > 0 {
				within = max(within, out[j].At.Sub(out[j-1].At))
			}
			if p := &all[i][k]; apart(p.At, out[j].At) <= within {
				out[j].UpdatesMin, out[j].PagesMin, out[j].RefusedMin = out[j].UpdatesMin+p.UpdatesMin, out[j].PagesMin+p.PagesMin, out[j].RefusedMin+p.RefusedMin
				out[j].Out, out[j].Peers = out[j].Out+p.Out, max(out[j].Peers, p.Peers)
			}
		}
		if last := out[len(out)-1].At; base != 0 { // what came since the longest one ended
			for _, p := range all[i] {
				if p.At.After(last.Add(nearPoint)) {
					out = append(out, p)
				}
			}
		}
	}
	return out
}

func apart(a, b time.Time) time.Duration { return a.Sub(b).Abs() }

// Strategy implements desk.Running: it is the same at all managers; what waits and was taken is added up.
func (r *Running) Strategy(ctx context.Context) (manager.StrategyInfo, error) {
	all := strategy.all(ctx, &r.cfg, none{})
	out := all[0].value
	if all[0].err != nil {
		return out, all[0].err
	}
	out.Silent = silent(all)
	for _, x := range all[1:] {
		if x.err != nil {
			continue
		}
		s, t := &out.Sequencers, &x.value.Sequencers
		s.NowWaits, s.NewWaits, s.OldWaits = s.NowWaits+t.NowWaits, s.NewWaits+t.NewWaits, s.OldWaits+t.OldWaits
		s.NowTaken, s.NewTaken, s.OldTaken, s.Sites = s.NowTaken+t.NowTaken, s.NewTaken+t.NewTaken, s.OldTaken+t.OldTaken, s.Sites+t.Sites
		for i, n := range x.value.GroupSizes {
			if i < len(out.GroupSizes) {
				out.GroupSizes[i] += n
			}
		}
		out.Plan = planOf(out.Plan, x.value.Plan)
	}
	return out, nil
}

// planOf adds up the plans of two managers, each of its own channels.
func planOf(a, b *manager.PlanInfo) *manager.PlanInfo {
	if a == nil || b == nil {
		if a == nil {
			return b
		}
		return a
	}
	p := *a
	if n := a.Channels + b.Channels; n > 0 {
		weigh := func(x, y float64) float64 {
			return (x*float64(a.Channels) + y*float64(b.Channels)) / float64(n)
		}
		p.Freshness, p.Plain, p.Moves = weigh(a.Freshness, b.Freshness), weigh(a.Plain, b.Plain), weigh(a.Moves, b.Moves)
		p.Channels = n
	}
	p.Capacity, p.Updates, p.AtCap, p.Old, p.New = a.Capacity+b.Capacity, a.Updates+b.Updates, a.AtCap+b.AtCap, a.Old+b.Old, a.New+b.New
	p.Models = maps.Clone(a.Models)
	for model, n := range b.Models {
		if p.Models == nil {
			p.Models = map[string]int{}
		}
		p.Models[model] += n
	}
	return &p
}

// TryStrategy implements desk.Running: each manager tries it on its own channels.
func (r *Running) TryStrategy(ctx context.Context, c manager.StrategyChoice) (manager.Trial, error) {
	all := try.all(ctx, &r.cfg, c)
	out := all[0].value
	if all[0].err != nil {
		return out, all[0].err
	}
	for _, x := range all[1:] {
		if x.err != nil {
			return out, fmt.Errorf("the manager on %s did not try it: %w; ask again", x.by.Machine, x.err)
		}
		addOutlook(&out.Now, &x.value.Now, out.Of, x.value.Of)
		addOutlook(&out.Then, &x.value.Then, out.Of, x.value.Of)
		out.Channels, out.Of, out.Capacity = out.Channels+x.value.Channels, out.Of+x.value.Of, out.Capacity+x.value.Capacity
	}
	return out, nil
}

// addOutlook adds what a strategy would do with n channels to what it would do with others.
func addOutlook(o, x *manager.Outlook, others, n int) {
	if others+n > 0 {
		o.Freshness = (o.Freshness*float64(others) + x.Freshness*float64(n)) / float64(others+n)
	}
	o.Tasks, o.New = o.Tasks+x.Tasks, o.New+x.New
	for i, k := range x.ByGroup {
		if i < len(o.ByGroup) {
			o.ByGroup[i] += k
		}
	}
}

// PlanBasis implements desk.Running: the capacity is that of all managers.
func (r *Running) PlanBasis(ctx context.Context) (manager.PlanBasis, error) {
	b, err := r.cfg.Own.PlanBasis(ctx)
	if err != nil {
		return b, err
	}
	for _, x := range strategy.all(ctx, &r.cfg, none{})[1:] {
		if x.err == nil && x.value.Plan != nil {
			b.Capacity += x.value.Plan.Capacity
		}
	}
	return b, nil
}
