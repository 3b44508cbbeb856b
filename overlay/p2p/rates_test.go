package p2p

import (
	"math"
	"testing"
	"time"
)

// TestRatesOfTheLastMinutes is a member that is busy for some minutes and then at rest, where it reads its counters seldom.
func TestRatesOfTheLastMinutes(t *testing.T) {
	var r rates
	var now reading
	now.at = time.Unix(1_000_000, 0)
	if got := r.since(now); got != (Rates{}) {
		t.Errorf("%+v at the start", got)
	}
	for range 60 { // five minutes
		now.at, now.messages, now.packets = now.at.Add(5*time.Second), now.messages+1, now.packets+10
		got := r.since(now)
		if math.Round(got.Messages) != 12 || math.Round(got.Packets) != 120 {
			t.Fatalf("%+v, want 12 messages and 120 packets a minute", got)
		}
	}
	for range 12 { // eight
		now.at, now.messages, now.packets = now.at.Add(40*time.Second), now.messages+2, now.packets+20
		r.since(now)
	}
	if got := r.since(now); math.Round(got.Messages) != 3 || math.Round(got.Packets) != 30 || got.Over < rateOver || got.Over > rateOver+40*time.Second {
		t.Errorf("%+v at rest, want 3 messages and 30 packets a minute", got)
	}
	if len(r.kept) > int(rateOver/rateEvery)+2 {
		t.Errorf("%d readings kept", len(r.kept))
	}
}
