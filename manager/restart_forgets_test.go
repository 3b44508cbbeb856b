package manager_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"sync/atomic"
	"testing"
	"time"

	"shoal/channel"
	"shoal/manager"
	"shoal/manager/desk"
	"shoal/recrawl"
)

// TestRestartForgetsNothing has an operator do this and that while channels are crawled, some of whose crawls fail. A manager that is started anew on what the first one has
// left knows of each channel what that one knew.
func TestRestartForgetsNothing(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			restartForgets(t, rand.New(rand.NewPCG(seed, 9)))
		})
	}
}

// ratePrinted is a change rate in what is printed of facts. It follows from what the visits of all channels have told, to which the crowd is fitted step by step, and anew at a start.
var ratePrinted = regexp.MustCompile(`rate:\S+ `)

func restartForgets(t *testing.T, rng *rand.Rand) {
	dir := t.TempDir()
	var full atomic.Bool // the disk is, so that nothing is handed out
	disk := func() error {
		if full.Load() {
			return errors.New("it is full")
		}
		return nil
	}
	b := open(t, dir, func(c *manager.Config, s *swarm) {
		c.Disk, s.recalls, s.fail, s.large = disk, true, "https://h1.example", "https://h2.example"
	})
	var ids []channel.ID
	for i := range 12 {
		ids = append(ids, b.add(t, fmt.Sprintf("https://h%d.example", i))...)
	}
	for range 60 {
		id := ids[rng.IntN(len(ids))]
		host := fmt.Sprintf("https://h%d.example", rng.IntN(len(ids)))
		var err error
		switch rng.IntN(9) {
		case 0, 1:
			_, err = b.d.Edit(t.Context(), id, func(ch *channel.Channel) error {
				ch.Settings.Group, ch.Settings.Weight = rng.IntN(4), float32(rng.IntN(3))
				return nil
			})
		case 2, 3:
			err = b.d.Pause(t.Context(), id, rng.IntN(2) == 0)
		case 4:
			err = b.d.CrawlNow(t.Context(), id)
		case 5:
			err = b.d.Block(t.Context(), host, []string{"", "asked to"}[rng.IntN(2)])
		case 6:
			capRate := 1 + rng.Float64()
			least := desk.Seconds(time.Duration(rng.IntN(5)) * 20 * time.Millisecond)
			_, err = b.d.SetStrategy(t.Context(), desk.StrategyAsk{Limits: &desk.LimitsAsk{Cap: &capRate, MinInterval: &least, Weights: []string{"pages", "equal", "rank"}[rng.IntN(3)]}})
		case 7:
			_, err = b.d.SetStrategy(t.Context(), desk.StrategyAsk{Name: []string{"fixed", "iir", "icr", "price", "optimal", "cycle"}[rng.IntN(6)]})
		case 8:
			time.Sleep(time.Duration(rng.IntN(200)) * time.Millisecond)
		}
		if err != nil && !errors.Is(err, manager.ErrAsk) {
			t.Fatal(err)
		}
	}
	// Nothing more is handed out, and what is out ends.
	b.swarm.mu.Lock()
	b.swarm.refuse = true
	b.swarm.mu.Unlock()
	for _, id := range ids {
		if err := b.d.Pause(t.Context(), id, true); err != nil {
			t.Fatal(err)
		}
	}
	b.settled(t)
	for _, id := range ids {
		if rng.IntN(3) > 0 {
			if err := b.d.Pause(t.Context(), id, false); err != nil {
				t.Fatal(err)
			}
		}
	}
	full.Store(true)
	until(t, "nothing to be handed out any more", func() bool {
		i, err := b.m.Strategy(t.Context())
		return err == nil && i.Sequencers.Sites == 0 && len(b.m.Overview().Notices) > 0
	})
	type known struct {
		row   desk.Row
		facts string
		rate  float64
	}
	look := func() map[channel.ID]known {
		t.Helper()
		out := map[channel.ID]known{}
		for _, id := range ids {
			r, _, _ := b.row(id)
			f, err := b.m.FactsOf(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			r.Due, r.Out, r.Awaited, f.Out, r.Model = time.Time{}, false, time.Time{}, 0, ""
			if f.Updated == 0 { // it was never crawled: what was handed out of it came to nothing, and counts as never handed out after a restart
				f.Submitted = 0
			}
			f.Flags &= recrawl.Known | recrawl.Pinned | recrawl.Paused | recrawl.Denied
			r.Every, f.Bucket = 0, 0 // they follow from the rate
			out[id] = known{r, ratePrinted.ReplaceAllString(fmt.Sprintf("%+v", f), ""), f.Est.Rate()}
		}
		return out
	}
	was, strategy := look(), func() manager.StrategyInfo { i, _ := b.m.Strategy(t.Context()); return i }
	before := strategy()
	b.stop()
	b = open(t, dir, func(c *manager.Config, s *swarm) {
		c.KeptStrategy, c.Disk, s.refuse = true, disk, true
	})
	now := look()
	for _, id := range ids {
		if fmt.Sprint(was[id].row) != fmt.Sprint(now[id].row) {
			t.Errorf("channel %d: before\n%+v\nafter\n%+v", id, was[id].row, now[id].row)
		}
		if was[id].facts != now[id].facts {
			t.Errorf("channel %d: before\n%+v\nafter\n%+v", id, was[id].facts, now[id].facts)
		}
		if by := now[id].rate / was[id].rate; by > 1.5 || by < 1/1.5 {
			t.Errorf("channel %d: its change rate is %.2f times what it was", id, by)
		}
	}
	if after := strategy(); after.StrategyChoice != before.StrategyChoice || after.Limits != before.Limits {
		t.Errorf("strategy %+v %+v, was %+v %+v", after.StrategyChoice, after.Limits, before.StrategyChoice, before.Limits)
	}
}
