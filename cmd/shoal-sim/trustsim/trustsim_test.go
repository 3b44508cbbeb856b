package trustsim

import (
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// simulate runs one small case.
func simulate(t *testing.T, c Command) []Row {
	t.Helper()
	c.Peers, c.Days, c.Seeds, c.Cores, c.Trouble = 100, 20, 1, 1, 1
	all, err := c.setups()
	if err != nil {
		t.Fatal(err)
	}
	rows, err := c.simulate(t.Context(), all, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// TestDefencesHelp runs attacks on a small network with and without defences. What is found without any is nothing, and with all of them little is left.
func TestDefencesHelp(t *testing.T) {
	rows := simulate(t, Command{Attack: []string{"fabricating", "subtle-10", "lazy"}, Defence: []string{"none", "next-crawl", "all"}, F: []float64{.1}})
	for i := 0; i < len(rows); i += 3 {
		none, next, all := rows[i], rows[i+1], rows[i+2]
		if none.P50 != -1 || none.Poison == 0 {
			t.Errorf("without a defence: %+v", none)
		}
		if !(next.Poison < none.Poison/2 && all.Poison < 1.25*next.Poison) { // lazy peers are found by the next crawl: what audits add to that in so small a network is chance
			t.Errorf("%s: poison %g without a defence, %g by the next crawl, %g with all", none.Attack, none.Poison, next.Poison, all.Poison)
		}
		if all.Poison > .002 || all.P50 < 0 || all.Verified > .001 {
			t.Errorf("%+v", all)
		}
		if all.Extra > .08 || all.Extra == 0 || all.Arbiter > all.Extra {
			t.Errorf("%s costs %g, %g of it the arbiter's", all.Attack, all.Extra, all.Arbiter)
		}
	}
}

// TestHonestNetwork has no liars: nothing is forged.
func TestHonestNetwork(t *testing.T) {
	for _, r := range simulate(t, Command{Attack: []string{"subtle-10"}, Defence: []string{"all"}, F: []float64{0}}) {
		if r.Poison != 0 || r.Verified != 0 || r.P50 != -1 || r.Provisional <= 0 || r.Provisional >= .5 {
			t.Errorf("%+v", r)
		}
	}
}

func TestSameSeedSameRow(t *testing.T) {
	c := Command{Attack: []string{"colluding", "sybils", "one-host", "hiding", "slandering"}, Defence: []string{"all"}, F: []float64{.2}}
	if a, b := simulate(t, c), simulate(t, c); !reflect.DeepEqual(a, b) {
		t.Errorf("%+v\nthen %+v", a, b)
	}
}

// TestOutputs looks at the three forms of the results.
func TestOutputs(t *testing.T) {
	dir := t.TempDir()
	c := Command{Attack: []string{"lazy"}, Defence: []string{"every"}, F: []float64{.1}, Seeds: 1, Days: 2, Peers: 50, Trouble: 1, JSON: true, Plot: dir, Learn: true}
	var out, log strings.Builder
	if err := c.Run(t.Context(), &out, &log); err != nil {
		t.Fatal(err)
	}
	var rows []map[string]any
	if err := json.Unmarshal([]byte(out.String()), &rows); err != nil || len(rows) != 4 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	want := []string{"attack", "f", "defence", "seed", "poison", "verified_forged", "target_poison", "extra", "arbiter", "honest_suspended_1000y", "tasks_to_suspend_p50", "tasks_to_suspend_p90", "provisional_share"}
	for _, name := range want {
		if _, ok := rows[0][name]; !ok || len(rows[0]) != len(want) {
			t.Errorf("row %v lacks %s, or has more", rows[0], name)
		}
	}
	for _, name := range []string{"trust-poison.svg", "trust-verified.png", "trust-extra.svg"} {
		if i, err := os.Stat(filepath.Join(dir, name)); err != nil || i.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	c.JSON, c.CSV, c.Plot, c.Defence = false, true, "", []string{"all"}
	out.Reset()
	if err := c.Run(t.Context(), &out, &log); err != nil || !strings.Contains(out.String(), "poison") {
		t.Errorf("%q, %v", out.String(), err)
	}
	c.CSV = false
	out.Reset()
	if err := c.Run(t.Context(), &out, &log); err != nil || !strings.Contains(out.String(), "of verified %") {
		t.Errorf("%q, %v", out.String(), err)
	}
}

func TestFlags(t *testing.T) {
	good := Command{Attack: []string{"all"}, Defence: []string{"every"}, F: []float64{.1}, Seeds: 1, Trouble: 1}
	if all, err := good.setups(); err != nil || len(all) != len(attacks)*len(defences) {
		t.Errorf("%d setups, %v", len(all), err)
	}
	for _, change := range []func(*Command){
		func(c *Command) { c.Attack = []string{"nonsense"} }, func(c *Command) { c.Defence = []string{"nonsense"} }, func(c *Command) { c.F = []float64{2} },
		func(c *Command) { c.Seeds = 0 }, func(c *Command) { c.Peers = 3 }, func(c *Command) { c.Days = -1 }, func(c *Command) { c.Trouble = -1 }, func(c *Command) { c.Storm = -1 },
		func(c *Command) { c.Attack = []string{"lazy", "lazy"} }, func(c *Command) { c.Defence = []string{"all", "none", "all"} }, func(c *Command) { c.F = []float64{.1, .1} },
	} {
		c := good
		change(&c)
		if _, err := c.setups(); !errors.Is(err, ErrFlags) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestContents tells lies from truths, and knows what they have in common.
func TestContents(t *testing.T) {
	p := &page{kind: still}
	a, b := digestOf(real, 1, 5), digestOf(smallLie, 2, 5)
	if forged(a) || !forged(b) || !forged(digestOf(lie, 0, 0)) || forged(digestOf(captcha, 0, 0)) || forged(digestOf(walled, 1, 5)) {
		t.Error("lies and truths are mixed up")
	}
	if f, g := features(p, 3, a), features(p, 3, b); slices.Equal(f.Text, g.Text) || !slices.Equal(f.Outside, g.Outside) {
		t.Error("a small lie changes the text, and no link")
	}
	if f, g := features(p, 3, a), features(p, 3, digestOf(linkedLie, 2, 5)); len(g.Outside) != len(f.Outside)+1 {
		t.Error("a lie for profit has a link")
	}
}

// TestIntervals compares the bounds with those of tables of the Poisson distribution, and sums runs up.
func TestIntervals(t *testing.T) {
	for n, want := range map[int][2]float64{0: {0, 3.689}, 1: {.0253, 5.572}, 4: {1.090, 10.242}, 10: {4.795, 18.390}} {
		if lo, hi := poisson(n); math.Abs(lo-want[0]) > .001 || math.Abs(hi-want[1]) > .001 {
			t.Errorf("%d: %.4f to %.4f, want %v", n, lo, hi, want)
		}
	}
	var out strings.Builder
	rows := []Row{{Attack: "lazy", F: .1, Defence: "all", honest: Honest{Suspended: 1, Years: 100}}, {Attack: "lazy", F: .1, Defence: "all", honest: Honest{Suspended: 0, Years: 900}}, {Attack: "hiding", F: .1, Defence: "all", honest: Honest{Suspended: 3, Years: 3000}}}
	if err := intervals(&out, rows); err != nil {
		t.Fatal(err)
	}
	want := `lazy, f 0.1, all: 1 honest peers suspended in 1000 years: 1.00 in 1,000, with 95% certainty 0.03 to 5.57
hiding, f 0.1, all: 3 honest peers suspended in 3000 years: 1.00 in 1,000, with 95% certainty 0.21 to 2.92
all of these: 4 honest peers suspended in 4000 years: 1.00 in 1,000, with 95% certainty 0.27 to 2.56
`
	if out.String() != want {
		t.Errorf("%s\nwant\n%s", out.String(), want)
	}
}
