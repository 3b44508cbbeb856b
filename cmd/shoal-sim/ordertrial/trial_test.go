package ordertrial

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"shoal/channel/order"
	"shoal/internal/lab/pond"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Under either order of sites a whole pond is fetched, politely, and everything is where the plot wants it.
func TestTrial(t *testing.T) {
	dir := t.TempDir()
	c := Cmd{Hosts: 20, Pages: 150, Robots: 6, Visit: 5, Gap: time.Millisecond, Seeds: 20, Max: 40, Places: 1, Seed: 1, JSON: true, Plot: dir}
	var out, errw bytes.Buffer
	if err := c.Run(context.Background(), &out, &errw); err != nil {
		t.Fatal(err)
	}
	var rows []Row
	if err := json.Unmarshal(out.Bytes(), &rows); err != nil || len(rows) != 2 {
		t.Fatalf("%v: %s", err, out.String())
	}
	for _, r := range rows {
		if r.Pages != 150 || r.Reachable != 150 || r.Half <= 0 || r.HalfDocs <= 0 || r.End < r.Half || r.Visits < 20 {
			t.Errorf("%+v", r)
		}
		if r.Violations > 0 {
			t.Errorf("%s: %d violations", r.Ordering, r.Violations)
		}
	}
	if b, err := os.ReadFile(filepath.Join(dir, "ordering-pond-figure-6.svg")); err != nil || !bytes.Contains(b, []byte("larger-sites-first")) {
		t.Errorf("figure 6: %v", err)
	}
}

func TestBadConfigs(t *testing.T) {
	w, err := pond.NewWorld(pond.Config{Hosts: 1, Pages: 1})
	if err != nil {
		t.Fatal(err)
	}
	good := Config{World: w, Order: order.BreadthFirst, Robots: 1, Visit: 1, Seeds: 1}
	for _, change := range []func(*Config){func(c *Config) { c.World = nil }, func(c *Config) { c.Order = order.OPIC }, func(c *Config) { c.Robots = 0 },
		func(c *Config) { c.Visit = 0 }, func(c *Config) { c.Seeds = 0 }, func(c *Config) { c.Gap = -1 }} {
		c := good
		change(&c)
		if _, err := Run(context.Background(), c); !errors.Is(err, ErrConfig) {
			t.Errorf("%v", err)
		}
	}
}

func TestStopsWhenTold(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	c := Cmd{Hosts: 20, Pages: 150, Robots: 6, Visit: 5, Seeds: 20, Max: 40, Places: 1, Seed: 1}
	if err := c.Run(ctx, &bytes.Buffer{}, &bytes.Buffer{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
