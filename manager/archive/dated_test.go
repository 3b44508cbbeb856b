package archive

import (
	"net/http"
	"testing"
	"time"

	"shoal/channel"
	"shoal/manager/archive/evidence"
	"shoal/manager/trust"
)

// TestPageThatHasAlwaysJustChangedExcusesNobody has a server say of its page at each fetch that it has changed just then: a forgery that the next crawl finds gone is contested
// all the same, and the arbiter's own fetch does not say that the page may have changed since.
func TestPageThatHasAlwaysJustChangedExcusesNobody(t *testing.T) {
	a, cl, _ := strangers(t)
	j := newJudge(t, a, true, "alice", "mallory", "carol")
	for i, step := range []struct{ peer, body string }{{"alice", home}, {"mallory", forge}, {"carol", home}} {
		gen := channel.Gen(i + 1)
		cl.crawl(t, a, step.peer, gen, func(r *runner) []channel.Page {
			p := r.page("/", step.body, channel.Changed)
			now := p.Fetched.UTC().Format(http.TimeFormat)
			p.Header = []byte("HTTP/1.1 200 OK\r\nDate: " + now + "\r\nLast-Modified: " + now + "\r\nContent-Type: text/html\r\n\r\n")
			return []channel.Page{p}
		})
		d, acts := j.deliver(cl, gen)
		if len(d.Pages) != 1 || d.Pages[0].Modified != 0 {
			t.Fatalf("what %s delivered: %+v", step.peer, d.Pages)
		}
		contested := len(acts) > 0 && acts[0].Kind == trust.Arbitrate
		if contested != (step.peer == "carol") {
			t.Errorf("after %s: %+v", step.peer, acts)
		}
		c, err := a.CaptureBy(t.Context(), "http://site-1.example/", d.Deliverer, d.Claimed.Unix())
		if err != nil {
			t.Fatal(err)
		}
		if at := evidence.Of(&c).Modified(); at != 0 {
			t.Errorf("by a fetch the page has changed at %v", time.Unix(at, 0))
		}
	}
}
