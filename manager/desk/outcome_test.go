package desk

import (
	"testing"
	"time"
)

// TestOutcome says what came of a case, and repeats no reason.
func TestOutcome(t *testing.T) {
	closed := time.Unix(1, 0)
	for _, c := range []struct {
		k    Case
		want string
	}{
		{Case{Reason: "reverted"}, "It is open."},
		{Case{Reason: "reverted", Closed: closed, Note: "no evidence: it differs"}, "Nobody was charged. no evidence: it differs"},
		{Case{Reason: "reverted", Closed: closed, Note: "reverted", Loser: "d-1", Amount: 1.8, Score: 3.6}, "d-1 lost: 1.80 was added to its score, which came to 3.60."},
		{Case{Reason: "lost audit", Closed: closed, Loser: "d-1", Score: 5}, "d-1 lost. Nothing was added to its score of 5.00: what this task or this domain may add is reached."},
	} {
		if got := c.k.Outcome(); got != c.want {
			t.Errorf("%+v: %q, want %q", c.k, got, c.want)
		}
	}
}
