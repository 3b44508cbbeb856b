package archive

import (
	"testing"
	"time"

	"shoal/channel"
	"shoal/manager/trust"
)

// TestPageCountsOnceInAClaim has a liar deliver a page twice in one claim, first as it is and then forged, in one chunk and in two: what is looked at again is what the
// page shows then, so that no checker vouches for a forgery that it never saw.
func TestPageCountsOnceInAClaim(t *testing.T) {
	for name, chunks := range map[string]int{"in one chunk": 1, "in two chunks": 2} {
		t.Run(name, func(t *testing.T) {
			a, cl, _ := strangers(t)
			j := newJudge(t, a, true, "alice", "bob", "mallory")
			cl.crawl(t, a, "alice", 1, func(r *runner) []channel.Page { return []channel.Page{r.page("/", home, channel.New)} })
			j.deliver(cl, 1)
			cl.now = cl.now.Add(time.Minute)
			r, _ := start(t, a, "mallory", 1, 2)
			cl.now = cl.now.Add(time.Second)
			pages := []channel.Page{r.page("/", news, channel.Changed)}
			cl.now = cl.now.Add(time.Second)
			pages = append(pages, r.page("/", forge, channel.Changed))
			if chunks == 1 {
				r.send(channel.ChunkBody{Pages: pages, Report: r.report(channel.Updated)})
			} else {
				r.put(channel.ChunkBody{Pages: pages[:1]})
				r.send(channel.ChunkBody{Pages: pages[1:], Report: r.report(channel.Updated)})
			}
			d, _ := j.deliver(cl, 2)
			if len(d.Pages) != 1 {
				t.Fatalf("%d pages were delivered", len(d.Pages))
			}
			c, err := a.CaptureBy(t.Context(), d.Pages[0].URL, d.Deliverer, d.Claimed.Unix())
			if err != nil || channel.ContentDigest(c.Body) != d.Pages[0].Digest {
				t.Errorf("delivered is %q, %v: not what was judged", c.Body, err)
			}
			page, err := a.Page(t.Context(), d.Pages[0].URL)
			if err != nil || page.Digest != d.Pages[0].Digest || page.Visits != 2 {
				t.Errorf("the page shows %+v, %v: not what was judged", page, err)
			}
		})
	}
}

// TestClockBehindHidesNothing has a peer's clock be behind, or said to be: what it delivered is found all the same when it is looked at again.
func TestClockBehindHidesNothing(t *testing.T) {
	a, cl, _ := strangers(t)
	j := newJudge(t, a, true, "mallory")
	cl.crawl(t, a, "mallory", 1, func(r *runner) []channel.Page {
		p := r.page("/", forge, channel.New)
		p.Fetched = p.Fetched.Add(-4 * time.Minute)
		return []channel.Page{p}
	})
	d, _ := j.deliver(cl, 1)
	c, err := a.CaptureBy(t.Context(), d.Pages[0].URL, d.Deliverer, d.Claimed.Unix())
	if err != nil || string(c.Body) != forge {
		t.Errorf("%q, %v", c.Body, err)
	}
}

// TestTwoClaimsInASecond has a liar deliver a page as it is, and within the same second, in its next claim, forged: each is looked at for itself.
func TestTwoClaimsInASecond(t *testing.T) {
	a, cl, _ := strangers(t)
	j := newJudge(t, a, true, "mallory")
	cl.now = cl.now.Truncate(time.Second)
	for gen, body := range []string{home, forge} {
		r, _ := start(t, a, "mallory", 1, channel.Gen(gen+1))
		cl.now = cl.now.Add(100 * time.Millisecond)
		r.put(channel.ChunkBody{Pages: []channel.Page{r.page("/", body, channel.Changed)}, Report: r.report(channel.Updated)})
		d, _ := j.deliver(cl, channel.Gen(gen+1))
		c, err := a.CaptureBy(t.Context(), d.Pages[0].URL, trust.Peer(a.DelivererNumber("mallory")), d.Claimed.Unix())
		if err != nil || string(c.Body) != body {
			t.Errorf("generation %d: %q, %v", gen+1, c.Body, err)
		}
	}
}
