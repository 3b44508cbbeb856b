package manager

import (
	"context"
	"sync"
	"testing"
	"time"

	"shoal/channel"
)

// counted is a database that several managers share, of which they change one state.
type counted struct {
	Shared
	mu   sync.Mutex
	body []byte
}

func (c *counted) Change(_ context.Context, _ string, f func([]byte) ([]byte, error)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	next, err := f(c.body)
	if err == nil {
		c.body = next
	}
	return err
}

func (c *counted) State(context.Context, string) ([]byte, error) { return c.body, nil }

func (c *counted) Candidates(context.Context, int, func(string) bool) ([]channel.Candidate, error) {
	return nil, errTooMany
}

// TestManagersDiscoverTogether has two managers of a network add channels: each counts those of the other too, and none is added above the limit of both.
func TestManagersDiscoverTogether(t *testing.T) {
	db := &counted{}
	one := func() *discovery {
		c := &core{cfg: Config{Store: db, Discover: DiscoverAny, DiscoverMost: 10}}
		c.tenancy = &tenancy{core: c, Several: &Several{Shared: db}}
		return &discovery{core: c}
	}
	a, b := one(), one()
	for i, step := range []struct {
		of    *discovery
		added int
		want  int
	}{{a, 4, 4}, {b, 3, 7}, {b, 1, 8}, {a, 2, 10}} {
		n, err := step.of.count(t.Context(), step.added)
		if step.of.discovered += n; err != nil || step.of.discovered != step.want {
			t.Errorf("step %d: %d were discovered, %v; want %d", i, step.of.discovered, err, step.want)
		}
	}
	n, err := b.admitHosts(t.Context(), time.Time{}, 2)
	if b.discovered += n; err != nil || b.discovered != 10 {
		t.Errorf("where both have added as many as they may: %d, %v", b.discovered, err)
	}
	if _, err := parseDiscovered([]byte("torn")); err == nil {
		t.Error("a torn count was read")
	}
}
