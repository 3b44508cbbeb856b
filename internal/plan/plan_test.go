package plan

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shoal/recrawl"
	"shoal/recrawl/allocate"
)

func channels(n int) *Channels {
	rng := rand.New(rand.NewPCG(1, 1))
	c := &Channels{Now: 10_000}
	for i := range n {
		c.All = append(c.All, Channel{ID: strings.Repeat("x", 1+i%3), Pages: 10 + rng.IntN(500), Facts: recrawl.Facts{Est: recrawl.Exactly(60 * math.Pow(100, rng.Float64())),
			Weight: 1, Service: recrawl.ToHalf(2 + 10*rng.Float32()), Submitted: 9000, Updated: recrawl.Tick(8000 + rng.IntN(2000))}})
	}
	return c
}

func report(t *testing.T, c Command, src Source) Report {
	t.Helper()
	var out bytes.Buffer
	c.JSON = true
	if err := c.Run(context.Background(), src, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	var r Report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestChannels(t *testing.T) {
	dir := t.TempDir()
	r := report(t, Command{Freshness: .8, Rows: 5, Threads: 5, Plot: dir, Schedule: filepath.Join(dir, "s.csv")}, channels(300))
	for i := 1; i < len(r.Points); i++ {
		if r.Points[i].Freshness < r.Points[i-1].Freshness-1e-6 || r.Points[i].Pages <= r.Points[i-1].Pages {
			t.Errorf("%+v buys no more than %+v", r.Points[i], r.Points[i-1])
		}
	}
	for _, p := range r.Points {
		if p.Freshness < p.Uniform-1e-3 {
			t.Errorf("optimal is below uniform: %+v", p)
		}
	}
	if r.Needed == nil || math.Abs(r.Needed.Freshness-.8) > .01 || len(r.Entries) != 5 {
		t.Errorf("needed %+v, %d entries", r.Needed, len(r.Entries))
	}
	if r.Models["poisson"] != 300 || !strings.Contains(r.Advice, "crawlers of 5 threads") {
		t.Errorf("models %v, advice %q", r.Models, r.Advice)
	}
	for _, f := range []string{"plan-capacity.svg", "plan-frequencies.svg", "plan-timetable.svg", "s.csv"} {
		if _, err := os.Stat(filepath.Join(dir, f)); err != nil {
			t.Error(err)
		}
	}
}

// A database that has rested for days is planned for by what was crawled before.
func TestRested(t *testing.T) {
	late, rested := channels(30), channels(30)
	for _, c := range []*Channels{late, rested} {
		c.Now = 0
		for i := range c.All {
			c.Now = max(c.Now, c.All[i].Facts.Updated)
		}
	}
	rested.Now += 10 * recrawl.PlanDay
	if got, want := rested.Default(), late.Default(); got != want || !(got > 0) {
		t.Errorf("after ten days at rest the capacity is %g, want %g", got, want)
	}
}

func TestFile(t *testing.T) {
	ids, pages, err := allocate.ReadPages(strings.NewReader("a,poisson,3\nb,pareto,1.5 .2\nc,quasi,.25:1 .5:.9\nd,poisson,.1\n"), "p", 1)
	if err != nil {
		t.Fatal(err)
	}
	src := &File{IDs: ids, Pages: pages, Span: 1, Crawlers: 2}
	r := report(t, Command{Capacity: 8, Freshness: .9, Rows: 100}, src)
	if r.Needed == nil || r.Needed.Freshness < .9 || r.Now.Freshness < r.Now.Uniform || len(r.Entries) != 8 {
		t.Errorf("%+v", r)
	}
	for _, e := range r.Entries {
		if e.ID == "c" && e.Time < .25 {
			t.Errorf("crawled before its update: %+v", e)
		}
	}
	var out bytes.Buffer
	if err := (&Command{Rows: 3}).Run(context.Background(), src, &out, io.Discard); err != nil || !strings.Contains(out.String(), "freshness") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// With phases, a page's crawls stay at even distances, each page begins at a time of its own, and the timetable hardly moves a crawl.
func TestPhases(t *testing.T) {
	var text strings.Builder
	for i := range 400 {
		fmt.Fprintf(&text, "p%d,poisson,3\n", i)
	}
	text.WriteString("q,quasi,.25:1 .5:.9\n")
	ids, pages, err := allocate.ReadPages(strings.NewReader(text.String()), "p", 1)
	if err != nil {
		t.Fatal(err)
	}
	src := &File{IDs: ids, Pages: pages, Span: 1, Crawlers: 2}
	entries, together, err := src.Timetable(t.Context(), 1600)
	if err != nil {
		t.Fatal(err)
	}
	src.Phases = true
	spread, apart, err := src.Timetable(t.Context(), 1600)
	if err != nil {
		t.Fatal(err)
	}
	if len(spread) != len(entries) || apart > together/20 {
		t.Errorf("moved by %g on average with phases, %g without", apart, together)
	}
	last := map[string]float64{}
	count := map[string]int{}
	for _, e := range spread {
		count[e.ID]++
	}
	for _, e := range spread {
		if at, ok := last[e.ID]; ok && e.ID != "q" && math.Abs(e.Time-at-1/float64(count[e.ID])) > .02 {
			t.Errorf("%s is crawled %g after the crawl before, want %g", e.ID, e.Time-at, 1/float64(count[e.ID]))
		}
		if e.ID == "q" && e.Time < .25 {
			t.Errorf("%+v comes before the page's update", e)
		}
		last[e.ID] = e.Time
	}
}

func TestRefusals(t *testing.T) {
	for _, c := range []Command{{Freshness: 1}, {Capacity: math.NaN()}, {Rows: -1}, {Threads: -1}} {
		if err := c.Run(context.Background(), channels(3), io.Discard, io.Discard); !errors.Is(err, ErrFlags) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if err := (&Command{}).Run(context.Background(), &Channels{}, io.Discard, io.Discard); !errors.Is(err, ErrNone) {
		t.Errorf("no channels: %v", err)
	}
	idle := channels(3)
	for i := range idle.All {
		idle.All[i].Facts.Updated = 0
	}
	if err := (&Command{}).Run(context.Background(), idle, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), "--capacity") {
		t.Errorf("no capacity: %v", err)
	}
}

// Channels are planned by the models that their histories speak for, within the cap; a freshness that the cap forbids is said to be out of reach.
func TestHistoriesAndCap(t *testing.T) {
	c := channels(40)
	c.Cap, c.Least = 2, 10
	free := report(t, Command{Freshness: .5, Threads: 5}, channels(40))
	rng := rand.New(rand.NewPCG(2, 2))
	last, now := recrawl.Tick(1), recrawl.Tick(2)
	var history []byte
	for range 200 { // updated at half past seven and half past ten
		now += recrawl.Tick(60 + rng.IntN(240))
		history = recrawl.AppendVisit(history, float64(now-last), (now-450)/1440 != (last-450)/1440 || (now-630)/1440 != (last-630)/1440)
		last = now
	}
	c.Now = now + 10
	for i := range c.All {
		c.All[i].Facts.Updated, c.All[i].Facts.Submitted = now, now-5
	}
	c.All[3].History = history
	r := report(t, Command{Freshness: .9, Threads: 5}, c)
	if r.Models["quasi"] != 1 || r.Models["poisson"] != 39 {
		t.Errorf("models %v", r.Models)
	}
	if r.Needed != nil || !strings.Contains(r.Advice, "cannot be had") {
		t.Errorf("at most two crawls a change cannot give .9: %+v, %s", r.Needed, r.Advice)
	}
	if free.Needed == nil {
		t.Errorf("without a cap .5 can be had: %s", free.Advice)
	}
	for _, p := range r.Points {
		if p.Freshness < p.Uniform-.02 {
			t.Errorf("optimal is below uniform: %+v", p)
		}
	}
}
