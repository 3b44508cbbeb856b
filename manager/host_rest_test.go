package manager

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/manager/archive"
	"shoal/manager/dispatch"
)

// TestHostRestsWhileTheHolderMayNotKnow has the archive tell that a lease was taken from its holder, as after a ban: its host is left alone until the holder has stopped for
// certain. Who has given its lease back itself has stopped.
func TestHostRestsWhileTheHolderMayNotKnow(t *testing.T) {
	const name, gap = "https://a.example", time.Second
	at := time.Unix(1e9, 0)
	for what, tt := range map[string]struct {
		until, want time.Time
	}{
		"it has given it back": {time.Time{}, at.Add(gap)},
		"it was banned":        {at.Add(20 * time.Minute), at.Add(20 * time.Minute)},
		"its lease is over":    {at.Add(-time.Minute), at.Add(gap)},
	} {
		c := &core{cfg: Config{Gap: gap}}
		c.machine = dispatch.New(at, dispatch.Config{}, nil, nil, nil)
		le := &learner{core: c, keep: newKeeper(c)}
		h := &channel.Host{Name: name}
		key := channel.KeyOf(name)
		le.keep.records[key] = h
		le.leaveHost(at, name, &archive.Entry{When: at, Event: lease.Event{Kind: lease.Released, Gen: 1, Until: tt.until}})
		if !h.NextVisit.Equal(tt.want) {
			t.Errorf("%s: the host is left alone until %v, want %v", what, h.NextVisit, tt.want)
		}
		if c.machine.Visit(tt.want.Add(-time.Millisecond), key) || !c.machine.Visit(tt.want, key) {
			t.Errorf("%s: it is visited sooner or later than then", what)
		}
	}
}

// TestHostRestsAsItAsked has a crawl end while the host still wants to be left alone, as it asked by Retry-After: no channel of it goes sooner, and the wait is no
// Crawl-delay of later ones.
func TestHostRestsAsItAsked(t *testing.T) {
	const name = "https://a.example"
	at := time.Unix(1e9, 0)
	for rest, want := range map[time.Duration]time.Duration{0: time.Second, 4 * time.Minute: 4 * time.Minute} {
		c := &core{cfg: Config{Gap: time.Second}}
		c.machine = dispatch.New(at, dispatch.Config{}, nil, nil, nil)
		le := &learner{core: c, keep: newKeeper(c)}
		h := &channel.Host{Name: name}
		le.keep.records[channel.KeyOf(name)] = h
		le.leaveHost(at, name, &archive.Entry{When: at, Event: lease.Event{Kind: lease.Reported, Gen: 1}, Report: &channel.Report{Gap: time.Second, Rest: rest}})
		if got := h.NextVisit.Sub(at); got != want || h.CrawlDelay != time.Second {
			t.Errorf("rest %v: the host is left alone for %v, later for %v", rest, got, h.CrawlDelay)
		}
	}
}

// TestHostOfAClockThatWasAheadIsVisitedAgain has a host whose record says that it rests for ten days, as a clock that was ahead has it, and that is crawled meanwhile. The record says
// then what is so, or the host would rest for as long after each visit. So it is where the archive's own clock is ahead.
func TestHostOfAClockThatWasAheadIsVisitedAgain(t *testing.T) {
	const name, gap, far = "https://a.example", time.Second, 10 * 24 * time.Hour
	now := time.Unix(1e9, 0)
	terms := lease.Terms{Term: time.Minute}
	for what, tt := range map[string]struct {
		was, when time.Time
		restored  bool // the manager began with that record just now
		want      time.Duration
	}{
		"the record is of a clock that was ahead":                   {now.Add(far), now, false, gap},
		"the manager began with a record of a clock that was ahead": {now.Add(far), now, true, terms.Term},
		"the archive's clock is ahead":                              {time.Time{}, now.Add(far), false, gap},
		"the record is of now, and the archive's is ahead":          {now.Add(time.Hour), now.Add(far), true, time.Hour},
		"it is to be left alone for an hour":                        {now.Add(time.Hour), now, true, time.Hour},
	} {
		c := &core{cfg: Config{Gap: gap, Terms: terms}}
		c.machine = dispatch.New(now, dispatch.Config{Terms: terms}, nil, nil, nil)
		le := &learner{core: c, keep: newKeeper(c)}
		h := &channel.Host{Name: name, NextVisit: tt.was}
		key := channel.KeyOf(name)
		le.keep.records[key] = h
		if tt.restored {
			c.leaveStill(now, h)
		}
		le.leaveHost(now, name, &archive.Entry{When: tt.when, Event: lease.Event{Kind: lease.Reported, Gen: 1}})
		if got := h.NextVisit.Sub(now); got != tt.want {
			t.Errorf("%s: its record says that it rests for %v, want %v", what, got, tt.want)
		}
		if !c.machine.Visit(now.Add(tt.want), key) {
			t.Errorf("%s: it is not visited after %v", what, tt.want)
		}
	}
}

// TestBlocksThatReportsTell has peers give a reason as long as one may be: what is kept is no longer than that, and says whose word it is. A block of the operator keeps its own reason.
func TestBlocksThatReportsTell(t *testing.T) {
	const name = "https://a.example"
	key, at := channel.KeyOf(name), time.Unix(1e9, 0)
	c := &core{cfg: Config{Swarm: newFullSwarm()}, tally: newTally(at), log: slog.New(slog.DiscardHandler)}
	c.machine = dispatch.New(at, dispatch.Config{}, nil, nil, nil)
	le := &learner{core: c, keep: newKeeper(c), parties: parties{}, accused: accused{}}
	h := &channel.Host{Name: name}
	le.keep.records[key] = h
	le.blockHost(at, name, strings.Repeat("x", channel.MaxText))
	if len(h.Blocked) != channel.MaxText || Stays(h.Blocked) || c.machine.Blocked(key) != h.Blocked {
		t.Errorf("%d bytes are kept of %.30q, and it stays: %v", len(h.Blocked), h.Blocked, Stays(h.Blocked))
	}
	h.Blocked = "asked to"
	c.machine.Block(key, h.Blocked)
	if le.blockHost(at, name, "go away"); h.Blocked != "asked to" {
		t.Errorf("a report makes the operator's reason %q", h.Blocked)
	}
}

// TestHostThatNamesATimeIsNotBlocked has a host ask to come back in an hour, as one does that is being worked on: when two accounts say so it is left alone for so long. It was blocked until somebody
// unblocked it.
func TestHostThatNamesATimeIsNotBlocked(t *testing.T) {
	const name = "https://a.example"
	key, at := channel.KeyOf(name), time.Unix(1e9, 0)
	for rest, want := range map[time.Duration]time.Duration{time.Hour: time.Hour, 48 * time.Hour: channel.MostRest, 0: 0} {
		c := &core{cfg: Config{Gap: time.Second, Swarm: newFullSwarm(), Failing: Failing{Pause: time.Minute, MaxPause: time.Hour}}, tally: newTally(at), log: slog.New(slog.DiscardHandler)}
		c.machine = dispatch.New(at, dispatch.Config{}, nil, nil, nil)
		le := &learner{core: c, keep: newKeeper(c), parties: parties{}, accused: accused{}}
		h := &channel.Host{Name: name}
		le.keep.records[key] = h
		for _, by := range []string{"a", "b"} {
			if h.Blocked != "" || h.NextVisit.Sub(at) > time.Minute && by == "b" {
				t.Errorf("rest %v: after one word it is blocked: %q, and left alone until %v", rest, h.Blocked, h.NextVisit)
			}
			le.refusedBy(at, name, &archive.Entry{Peer: by, Report: &channel.Report{Outcome: channel.HostBlocked, Reason: "come back", Rest: rest}}, repeated)
		}
		if blocked := h.Blocked != ""; blocked != (want == 0) || want > 0 && h.NextVisit.Sub(at) != want {
			t.Errorf("rest %v: blocked: %q, left alone for %v, want %v", rest, h.Blocked, h.NextVisit.Sub(at), want)
		}
		if want > 0 && (c.machine.Visit(at.Add(want-time.Second), key) || !c.machine.Visit(at.Add(want), key)) {
			t.Errorf("rest %v: it is visited sooner or later than then", rest)
		}
	}
}
