package trust

import (
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
