package sequence

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

type url struct {
	site string
	n    int
	new  bool
}

func TestComposition(t *testing.T) {
	ratio := .25
	rng := rand.New(rand.NewPCG(1, 1))
	sites := func() *Sites[url] { return &Sites[url]{SiteOf: func(u url) string { return u.site }, Limit: 10_000} }
	mix := &Mix[url]{New: sites(), Old: sites(), Ratio: func() float64 { return ratio }, IsNew: func(u url) bool { return u.new }, Rand: rng}
	now := NewQueue[url](2)
	all := &Before[url]{First: now, Then: mix}
	for i := range 8000 {
		if !all.Load(url{site: string(rune('a' + i%5)), n: i, new: i%2 == 0}) {
			t.Fatal("full")
		}
	}
	now.Load(url{n: -1})
	now.Load(url{n: -2})
	if now.Load(url{n: -3}) {
		t.Error("the immediate queue took more than its limit")
	}
	for _, want := range []int{-1, -2} {
		if u, ok := all.Next(); !ok || u.n != want {
			t.Fatalf("first %+v", u)
		}
	}
	count := func(n int) float64 {
		fresh := 0
		for range n {
			if u, _ := all.Next(); u.new {
				fresh++
			}
		}
		return float64(fresh) / float64(n)
	}
	if f := count(2000); f < .21 || f > .29 {
		t.Errorf("new share %g at ratio .25", f)
	}
	ratio = .75 // changed while running
	if f := count(2000); f < .71 || f > .79 {
		t.Errorf("new share %g at ratio .75", f)
	}
	other := NewQueue[url](3000)
	if left := Swap[url](all, other); len(left) != 1000 || other.Backlog() != 3000 || all.Backlog() != 0 {
		t.Errorf("%d left, %d in the other, %d in the first", len(left), other.Backlog(), all.Backlog())
	}
}

func TestRoundRobin(t *testing.T) {
	closed := ""
	s := &Sites[string]{SiteOf: func(v string) string { return v[:1] }, Polite: func(site string) bool { return site != closed }, Active: 2, Limit: 7}
	for _, v := range strings.Fields("a1 a2 b1 c1 b2 c2 d1") {
		if !s.Load(v) {
			t.Fatal(v)
		}
	}
	if s.Load("x") {
		t.Error("took more than its limit")
	}
	var got []string
	for range 3 {
		v, _ := s.Next()
		got = append(got, v)
	}
	closed = "b"
	v, ok := s.Next() // a is empty now, c came in; b may not be taken from
	got = append(got, v)
	if want := strings.Fields("a1 b1 a2 c1"); !ok || !slices.Equal(got, want) {
		t.Fatalf("%v, want %v", got, want)
	}
	closed = ""
	got = nil
	for {
		v, ok := s.Next()
		if !ok {
			break
		}
		got = append(got, v)
	}
	slices.Sort(got)
	if want := strings.Fields("b2 c2 d1"); !slices.Equal(got, want) || s.Backlog() != 0 {
		t.Fatalf("%v, want %v", got, want)
	}
}

// What is put back does not count against its side's share.
func TestMixAgain(t *testing.T) {
	fresh, old := NewQueue[int](1<<20), NewQueue[int](1<<20)
	for i := range 100_000 {
		fresh.Load(i)
		old.Load(-i - 1)
	}
	mix := &Mix[int]{New: fresh, Old: old, Ratio: func() float64 { return .5 }, Rand: rand.New(rand.NewPCG(3, 3))}
	var n [2]int
	for n[0]+n[1] < 10_000 {
		v, ok := mix.Next()
		if !ok {
			t.Fatal("empty")
		}
		if v >= 0 && v%4 != 0 { // three of four new ones cannot be used
			mix.Again(true)
			continue
		}
		if v >= 0 {
			n[0]++
		} else {
			n[1]++
		}
	}
	if n[0] < 4700 || n[0] > 5300 {
		t.Errorf("%d new and %d old, want halves", n[0], n[1])
	}
}
