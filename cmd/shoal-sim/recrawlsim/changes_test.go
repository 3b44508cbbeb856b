package recrawlsim

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shoal/internal/sim"
)

// TestReplayAgainstSteps compares the time that a copy is fresh with a walk in small steps.
func TestReplayAgainstSteps(t *testing.T) {
	rng := sim.Rand(1, "test")
	h := &History{Times: []float64{0, .1, .15, .5, .52, .8}, Content: []int32{0, 1, 0, 2, 0, 1}}
	for range 30 {
		r := newReplay(h, 20+100*rng.Float64(), rng)
		from := 500 * rng.Float64()
		to := from + 300*rng.Float64()
		n, _ := r.at(from)
		mine := r.content(n)
		const steps = 40_000
		want := 0.
		for i := range steps {
			n, _ := r.at(from + (to-from)*(float64(i)+.5)/steps)
			if r.content(n) == mine {
				want += (to - from) / steps
			}
		}
		got, changed := r.fresh(from, to)
		last, _ := r.at(to)
		if math.Abs(got-want) > .2 || changed != (r.content(last) != mine) {
			t.Errorf("from %.1f to %.1f: fresh for %.2f, want %.2f; changed %v", from, to, got, want, changed)
		}
	}
}

func TestHistoriesAreReadAndBadLinesNamed(t *testing.T) {
	var b strings.Builder
	b.WriteString("author_epoch\tcommit_epoch\tstatus\tpath\tblob\tsize\tsubject\n")
	for i := range 10 {
		fmt.Fprintf(&b, "%d\t0\tM\ta/b.md\tblob%d\t5\tRecord new changes\n", 1000*i, i%3)
		fmt.Fprintf(&b, "%d\t0\tM\ta/b.md\tblobX\t5\tRefilter a\n", 1000*i+1)
	}
	all, err := ReadHistories(strings.NewReader(b.String()), "t")
	if err != nil || len(all) != 1 || len(all[0].Times) != 10 || all[0].Content[3] != 0 || all[0].Times[9] >= 1 {
		t.Errorf("%v, %+v", err, all)
	}
	for text, want := range map[string]string{"1\t2\n": "t:1: 2 fields", "x\t0\tM\tp\tb\t5\ts\n": `t:1: author_epoch "x"`, "": "no page"} {
		if _, err := ReadHistories(strings.NewReader(text), "t"); !errors.Is(err, ErrChanges) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// TestRealChanges replays the Open Terms Archive's changes: they come in bursts and return to earlier content, so that a copy of the same
// age is fresh more often than under Poisson.
func TestRealChanges(t *testing.T) {
	data := os.Getenv("SHOAL_DATA")
	if data == "" {
		t.Skip("SHOAL_DATA names no folder with changes/ota-contrib.tsv.gz")
	}
	all, err := LoadHistories(filepath.Join(data, "changes", "ota-contrib.tsv.gz"))
	if err != nil {
		t.Fatal(err)
	}
	c := small("fixed", "shoal")
	poisson := mustRun(t, c)
	c.Changes = all
	replayed := mustRun(t, c)
	t.Logf("%d histories; freshness %.3f, under Poisson %.3f", len(all), replayed.Freshness, poisson.Freshness)
	if replayed.Freshness <= poisson.Freshness {
		t.Errorf("real changes: freshness %.3f, under Poisson %.3f", replayed.Freshness, poisson.Freshness)
	}
}

func FuzzReadHistories(f *testing.F) {
	f.Add("1\t0\tM\ta/b\tx\t5\ts\n")
	f.Fuzz(func(t *testing.T, text string) {
		all, err := ReadHistories(strings.NewReader(text), "fuzz")
		for _, h := range all {
			for i, at := range h.Times {
				if err != nil || at < 0 || at >= 1 || i > 0 && at < h.Times[i-1] {
					t.Fatalf("%v: %v", err, h.Times)
				}
			}
		}
	})
}
