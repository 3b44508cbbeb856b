package dispatch

import (
	"testing"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/recrawl"
)

// TestHostState changes each thing that is known of a host, and looks that the change lasts and leaves the others alone.
func TestHostState(t *testing.T) {
	const key = channel.HostKey(7)
	m := New(epoch, Config{}, nil, nil, nil)
	m.Hurry(key, epoch)
	if len(m.hosts) != 0 {
		t.Fatal("a host of which nothing is known was hurried")
	}
	m.Leave(key, epoch.Add(time.Hour))
	m.Block(key, "asked to")
	m.Hurry(key, epoch.Add(2*time.Hour))
	if got := m.hosts[key].next(); !got.Equal(epoch.Add(time.Hour)) {
		t.Errorf("next visit at %v: to hurry put it off", got)
	}
	m.Hurry(key, epoch.Add(time.Minute))
	if got := m.hosts[key].next(); !got.Equal(epoch.Add(time.Minute)) {
		t.Errorf("next visit at %v, want it in a minute", got)
	}
	if m.Blocked(key) != "asked to" {
		t.Error("the host is not blocked any more")
	}
	m.Block(key, "")
	m.tidy(epoch.Add(2 * tidyEvery))
	if len(m.hosts) != 0 {
		t.Error("a host with which nothing is up was not forgotten")
	}
}

// TestHoldupTellsWhatKeepsAChannelBack has each thing that keeps a channel back come and go; admit agrees.
func TestHoldupTellsWhatKeepsAChannelBack(t *testing.T) {
	w := newWorld(Config{Terms: terms(), MaxOut: -1})
	w.chans = []*site{{host: 7}}
	m := w.m
	for what, c := range map[string]struct {
		set, undo func()
		want      Holdup
	}{
		"that it is not known": {func() { m.cfg.Coming = func(key channel.HostKey) bool { return key == 7 } }, func() { m.cfg.Coming = nil }, Politeness},
		"nothing":              {func() {}, func() {}, Nobody},
		"a block":              {func() { m.Block(7, "asked to") }, func() { m.Block(7, "") }, Blocking},
		"a wait between two":   {func() { m.Leave(7, w.now.Add(time.Hour)) }, func() { m.Hurry(7, w.now) }, Politeness},
		"a visit":              {func() { m.Visit(w.now, 7) }, func() { m.Left(7, w.now) }, Politeness},
		"a failure":            {func() { m.NotBefore(0, w.now.Add(time.Hour)) }, func() { m.NotBefore(0, time.Time{}) }, Failure},
		"the end of all":       {func() { m.cfg.Until = w.now.Add(w.expect / 2) }, func() { m.cfg.Until = time.Time{} }, Ending},
		"an end that is later": {func() { m.cfg.Until = w.now.Add(2 * w.expect) }, func() { m.cfg.Until = time.Time{} }, Nobody},
	} {
		c.set()
		if got := HoldupOf(m, w.now, 0); got != c.want {
			t.Errorf("%s: %d, want %d", what, got, c.want)
		}
		if _, _, ok := m.admit(w.now, 0, way{}); ok && c.want != Nobody {
			t.Errorf("%s: it is admitted", what)
		}
		if what == "that it is not known" && m.Visit(w.now, 7) {
			t.Errorf("%s: it is visited", what)
		}
		c.undo()
	}
}

// TestCrawlNowCountsForTheLimits asks for channels at once, a new one and a known one: Due is told when, or it would hand them out once more straight after.
func TestCrawlNowCountsForTheLimits(t *testing.T) {
	w := newWorld(Config{Terms: terms()})
	w.hosts[1], w.hosts[2] = 1, 2
	for i, s := range []recrawl.Slot{w.add(1), w.add(2)} {
		w.chans[s].facts.Updated, w.chans[s].facts.Submitted = recrawl.Tick(i), recrawl.Tick(i)
		w.now = w.now.Add(10 * time.Minute)
		if err := w.m.CrawlNow(w.now, s); err != nil {
			t.Fatal(err)
		}
		if got, want := w.chans[s].facts.Submitted, w.clock.At(w.now); got != want {
			t.Errorf("channel %d counts as asked for at tick %d, want %d", s, got, want)
		}
	}
}

// TestHostOfAClockThatWasAhead has a host left alone by a clock that was a year ahead, and is right again: it is not left alone for a year.
func TestHostOfAClockThatWasAhead(t *testing.T) {
	w := newWorld(Config{Terms: terms()})
	w.hosts[1] = 1
	w.m.Leave(1, w.now.Add(365*24*time.Hour))
	for range 3 {
		w.now = w.now.Add(time.Minute)
		w.m.Tick(w.now)
	}
	if until := w.m.hosts[1].next(); until.After(w.now.Add(terms().Term)) {
		t.Errorf("it is left alone for %v, want at most the longest lease, %v", until.Sub(w.now), terms().Term)
	}
	w.m.Leave(1, w.now.Add(time.Hour))
	w.now = w.now.Add(2 * time.Minute)
	if w.m.Tick(w.now); w.m.hosts[1].next().Sub(w.now) < 50*time.Minute {
		t.Error("a host that is left alone for an hour is not")
	}
}

// TestClockSetBackWhileATaskWaits has a task wait, by a clock that is days ahead, before it is handed out again; then the clock is set right. It waited for the time that the clock had told.
func TestClockSetBackWhileATaskWaits(t *testing.T) {
	for _, asked := range []bool{false, true} {
		w := newWorld(Config{Terms: terms(), MaxOut: -1})
		m, right := w.m, w.now
		s := w.add(7)
		w.hosts[7] = 1
		w.now = right.Add(20 * 24 * time.Hour)
		f := m.takeOff(w.now, s, lease.Issue{})
		f.asked = asked
		m.again(w.now, f, w.now.Add(time.Minute))
		m.tidy(w.now.Add(2 * tidyEvery))
		if m.flights.find(s) == nil {
			t.Fatal("a task that waits for a minute is given up")
		}
		w.now = right.Add(time.Minute)
		m.tidy(w.now)
		switch f := m.flights.find(s); {
		case !asked && f != nil:
			t.Errorf("the task waits still, until %v", time.Unix(0, f.due).UTC())
		case asked && (f == nil || !f.queued):
			t.Errorf("the task that an operator asked for is not handed out: %+v", f)
		}
		if m.waiting != len(m.immediate) {
			t.Errorf("%d tasks wait, %d of them for room", m.waiting, len(m.immediate))
		}
	}
}
