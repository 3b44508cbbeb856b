package manager

import (
	"fmt"
	"testing"
)

// TestBlindArbiterIsTold has the arbiter see nothing from one of two vantages. One host that is down says nothing about a vantage; several in turn do, until something is
// seen again.
func TestBlindArbiterIsTold(t *testing.T) {
	const why = "no route to host"
	var all sights
	for range 2 * blindFrom {
		if vain := all.add("https://down.example", []look{{0, why}}); vain != 1 {
			t.Errorf("%d fetches were in vain", vain)
		}
	}
	if got := all.blind(); len(got) > 0 {
		t.Errorf("one host that is down makes the arbiter blind: %+v", got)
	}
	for n := range blindFrom {
		if vain := all.add(fmt.Sprintf("https://%d.example", n), []look{{vantage: 0}, {1, why}}); vain != 1 {
			t.Errorf("of two fetches, %d were in vain", vain)
		}
	}
	if got := append(sights{}, all[1]).blind(); len(got) != 1 || !got[0].All {
		t.Errorf("from the only vantage: %+v", got)
	}
	if got := all.blind(); len(got) != 1 || got[0] != (Blind{Vantage: 1, Hosts: blindFrom, Why: why}) {
		t.Errorf("from two vantages, of which one sees nothing: %+v", got)
	}
	if all.add("https://up.example", []look{{vantage: 1}}); len(all.blind()) > 0 {
		t.Error("it is blind once it sees again")
	}
}
