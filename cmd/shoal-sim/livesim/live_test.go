package livesim

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"shoal/internal/lab/pond"
)

func command() *Command {
	return &Command{Strategies: []string{"price", "icr"}, Peers: 8, Threads: 2, Load: []float64{.5, 1}, Minutes: 1, Churn: "both", Seeds: 2, Seed: 7, Scene: "none", Cap: 2, Weights: "pages"}
}

// Whoever mistypes a flag is told which, and what it wants.
func TestBadFlags(t *testing.T) {
	for name, change := range map[string]func(*Command){
		"--peers 0":    func(c *Command) { c.Peers = 0 },
		"--threads 65": func(c *Command) { c.Threads = 65 },
		"--seeds -1":   func(c *Command) { c.Seeds = -1 },
		"--minutes NaN": func(c *Command) {
			c.Minutes = math.NaN()
		},
		"--alike 101":                    func(c *Command) { c.Alike = 101 },
		"--cap -1":                       func(c *Command) { c.Cap = -1 },
		"--load 0":                       func(c *Command) { c.Load = []float64{0} },
		"--load: 1 is named twice":       func(c *Command) { c.Load = []float64{1, 1} },
		"--load: name one":               func(c *Command) { c.Load = nil },
		"--strategies: name one":         func(c *Command) { c.Strategies = nil },
		"--strategies: icr is named":     func(c *Command) { c.Strategies = []string{"icr", "icr"} },
		`--strategies: recrawl: unknown`: func(c *Command) { c.Strategies = []string{"best"} },
		"no program shoal":               func(c *Command) { c.Bin = t.TempDir() },
	} {
		c := command()
		change(c)
		var out bytes.Buffer
		if err := c.Run(t.Context(), &out, &out); err == nil || !strings.Contains(err.Error(), name) || !errors.Is(err, ErrFlags) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Runs of an earlier call are not gone on with: a network that knows its channels would be taken for one that starts cold.
func TestRunsOfBeforeAreLeftAlone(t *testing.T) {
	c := command()
	c.Bin, c.Dir = t.TempDir(), t.TempDir()
	for _, name := range []string{"shoal", "shoal-peer", "shoal.exe", "shoal-peer.exe"} {
		if err := os.WriteFile(filepath.Join(c.Bin, name), nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(c.Dir, "001"), 0o700); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := c.Run(t.Context(), &out, &out); !errors.Is(err, ErrFlags) || !strings.Contains(err.Error(), "name another folder") {
		t.Errorf("%v", err)
	}
	if left, err := os.ReadDir(filepath.Join(c.Dir, "001")); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
}

func TestCells(t *testing.T) {
	cells := command().cells()
	if len(cells) != 2*2*2*2 {
		t.Fatalf("%d cells", len(cells))
	}
	if a, b := cells[0], cells[1]; a.Strategy == b.Strategy || a.Load != b.Load || a.Seed != b.Seed || a.Churn != b.Churn {
		t.Errorf("strategies do not change first: %+v, %+v", a, b)
	}
}

// The simulator is told what the manager of a pond and its peers go by: a peer stores what it has at least every third of a lease, so that a kill takes no more with it.
func TestForecastGoesByThePondsPace(t *testing.T) {
	c := cell{Strategy: "icr", Load: 1, Scene: "none", Seed: 3, Peers: 2, Threads: 2}
	w, err := c.world(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), []int{1, 2, 3})
	if err != nil {
		t.Fatal(err)
	}
	s := c.scale(w, []int{1, 2, 3}, usualCosts)
	for what, v := range map[string][2]float64{
		"a lease": {s.Term, pond.Term.Seconds()}, "between two chunks": {s.Checkpoint, pond.Term.Seconds() / 3}, "slack": {s.Slack, pond.Slack.Seconds()},
		"a pause": {s.Backoff, pond.Backoff.Seconds()}, "the longest pause": {s.MaxBackoff, pond.MaxBackoff.Seconds()}, "the wait before a page": {s.Gap, pond.Gap.Seconds()},
	} {
		if math.Abs(v[0]-v[1]) > 1e-9 {
			t.Errorf("%s takes %v s, in the pond %v", what, v[0], v[1])
		}
	}
}

// The world of a cell needs what its load says, and is the same for every strategy.
func TestWorldHasItsLoad(t *testing.T) {
	for _, load := range []float64{.5, 1, 2} {
		c := cell{Strategy: "icr", Load: load, Scene: "none", Seed: 3, Peers: 8, Threads: 2}
		start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		w, err := c.world(start, []int{1, 2})
		if err != nil {
			t.Fatal(err)
		}
		if got := 16 / need(w); math.Abs(got-load) > .05*load {
			t.Errorf("load %v: the threads can do %v of the need", load, got)
		}
		c.Strategy = "price"
		again, err := c.world(start, []int{3, 4})
		if err != nil || len(again.Hosts()) != len(w.Hosts()) || again.Hosts()[5] != w.Hosts()[5] {
			t.Errorf("another world for another strategy: %v", err)
		}
		if again.HostRTT(4, 5) != w.HostRTT(2, 5) {
			t.Error("a peer's place hangs on its port")
		}
		for i := range w.Hosts() {
			if h := &w.Hosts()[i]; taus(w)[h.Class] != h.Interval.Seconds() {
				t.Fatalf("class %d changes once in %v, the simulator is told %v s", h.Class, h.Interval, taus(w)[h.Class])
			}
		}
	}
}

func TestReadMetrics(t *testing.T) {
	var text strings.Builder
	var s sample
	for name := range s.fields() {
		text.WriteString("# TYPE " + name + " gauge\n" + name + " 2.5\n")
	}
	text.WriteString("go_threads 7\n")
	s, err := readMetrics(strings.NewReader(text.String()))
	if err != nil || s.fresh != 2.5 || s.chosen != 2.5 || s.never != 2.5 {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err = readMetrics(strings.NewReader("shoal_manager_updates_total 1\n")); err == nil || !strings.Contains(err.Error(), "has no metric") {
		t.Errorf("missing ones: %v", err)
	}
	if _, err = readMetrics(strings.NewReader("shoal_manager_updates_total many\n")); err == nil {
		t.Error("a word for a number")
	}
}

// A manager that answers late now and then ends no run; one that never does, or no more, ends it.
func TestLateAnswersEndNoRun(t *testing.T) {
	now, late := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), errors.New("no answer in 10s")
	var m misses
	if !m.giveUp(now, late, false) {
		t.Error("the first look has failed, and the run goes on")
	}
	m = misses{}
	for s := range 600 { // every tenth look succeeds
		err := late
		if s%10 == 0 {
			err = nil
		}
		if m.giveUp(now.Add(time.Duration(s)*time.Second), err, true) {
			t.Fatalf("given up after %d s", s)
		}
	}
	now = now.Add(600 * time.Second)
	if m.giveUp(now, late, true) || !m.giveUp(now.Add(patience), late, true) {
		t.Error("a manager that answers no more")
	}
	n := &network{page: "http://127.0.0.1:1"}
	w := new(watched)
	if err := n.look(t.Context(), w, now); err == nil || len(w.series) > 0 {
		t.Errorf("a look that failed counts: %v, %v", w.series, err)
	}
}

// A run of four seconds, by hand: a channel is crawled at two, all at four.
func TestFill(t *testing.T) {
	w := watched{series: []sample{
		{at: 1, never: 2, threads: 4, idle: 4, missed: 4},
		{at: 2, never: 1, fresh: .5, updates: 1, pages: 10, threads: 8, idle: 4, missed: 4},
		{at: 4, never: 0, fresh: 1, updates: 3, pages: 30, threads: 16, idle: 8, missed: 4, placed: 2, chosen: .03, nearest: .01},
	}}
	var row Row
	w.fill(&row)
	want := Measured{FreshTrue: .625, FreshSteady: 1, Steady90S: 4, FirstPassS: 4, UpdatesPerMin: 45, PagesPerMin: 450, IdleShare: .25, IdleFirst: .25, IdleAll: .5,
		RTTChosenMS: 15, RTTNearestMS: 5}
	if got := row; got.FreshTrue != want.FreshTrue || got.FreshSteady != want.FreshSteady || got.Steady90S != want.Steady90S || got.FirstPassS != want.FirstPassS ||
		got.UpdatesPerMin != want.UpdatesPerMin || got.PagesPerMin != want.PagesPerMin || got.IdleShare != want.IdleShare || got.IdleFirst != want.IdleFirst ||
		got.IdleAll != want.IdleAll || got.RTTChosenMS != want.RTTChosenMS || got.RTTNearestMS != want.RTTNearestMS {
		t.Errorf("got %+v", got)
	}
}

// A program that does not start is told of, in its own words.
func TestProgramThatDoesNotStart(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the program is a shell script")
	}
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "shoal"), []byte("#!/bin/sh\necho out of order >&2\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	c := cell{Strategy: "icr", Load: 1, Scene: "none", Seed: 3, Minutes: 1, Peers: 1, Threads: 1}
	if _, err := c.run(t.Context(), bin, t.TempDir()); err == nil || !strings.Contains(err.Error(), "out of order") {
		t.Errorf("it ends with %v", err)
	}
}

// What a page takes is told by pages that follow each other in one crawl, not by another peer's look between two crawls of a host.
func TestStepsAreOfOneCrawl(t *testing.T) {
	w := &watched{served: make([]visits, 1), last: make([]pond.Served, 1)}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, s := range []struct {
		after time.Duration
		page  int
		from  string
	}{{0, 0, "a:1"}, {210, 1, "a:1"}, {230, 2, "a:1"}, {2500, 1, "b:7"}, {1800, 3, "a:1"}, {9000, 4, "a:1"}, {3000, 0, "c:2"}, {220, 5, "c:2"}} {
		at = at.Add(s.after * time.Millisecond)
		w.take(pond.Served{When: at, Page: s.page, From: s.from}, 200*time.Millisecond)
	}
	if w.steps != 3 || math.Abs(w.over-.06) > 1e-9 || w.served[0] != (visits{tasks: 2, pages: 8}) {
		t.Errorf("%d steps took %v s beyond their waits, and there were %+v", w.steps, w.over, w.served[0])
	}
}

// The bound is the nearest peer's time while there is room, and more when the nearest peer has not enough.
func TestBound(t *testing.T) {
	c := cell{Load: 1, Scene: "none", Seed: 3, Peers: 2, Threads: 1}
	world, err := c.world(time.Now(), []int{1, 2, 3})
	if err != nil {
		t.Fatal(err)
	}
	n := &network{cell: &c, world: world, ports: []int{1, 2, 3}, there: []float64{1e6, 1e6}}
	w := &watched{served: make([]visits, len(world.Hosts()))}
	near, far := 0., 0.
	for i := range w.served {
		w.served[i] = visits{tasks: 1, pages: 5}
		a, b := world.HostRTT(2, i).Seconds()*1000, world.HostRTT(3, i).Seconds()*1000
		near, far = near+min(a, b)/float64(len(w.served)), far+a/float64(len(w.served))
	}
	if got := n.bound(w); math.Abs(got-near) > 1e-6 {
		t.Errorf("bound %v with room for all, want %v", got, near)
	}
	n.there[1] = 0
	if got := n.bound(w); math.Abs(got-far) > 1e-6 {
		t.Errorf("bound %v with one peer, want %v", got, far)
	}
	n.there[0] = 1
	if got := n.bound(w); got != 0 {
		t.Errorf("bound %v of what cannot be", got)
	}
}

func TestTableAndFigures(t *testing.T) {
	series := make([]sample, 30)
	for i := range series {
		series[i] = sample{at: float64(i + 1), fresh: float64(i) / 30, threads: float64(i * 4), missed: float64(i)}
	}
	rows := []Row{{Strategy: "icr", Load: 1, Seed: 1, Measured: &Measured{FreshTrue: .5, series: series}, foretold: series[:20]},
		{Strategy: "price", Load: 1, Seed: 1, Measured: &Measured{FreshTrue: .6, FirstPassS: -1, series: series}},
		{Strategy: "price", Load: 1, Churn: true, Seed: 1, Measured: &Measured{FreshTrue: .6, series: series}}}
	var out bytes.Buffer
	if err := writeTable(&out, rows); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); !strings.Contains(text, "load 1, churn false, seed 1: 1.200") || strings.Count(text, "0.600") != 2 {
		t.Errorf("table\n%s", text)
	}
	dir := t.TempDir()
	if err := plotRows(dir, rows); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"live-load1-seed1-fresh.svg", "live-load1-seed1-idle.png", "live-load1-seed1-churn-fresh.png"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() < 1000 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestFinishedRunsAreTold has a run fail after others: these are printed and drawn, and the error is told.
func TestFinishedRunsAreTold(t *testing.T) {
	failed := errors.New("icr, load 1, seed 7: the pond does not answer")
	series := []sample{{at: 1, fresh: .5, threads: 4}, {at: 2, fresh: .6, threads: 8}}
	rows := []Row{{Strategy: "price", Load: 1, Seed: 7, Measured: &Measured{FreshTrue: .61, series: series}}, {Strategy: "fixed", Load: 1, Seed: 7, Measured: &Measured{FreshTrue: .42, series: series}}}
	c := command()
	c.JSON, c.Plot = true, t.TempDir()
	var out bytes.Buffer
	if err := c.tell(&out, rows, failed); !errors.Is(err, failed) {
		t.Errorf("told %v", err)
	}
	var got []Row
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || len(got) != 2 || got[1].FreshTrue != .42 {
		t.Errorf("%v\n%s", err, out.String())
	}
	if _, err := os.Stat(filepath.Join(c.Plot, "live-load1-seed7-fresh.svg")); err != nil {
		t.Error(err)
	}
	out.Reset()
	if err := c.tell(&out, nil, failed); !errors.Is(err, failed) || out.Len() > 0 {
		t.Errorf("of no run: %v, %s", err, out.String())
	}
}

// TestPagesLookedAtAgainAreNotWasted: other peers and the manager look at some pages again, which the archive does not take.
func TestPagesLookedAtAgainAreNotWasted(t *testing.T) {
	s := sample{stored: 700, unchanged: 200, checked: 22, ruled: 3}
	if got := s.wasted(1000); got != 75 {
		t.Errorf("%d wasted, want 75", got)
	}
	if got := s.wasted(920); got != 0 { // an answer that says that a page could not be fetched counts, too
		t.Errorf("%d wasted of fewer than came", got)
	}
}
