package trust

import (
	"math"
	"strings"
	"testing"
)

// Rules that cannot be kept are refused with what is wanted.
func TestAuditsHaveBounds(t *testing.T) {
	for _, c := range []struct {
		task, newcomer int
		want           string // in the error; empty: none
	}{
		{0, 1, ""}, {MostAudits, MostAudits, ""}, {100_000, 5, "must be 0 to 200"}, {-1, 5, "must be 0 to 200"}, {1, -1, "newcomer's task are to be fetched again: must be 1 to 200"}, {1, 0, "must be 1"},
	} {
		cfg := Default()
		cfg.PerTask, cfg.PerNew = c.task, c.newcomer
		if err := cfg.Validate(); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d and %d: %v; want %q", c.task, c.newcomer, err, c.want)
		}
	}
}

// TestBadRules sets each rule that an operator may set to what cannot be kept. The error is about that rule alone.
func TestBadRules(t *testing.T) {
	for _, c := range []struct {
		set  func(*Config)
		want string // in the error; empty: none
	}{
		{func(c *Config) { c.T = 6.1 }, ""},
		{func(c *Config) { c.T = 6 }, "at a score of 6: must be above 6"},
		{func(c *Config) { c.T = 0 }, "at a score of 0: must be above 6"},
		{func(c *Config) { c.T = -1 }, "at a score of -1: must be above 6"},
		{func(c *Config) { c.T = math.NaN() }, "at a score of NaN"},
		{func(c *Config) { c.T = maxScore + 1 }, "at most 1000"},
		{func(c *Config) { c.Newcomers = 1.5 }, "newcomers' share of tasks is 1.5: must be 0 to 1"},
		{func(c *Config) { c.Newcomers = -.1 }, "newcomers' share of tasks is -0.1"},
		{func(c *Config) { c.Beside = 2 }, "fetched again beside is 2: must be 0 to 1"},
		{func(c *Config) { c.SuspectShare = 1.01 }, "suspect's pages that are fetched again is 1.01: must be 0 to 1"},
		{func(c *Config) { c.SuspectShare = math.NaN() }, "is NaN"},
	} {
		cfg := Default()
		c.set(&cfg)
		if err := cfg.Validate(); (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "lost")) {
			t.Errorf("%v; want %q", err, c.want)
		}
	}
}

// Who is suspended or banned has no tasks that could be looked at more closely: it is no suspect as well.
func TestSuspendedAreNoSuspects(t *testing.T) {
	seen := map[Standing]int{}
	for _, p := range full(t).Peers() {
		if seen[p.Standing]++; p.Suspect && p.Standing >= Suspended {
			t.Errorf("peer %d is %v and a suspect", p.Peer, p.Standing)
		}
	}
	if seen[Suspended] == 0 {
		t.Errorf("nobody is suspended: %v", seen)
	}
}

// Each reason has its sentence, and no reason has none.
func TestReasonsAreExplained(t *testing.T) {
	if NoReason.Means() != "" {
		t.Error("no reason is explained")
	}
	for r := LostAudit; r <= SlanderedNext; r++ {
		if !strings.HasSuffix(r.Means(), ".") {
			t.Errorf("%v is not explained", r)
		}
	}
}
