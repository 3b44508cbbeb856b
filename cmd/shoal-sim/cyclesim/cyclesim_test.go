package cyclesim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNoNumberTwice: a strategy or version that is named twice is refused, before any is solved.
func TestNoNumberTwice(t *testing.T) {
	for want, c := range map[string]Cmd{
		"--strategy: 1 is named twice": {Strategy: []int{1, 1}, Version: []int{1}, Periods: 14, Rates: "power"},
		"--version: 2 is named twice":  {Strategy: []int{1}, Version: []int{2, 1, 2}, Periods: 14, Rates: "power"},
	} {
		if err := c.Run(context.Background(), io.Discard, io.Discard); !errors.Is(err, ErrFlags) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestRun(t *testing.T) {
	dir := t.TempDir()
	var out bytes.Buffer
	c := Cmd{Strategy: []int{1, 3}, Version: []int{1}, Periods: 14, Rates: "power", JSON: true, Plot: dir}
	if err := c.Run(context.Background(), &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	var rows []Row
	if err := json.Unmarshal(out.Bytes(), &rows); err != nil || len(rows) != 5 {
		t.Fatalf("%v, %d rows", err, len(rows))
	}
	var v1, v3 Row
	for _, r := range rows {
		if r.Gap > .02 || r.Bound > r.Objective {
			t.Errorf("%+v", r)
		}
		if r.Periods == 28 {
			if r.Version == 1 {
				v1 = r
			} else {
				v3 = r
			}
		}
	}
	if q := v3.Half / v1.Half; q < .35 || q > .65 {
		t.Errorf("half the change rates leave %.2f of the obsolete pages", q)
	}
	if v1.Obsolete > 1.6*v1.Half {
		t.Errorf("28 periods end with %g obsolete pages, the middle has %g: no stabilisation", v1.Obsolete, v1.Half)
	}
	for _, f := range []string{"cycle-figure-3-power.svg", "cycle-figure-6-power.png"} {
		if _, err := os.Stat(filepath.Join(dir, f)); err != nil {
			t.Error(err)
		}
	}
	if err := (&Cmd{Strategy: []int{4}, Version: []int{1}, Periods: 14, Rates: "power"}).Run(context.Background(), io.Discard, io.Discard); !errors.Is(err, ErrFlags) {
		t.Error(err)
	}
}
