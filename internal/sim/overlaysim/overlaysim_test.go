package overlaysim

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func small() Command {
	return Command{Peers: 120, Hosts: 300, Tasks: 60, Overlay: "all", Churn: "none", Settle: 25 * time.Minute, Seed: 1, Seeds: 1, JSON: true}
}

func rows(t *testing.T, c Command) map[string]Row {
	t.Helper()
	var out bytes.Buffer
	if err := c.Run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	var list []Row
	if err := json.Unmarshal(out.Bytes(), &list); err != nil {
		t.Fatal(err)
	}
	m := map[string]Row{}
	for _, r := range list {
		r.Seconds = 0
		m[r.Overlay] = r
	}
	return m
}

func TestRingsBeatTheBaselines(t *testing.T) {
	m := rows(t, small())
	rings := m["rings"]
	if rings.RTT50 > .7*rings.Random50 || rings.RTT50 > m["can5"].RTT50 {
		t.Errorf("rings %.1f ms, random %.1f, CAN %.1f", rings.RTT50, rings.Random50, m["can5"].RTT50)
	}
	if rings.Empty > 0 || rings.Success < 1 || rings.TableMax > 64 {
		t.Errorf("%+v", rings)
	}
	if len(m) != 9 {
		t.Errorf("%d overlays", len(m))
	}
}

func TestSameSeedSameFigures(t *testing.T) {
	c := small()
	c.Peers, c.Settle, c.Churn, c.Liars = 60, 10*time.Minute, "x17", .1
	a, b := rows(t, c), rows(t, c)
	for name, r := range a {
		if b[name] != r {
			t.Errorf("%s differs:\n%+v\n%+v", name, r, b[name])
		}
	}
}

func TestMeasuredLatencies(t *testing.T) {
	data := os.Getenv("SHOAL_DATA")
	if data == "" {
		t.Skip("SHOAL_DATA names no folder with the public latency data")
	}
	c := small()
	c.Latency = filepath.Join(data, "latency", "ripe-atlas-419.csv.gz")
	if r := rows(t, c)["rings"]; r.RTT50 > .5*r.Random50 {
		t.Errorf("rings %.1f ms, random %.1f", r.RTT50, r.Random50)
	}
}

func TestBadFlags(t *testing.T) {
	for _, change := range []func(*Command){
		func(c *Command) { c.Peers = 3 }, func(c *Command) { c.Liars = .9 }, func(c *Command) { c.Seeds = 0 },
	} {
		c := small()
		change(&c)
		if err := c.Run(t.Context(), &bytes.Buffer{}); !errors.Is(err, ErrFlags) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
