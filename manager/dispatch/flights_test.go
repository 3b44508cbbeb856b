package dispatch

import (
	"math/rand/v2"
	"testing"

	"shoal/recrawl"
)

// TestFlights compares with a map; few slots that are far apart make the searches meet.
func TestFlights(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var x flights
	want, most := map[recrawl.Slot]*flight{}, 0
	for step := range 100_000 {
		s := recrawl.Slot(rng.Uint32N(600)) * recrawl.Slot(1+step>>14<<20)
		switch f := x.find(s); {
		case f != want[s]:
			t.Fatalf("step %d: slot %d: found %p, want %p", step, s, f, want[s])
		case f == nil:
			want[s] = x.add(s)
		default:
			x.remove(s)
			delete(want, s)
		}
		if most = max(most, len(want)); x.n != len(want) {
			t.Fatalf("step %d: counted %d flights, want %d", step, x.n, len(want))
		}
	}
	seen := 0
	for f := range x.all() {
		if seen++; want[f.slot] != f {
			t.Fatalf("the flight of slot %d is another one's", f.slot)
		}
	}
	if seen != len(want) {
		t.Fatalf("%d flights, want %d", seen, len(want))
	}
	if len(x.chunks) != (most+flightChunk-1)/flightChunk {
		t.Fatalf("%d chunks for the %d flights that there were at most", len(x.chunks), most)
	}
}
