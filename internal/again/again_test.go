package again

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

var bounds = Bounds{First: time.Second, Last: 10 * time.Second}

func constant(v float64) func() float64 { return func() float64 { return v } }

func TestSteps(t *testing.T) {
	for _, tt := range []struct {
		chance float64
		want   []time.Duration
	}{
		{0, []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 5 * time.Second, 5 * time.Second}},
		{1, []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 10 * time.Second, 10 * time.Second}},
	} {
		p := with(bounds, constant(tt.chance), timer)
		for round := range 2 {
			for i, want := range tt.want {
				if got := p.Next(); got != want {
					t.Errorf("chance %g, round %d, wait %d: %v, want %v", tt.chance, round, i, got, want)
				}
			}
			p.Reset()
		}
	}
}

func TestChanceIsUsed(t *testing.T) {
	seen := map[time.Duration]bool{}
	for range 100 {
		d := Every(bounds).Next()
		if d < bounds.First/2 || d > bounds.First {
			t.Fatalf("first wait %v", d)
		}
		seen[d] = true
	}
	if len(seen) < 50 {
		t.Errorf("%d different waits of 100", len(seen))
	}
}

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := with(bounds, constant(1), timer)
		began := time.Now()
		for _, want := range []time.Duration{time.Second, 3 * time.Second, 7 * time.Second} {
			if err := p.Wait(t.Context(), nil, nil); err != nil || time.Since(began) != want {
				t.Fatalf("%v after %v, want %v", err, time.Since(began), want)
			}
		}
		for d, want := range map[time.Duration]time.Duration{time.Millisecond: time.Second, 3 * time.Second: 3 * time.Second, time.Hour: 10 * time.Second} {
			began = time.Now()
			if err := p.WaitFor(t.Context(), d, nil, nil); err != nil || time.Since(began) != want {
				t.Errorf("a wait for %v: %v after %v", d, err, time.Since(began))
			}
		}
		if got := with(bounds, constant(1), timer); got.WaitFor(t.Context(), 3*time.Second, nil, nil) != nil || got.Next() != 6*time.Second {
			t.Error("the pace does not go on from a wait that was named")
		}
		sooner := make(chan struct{})
		close(sooner)
		began = time.Now()
		for range 2 {
			if err := errors.Join(p.Wait(t.Context(), nil, sooner), p.Wait(t.Context(), sooner, nil), p.WaitFor(t.Context(), time.Second, nil, sooner)); err != nil || time.Since(began) != 0 {
				t.Errorf("told to hurry: %v after %v", err, time.Since(began))
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := p.Wait(ctx, nil, nil); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Millisecond {
			t.Errorf("context: %v after %v", err, time.Since(began))
		}
	})
}
