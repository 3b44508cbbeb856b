package recrawl

import (
	"math/rand/v2"
	"testing"
)

// What is put back does not count against its side's share.
func TestMixAgain(t *testing.T) {
	var known, fresh ready
	for i := range Slot(100_000) {
		fresh.push(i, 1)
		known.push(i|1<<20, 1)
	}
	m := &mix{known: &known, new: &fresh, share: .5, rng: rand.New(rand.NewPCG(3, 3))}
	var n [2]int
	for n[0]+n[1] < 10_000 {
		v, ok := m.next()
		switch s := v.slot(); {
		case !ok:
			t.Fatal("empty")
		case s>>20 == 1:
			n[1]++
		case s%4 != 0: // three of four new ones cannot be used
			m.again(true)
		default:
			n[0]++
		}
	}
	if n[0] < 4700 || n[0] > 5300 {
		t.Errorf("%d new and %d known, want halves", n[0], n[1])
	}
}

// A side that has nothing leaves all to the other.
func TestMixOfOneSide(t *testing.T) {
	var known, fresh ready
	known.push(7, 1)
	m := &mix{known: &known, new: &fresh, share: .999, rng: rand.New(rand.NewPCG(3, 3))}
	if v, ok := m.next(); !ok || v.slot() != 7 {
		t.Errorf("slot %d, %v", v.slot(), ok)
	}
	if _, ok := m.next(); ok {
		t.Error("both sides are empty")
	}
}
