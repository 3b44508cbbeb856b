package recrawlsim

import (
	"context"
	"errors"
	"reflect"
	"testing"
)

// TestManagers has managers share the channels and the swarm: each channel is crawled, the books agree, and the same seed gives the same result.
func TestManagers(t *testing.T) {
	c := small("price", "shoal")
	c.Managers, c.Quotas, c.Steps = 4, true, 1000
	row := mustRun(t, c)
	if row.Accepted+row.Refused > row.Submitted || row.Updates+row.Open > row.Accepted || row.Updates == 0 {
		t.Errorf("%d submitted, %d accepted, %d refused, %d updates, %d open", row.Submitted, row.Accepted, row.Refused, row.Updates, row.Open)
	}
	if !reflect.DeepEqual(row, mustRun(t, c)) {
		t.Error("the same seed gives another result")
	}
	r, err := newRun(c, newWorld(c))
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for n, p := range r.parts {
		for at, ch := range p.channels {
			if of, slot := r.manager(ch); of != r.parts[n] || int(slot) != at {
				t.Fatalf("channel %d is in slot %d of manager %d, and is looked for elsewhere", ch, at, n)
			}
			seen++
		}
	}
	if seen != len(r.w.group) {
		t.Errorf("%d of %d channels have a manager", seen, len(r.w.group))
	}
	one := c
	one.Managers = 1
	if alone := mustRun(t, one); alone.Freshness < row.Freshness*.9 || row.Freshness < alone.Freshness*.8 {
		t.Errorf("freshness %.3f with four managers, %.3f with one", row.Freshness, alone.Freshness)
	}
	c.Mode = "paper"
	if _, err := Run(context.Background(), c, nil, nil); !errors.Is(err, ErrConfig) {
		t.Errorf("managers in mode paper: %v", err)
	}
}
