package manager

import (
	"context"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"shoal/channel"
	"shoal/manager/archive"
	"shoal/manager/archive/evidence"
	"shoal/manager/trust"
)

// notModified is an archive in which each visit found what was there before, as the host said.
type notModified struct {
	register
	header string // of what was there
}

func (n *notModified) CaptureBy(_ context.Context, url string, by trust.Peer, at int64) (archive.Capture, error) {
	return archive.Capture{URL: url, Status: 304, Header: []byte(n.header), Body: []byte("forged"), Number: uint64(by), Fetched: time.Unix(at, 0)}, nil
}

func (*notModified) Record(context.Context, channel.ID, uint64) (archive.Delivered, error) {
	return archive.Delivered{}, archive.ErrNotFound
}

// TestWhoWasToldThatNothingHasChangedIsNotCharged has a forgery been stored with the validator of the true page: the host says of that to an honest peer that nothing has
// changed. Where the arbiter finds the same validator with other content, that peer is not charged; where it finds another one, the peer has not looked.
func TestWhoWasToldThatNothingHasChangedIsNotCharged(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nETag: \"a\"\r\n\r\n"
	for tag, charged := range map[string]bool{"a": false, "b": true} {
		au, _, _ := judging(t)
		au.cfg.Archive, au.cfg.Evidence = &notModified{header: head}, &shelf{losers: map[uint64]trust.Peer{}, sides: map[uint64]int{}, closed: map[uint64]bool{}}
		stop := au.serve(t)
		c := trust.Case{Reason: trust.LostAudit, URL: channel.URLHash("https://a.example/"), Channel: 7, Domain: 9, Accused: 1, Accuser: 2, At: 1000, Same: true}
		err := au.do(t.Context(), func(time.Time) {
			for n := trust.Peer(1); n <= 2; n++ {
				au.trust.Join(n, trust.Account(n), trust.Prefix(n))
				au.trust.Vouch(n)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		said, err := au.said(t.Context(), "https://a.example/", 1, 1000)
		if err != nil {
			t.Fatal(err)
		}
		truth := evidence.Of(&archive.Capture{URL: said.URL, Status: 200, Header: []byte("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nETag: \"" + tag + "\"\r\n\r\n"), Body: []byte("the page")})
		d := &dispute{wanted: wanted{url: said.URL, hash: c.URL, c: c}, decides: truth}
		d.ruling.Case, d.ruling.Delivered, d.ruling.Checked, d.ruling.Arbiter = c, said.Features(), truth.Features(), truth.Features()
		if err := au.rule(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		if err := au.do(t.Context(), func(time.Time) {
			if p, _ := au.trust.Peer(1); (p.Lost > 0) != charged {
				t.Errorf("tag %s: %+v", tag, p)
			}
		}); err != nil {
			t.Fatal(err)
		}
		stop()
	}
}

// TestPageThatHasNotChangedSinceIsChargedWithoutAnArbiter has a peer lie of a page that changes often, and two checkers decide, as there is no arbiter: where both say that the page
// has not changed since long before, it is no excuse that it might have.
func TestPageThatHasNotChangedSinceIsChargedWithoutAnArbiter(t *testing.T) {
	const url, truth = "https://a.example/", "<p>What the page really shows to all who come</p>"
	at := time.Date(2026, 1, 10, 0, 0, 0, 0, time.UTC)
	dated := func(day int) string {
		return at.AddDate(0, 0, day-10).Format("Last-Modified: " + http.TimeFormat + "\r\n")
	}
	amount := map[string]float64{}
	for what, said := range map[string][2]string{
		"unchanged since": {dated(1), dated(1)}, "none says": {"", ""}, "one says": {dated(1), ""}, "they differ": {dated(1), dated(2)}, "changed since": {dated(11), dated(11)},
	} {
		au, _, _ := judging(t)
		au.cfg.Archive = &notModified{}
		au.cfg.Evidence = &shelf{losers: map[uint64]trust.Peer{}, sides: map[uint64]int{}, closed: map[uint64]bool{}}
		rules := trust.Default()
		rules.Enforce, rules.Arbiter = true, false
		var err error
		if au.trust, err = trust.New(rules, rand.New(rand.NewPCG(1, 2))); err != nil {
			t.Fatal(err)
		}
		stop := au.serve(t)
		c := trust.Case{Reason: trust.LostAudit, URL: channel.URLHash(url), Channel: 7, Domain: 9, Accused: 1, Accuser: 2, At: at.Unix()}
		fetch := func(fields, body string) *archive.EvidenceFetch {
			head := "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n" + fields + "\r\n"
			return evidence.Of(&archive.Capture{URL: url, Status: 200, Header: []byte(head), Body: []byte(body), Fetched: at.AddDate(0, 0, 2)})
		}
		d := &dispute{wanted: wanted{url: url, hash: c.URL, c: c}, number: 3, needs: 3}
		d.ruling.Evidence = trust.Evidence{Case: c, Dated: true, Rate: 1. / 86400, Delay: 48 * time.Hour,
			Delivered: fetch("", "<p>A forgery that tells of something else altogether</p>").Features(), Checked: fetch("", truth).Features()}
		err = au.do(t.Context(), func(now time.Time) {
			for n := trust.Peer(1); n <= 2; n++ {
				au.trust.Join(n, trust.Account(n), trust.Prefix(n))
				au.trust.Vouch(n)
			}
			for turn, fields := range said {
				au.testified(now, &errand{dispute: d, turn: turn}, fetch(fields, truth))
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := au.rule(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		if err := au.do(t.Context(), func(time.Time) {
			p, _ := au.trust.Peer(1)
			amount[what] = p.Scores[trust.Forging]
		}); err != nil {
			t.Fatal(err)
		}
		stop()
	}
	if a := amount["changed since"]; a != 0 {
		t.Errorf("a page that has changed since costs %v", a)
	}
	if a := amount["none says"]; a <= 0 || amount["one says"] != a || amount["they differ"] != a {
		t.Errorf("a page of which it is not known when it changed costs %v", amount)
	}
	if amount["unchanged since"] < 1.2*amount["none says"] {
		t.Errorf("a page that has not changed since costs %v", amount)
	}
}
