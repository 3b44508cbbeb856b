package manager

import (
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/manager/archive"
	"shoal/manager/dispatch"
)

// TestHostRestsThoughTheClockGoesForward has a crawl of a host end that wants a minute's rest, and the clock set: the host has its minute, be the end heard of
// before that or after.
func TestHostRestsThoughTheClockGoesForward(t *testing.T) {
	const name, gap, late = "https://a.example", time.Minute, 10 * time.Millisecond
	for what, tt := range map[string]struct {
		step  time.Duration
		heard bool // before the clock is set
		more  time.Duration
	}{
		"heard before":   {10 * time.Minute, true, 0},
		"heard after":    {10 * time.Minute, false, 0},
		"by less":        {20 * time.Second, false, 0},
		"it is not set":  {0, true, 0},
		"set back":       {-10 * time.Minute, true, 0},
		"set back, late": {-10 * time.Minute, false, late},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ahead time.Duration
				clock := func() time.Time { return time.Now().Add(ahead) }
				c := &core{cfg: Config{Gap: time.Second, Now: clock}, log: slog.New(slog.DiscardHandler)}
				c.machine = dispatch.New(clock(), dispatch.Config{Terms: lease.Default()}, nil, nil, nil)
				le := &learner{core: c, keep: newKeeper(c)}
				key := channel.KeyOf(name)
				le.keep.records[key] = &channel.Host{Name: name}
				le.keep.now()
				time.Sleep(time.Second)
				ended, e := time.Now(), archive.Entry{When: clock(), Event: lease.Event{Kind: lease.Reported, Gen: 1}, Report: &channel.Report{Gap: gap}}
				if tt.heard {
					le.leaveHost(clock(), name, &e)
				}
				time.Sleep(late)
				ahead = tt.step
				le.keep.now()
				if !tt.heard {
					le.leaveHost(clock(), name, &e)
				}
				for _, wait := range []time.Duration{0, gap / 2, gap - time.Second, gap + tt.more} {
					time.Sleep(wait - time.Since(ended))
					le.keep.now()
					if may := c.machine.Visit(clock(), key); may != (wait > gap-time.Second) {
						t.Errorf("%v after the crawl: may be visited: %v", wait, may)
					}
				}
			})
		})
	}
}

// TestHostRestsWhateverTheClockDid has a clock set and set right again, between what is said of hosts and the looks at them. Each host has its minute, and no more.
func TestHostRestsWhateverTheClockDid(t *testing.T) {
	const gap = time.Minute
	for _, steps := range [][2]time.Duration{{10 * time.Minute, 0}, {-10 * time.Minute, 0}, {20 * time.Second, -20 * time.Second}, {-20 * time.Second, 10 * time.Minute}} {
		t.Run(fmt.Sprint(steps), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ahead time.Duration
				c := &core{cfg: Config{Gap: time.Second, Now: func() time.Time { return time.Now().Add(ahead) }}, log: slog.New(slog.DiscardHandler)}
				c.machine = dispatch.New(c.cfg.Now(), dispatch.Config{Terms: lease.Default()}, nil, nil, nil)
				le := &learner{core: c, keep: newKeeper(c)}
				le.keep.now()
				type visited struct {
					how   string
					ended time.Time
				}
				hosts := map[string]visited{}
				visit := func() {
					for _, how := range []string{"read", "counted"} { // by the feed, whose times are what the clock shows, or by a clock that also counts evenly
						name := fmt.Sprintf("https://%s%d.example", how, len(hosts))
						h := &channel.Host{Name: name}
						le.keep.records[channel.KeyOf(name)] = h
						if hosts[name] = (visited{how, time.Now()}); how == "read" {
							le.leaveHost(c.cfg.Now(), name, &archive.Entry{When: c.cfg.Now().Round(0), Report: &channel.Report{Gap: gap}})
						} else {
							le.leave(c.cfg.Now(), h, c.cfg.Now().Add(gap))
						}
					}
				}
				visit()
				for _, step := range steps {
					time.Sleep(5 * time.Second)
					ahead = step
					le.keep.now()
					visit()
				}
				for range 80 {
					time.Sleep(time.Second)
					le.keep.now()
					for name, v := range hosts {
						key, passed := channel.KeyOf(name), time.Since(v.ended)
						if next := dispatch.LeftUntil(c.machine, key); next.After(c.cfg.Now().Round(0)) != (passed < gap) {
							t.Fatalf("%v after the end of a crawl that was %s, its host is left alone until %v from now", passed, v.how, next.Sub(c.cfg.Now().Round(0)))
						}
						if h := le.keep.records[key]; passed < gap && (h.NextVisit.Sub(c.cfg.Now().Round(0)) != gap-passed || h.Rest > gap) {
							t.Fatalf("%v after the end of a crawl that was %s, the record of its host says: for %v from now, of %v", passed, v.how, h.NextVisit.Sub(c.cfg.Now().Round(0)), h.Rest)
						}
					}
				}
			})
		})
	}
}

// TestHostRestsAfterARestartWithAnotherClock restores what a manager noted whose clock was ahead, or behind, or right. No host is left alone for longer than it was to be, nor for less,
// but where the clock has gone forward meanwhile.
func TestHostRestsAfterARestartWithAnotherClock(t *testing.T) {
	const gap = time.Minute
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	for what, tt := range map[string]struct {
		ahead, ago time.Duration // by how much the clock was, and how long ago the host was visited
		known      bool          // for how long it was to be left alone
		want       time.Duration
	}{
		"right":                    {0, 10 * time.Second, true, 50 * time.Second},
		"ahead":                    {10 * time.Minute, 10 * time.Second, true, gap},
		"ahead, an earlier record": {10 * time.Minute, 10 * time.Second, false, 10*time.Minute + 50*time.Second},
		"a little ahead":           {5 * time.Second, 10 * time.Second, true, 55 * time.Second},
		"behind":                   {-10 * time.Second, 10 * time.Second, true, 40 * time.Second},
	} {
		t.Run(what, func(t *testing.T) {
			c := &core{cfg: Config{Now: func() time.Time { return now }, Terms: lease.Default()}, log: slog.New(slog.DiscardHandler)}
			c.machine = dispatch.New(now, dispatch.Config{Terms: lease.Default()}, nil, nil, nil)
			h := &channel.Host{Name: "https://a.example"}
			then := now.Add(tt.ahead - tt.ago)
			left(then, h, then.Add(gap))
			if !tt.known {
				h.Rest = 0
			}
			c.leaveStill(now, h)
			key := channel.KeyOf(h.Name)
			if got := dispatch.LeftUntil(c.machine, key).Sub(now); got != tt.want {
				t.Errorf("the host is left alone for %v, want %v", got, tt.want)
			}
			dispatch.Shift(c.machine, now, -tt.ahead.Abs()) // which clock was right then, nothing tells
			if got := dispatch.LeftUntil(c.machine, key).Sub(now); got != tt.want {
				t.Errorf("once the clock is set back the host is left alone for %v, want %v", got, tt.want)
			}
		})
	}
}

// TestStepOnABusyComputer sets the clock while the computer is too busy to tell a step from the time that passes. Time goes on evenly for as long, and the host has its rest.
func TestStepOnABusyComputer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const gap = time.Minute
		var ahead, busy time.Duration
		clock := func() time.Time {
			time.Sleep(busy)
			return time.Now().Add(ahead)
		}
		c := &core{cfg: Config{Gap: time.Second, Now: clock}, log: slog.New(slog.DiscardHandler)}
		c.machine = dispatch.New(clock(), dispatch.Config{Terms: lease.Default()}, nil, nil, nil)
		k := newKeeper(c)
		key := channel.KeyOf("https://a.example")
		ended := time.Now()
		c.machine.Leave(key, k.now().Add(gap))
		ahead, busy = 10*time.Minute, 2*lookSlack
		for time.Since(ended) < gap-2*time.Second {
			if now := k.now(); time.Until(now) != 0 || c.machine.Visit(now, key) {
				t.Fatalf("%v after the crawl it is %v later, and the host may be visited: %v", time.Since(ended), now.Sub(ended), c.machine.Visit(now, key))
			}
			time.Sleep(time.Second)
		}
		busy = 0
		if now := k.now(); time.Until(now) != ahead || c.machine.Visit(now, key) {
			t.Errorf("the computer is idle, and the step is not known as one: %v later", now.Sub(ended))
		}
		time.Sleep(gap - time.Since(ended))
		if !c.machine.Visit(k.now(), key) {
			t.Error("the host has had its rest, and may not be visited")
		}
	})
}

// TestStepsAfterAnEvent tells by how much the clock went forward after an event of which the manager hears late.
func TestStepsAfterAnEvent(t *testing.T) {
	at := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	step := func(since, by time.Duration) clockStep { return clockStep{at.Add(since - by), at.Add(since), by} }
	const long, short = 10 * time.Minute, 20 * time.Second
	ahead := step(long, long)
	for what, tt := range map[string]struct {
		steps []clockStep
		event time.Duration
		want  time.Duration
	}{
		"none":                         {nil, 0, 0},
		"before it went forward":       {[]clockStep{ahead}, -time.Second, long},
		"after that":                   {[]clockStep{ahead}, 11 * time.Minute, 0},
		"before it went forward twice": {[]clockStep{ahead, step(12*time.Minute, time.Minute)}, -time.Second, 11 * time.Minute},
		"between":                      {[]clockStep{ahead, step(12*time.Minute, time.Minute)}, 11 * time.Minute, time.Minute},
		"before it went forward, and was set right":   {[]clockStep{ahead, step(time.Minute, -long)}, -time.Second, 0},
		"after it was set right":                      {[]clockStep{ahead, step(time.Minute, -long)}, 2 * time.Minute, 0},
		"before it was set back":                      {[]clockStep{step(-short, -short)}, -time.Minute, 0},
		"before it was set back, and right again":     {[]clockStep{step(-long, -long), step(short, long)}, -time.Minute, 0},
		"while it was set back, before it was right":  {[]clockStep{step(-long, -long), step(short, long)}, -long + short/2, long},
		"before all of that, and before it was ahead": {[]clockStep{ahead, step(time.Minute, -long), step(-9*time.Minute, -long), step(time.Minute+short, long)}, -long, 0},
	} {
		if got := (&clockGain{steps: tt.steps}).after(at.Add(tt.event)); got != tt.want {
			t.Errorf("%s: %v, want %v", what, got, tt.want)
		}
	}
}
