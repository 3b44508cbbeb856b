package recrawlsim

import (
	"context"
	"math/rand/v2"
	"reflect"
	"testing"
)

// TestManyCrawlersAreNamedInFull: where crawlers' numbers do not fit into 16 bits they are kept in 32, with the same result.
func TestManyCrawlersAreNamedInFull(t *testing.T) {
	for _, mode := range []string{"paper", "shoal"} {
		c := small("price", mode)
		w := newWorld(c)
		if w.near.narrow == nil {
			t.Fatalf("%d crawlers are not kept in 16 bits", len(w.crawlers))
		}
		wide := *w
		wide.near = nearby{each: w.near.each}
		for ch := range w.hosts {
			wide.near.add(w.near.list(int32(ch), nil))
		}
		a, err := Run(context.Background(), c, w, nil)
		if err != nil {
			t.Fatal(err)
		}
		b, err := Run(context.Background(), c, &wide, nil)
		if err != nil {
			t.Fatal(err)
		}
		a.w, b.w = nil, nil
		if !reflect.DeepEqual(a, b) {
			t.Errorf("mode %s: %+v with 16 bits, %+v with 32", mode, a, b)
		}
	}
}

// TestForward compares the choice of a crawler with its rule written out.
func TestForward(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		loads := make([]uint16, 1+rng.IntN(100))
		there, least := rng.IntN(4), rng.IntN(12)
		for i := range loads {
			loads[i] = uint16(least + rng.IntN(6))
			if rng.IntN(4) > there {
				loads[i] = dead
			}
		}
		near := make([]int32, len(loads))
		for i, c := range rng.Perm(len(loads)) {
			near[i] = int32(c)
		}
		n := nearby{each: len(near), wide: near}
		if got, want := n.forward(0, loads), forwardByHand(near, loads); got != want {
			t.Fatalf("crawler %d, want %d: loads %v by nearness %v", got, want, loads, near)
		}
	}
}

func forwardByHand(near []int32, loads []uint16) int32 {
	var there []int32
	for _, c := range near {
		if loads[c] != dead && len(there) < forwardNear {
			there = append(there, c)
		}
	}
	if len(there) == 0 {
		return nothing
	}
	if loads[there[0]] < threads+softQueue {
		return there[0]
	}
	best := there[0]
	for _, c := range there[1:] {
		if loads[c] < threads {
			return c
		}
		if loads[c] < loads[best] {
			best = c
		}
	}
	return best
}

// TestApart has channels' tasks in turn go to different crawlers where others are about as near: fewer stay with one, and those that go elsewhere do not go far.
func TestApart(t *testing.T) {
	c := small("icr", "shoal")
	run := func(apart bool) Row {
		c.Apart = apart
		r, err := Run(context.Background(), c, newWorld(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	near, apart := run(false), run(true)
	if near.RTT50 <= 0 || apart.RTT50 < near.RTT50/1.5 || apart.RTT50 > 1.5*near.RTT50 { // of few crawlers, some of which have gone, the next one may be nearer
		t.Errorf("tasks go %.1f ms far, in turn apart %.1f ms", near.RTT50, apart.RTT50)
	}
	if near.Stayed <= 0 || apart.Stayed >= near.Stayed {
		t.Errorf("%.2f stay with one crawler, in turn apart %.2f", near.Stayed, apart.Stayed)
	}
	c.Mode = "paper"
	if err := c.Validate(); err == nil {
		t.Error("mode paper takes tasks in turn apart")
	}
}
