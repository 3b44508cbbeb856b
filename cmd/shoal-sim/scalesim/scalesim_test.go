package scalesim

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"testing"
	"time"
)

// TestScale runs a small network, as a table and as JSON, and one of twice as many managers: what grows with them grows, and what does not stays.
func TestScale(t *testing.T) {
	run := func(managers int) map[string]float64 {
		t.Helper()
		c := Command{Peers: 200, Managers: managers, PagesDay: 1e9, PerTask: 500, Channels: 1e6, Tasks: 3, Hosts: 50, Error: .05, Whole: 20, Settle: time.Minute, Seed: 1, JSON: true}
		var out bytes.Buffer
		if err := c.Run(t.Context(), &out, nil); err != nil {
			t.Fatal(err)
		}
		var all []Figure
		if err := json.Unmarshal(out.Bytes(), &all); err != nil {
			t.Fatal(err)
		}
		by := map[string]float64{}
		for _, f := range all {
			if by[f.Part+": "+f.What] = f.Value; f.From == "" || f.Part == "" || math.IsNaN(f.Value) || math.IsInf(f.Value, 0) {
				t.Errorf("%+v", f)
			}
		}
		return by
	}
	one, two := run(8), run(16)
	for what, times := range map[string]float64{
		"PostgreSQL: statements by which managers know of each other": 2, "PostgreSQL: the archive's log read by all managers": 2, "PostgreSQL: processor for pages and tasks": 1,
		"each manager: tasks handed out": .5, "each manager: peers whose home it is": .5, "copy of the ledger, at each manager: log read": 1, "tasks placed by members: hops": 1, "gossip: messages of a peer, with answers": 1,
	} {
		if one[what] <= 0 || math.Abs(two[what]/one[what]-times) > 1e-9 {
			t.Errorf("%s: %v with 8 managers, %v with 16, want %v times as much", what, one[what], two[what], times)
		}
	}
	for _, bad := range []Command{{Managers: 0, PagesDay: 1, PerTask: 1, Channels: 1}, {Managers: 1, PagesDay: math.NaN(), PerTask: 1, Channels: 1}, {Managers: 1, PagesDay: 1, PerTask: 1, Channels: 1, Peers: 1}} {
		if err := bad.Run(t.Context(), nil, nil); err == nil || bad.Peers == 0 && !errors.Is(err, ErrFlags) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}
