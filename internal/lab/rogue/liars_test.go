package rogue

import (
	"bytes"
	"context"
	"slices"
	"strconv"
	"testing"
	"time"

	"shoal/channel/channelpb"
)

// TestLiars gives every kind of liar pages to deliver and to check, and looks which of them it forges.
func TestLiars(t *testing.T) {
	const (
		host  = "http://a.test"
		pages = 100_000 // so many that who forges one in a thousand forges a hundred
	)
	fetches := 0
	v := &Volunteer{Scene: Scene{Fetch: func(context.Context, string) (int, []byte, []byte, error) {
		fetches++
		return 200, nil, []byte("differs now"), nil
	}}}
	for _, l := range Liars() {
		g := &Gang{Target: host, Wake: time.Now().Add(time.Hour)}
		forgedOf := func(check bool) (n int) {
			r := &Run{v: v, Offer: Offer{Header: &channelpb.Header{Host: host}}}
			for i := range pages {
				p := &channelpb.Page{Url: host + "/" + strconv.Itoa(i), Status: 200, Body: []byte("<main><p>truth</p></main>"), Change: pageNew}
				lied := l.forge(t.Context(), g, r, p, check)
				if lied != bytes.Contains(p.Body, []byte(Mark)) {
					t.Fatalf("%s: lied %v: %s", l.Name, lied, p.Body)
				}
				if lied {
					n++
				}
			}
			return n
		}
		delivered, checked := forgedOf(false), forgedOf(true)
		t.Logf("%s: forges %d pages and %d checks of %d", l.Name, delivered, checked, pages)
		if want := int(pages * l.Share); l.sleeps && delivered != 0 || !l.sleeps && (delivered > want*3/2+8 || delivered < want/2) {
			t.Errorf("%s forges %d pages of %d, want about %d", l.Name, delivered, pages, want)
		}
		if (checked > 0) != (l.slanders || l.colludes) || l.colludes && checked != delivered {
			t.Errorf("%s forges %d checks; delivered %d", l.Name, checked, delivered)
		}
		g.Wake = time.Time{}
		if l.sleeps && forgedOf(false) == 0 {
			t.Errorf("%s never wakes up", l.Name)
		}
	}
	if fetches == 0 {
		t.Error("no liar looked whether a page differs at each fetch")
	}
	if _, err := LiarNamed("none"); err == nil || !slices.ContainsFunc(Liars(), func(l Liar) bool { return l.Sybil }) {
		t.Error("a liar of no kind is named, or none is a sybil")
	}
}
