package manager

import (
	"context"
	"strings"
	"testing"
	"time"

	"shoal/channel"
	"shoal/manager/archive"
	"shoal/manager/archive/evidence"
	"shoal/manager/trust"
)

// ledgered is a library with the record of one page.
type ledgered struct {
	library
	record trust.Page
	judged []archive.Judged
	last   archive.Delivery
}

func (l *ledgered) Delivery(context.Context, channel.ID, channel.Gen) (archive.Delivery, error) {
	return l.last, nil
}

func (l *ledgered) Record(_ context.Context, _ channel.ID, hash uint64) (archive.Delivered, error) {
	return archive.Delivered{URL: "https://a.example/", Hash: hash, Record: l.record}, nil
}

func (l *ledgered) Judge(_ context.Context, _ channel.ID, _ *archive.Delivery, all []archive.Judged) error {
	l.judged = append(l.judged, all...)
	return nil
}

// TestWorthOfPadding has a peer deliver a page with a comment that nobody sees. A checker finds the same page, and so the version is verified; but it brings no more than there
// was before, and is as large as the smaller of the two at most.
func TestWorthOfPadding(t *testing.T) {
	const page = "<title>News</title><main><p>The harbour was closed for 3 days by the storm.</p></main>"
	padded := page + "<!--" + strings.Repeat("x", 5000) + "-->"
	const first, liar = 1, 2
	for name, c := range map[string]struct {
		before, said, seen string
		want               *archive.Worth
	}{
		"the same bytes":         {page, padded, padded, nil},
		"a comment":              {page, padded, page, &archive.Worth{Bytes: len(page), Nothing: true}},
		"a comment, cut":         {page, padded, padded[:len(padded)-1], &archive.Worth{Bytes: len(padded) - 1, Nothing: true}},
		"a change and a comment": {strings.Replace(page, "closed", "open", 1), padded, page, &archive.Worth{Bytes: len(page)}},
		"a new page":             {"", padded, page, &archive.Worth{Bytes: len(page)}},
	} {
		au, _, _ := judging(t)
		l := &ledgered{library: library{bodies: map[trust.Peer]string{first: c.before, liar: c.said}}}
		au.cfg.Archive = l
		for n := range trust.Peer(4) {
			au.trust.Join(n+1, trust.Account(n+1), trust.Prefix(n+1))
			au.trust.Vouch(n + 1)
		}
		l.record = trust.Page{Cur: trust.Version{By: liar, At: 9, Digest: 6, State: trust.Provisional}, Prev: trust.Version{By: first, At: 1, Digest: 5, State: trust.Verified}, LastBy: liar, LastAt: 9}
		if c.before == "" {
			l.record.Prev = trust.Version{}
		}
		stop := au.serve(t)
		seen := evidence.Of(&archive.Capture{URL: "https://a.example/", Status: 200, Header: []byte("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"), Body: []byte(c.seen)})
		w := wanted{url: "https://a.example/", hash: 3, c: trust.Case{Reason: trust.LostAudit, URL: 3, Channel: 7, Accused: liar, At: 9}}
		_, err := au.check(t.Context(), "https://a.example", w, seen, 3)
		stop()
		if err != nil || len(l.judged) != 1 || l.judged[0].Page.Cur.State != trust.Verified {
			t.Errorf("%s: %+v, %v", name, l.judged, err)
			continue
		}
		if got := l.judged[0].Worth; (got == nil) != (c.want == nil) || got != nil && *got != *c.want {
			t.Errorf("%s: worth %+v, want %+v", name, got, c.want)
		}
	}
}

// TestWorthOfCrawls has crawls verify versions. What differs from the version before in nothing that is seen brings nothing, though two friends deliver the same bytes of it;
// and of a page that differs at each fetch the smaller of the two counts.
func TestWorthOfCrawls(t *testing.T) {
	const page = "<title>News</title><main><p>The harbour was closed for 3 days by the storm.</p></main>"
	padded := page + "<!--" + strings.Repeat("x", 5000) + "-->"
	changed := strings.Replace(page, "closed", "open", 1)
	const first, second, by = 1, 2, 3
	const near, far = 1 << 63, 0x5555555555555555
	for name, c := range map[string]struct {
		before, said string // empty: not kept
		prev         trust.Version
		cur          trust.State // before
		digest       uint64      // of what the crawl saw
		size         int
		want         *archive.Worth
	}{
		"a comment by two":            {page, padded, trust.Version{By: first, At: 1, Digest: 5, Shingle: near, State: trust.Verified}, trust.Provisional, 6, len(padded), &archive.Worth{Bytes: len(padded), Nothing: true}},
		"a small change":              {page, changed, trust.Version{By: first, At: 1, Digest: 5, Shingle: near, State: trust.Verified}, trust.Provisional, 6, len(changed), &archive.Worth{Bytes: len(changed)}},
		"a small change, not kept":    {"", changed, trust.Version{By: first, At: 1, Digest: 5, Shingle: near, State: trust.Verified}, trust.Provisional, 6, len(changed), &archive.Worth{Bytes: len(changed)}},
		"another text":                {page, changed, trust.Version{By: first, At: 1, Digest: 5, Shingle: far, State: trust.Verified}, trust.Provisional, 6, len(changed), nil},
		"a new page":                  {"", padded, trust.Version{}, trust.Provisional, 6, len(padded), nil},
		"other bytes, by who pads":    {"", page, trust.Version{}, trust.Provisional, 7, len(padded), &archive.Worth{Bytes: len(page)}},
		"other bytes of a padded one": {"", padded, trust.Version{}, trust.Provisional, 7, len(page), &archive.Worth{Bytes: len(page)}},
		"verified before":             {page, padded, trust.Version{By: first, At: 1, Digest: 5, Shingle: near, State: trust.Verified}, trust.Verified, 6, len(padded), nil},
		"what it went back to":        {padded, page, trust.Version{By: first, At: 20, Digest: 5, Shingle: near, State: trust.Contested}, trust.Provisional, 6, len(page), nil},
		"not kept any more":           {page, "", trust.Version{By: first, At: 1, Digest: 5, Shingle: near, State: trust.Verified}, trust.Provisional, 6, len(page), nil},
	} {
		au, _, _ := judging(t)
		bodies := map[trust.Peer]string{first: c.before, second: c.said}
		for n, body := range bodies {
			if body == "" {
				delete(bodies, n)
			}
		}
		au.cfg.Archive = &library{bodies: bodies}
		was := trust.Page{Cur: trust.Version{By: second, At: 9, Digest: 6, Shingle: near, State: c.cur}, Prev: c.prev}
		is := was
		is.Cur.State, is.Cur.Also[0] = trust.Verified, by
		d := archive.Delivery{Deliverer: by, Pages: []archive.Delivered{{URL: "https://a.example/", Hash: 3, Digest: c.digest, Size: c.size}}}
		records := []archive.Judged{{Hash: 3, Page: is, Was: was}}
		if err := crawlsWorth(t.Context(), au, &d, records); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := records[0].Worth; (got == nil) != (c.want == nil) || got != nil && *got != *c.want {
			t.Errorf("%s: worth %+v, want %+v", name, got, c.want)
		}
	}
}

// TestFriendsWithAComment has one peer add a comment to a page, and a friend deliver the same bytes: the version is verified, and brings neither of them anything.
func TestFriendsWithAComment(t *testing.T) {
	const page = "<title>News</title><main><p>The harbour was closed for 3 days by the storm.</p></main>"
	const padded = page + "<!--x-->"
	const first, second = 1, 2
	au, _, _ := judging(t)
	friend := au.number("friend")
	l := &ledgered{library: library{bodies: map[trust.Peer]string{first: page, second: padded, friend: padded}}}
	au.cfg.Archive = l
	for _, n := range []trust.Peer{first, second, friend} {
		au.trust.Join(n, trust.Account(n), trust.Prefix(n))
		au.trust.Vouch(n)
	}
	record := trust.Page{Cur: trust.Version{By: second, At: 9, Digest: 6, Shingle: 1 << 63, State: trust.Provisional}, Prev: trust.Version{By: first, At: 1, Digest: 5, Shingle: 1 << 63, State: trust.Verified}, LastBy: second, LastAt: 9}
	l.last = archive.Delivery{Channel: 7, Gen: 3, Deliverer: friend, Claimed: time.Unix(20, 0), Host: "https://a.example",
		Pages: []archive.Delivered{{URL: "https://a.example/", Hash: 3, Status: 200, Digest: 6, Shingle: 1 << 63, Size: len(padded), Record: record}}}
	stop := au.serve(t)
	err := au.judge(t.Context(), "friend", 7, 3)
	stop()
	if err != nil || len(l.judged) != 1 || l.judged[0].Page.Cur.State != trust.Verified {
		t.Fatalf("%+v, %v", l.judged, err)
	}
	if w := l.judged[0].Worth; w == nil || !w.Nothing {
		t.Errorf("the comment is worth %+v", w)
	}
}
