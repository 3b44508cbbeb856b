package e2e

import (
	"bytes"
	"encoding/json"
	"testing"

	"shoal/cmd/shoal-sim/livesim"
)

// TestLive has `shoal-sim live` run a small network for half a minute, with peers that come and go.
func TestLive(t *testing.T) {
	t.Parallel()
	c := livesim.Command{Strategies: []string{"price"}, Peers: 2, Threads: 2, Load: []float64{2}, Minutes: .5, Churn: "on", Seeds: 1, Seed: 1, Scene: "none", Weights: "pages", Bin: bin, Dir: t.TempDir(), JSON: true, Plot: t.TempDir()}
	var out, said bytes.Buffer
	if err := c.Run(t.Context(), &out, &said); err != nil {
		t.Fatalf("%v\n%s", err, said.Bytes())
	}
	var rows []map[string]any
	if err := json.Unmarshal(out.Bytes(), &rows); err != nil || len(rows) != 1 {
		t.Fatalf("%v: %s", err, out.Bytes())
	}
	r := rows[0]
	for _, key := range []string{"strategy", "load", "churn", "seed", "minutes", "fresh_true", "fresh_true_pages", "fresh_true_weight", "fresh_estimate", "updates_per_min", "pages_per_min",
		"pages_wasted", "idle_share", "idle_share_first_pass", "rtt_chosen_ms", "rtt_nearest_ms", "rtt_bound_ms", "sim_fresh", "sim_updates_per_min"} {
		if _, ok := r[key]; !ok {
			t.Errorf("no %s in %v", key, r)
		}
	}
	for _, key := range []string{"fresh_true", "updates_per_min", "pages_per_min", "rtt_chosen_ms", "rtt_bound_ms", "sim_fresh"} {
		if v, ok := r[key].(float64); !ok || v <= 0 {
			t.Errorf("%s is %v", key, r[key])
		}
	}
	if r["rtt_chosen_ms"].(float64) < r["rtt_nearest_ms"].(float64) {
		t.Errorf("nearer than the nearest: %v", r)
	}
}
