package joint

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"shoal/channel"
	"shoal/manager"
)

// brief is what another manager must be told of a channel that was read.
type brief struct {
	ID     channel.ID    `json:"id"`
	State  channel.State `json:"state"`
	Reason string        `json:"reason,omitempty"`
}

// pausing asks for a pause, or its end.
type pausing struct {
	ID     channel.ID `json:"id"`
	Paused bool       `json:"paused"`
}

// none is the answer to an order.
type none struct{}

// What is asked about channels.
var (
	inspect = question[[]brief, []manager.Inspection]{"inspect", func(ctx context.Context, c *Config, of []brief) ([]manager.Inspection, error) {
		chs := make([]channel.Channel, len(of))
		for i, b := range of {
			chs[i] = channel.Channel{ID: b.ID, State: b.State, Reason: b.Reason}
		}
		return c.Own.Inspect(ctx, chs)
	}}
	explain = question[channel.ID, string]{"explain", func(ctx context.Context, c *Config, id channel.ID) (string, error) {
		ch, err := c.Store.Channel(ctx, id)
		if err != nil {
			return "", err
		}
		return c.Own.Explain(ctx, &ch)
	}}
	events = question[channel.ID, []manager.Event]{"events", func(ctx context.Context, c *Config, id channel.ID) ([]manager.Event, error) {
		return c.Own.Events(ctx, id)
	}}
	crawlNow = question[channel.ID, none]{"crawl now", func(ctx context.Context, c *Config, id channel.ID) (none, error) {
		return none{}, c.Own.CrawlNow(ctx, id)
	}}
	pause = question[pausing, none]{"pause", func(ctx context.Context, c *Config, p pausing) (none, error) {
		return none{}, c.Own.Pause(ctx, p.ID, p.Paused)
	}}
)

// answers are all questions by their names.
var answers = map[string]func(context.Context, *Config, json.RawMessage) (any, error){
	inspect.name: inspect.answer, explain.name: explain.answer, events.name: events.answer, crawlNow.name: crawlNow.answer, pause.name: pause.answer,
	overview.name: overview.answer, strategy.name: strategy.answer, try.name: try.answer,
	rules.name: rules.answer, peers.name: peers.answer, evidence.name: evidence.answer, uphold.name: uphold.answer, pardon.name: pardon.answer, vouch.name: vouch.answer,
	reports.name: reports.answer,
}

// IDs implements desk.Running: those of all managers, in the order of their hosts.
func (r *Running) IDs(ctx context.Context, from, n int) ([]channel.ID, int, error) {
	return r.cfg.Store.Matching(ctx, "", from, n)
}

// Inspect implements desk.Running: each channel is looked at by its manager. Of one whose manager does not answer nothing is known beside its record.
func (r *Running) Inspect(ctx context.Context, chs []channel.Channel) ([]manager.Inspection, error) {
	at := map[string][]int{}
	for i := range chs {
		to := r.owner(chs[i].Scope.Host)
		at[to] = append(at[to], i)
	}
	out := make([]manager.Inspection, len(chs))
	var wg sync.WaitGroup
	var failed error
	for to, list := range at {
		if to == "" {
			continue
		}
		of := make([]brief, len(list))
		for k, i := range list {
			of[k] = brief{chs[i].ID, chs[i].State, chs[i].Reason}
		}
		wg.Go(func() {
			if got, err := inspect.ask(ctx, &r.cfg, to, of); err == nil && len(got) == len(list) {
				for k, i := range list {
					out[i] = got[k]
				}
			}
		})
	}
	if own := at[""]; len(own) > 0 {
		mine := make([]channel.Channel, len(own))
		for k, i := range own {
			mine[k] = chs[i]
		}
		var got []manager.Inspection
		if got, failed = r.cfg.Own.Inspect(ctx, mine); failed == nil {
			for k, i := range own {
				out[i] = got[k]
			}
		}
	}
	wg.Wait()
	return out, failed
}

// Explain implements desk.Running.
func (r *Running) Explain(ctx context.Context, ch *channel.Channel) (string, error) {
	if to := r.owner(ch.Scope.Host); to != "" {
		if text, err := explain.ask(ctx, &r.cfg, to, ch.ID); err == nil {
			return text, nil
		}
	}
	return r.cfg.Own.Explain(ctx, ch)
}

// Events implements desk.Running: what happened at the channel's manager. If it does not answer, what this one remembers, and last that the other is silent.
func (r *Running) Events(ctx context.Context, id channel.ID) ([]manager.Event, error) {
	ch, err := r.cfg.Store.Channel(ctx, id)
	if err != nil {
		return nil, err
	}
	if to := r.owner(ch.Scope.Host); to != "" {
		if got, err := events.ask(ctx, &r.cfg, to, id); err == nil {
			return got, nil
		}
		got, err := r.cfg.Own.Events(ctx, id)
		return append(got, manager.Event{At: time.Now(), What: Unheard, Note: "the manager at " + r.machine(to) + ", which has this channel, does not answer: what happened there is missing here"}), err
	}
	return r.cfg.Own.Events(ctx, id)
}

// Unheard is what an event says that stands for those of a manager that does not answer.
const Unheard = "not known"

// machine is where another manager runs, or its peer id if that is not known.
func (r *Running) machine(peer string) string {
	for _, o := range r.cfg.Others() {
		if o.Peer == peer && o.Machine != "" {
			return o.Machine
		}
	}
	return peer
}

// CrawlNow implements desk.Running. If the channel's manager does not answer, the order is left in the database for the next one that has the channel.
func (r *Running) CrawlNow(ctx context.Context, id channel.ID) error {
	return r.order(ctx, id, func(to string) error {
		_, err := crawlNow.ask(ctx, &r.cfg, to, id)
		return err
	}, func() error { return r.cfg.Own.CrawlNow(ctx, id) })
}

// Pause implements desk.Running, likewise.
func (r *Running) Pause(ctx context.Context, id channel.ID, paused bool) error {
	return r.order(ctx, id, func(to string) error {
		_, err := pause.ask(ctx, &r.cfg, to, pausing{id, paused})
		return err
	}, func() error { return r.cfg.Own.Pause(ctx, id, paused) })
}

// order has the manager do something that has a channel. One that did not answer when it was looked at last is not waited for, as with orders one after the other
// each would wait: it hears of it by the database.
func (r *Running) order(ctx context.Context, id channel.ID, there func(to string) error, here func() error) error {
	ch, err := r.cfg.Store.Channel(ctx, id)
	if err != nil {
		return err
	}
	if to := r.owner(ch.Scope.Host); to != "" && !r.isSilent(to) {
		if err := there(to); !errors.Is(err, errAway) {
			return err
		}
	}
	return here()
}

func (r *Running) isSilent(peer string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.silent[peer]
}
