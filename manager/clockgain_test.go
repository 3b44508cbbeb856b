package manager

import (
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
	const name, gap = "https://a.example", time.Minute
	for what, tt := range map[string]struct {
		step  time.Duration
		heard bool // before the clock is set
		more  time.Duration
	}{
		"heard before":   {10 * time.Minute, true, 0},
		"heard after":    {10 * time.Minute, false, 0},
		"by less":        {20 * time.Second, false, 0},
		"it is not set":  {0, true, 0},
		"set back":       {-20 * time.Second, true, 20 * time.Second},
		"set back, late": {-20 * time.Second, false, 20 * time.Second},
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
				c.lookAtClock()
				time.Sleep(time.Second)
				ended, e := time.Now(), archive.Entry{When: clock(), Event: lease.Event{Kind: lease.Reported, Gen: 1}, Report: &channel.Report{Gap: gap}}
				if tt.heard {
					le.leaveHost(clock(), name, &e)
				}
				time.Sleep(10 * time.Millisecond)
				ahead = tt.step
				c.lookAtClock()
				if !tt.heard {
					le.leaveHost(clock(), name, &e)
				}
				for _, wait := range []time.Duration{0, gap / 2, gap - time.Second, gap + tt.more} {
					time.Sleep(wait - time.Since(ended))
					c.lookAtClock()
					if may := c.machine.Visit(clock(), key); may != (wait > gap-time.Second) {
						t.Errorf("%v after the crawl: may be visited: %v", wait, may)
					}
				}
			})
		})
	}
}
