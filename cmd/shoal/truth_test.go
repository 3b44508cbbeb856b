package main

import (
	"context"
	"errors"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"shoal/channel"
	"shoal/internal/lab/pond"
	"shoal/manager/archive"
	"shoal/manager/desk"
)

// feedOf is an archive's feed of one batch.
type feedOf []archive.Change

func (f *feedOf) Changes(context.Context, string, int) ([]archive.Change, string, error) {
	list := *f
	*f = nil
	return list, "end", nil
}

func (f *feedOf) Get(context.Context, string, time.Time) (archive.Capture, error) {
	return archive.Capture{}, archive.ErrNotFound
}

// TestTruth stores every page of some hosts at one moment and asks later. The figures must be those of a comparison of
// every page, by hand.
func TestTruth(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	w, err := pond.NewWorld(pond.Config{Seed: 5, Hosts: 12, Pages: 300, Start: start})
	if err != nil {
		t.Fatal(err)
	}
	stored, later := start.Add(100*time.Second), start.Add(130*time.Second)
	tr := newTruth(w, func(h, p int, about time.Time) uint64 { return w.Version(h, p, about).Text })
	chs := pondChannels(w)
	for i := range chs {
		chs[i].ID, chs[i].State = channel.ID(i+1), channel.Active
		if i < 7 { // the first crawl of that one has not ended
			chs[i].Learnt.Updated = stored
		}
	}
	chs[3].State, chs[4].Settings.Weight = channel.Paused, 9
	tr.readChannels(t.Context(), func(_ context.Context, after channel.ID, _ int) ([]channel.Channel, error) { return chs[after:], nil })
	var feed feedOf
	for h := range 8 { // the others were never crawled
		for p := range w.Hosts()[h].Pages {
			feed = append(feed, archive.Change{URL: w.URL(h, p), Status: 200, Fetched: stored})
		}
	}
	gone := w.URL(0, 0)
	feed = append(feed, archive.Change{URL: gone, Status: 404, Fetched: stored}, archive.Change{URL: "https://elsewhere.test/", Status: 200, Fetched: stored})
	tr.follow(t.Context(), &feed)

	var hosts, fresh, weight, freshWeight, pages, freshPages float64
	for h := range w.Hosts() {
		if h == 3 {
			continue
		}
		importance := 1.0
		if h == 4 {
			importance = 9
		}
		whole := h < 7
		for p := range w.Hosts()[h].Pages {
			pages++
			if h >= 8 || h == 0 && p == 0 {
				continue
			}
			if w.Version(h, p, stored).Text == w.Version(h, p, later).Text {
				freshPages++
			} else {
				whole = false
			}
		}
		hosts, weight = hosts+1, weight+importance
		if whole {
			fresh, freshWeight = fresh+1, freshWeight+importance
		}
	}
	tr.look(later, 1)
	tr.look(later, 1)
	if tr.now().Mean != nil {
		t.Error("an average over no time")
	}
	tr.look(later.Add(time.Nanosecond), 1)
	got := tr.now()
	for what, x := range map[string][2]float64{"channels": {got.Channels, fresh / hosts}, "pages": {got.Pages, freshPages / pages}, "weight": {got.Weight, freshWeight / weight}} {
		if math.Abs(x[0]-x[1]) > 1e-9 || x[1] == 0 || x[1] == 1 {
			t.Errorf("%s: %v, by hand %v", what, x[0], x[1])
		}
	}
	s := summarise(desk.Overview{}, desk.Overview{Truth: got})
	if s.TrueFreshness == nil || s.Channels != 0 || math.Abs(s.TrueFreshness.EstimateError-(1-fresh/hosts)) > .001 {
		t.Errorf("summary %+v", s.TrueFreshness)
	}
}

// TestTruthOfASplitHost has a directory of a host be a channel of its own: each counts, by what is stored of itself.
func TestTruthOfASplitHost(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	w, err := pond.NewWorld(pond.Config{Seed: 5, Hosts: 2, Pages: 120, Start: start})
	if err != nil {
		t.Fatal(err)
	}
	host, dir, inside := 0, "", 0
	for h := range w.Hosts() {
		for p := range w.Hosts()[h].Pages {
			if path := w.Path(h, p); p > 0 && strings.HasSuffix(path, "/") {
				host, dir, inside = h, path, p
			}
		}
	}
	if dir == "" {
		t.Fatal("no host of the pond has a directory")
	}
	served := map[int]uint64{0: w.Version(host, 0, start).Text, inside: 1} // of the directory something else is stored
	tr := newTruth(w, func(_, p int, _ time.Time) uint64 { return served[p] })
	of := w.Origin(host)
	chs := []channel.Channel{
		{ID: 1, State: channel.Active, Learnt: channel.Learnt{Updated: start}, Scope: channel.Scope{Kind: channel.WholeHost, Host: of, Exclude: []string{"^" + regexp.QuoteMeta(of+dir)}}},
		{ID: 2, State: channel.Active, Learnt: channel.Learnt{Updated: start}, Scope: channel.Scope{Kind: channel.Directory, Host: of, Dirs: []string{dir}}, Settings: channel.Settings{Weight: 3}},
	}
	tr.readChannels(t.Context(), func(_ context.Context, after channel.ID, _ int) ([]channel.Channel, error) { return chs[after:], nil })
	tr.follow(t.Context(), &feedOf{{URL: w.URL(host, 0), Status: 200, Fetched: start}, {URL: w.URL(host, inside), Status: 200, Fetched: start}})
	tr.look(start, 0)
	if got := tr.now(); got.Channels != .5 || got.Weight != .25 {
		t.Errorf("of a fresh channel and a stale one of three times its weight, on one host: %+v", got)
	}
	tr.readChannels(t.Context(), func(_ context.Context, after channel.ID, _ int) ([]channel.Channel, error) { return chs[after:], nil })
	if got := tr.now(); got.Channels != .5 {
		t.Errorf("before the next look: %+v", got)
	}
}

// TestTruthIsAverageOverTime looks at uneven moments, as a busy machine does: what is true for longer counts for more.
func TestTruthIsAverageOverTime(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	w, err := pond.NewWorld(pond.Config{Seed: 5, Hosts: 1, Pages: 1, Start: start, Static: true})
	if err != nil {
		t.Fatal(err)
	}
	tr := newTruth(w, func(h, p int, about time.Time) uint64 { return w.Version(h, p, about).Text })
	chs := pondChannels(w)
	chs[0].ID, chs[0].State, chs[0].Learnt.Updated = 1, channel.Active, start
	tr.readChannels(t.Context(), func(_ context.Context, after channel.ID, _ int) ([]channel.Channel, error) { return chs[after:], nil })
	tr.look(start, 0)
	tr.look(start.Add(time.Second), 0)
	tr.follow(t.Context(), &feedOf{{URL: w.URL(0, 0), Status: 200, Fetched: start}})
	tr.look(start.Add(10*time.Second), .5) // nothing was looked at for nine seconds
	want := desk.TrueFreshness{Channels: .9, Pages: .9, Weight: .9, Estimate: .45, EstimateError: .45}
	if got := tr.now(); got.Mean == nil || *got.Mean != want {
		t.Errorf("got %+v, want %+v", got.Mean, want)
	}
	if s := summarise(desk.Overview{}, desk.Overview{Truth: tr.now()}); s.TrueFreshness == nil || *s.TrueFreshness != want {
		t.Errorf("summary %+v", s.TrueFreshness)
	}
	if s := summarise(desk.Overview{}, desk.Overview{}); s.TrueFreshness != nil {
		t.Errorf("of the Web the summary tells %+v", s.TrueFreshness)
	}
	for name, of := range map[string]func(*desk.TrueFreshness) float64{"error": func(m *desk.TrueFreshness) float64 { return m.EstimateError }, "estimate": func(m *desk.TrueFreshness) float64 { return m.Estimate }} {
		reg := prometheus.NewRegistry()
		reg.MustRegister(tr.mean("shoal_"+name, "help", nil, of))
		all, err := reg.Gather()
		if err != nil || len(all) != 1 || all[0].GetMetric()[0].GetGauge().GetValue() != .45 {
			t.Errorf("metric %s: %v, %v", name, all, err)
		}
	}
}

// quiet is the feed of an archive in which nothing happens.
type quiet struct{}

func (quiet) Changes(_ context.Context, cursor string, _ int) ([]archive.Change, string, error) {
	return nil, cursor, nil
}

func (quiet) Get(context.Context, string, time.Time) (archive.Capture, error) {
	return archive.Capture{}, archive.ErrNotFound
}

// forgetful is an archive whose feed keeps the changes from some number on. A cursor is a number.
type forgetful struct {
	all  []archive.Change
	kept int
}

func (f *forgetful) Changes(_ context.Context, cursor string, limit int) ([]archive.Change, string, error) {
	n, _ := strconv.Atoi(cursor) // none is 0
	if cursor != "" && n < f.kept {
		return nil, "", archive.ErrTrimmed
	}
	n = max(n, f.kept)
	list := f.all[n:min(n+limit, len(f.all))]
	return list, strconv.Itoa(n + len(list)), nil
}

// Get tells the last change of a page.
func (f *forgetful) Get(_ context.Context, url string, _ time.Time) (archive.Capture, error) {
	for i := len(f.all) - 1; i >= 0; i-- {
		if c := f.all[i]; c.URL == url {
			return archive.Capture{URL: url, Status: c.Status, Fetched: c.Fetched}, nil
		}
	}
	return archive.Capture{}, archive.ErrNotFound
}

// TestTruthKnowsWhatTheFeedForgot has retention forget changes: before the truth begins to read, as after a restart, and while it is behind. What is stored stays so.
func TestTruthKnowsWhatTheFeedForgot(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, c := range map[string]struct{ first, kept int }{"before it began": {0, 3}, "while it was behind": {2, 4}, "all of them": {0, 5}} {
		w, err := pond.NewWorld(pond.Config{Seed: 5, Hosts: 5, Pages: 5, MaxHost: 1, Start: start, Static: true})
		if err != nil {
			t.Fatal(err)
		}
		tr := newTruth(w, func(h, p int, about time.Time) uint64 { return w.Version(h, p, about).Text })
		chs := pondChannels(w)
		for i := range chs {
			chs[i].ID, chs[i].State, chs[i].Learnt.Updated = channel.ID(i+1), channel.Active, start
		}
		tr.readChannels(t.Context(), func(_ context.Context, after channel.ID, _ int) ([]channel.Channel, error) { return chs[after:], nil })
		var all []archive.Change
		for h := range w.Hosts() {
			all = append(all, archive.Change{URL: w.URL(h, 0), Status: 200, Fetched: start})
		}
		all[1].Status = 404
		if c.first > 0 {
			tr.follow(t.Context(), &forgetful{all: all[:c.first]})
		}
		tr.follow(t.Context(), &forgetful{all: all, kept: c.kept})
		for range w.Hosts() {
			tr.look(start, 0)
		}
		if got := tr.now(); got.Channels != .8 || got.Pages != .8 {
			t.Errorf("%s: %+v, want .8 of all", name, got)
		}
	}
}

// TestTruthSeesNewChannels has an operator add channels while the truth is watched: they count from the next second on. Where reading takes long, it is done seldom.
func TestTruthSeesNewChannels(t *testing.T) {
	for _, c := range []struct {
		takes time.Duration
		least int // readings in a minute
		most  int
	}{{0, 59, 61}, {time.Second, 2, 3}} {
		synctest.Test(t, func(t *testing.T) {
			w, err := pond.NewWorld(pond.Config{Seed: 5, Hosts: 4, Pages: 40, Start: time.Now()})
			if err != nil {
				t.Fatal(err)
			}
			tr := newTruth(w, func(h, p int, about time.Time) uint64 { return w.Version(h, p, about).Text })
			all, readings := pondChannels(w), 0
			for i := range all {
				all[i].ID, all[i].State = channel.ID(i+1), channel.Active
			}
			begun := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				tr.run(ctx, quiet{}, func(_ context.Context, after channel.ID, _ int) ([]channel.Channel, error) {
					there := all[:3]
					if time.Since(begun) >= 10*time.Second {
						there = all
					}
					if after == 0 {
						readings++
						time.Sleep(c.takes)
					}
					return there[after:], nil
				}, func() float64 { return 0 })
			}()
			time.Sleep(11500 * time.Millisecond)
			tr.mu.Lock()
			n := len(tr.of[3])
			tr.mu.Unlock()
			if c.takes == 0 && n != 1 {
				t.Error("a channel that was added does not count a second later")
			}
			<-ended
			if readings < c.least || readings > c.most {
				t.Errorf("%d readings in a minute, which take %v each: want %d to %d", readings, c.takes, c.least, c.most)
			}
		})
	}
}

// TestTruthMeetsAPondThatStartedAnew has the pond of a running manager end and another one begin at its place. What was crawled of the first is of no page of the second.
func TestTruthMeetsAPondThatStartedAnew(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	world := func(hosts int, at time.Time) *pond.World {
		w, err := pond.NewWorld(pond.Config{Seed: 5, Hosts: hosts, Pages: hosts, MaxHost: 1, Start: at, Static: true})
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	var list []channel.Channel
	channels := func(w *pond.World) {
		list = pondChannels(w)
		for i := range list {
			list[i].ID, list[i].State = channel.ID(i+1), channel.Active
		}
	}
	first, feed := world(3, start), new(forgetful)
	tr := newTruth(first, nil)
	now := first
	tr.again = func(context.Context) (*pond.World, error) { return now, nil }
	look := func(at time.Time) float64 {
		tr.readChannels(t.Context(), func(_ context.Context, after channel.ID, _ int) ([]channel.Channel, error) { return list[after:], nil })
		tr.follow(t.Context(), feed)
		tr.look(at, 0)
		return tr.now().Channels
	}
	crawl := func(w *pond.World, at time.Time) {
		for h := range w.Hosts() {
			feed.all = append(feed.all, archive.Change{URL: w.URL(h, 0), Status: 200, Fetched: at})
			list[h].Learnt.Updated = at
		}
	}
	channels(first)
	crawl(first, start.Add(time.Minute))
	if tr.meet(t.Context()) || look(start.Add(time.Hour)) != 1 {
		t.Error("of a pond that goes on")
	}
	later := start.Add(2 * time.Hour)
	now = world(4, later)
	channels(now)
	if !tr.meet(t.Context()) {
		t.Fatal("another pond is taken for the first")
	}
	if got := look(later.Add(time.Minute)); got != 0 {
		t.Errorf("%v is current of what nobody has crawled", got)
	}
	crawl(now, later.Add(2*time.Minute))
	if got := look(later.Add(3 * time.Minute)); got != 1 {
		t.Errorf("%v is current of what was just crawled", got)
	}
	tr.again = func(context.Context) (*pond.World, error) { return nil, errors.New("it is away") }
	if tr.meet(t.Context()) || look(later.Add(4*time.Minute)) != 1 {
		t.Error("a pond that is away was forgotten")
	}
}
