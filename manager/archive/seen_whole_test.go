package archive

import (
	"testing"
	"time"

	"shoal/channel"
)

// TestWhatTwoAccountsSawIsSeenWholeAgain has a version verified by one account beside the deliverer's: the next peers are not always told by what to ask whether it has changed,
// so that a forgery which came with the true page's validator ends. Once a third has seen it, they are.
func TestWhatTwoAccountsSawIsSeenWholeAgain(t *testing.T) {
	a, cl, _ := strangers(t)
	j := newJudge(t, a, true, "alice", "bob", "carol")
	told := func() (n int) {
		for i := range 40 {
			if tagOf(t, a, time.Unix(int64(1_700_000_000+i*86_400), 0)) != "" {
				n++
			}
		}
		return n
	}
	for i, peer := range []string{"alice", "bob", "carol"} {
		cl.crawl(t, a, peer, channel.Gen(i+1), tagged("1", channel.New))
		j.deliver(cl, channel.Gen(i+1))
		if peer == "bob" {
			if n := told(); n < 10 || n > 30 {
				t.Errorf("of what two accounts saw %d of 40 tasks name the validator", n)
			}
		}
	}
	if n := told(); n != 40 {
		t.Errorf("of what three accounts saw %d of 40 tasks name the validator", n)
	}
}

// TestTextThatTwoAccountsSawIsSeenAgain is the same where the text alone is sent: there the digest that is told says nothing of it either.
func TestTextThatTwoAccountsSawIsSeenAgain(t *testing.T) {
	a, cl, _ := strangers(t)
	j := newJudge(t, a, true, "alice", "bob", "carol")
	told := func() (n int) {
		for i := range 40 {
			k, err := a.Known(t.Context(), 1, time.Unix(int64(1_700_000_000+i*86_400), 0))
			if err != nil {
				t.Fatal(err)
			}
			n += len(k.Digests)
		}
		return n
	}
	for i, peer := range []string{"alice", "bob", "carol"} {
		cl.crawlText(t, a, peer, channel.Gen(i+1), func(r *runner) channel.Page {
			p := r.page("/", home, channel.New)
			p.Digest = 77
			return p
		})
		j.deliver(cl, channel.Gen(i+1))
		if n := told(); peer == "bob" && (n < 10 || n > 30) || peer == "carol" && n != 40 {
			t.Errorf("after %s %d of 40 tasks name the digest", peer, n)
		}
	}
}
