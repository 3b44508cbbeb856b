package compare

import (
	"fmt"
	"strings"
	"testing"
)

// TestOneLiarTeachesNothing has a liar deliver a page that differs at each fetch with a hundred links and a program of other hosts, and a text that is more like the arbiter's than
// the honest peer's. The host learns what honest fetches differ by, and neither such a page nor one without the true page's links is within it.
func TestOneLiarTeachesNothing(t *testing.T) {
	page := func(visitor, more string) *Features {
		var links strings.Builder
		for i := range 5 {
			fmt.Fprintf(&links, "<a href=https://friend%d.example/>friend</a> <a href=/%d>more</a> ", i, i)
		}
		const words = "the harbour is closed for some days because of the storm and ships wait outside until it has passed by "
		return Of(Fetch{URL: "https://a.example/x", Status: 200, Type: "text/html", Body: []byte("<title>News</title><main><p>" + words + "</p><p>" + visitor + "</p>" + links.String() + "</main>" + more)})
	}
	evil := "<script src=https://evil.example/x.js></script>"
	for i := range 100 {
		evil += fmt.Sprintf("<a href=//evil%d.example/></a>", i)
	}
	truth, honest, forged := page("you are the visitor with number 5 today", ""), page("you are the visitor with number 6 since noon", ""), page("you are the visitor with number 5 today and here", evil)
	var h Host
	if shared(forged.Text, truth.Text) <= shared(honest.Text, truth.Text) {
		t.Fatal("the liar's text is not the likelier one")
	}
	h.Learn(truth, forged, honest)
	if h.Learnt != 1 || h.Loose&Sources != 0 || h.Others != 255 || h.Links != 255 {
		t.Errorf("the host has learnt %+v", h)
	}
	if v := h.Compare(page("you are the visitor with number 7 since noon", evil), truth).Verdict; v != Conflict {
		t.Errorf("another such forgery is %v", v)
	}
	h = Host{}
	h.Learn(truth, honest, honest)
	if v := h.Compare(page("you are the visitor with number 7 since noon", ""), truth).Verdict; v != Dynamic {
		t.Errorf("an honest fetch is %v to a host that honest ones have taught", v)
	}
	before := h
	gone := *forged
	gone.Status = 403
	if h.Learn(truth, honest, &gone); h != before {
		t.Errorf("a pair with an error page taught %+v", h)
	}
}
