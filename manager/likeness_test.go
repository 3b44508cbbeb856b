package manager

import (
	"context"
	"strings"
	"testing"
	"time"

	"shoal/channel"
	"shoal/manager/archive"
	"shoal/manager/trust"
)

// library is an archive with one capture of each peer.
type library struct {
	register
	bodies map[trust.Peer]string
}

func (l *library) CaptureBy(_ context.Context, url string, by trust.Peer, _ int64) (archive.Capture, error) {
	body, kept := l.bodies[by]
	if !kept {
		return archive.Capture{}, archive.ErrNotFound
	}
	return archive.Capture{URL: url, Status: 200, Header: []byte("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"), Body: []byte(body)}, nil
}

// serve runs what is asked of the loop until stop is called.
func (au *auditor) serve(t *testing.T) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case f := <-au.requests:
				au.run(f)
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() { cancel(); <-ended }
}

// TestUnlikeInAllButItsWords has a peer come to a page that differs at each fetch, after a version whose text is nearly the same: what somebody has added to one of the
// two is seen, and what such a page differs by anyway is none.
func TestUnlikeInAllButItsWords(t *testing.T) {
	au, _, _ := judging(t)
	l := &library{bodies: map[trust.Peer]string{}}
	au.cfg.Archive = l
	ctx := t.Context()
	defer au.serve(t)()
	var text strings.Builder
	for i := range 300 {
		text.WriteString([]string{"harbour", "storm", "closed", "ships", "days", "wait"}[i*i%6])
		text.WriteString([]string{" ", "s ", "ed ", "ing "}[i%7%4])
	}
	page := func(visitor, more string) string {
		return "<title>News</title><main><p>" + text.String() + more + "</p></main><p>You are visitor " + visitor + ".</p>"
	}
	const first, second = 1, 2
	for name, c := range map[string]struct {
		was, is string
		dynamic uint8
		want    bool
	}{
		"a counter":                 {page("5", ""), page("6", ""), 3, false},
		"a link":                    {page("5", `<a href="https://evil.example/">shoes</a>`), page("6", ""), 3, true},
		"a program":                 {page("5", ""), page("6", "<script src=https://evil.example/x.js></script>"), 3, true},
		"a paragraph":               {page("5", strings.Repeat(" the company is worth nothing any more and all have lost", 4)), page("6", ""), 3, true},
		"of which nothing is kept":  {"", page("6", ""), 3, false},
		"of a page that stays same": {page("5", `<a href="https://evil.example/">shoes</a>`), page("6", ""), 0, false},
	} {
		l.bodies = map[trust.Peer]string{first: c.was, second: c.is}
		if c.was == "" {
			delete(l.bodies, first)
		}
		d := archive.Delivery{Deliverer: second, Host: "https://a.example", Claimed: time.Now(), Pages: []archive.Delivered{{URL: "https://a.example/", Digest: 7, Shingle: 0xff00, Record: trust.Page{
			Dynamic: c.dynamic, Cur: trust.Version{By: first, At: 1, Digest: 6, Shingle: 0xff01, State: trust.Provisional}}}}}
		records := make([]archive.Judged, 1)
		seen, err := seen(ctx, au, &d, records)
		if err != nil || len(seen) != 1 || seen[0].Unlike != c.want || seen[0].Page != &records[0].Page || seen[0].Digest != 7 {
			t.Errorf("%s: %+v, %v; want %v", name, seen, err, c.want)
		}
	}
	if !channel.Near(0xff00, 0xff01) {
		t.Error("the fingerprints are not near each other")
	}
}

// TestTextsOfOnePageAreCompared has two peers name the same page as it came, with the same fingerprint, and send different texts of it, or none: what they sent tells whether
// they have only read it a little otherwise.
func TestTextsOfOnePageAreCompared(t *testing.T) {
	au, _, _ := judging(t)
	l := &library{bodies: map[trust.Peer]string{}}
	au.cfg.Archive = l
	var text strings.Builder
	for i := range 300 {
		text.WriteString([]string{"harbour", "storm", "closed", "ships", "days", "wait"}[i*i%6])
		text.WriteString([]string{" ", "s ", "ed ", "ing "}[i%7%4])
	}
	const first, second = 1, 2
	for name, c := range map[string]struct {
		was, is string
		want    bool
	}{
		"a menu more":            {text.String(), text.String() + "Home 3", false},
		"a paragraph more":       {text.String() + strings.Repeat(" the company is worth nothing any more and all have lost", 4), text.String(), true},
		"another text":           {"the company is worth nothing any more", text.String(), true},
		"nothing before":         {"", text.String(), true},
		"nothing now":            {text.String(), "", false},
		"nothing kept of before": {"-", text.String(), false},
	} {
		l.bodies = map[trust.Peer]string{first: c.was, second: c.is}
		if c.was == "-" {
			delete(l.bodies, first)
		}
		d := archive.Delivery{Deliverer: second, Host: "https://a.example", Claimed: time.Now(), Pages: []archive.Delivered{{URL: "https://a.example/", Digest: 7, Raw: 9, Shingle: 0xff00, Size: len(c.is),
			Record: trust.Page{Cur: trust.Version{By: first, At: 1, Digest: 6, Raw: 9, Shingle: 0xff01, State: trust.Provisional}}}}}
		seen, err := seen(t.Context(), au, &d, make([]archive.Judged, 1))
		if err != nil || len(seen) != 1 || seen[0].Unlike != c.want {
			t.Errorf("%s: %+v, %v; want %v", name, seen, err, c.want)
		}
	}
}

// TestAlikeButForComments has a page go back to the version before: where only a comment was added, the arbiter is not to be asked, and where a word or a link was, or nothing is
// kept, it is.
func TestAlikeButForComments(t *testing.T) {
	au, _, _ := judging(t)
	l := &library{bodies: map[trust.Peer]string{}}
	au.cfg.Archive = l
	const page = "<title>News</title><main><p>The harbour was closed for 3 days by the storm.</p></main>"
	const first, second, third = 1, 2, 3
	for name, c := range map[string]struct {
		was  string
		prev uint64 // digest
		want bool
	}{
		"a comment":                {page + "<!--x-->", 7, true},
		"a word":                   {strings.Replace(page, "closed", "open", 1), 7, false},
		"a link":                   {page + `<a href="https://evil.example/">shoes</a>`, 7, false},
		"of which nothing is kept": {"", 7, false},
		"nothing that goes back":   {page + "<!--x-->", 5, false},
	} {
		l.bodies = map[trust.Peer]string{second: c.was, third: page}
		if c.was == "" {
			delete(l.bodies, second)
		}
		d := archive.Delivery{Deliverer: third, Host: "https://a.example", Claimed: time.Now(), Pages: []archive.Delivered{{URL: "https://a.example/", Digest: 7, Shingle: 0xff00, Record: trust.Page{
			LastBy: second, LastAt: 9, Cur: trust.Version{By: second, At: 9, Digest: 6, Shingle: 0xff01, State: trust.Verified},
			Prev: trust.Version{By: first, At: 1, Digest: c.prev, Shingle: 0xff00, State: trust.Verified}}}}}
		seen, err := seen(t.Context(), au, &d, make([]archive.Judged, 1))
		if err != nil || len(seen) != 1 || seen[0].Alike != c.want {
			t.Errorf("%s: %+v, %v; want %v", name, seen, err, c.want)
		}
	}
}
