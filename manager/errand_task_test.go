package manager

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/coords"
	"shoal/manager/archive"
	"shoal/manager/dispatch"
	"shoal/manager/trust"
)

// oneChannel is a database of one channel.
type oneChannel struct {
	Store
	ch channel.Channel
}

func (s oneChannel) Channel(context.Context, channel.ID) (channel.Channel, error) { return s.ch, nil }
func (s oneChannel) Host(context.Context, string) (channel.Host, error) {
	return channel.Host{Name: s.ch.Scope.Host, CrawlDelay: 3 * time.Second, Record: coords.HostRecord{Samples: []coords.Sample{{Vantage: "v", RTT: time.Millisecond, At: coords.Coord{Err: .1}}}}}, nil
}

const auditedHost = "http://site-1.example"

// audited is an archive in which a crawl of a channel broke off, and what makes tasks of it.
func audited(t *testing.T) (a *archive.Archive, p *placers, now *time.Time) {
	t.Helper()
	at := time.Now().Truncate(time.Microsecond)
	now = &at
	a, err := archive.Open(t.Context(), archive.Config{
		Dir: t.TempDir(), Terms: lease.Default(), Clock: func() time.Time { return *now }, AccountOf: func(string) string { return "all" }, Unpaced: true,
		Verify: func(_ time.Time, s channel.Signed) (channel.Header, error) { return channel.ParseHeader(s.Raw) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	ch := channel.Channel{ID: 1, State: channel.Active, Scope: channel.Scope{Kind: channel.WholeHost, Host: auditedHost}, Seeds: []string{auditedHost + "/"}, Inter: []string{auditedHost + "/from-elsewhere"}}
	ch.Learnt = channel.Learnt{Pages: 9, Budget: 40, Visits: 2, Updated: at, Service: time.Minute}
	cfg := Config{Store: oneChannel{ch: ch}, Archive: a, Gap: time.Second, Contact: "https://example.org/", ArchiveID: "archive", FirstBudget: 100,
		Sign: func(h channel.Header) (channel.Signed, error) {
			return channel.Signed{Raw: h.Marshal(), Sig: []byte("good"), Delegation: []byte("d")}, nil
		}}
	p = &placers{core: &core{cfg: cfg}}
	for gen := channel.Gen(1); gen <= 2; gen++ {
		m, err := p.build(t.Context(), job{id: 1, Order: dispatch.Order{Gen: gen, Issued: *now, Latest: now.Add(time.Hour)}})
		if err = errors.Join(err, a.Deposit(t.Context(), m.signed, m.body)); err != nil {
			t.Fatal(err)
		}
		c, err := a.Claim(t.Context(), "peer", m.signed)
		if err != nil || c.Status != lease.Granted {
			t.Fatalf("%v, %v", c.Status, err)
		}
		*now = now.Add(10 * time.Minute)
		body := channel.ChunkBody{Report: &channel.Report{Channel: 1, Gen: gen, Peer: "peer", Outcome: channel.Updated, Started: *now, Ended: *now, Pages: 8, Inter: []string{"http://other.example/"}}}
		for n := range 8 {
			if gen == 2 && n == 7 {
				break // it is missed
			}
			text := fmt.Sprintf("page %d, of crawl %d", n, gen)
			pg := channel.Page{URL: fmt.Sprintf("%s/%d", auditedHost, n), Depth: n / 2, Status: 200, Change: channel.Changed, Fetched: *now, Body: []byte(text), Digest: channel.ContentDigest([]byte(text)),
				Header: fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nETag: \"%d-%d\"\r\n\r\n", n, gen), Links: []string{fmt.Sprintf("%s/%d", auditedHost, (n+1)%8), fmt.Sprintf("%s/broken-%d", auditedHost, n)}}
			body.Pages = append(body.Pages, pg)
		}
		raw, err := channel.CompressBody(body.Marshal())
		if err != nil {
			t.Fatal(err)
		}
		r, err := a.Put(t.Context(), "peer", channel.Chunk{Channel: 1, Gen: gen, Seq: c.Resume.Seq + 1, Prev: c.Resume.Head, Body: raw})
		if err != nil || r.Status != lease.Stored {
			t.Fatalf("%v, %v", r.Status, err)
		}
	}
	if _, err := a.Rank(t.Context()); err != nil {
		t.Fatal(err)
	}
	return a, p, now
}

// anAudit is an errand for some pages of the channel.
func anAudit(now time.Time, gen channel.Gen, pages ...string) job {
	e := &errand{host: auditedHost, until: now.Add(5 * time.Minute)}
	for _, path := range pages {
		e.pages = append(e.pages, wanted{url: auditedHost + path, hash: channel.URLHash(auditedHost + path), c: trust.Case{Channel: 1}})
	}
	return job{id: errandID, errand: e, as: gen, told: now.Add(time.Hour), Order: dispatch.Order{Gen: gen, Issued: now, Latest: now.Add(5 * time.Minute)}}
}

// fields calls do for each field of two structures.
func fields(a, b any, do func(name string, x, y reflect.Value)) {
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	for i := range x.NumField() {
		do(x.Type().Field(i).Name, x.Field(i), y.Field(i))
	}
}

// TestAnAuditLooksLikeARest builds the rest of a crawl and an audit of the same channel: header, body and answer to the claim have the same fields, and the same in
// them, but for digests and validators of the pages that are looked at.
func TestAnAuditLooksLikeARest(t *testing.T) {
	a, p, now := audited(t)
	rest, err := p.make(t.Context(), job{id: 1, Order: dispatch.Order{Gen: 3, Issued: *now, Latest: now.Add(time.Hour)}}, asked{id: 1, gen: 3, latest: now.Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	audit, as, err := p.buildErrand(t.Context(), anAudit(*now, 3, "/4", "/5"))
	if err != nil {
		t.Fatal(err)
	}
	fields(rest.header, audit.header, func(name string, x, y reflect.Value) {
		if name != "BodySHA256" && name != "BodyBytes" && !reflect.DeepEqual(x.Interface(), y.Interface()) {
			t.Errorf("header: %s is %v in a rest and %v in an audit", name, x, y)
		}
	})
	looked := []uint64{channel.URLHash(auditedHost + "/4"), channel.URLHash(auditedHost + "/5")}
	fields(rest.parts, audit.parts, func(name string, x, y reflect.Value) {
		switch {
		case x.IsZero() != y.IsZero() || x.Kind() == reflect.Slice && (x.Len() == 0) != (y.Len() == 0):
			t.Errorf("body: %s is set in one alone: in a rest %v, in an audit %v", name, x, y)
		case name != "Digests" && name != "Validators" && !reflect.DeepEqual(x.Interface(), y.Interface()):
			t.Errorf("body: %s is %v in a rest and %v in an audit", name, x, y)
		case x.Kind() == reflect.Slice && x.Len() == 0:
			t.Errorf("body: this compares no %s", name)
		}
	})
	if want := slices.DeleteFunc(rest.parts.Digests, func(d channel.PageDigest) bool { return slices.Contains(looked, d.URL) }); !slices.Equal(want, audit.parts.Digests) || len(want) != 6 {
		t.Errorf("digests of an audit: %v, want %v", audit.parts.Digests, want)
	}
	if want := slices.DeleteFunc(rest.parts.Validators, func(v channel.Validator) bool { return slices.Contains(looked, v.URL) }); !slices.Equal(want, audit.parts.Validators) || len(want) != 6 {
		t.Errorf("validators of an audit: %v, want %v", audit.parts.Validators, want)
	}

	*now = now.Add(20 * time.Second)
	if err := a.DepositAside(t.Context(), audit.signed, audit.body, as); err != nil {
		t.Fatal(err)
	}
	check, err := a.Claim(t.Context(), "checker", audit.signed)
	if err != nil || check.Status != lease.Granted {
		t.Fatalf("%v, %v", check.Status, err)
	}
	rest.header.Gen = 4 // the third one is taken
	if rest.signed, err = p.cfg.Sign(rest.header); err != nil {
		t.Fatal(err)
	}
	if err := a.Deposit(t.Context(), rest.signed, rest.body); err != nil {
		t.Fatal(err)
	}
	crawl, err := a.Claim(t.Context(), "another", rest.signed)
	if err != nil || crawl.Status != lease.Granted {
		t.Fatalf("%v, %v", crawl.Status, err)
	}
	fields(crawl.Reply, check.Reply, func(name string, x, y reflect.Value) {
		if !reflect.DeepEqual(x.Interface(), y.Interface()) {
			t.Errorf("claim: %s is %v for a crawl and %v for an audit", name, x, y)
		}
	})
	if want := []channel.Frontier{{URL: auditedHost + "/4", Depth: 2}, {URL: auditedHost + "/5", Depth: 2}}; !slices.Equal(check.Resume.Frontier, want) {
		t.Errorf("what is left of an audit: %v, want %v", check.Resume.Frontier, want)
	}
	for path, want := range map[string]bool{"/0": true, "/7": true, "/4": false, "/5": false, "/broken-4": true, "/from-elsewhere": true, "/": true, "/robots.txt": true} {
		if is := slices.Contains(check.Resume.Done, channel.URLHash(auditedHost+path)); is != want {
			t.Errorf("%s is done: %v", path, is)
		}
	}
}

// TestAnAuditIsClaimedInTime has a peer claim an audit after the time for which it is wanted, and before the latest start that its header says, which is that of any task of the
// channel: it is told what a peer is told whose task was called back.
func TestAnAuditIsClaimedInTime(t *testing.T) {
	a, p, now := audited(t)
	for gen, wait := range map[channel.Gen]time.Duration{3: 4 * time.Minute, 4: 6 * time.Minute} {
		m, as, err := p.buildErrand(t.Context(), anAudit(*now, gen, "/4"))
		if err != nil {
			t.Fatal(err)
		}
		as.Lane.Channel += channel.ID(gen)
		if err := a.DepositAside(t.Context(), m.signed, m.body, as); err != nil {
			t.Fatal(err)
		}
		if r, err := a.Renew(t.Context(), "checker", m.signed); err != nil || r.Status != lease.Waiting {
			t.Errorf("%v, %v", r.Status, err)
		}
		*now = now.Add(wait)
		want, highest := lease.Granted, channel.Gen(0)
		if wait > 5*time.Minute {
			want, highest = lease.Fenced, gen
			if r, err := a.Renew(t.Context(), "checker", m.signed); err != nil || r.Status != want {
				t.Errorf("after %v a renewal is %v, %v", wait, r.Status, err)
			}
		}
		if c, err := a.Claim(t.Context(), "checker", m.signed); err != nil || c.Status != want || c.Highest != highest {
			t.Errorf("after %v a claim is %v, %d, %v", wait, c.Status, c.Highest, err)
		}
	}
}
