package recrawlsim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"shoal/internal/sim"
	"shoal/recrawl"
)

func small(strategy, mode string) Config {
	return Config{Case: "ruc", Strategy: strategy, Rates: "known", Mode: mode, Weights: "equal", Seed: 3, Steps: 1500, Channels: 300, Crawlers: 50}
}

func mustRun(t testing.TB, c Config) Row {
	t.Helper()
	row, err := Run(context.Background(), c, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	row.w, row.Series = nil, nil
	return row
}

// TestSameSeedSameResult: to the last digit, for every strategy in both modes; and another seed gives another result.
func TestSameSeedSameResult(t *testing.T) {
	for _, mode := range []string{"paper", "shoal"} {
		for _, name := range recrawl.Names() {
			for _, rates := range []string{"known", "learnt"} {
				c := small(name, mode)
				c.Rates = rates
				a, b := mustRun(t, c), mustRun(t, c)
				if !reflect.DeepEqual(a, b) {
					t.Errorf("%s %s %s: %+v, then %+v", mode, name, rates, a, b)
				}
				c.Seed++
				if reflect.DeepEqual(a, mustRun(t, c)) {
					t.Errorf("%s %s %s: the seed has no effect", mode, name, rates)
				}
				if a.Updates == 0 || a.Q <= 0 || a.Freshness <= 0 || a.Freshness >= 1 {
					t.Errorf("%s %s %s: no sensible result: %+v", mode, name, rates, a)
				}
			}
		}
	}
}

// TestTasksAreCounted: no task is lost from the books: what was submitted was accepted or refused, and what was accepted ended or is there.
func TestTasksAreCounted(t *testing.T) {
	for _, mode := range []string{"paper", "shoal"} {
		c := small("fixed", mode)
		c.Load = 4
		w := newWorld(c)
		r, err := newRun(c, w)
		if err != nil {
			t.Fatal(err)
		}
		for minute := range 3000 {
			r.step(minute)
			m := r.m
			again := int64(0) // never crawled and refused: they are offered again
			if s, ok := r.swarm.(*shoal); ok {
				for i := range s.tasks {
					if s.tasks[i].open && !s.tasks[i].taken {
						again++
					}
				}
			}
			if m.accepted+m.refused+again != m.submitted {
				t.Fatalf("%s, minute %d: %d submitted, %d accepted, %d refused, %d offered again", mode, minute, m.submitted, m.accepted, m.refused, again)
			}
			running, waiting := 0, 0
			for p := range r.alive {
				if n := r.swarm.load(int32(p)); r.alive[p] {
					running += n
				} else if mode == "shoal" && n != 0 {
					t.Fatalf("minute %d: peer %d is away with %d tasks", minute, p, n)
				}
			}
			waiting = r.swarm.waiting()
			if waiting < 0 || waiting > running {
				t.Fatalf("%s, minute %d: %d tasks wait, %d are at crawlers", mode, minute, waiting, running)
			}
			if s, ok := r.swarm.(*shoal); ok {
				waits := 0
				for _, q := range s.queues {
					waits += q.Waiting()
				}
				if waits != waiting {
					t.Fatalf("minute %d: %d tasks wait, counted %d", minute, waits, waiting)
				}
				if r.out < running || r.out > len(w.group) {
					t.Fatalf("minute %d: %d tasks out, %d at peers", minute, r.out, running)
				}
			}
		}
		if r.m.updatesAll == 0 {
			t.Errorf("%s: no updates", mode)
		}
	}
}

// TestShoalLosesNothing: with leases and checkpoints nearly every accepted task ends in an update although two thirds of the peers vanish.
func TestShoalLosesNothing(t *testing.T) {
	c := small("icr", "shoal")
	c.Steps = 12_000
	row := mustRun(t, c)
	if s := row.SuccessAccepted(); s < .97 {
		t.Errorf("%.3f of the accepted tasks were updates", s)
	}
	if row.PagesUseful < .99 {
		t.Errorf("%.3f of the pages were of use", row.PagesUseful)
	}
	c.Mode = "paper"
	if p := mustRun(t, c); p.SuccessAccepted() > .95 || p.PagesUseful > .97 {
		t.Errorf("the paper's crawlers lose too little: %.3f of tasks, %.3f of pages", p.SuccessAccepted(), p.PagesUseful)
	}
}

// TestAllAtPeaceGivesOne: with far more crawlers than needed and none that leaves, fixed updates every channel once an interval: Q = 1.
func TestAllAtPeaceGivesOne(t *testing.T) {
	for _, mode := range []string{"paper", "shoal"} {
		c := small("fixed", mode)
		c.Crawlers, c.Channels, c.Pages, c.Steps = 300, 200, 100, 20_000
		c.Churn = sim.Churn{Life: 1e8, Gap: 1, Polite: 1}
		row := mustRun(t, c)
		if math.Abs(row.Q-1) > .01 || row.SuccessSubmitted() < .995 {
			t.Errorf("%s: Q %.3f, success %.3f", mode, row.Q, row.SuccessSubmitted())
		}
		if want := 1 - 1/math.E; math.Abs(row.Freshness-want) > .02 {
			t.Errorf("%s: freshness %.3f, want %.3f", mode, row.Freshness, want)
		}
	}
}

func TestCapAndOutHold(t *testing.T) {
	for _, mode := range []string{"paper", "shoal"} {
		for _, name := range recrawl.Names() {
			c := small(name, mode)
			c.Cap, c.Crawlers, c.Pages = 1, 300, 500
			row := mustRun(t, c)
			if limit := 1 + 2*1920./float64(row.Steps); row.Q > limit {
				t.Errorf("%s %s: Q %.3f with cap 1", mode, name, row.Q)
			}
		}
	}
}

func TestBadConfigsAreNamed(t *testing.T) {
	good := small("icr", "paper")
	for want, change := range map[string]func(*Config){
		`case "rex"`:       func(c *Config) { c.Case = "rex" },
		`strategy "quick"`: func(c *Config) { c.Strategy = "quick" },
		"steps -5":         func(c *Config) { c.Steps = -5 },
		"cap -1":           func(c *Config) { c.Cap = -1 },
		"cap NaN":          func(c *Config) { c.Cap = math.NaN() },
		"delta -0.2":       func(c *Config) { c.Params.Delta = -.2 },
		"out 2":            func(c *Config) { c.Mode, c.Out = "shoal", 2 },
	} {
		c := good
		change(&c)
		_, err := Run(context.Background(), c, nil, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// command runs a command line as the program does.
func command(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var cli struct {
		Recrawl Command `cmd:""`
		Sweep   Sweep   `cmd:""`
	}
	k, err := kong.New(&cli)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := k.Parse(args)
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	if parsed.Command() == "sweep" {
		err = cli.Sweep.Run(t.Context(), &out, &out)
	} else {
		err = cli.Recrawl.Run(t.Context(), &out, &out)
	}
	return out.String(), err
}

func TestCommandPrintsRows(t *testing.T) {
	dir := t.TempDir()
	text, err := command(t, "recrawl", "--case", "rec", "--strategy", "icr", "--steps", "1000", "--seeds", "2", "--json", "--plot", dir)
	if err != nil {
		t.Fatal(err)
	}
	var rows []map[string]any
	if err := json.Unmarshal([]byte(text), &rows); err != nil {
		t.Fatal(err)
	}
	if len(rows) != 2 || rows[0]["seed"] != 1. || rows[1]["seed"] != 2. {
		t.Fatalf("rows %v", rows)
	}
	for _, field := range strings.Split("case strategy rates mode weights cap seed steps submitted accepted refused updates q qw freshness freshness_w freshness_pages freshness_quartile age_max_tau intervals_min queue_mean load_cv migrations pages_per_min kib_per_s pages_wasted seconds", " ") {
		if _, ok := rows[0][field]; !ok {
			t.Errorf("no field %s", field)
		}
	}
	if n := len(rows[0]["intervals_min"].([]any)); n != 5 {
		t.Errorf("%d intervals", n)
	}
	for _, name := range []string{"rec-paper-fig4-queued", "rec-paper-fig4-throughput", "rec-paper-freshness", "rec-fig3-pages", "rec-fig3-groups"} {
		for _, ext := range []string{".svg", ".png"} {
			if info, err := os.Stat(filepath.Join(dir, name+ext)); err != nil || info.Size() < 1000 {
				t.Errorf("figure %s%s: %v", name, ext, err)
			}
		}
	}
}

func TestCommandPrintsTables(t *testing.T) {
	text, err := command(t, "recrawl", "--case", "rec", "--steps", "600")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Table 1.", "Table 2.", "216 326 473 811 1412", "price", "uniform", "success"} {
		if !strings.Contains(strings.ToLower(text), strings.ToLower(want)) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	text, err = command(t, "sweep", "--vary", "load", "--values", "0.5,2", "--strategy", "icr", "--steps", "600")
	if err != nil || strings.Count(text, "icr") != 4 {
		t.Errorf("%v\n%s", err, text)
	}
}

// Figures are drawn of whichever strategies run, few or many.
func TestFiguresOfAnyStrategies(t *testing.T) {
	for _, names := range []string{"uniform", "adaptive,lambda,optimal,proportional,uniform"} {
		dir := t.TempDir()
		if _, err := command(t, "recrawl", "--case", "rec", "--strategy", names, "--steps", "600", "--channels", "300", "--crawlers", "40", "--plot", dir); err != nil {
			t.Fatalf("%s: %v", names, err)
		}
		b, err := os.ReadFile(filepath.Join(dir, "rec-paper-freshness.svg"))
		for _, n := range strings.Split(names, ",") {
			if err != nil || !bytes.Contains(b, []byte(">"+n+"<")) {
				t.Errorf("%s: no curve of %s: %v", names, n, err)
			}
		}
	}
	dir := t.TempDir()
	if _, err := command(t, "sweep", "--vary", "crawlers", "--values", "40,20", "--strategy", "fixed,icr", "--mode", "paper", "--steps", "100", "--channels", "200", "--plot", dir); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "sweep-crawlers-paper-success.svg")); err != nil || !bytes.Contains(b, []byte(">20<")) {
		t.Errorf("a sweep's axis names no number of crawlers: %v", err)
	}
}

// What would keep figures from being drawn is told before anything has run: 10,000,000 minutes would take hours.
func TestFiguresAreRefusedAtOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := command(t, "recrawl", "--steps", "10000000", "--plot", file); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("a file as folder: %v", err)
	}
	if _, err := command(t, "sweep", "--steps", "10000000", "--plot", file); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("a file as folder of a sweep: %v", err)
	}
	if _, err := command(t, "recrawl", "--steps", "400", "--plot", t.TempDir()); !errors.Is(err, ErrFlags) {
		t.Errorf("400 minutes: %v", err)
	}
}

func TestCommandRefusesNonsense(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.txt")
	if err := os.WriteFile(bad, []byte("0 1 2\n1 2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"--case", "rex"}, {"--mode", "both"}, {"--seeds", "0"}, {"--steps", "-1"}, {"--strategy", "quick"}, {"--strategy", "icr,icr"}, {"--strategy", "icr,"},
		{"--latency", bad}, {"--changes", bad}, {"--delta", "2"}, {"--cap", "-1"}, {"--iir", "median"}} {
		_, err := command(t, append([]string{"recrawl"}, args...)...)
		if err == nil {
			t.Errorf("%v accepted", args)
		} else if args[1] == bad && !strings.Contains(err.Error(), "bad.txt:") {
			t.Errorf("%v: %v names no line", args, err)
		}
	}
	for _, names := range []string{",", "icr,", ",icr", "icr,,iir"} {
		if _, err := command(t, "recrawl", "--strategy", names); !errors.Is(err, ErrFlags) || !strings.Contains(err.Error(), "--strategy "+names+": a name between its commas is empty") {
			t.Errorf("--strategy %s: %v", names, err)
		}
	}
	for _, args := range [][]string{{"--values=-1"}, {"--values=1,1"}, {"--vary=crawlers", "--values=.5"}, {"--vary=channels", "--values=1e9"}, {"--strategy=icr,icr"}} {
		if _, err := command(t, append([]string{"sweep"}, args...)...); !errors.Is(err, ErrFlags) {
			t.Errorf("sweep %v: %v", args, err)
		}
	}
	if _, err := command(t, "sweep", "--mode=shoal", "--out=3"); !errors.Is(err, ErrConfig) {
		t.Errorf("three tasks out in mode shoal: %v", err)
	}
}

// What strategy optimal's plans promise is kept, also where the rates had to be learnt: visits tell how good the estimates were.
func TestPredictionHolds(t *testing.T) {
	for _, rates := range []string{"known", "learnt"} {
		cfg := Config{Case: "rec", Rates: rates, Seed: 1, Weights: "equal", Cap: 2, Out: 1, Mode: "shoal", Strategy: "optimal", Steps: 40_000, Channels: 320, Crawlers: 28}
		row, err := Run(t.Context(), cfg, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: predicted %.4f, found %.4f", rates, row.Predicted, row.FreshnessSettled)
		if off := row.Predicted/row.FreshnessSettled - 1; off < -.05 || off > .05 {
			t.Errorf("%s rates: predicted %.4f, found %.4f", rates, row.Predicted, row.FreshnessSettled)
		}
	}
}
