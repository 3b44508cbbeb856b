package crawl

import (
	"context"
	"net/netip"
	"slices"
	"testing"
	"time"

	"shoal/channel"
	"shoal/internal/lab/pond"
	"shoal/peer/limit"
)

// serve runs a pond for one test.
func serve(t testing.TB, cfg pond.Config) (*pond.World, *pond.Server, *limit.Guard) {
	t.Helper()
	w, err := pond.NewWorld(cfg)
	if err != nil {
		t.Fatal(err)
	}
	srv, err := pond.NewServer(w, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- srv.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	to, err := limit.ToPond(netip.MustParseAddrPort(srv.Addr().String()))
	if err != nil {
		t.Fatal(err)
	}
	return w, srv, &limit.Guard{Pond: to}
}

func pondTask(t testing.TB, w *pond.World, g *limit.Guard, host int) (Config, *sink) {
	origin := w.Origin(host)
	roots, err := w.Roots()
	if err != nil {
		t.Fatal(err)
	}
	s := &sink{}
	return Config{
		Header: channel.Header{Channel: 1, Gen: 1, Host: origin, Pages: w.Hosts()[host].Pages},
		Body:   channel.Body{Scope: channel.Scope{Kind: channel.WholeHost, Host: origin}, Seeds: []string{origin + "/"}},
		Dial:   g.DialContext, Sink: s, Spool: t.TempDir(), UserAgent: "Shoal/test (+http://contact.test/)", Unpaced: true, Roots: roots,
	}, s
}

func TestPondIsCrawledWhole(t *testing.T) {
	noLeaks(t)
	w, srv, g := serve(t, pond.Config{Seed: 3, Hosts: 8, Pages: 1200, MaxHost: 400, Static: true})
	for i, h := range w.Hosts() {
		cfg, s := pondTask(t, w, g, i)
		r := run(t, cfg)
		var want []string
		for p := range h.Pages {
			want = append(want, w.URL(i, p))
		}
		slices.Sort(want)
		if got := s.urls(); !slices.Equal(got, want) {
			t.Errorf("%s: %d pages of %d, %+v", h.Name, len(got), len(want), r.Errors)
		}
		if h.CrawlDelay > 0 && r.Gap < h.CrawlDelay {
			t.Errorf("%s asks for %v, kept %v", h.Name, h.CrawlDelay, r.Gap)
		}
	}
	st := srv.Stats()
	for _, v := range st.Violations {
		if v.Kind != "crawl-delay" { // the test does not wait
			t.Errorf("impolite: %+v", v)
		}
	}
	if st.MaxInFlight != 1 {
		t.Errorf("%d requests in flight", st.MaxInFlight)
	}
}

// badWebResult is what a crawl of a host that misbehaves may come to.
type badWebResult struct {
	outcome channel.Outcome // zero: any
	kinds   []string        // of error, one of which was counted
	pages   int             // at most; 0: all that the host has
}

func badWebResults() map[pond.Mode]badWebResult {
	all := badWebResult{outcome: channel.Updated}
	tls := func(kinds ...string) badWebResult { return badWebResult{outcome: channel.Failed, kinds: kinds} }
	return map[pond.Mode]badWebResult{
		pond.EndlessRedirects: {0, []string{"redirects"}, 20}, pond.RedirectLoop: {0, nil, 5}, pond.PrivateRedirects: {0, nil, 40},
		pond.HangUp: {channel.Failed, []string{"hang-up", "reset"}, 5}, pond.CutOff: {0, []string{"cut-off", "reset"}, 0},
		pond.ShortBody: {0, []string{"cut-off"}, 0}, pond.LongBody: {0, nil, 0}, pond.BrokenChunks: {0, []string{"broken-chunks", "malformed"}, 0},
		pond.MalformedHeaders: {channel.Updated, nil, 5}, pond.HugeHeaders: {0, []string{"header-too-large"}, 0}, pond.HugeBody: {0, nil, 0},
		pond.GzipBomb: {0, []string{"bomb"}, 0}, pond.BrotliBomb: {0, []string{"bomb"}, 0}, pond.ZstdBomb: {0, []string{"bomb"}, 0},
		pond.BrokenGzip: {0, []string{"encoding"}, 0}, pond.ManyLinks: {0, nil, 10}, pond.InvalidUTF8: {0, nil, 20},
		pond.Calendar: {0, nil, 2000}, pond.Sessions: {channel.Updated, nil, 3}, pond.Deep: {0, []string{"skipped-trap"}, 200},
		pond.Always200: {0, []string{"skipped-trap"}, 500}, pond.TooMany: {channel.HostBlocked, []string{"http-429"}, 10},
		pond.Unavailable: {channel.Failed, []string{"http-503"}, 5}, pond.Forbidden: {channel.HostBlocked, []string{"http-403"}, 5}, pond.Challenge: {channel.HostBlocked, []string{"blocked"}, 0},
		pond.RobotsError: {channel.Failed, []string{"robots-500"}, 0}, pond.RobotsForbidden: {channel.HostBlocked, []string{"robots-403"}, 0},
		pond.RobotsTooMany: {channel.HostBlocked, []string{"robots-429"}, 0}, pond.RobotsDisallowAll: {channel.Failed, []string{"skipped-robots"}, 0},
		pond.BusyAtFirst: {channel.Updated, []string{"http-429"}, 0},
		pond.RobotsHuge:  all, pond.RobotsRedirects: all, pond.RobotsGarbage: all, pond.CloseAlways: all, pond.Gzip: all, pond.Brotli: all, pond.Zstd: all,
		pond.SitemapInside: all, pond.Volatile: all, pond.ChangingRobots: all, pond.SitemapBomb: all,
		pond.HugeTrailers: {0, []string{"malformed"}, 5}, pond.Interim: {0, []string{"malformed"}, 5}, pond.TwoLengths: {0, nil, 5}, pond.NestedBomb: {0, []string{"bomb"}, 5},
		pond.CookieWall: {0, nil, 20}, pond.WrongCharset: {0, nil, 50}, pond.RobotsRules: {0, []string{"skipped-rules"}, 10}, pond.EndlessChunks: {0, []string{"broken-chunks"}, 5},
		pond.TLSExpired: tls("tls-expired"), pond.TLSNotYet: tls("tls-not-yet-valid"), pond.TLSWrongName: tls("tls-wrong-name"), pond.TLSUnknownCA: tls("tls-unknown-authority"),
		pond.TLSSelfSigned: tls("tls-self-signed"), pond.TLSMalformed: tls("tls"), pond.TLSChain: tls("tls"), pond.TLSWeakKey: tls("tls"), pond.TLSHugeKey: tls("tls"),
		pond.TLSClientCert: tls("tls-alert", "reset", "hang-up"), pond.TLSOld: tls("tls-version"), pond.TLSWeakCipher: tls("tls"), pond.TLSProtocol: tls("tls"), pond.TLSGarbage: tls("tls-not-tls"),
		pond.TLSAlert: tls("tls-alert"), pond.TLSWarnings: tls("tls"), pond.TLSCut: tls("cut-off"), pond.Renegotiate: tls("tls"), pond.TLSStaple: all, pond.HTTP2: all,
		pond.H2Reset: {0, []string{"h2-reset"}, 1}, pond.H2ResetFlood: {0, []string{"h2-reset"}, 1}, pond.H2GoAway: {0, []string{"h2-goaway"}, 1}, pond.H2Settings: {0, []string{"h2-flood"}, 1},
		pond.H2Pings: {0, []string{"h2-flood"}, 1}, pond.H2Continuation: {0, []string{"h2-protocol", "h2-flood"}, 1}, pond.H2Headers: {0, []string{"h2-protocol", "header-too-large"}, 1},
		pond.H2HeaderBomb: {0, []string{"h2-protocol", "header-too-large"}, 1}, pond.H2Trailers: {0, []string{"h2-protocol", "h2-flood"}, 5}, pond.H2Interim: {0, []string{"header-too-large", "h2-flood", "h2-protocol"}, 1},
		pond.H2LongData: {0, []string{"malformed"}, 5}, pond.H2ShortData: {0, []string{"cut-off"}, 5}, pond.H2Overrun: {0, nil, 5}, pond.H2Empty: {0, []string{"h2-flood"}, 5},
		pond.H2Push: {0, []string{"h2-protocol"}, 5}, pond.H2HugeFrame: {0, []string{"h2-protocol"}, 5}, pond.H2Unknown: {0, []string{"h2-flood"}, 5}, pond.H2Cut: {0, []string{"cut-off", "reset"}, 5},
		pond.H2HTTP1: {channel.Failed, []string{"h2-protocol", "hang-up"}, 0}, // whether the connection is over before the first request is sent
	}
}

// TestBadWeb crawls a host in each of the ways in which hosts misbehave.
func TestBadWeb(t *testing.T) {
	results := badWebResults()
	for _, mode := range pond.Modes() {
		if slices.Contains([]pond.Mode{pond.SlowLoris, pond.Silent, pond.SlowHeaders, pond.RobotsDrip, pond.TLSStall, pond.TLSDrip, pond.H2Drip,
			pond.H2NoStreams, pond.H2Silent}, mode) {
			continue // TestSilentHost, TestDrippingHost and TestStalledHandshake have their like in no time
		}
		t.Run(string(mode), func(t *testing.T) {
			noLeaks(t)
			w, srv, g := serve(t, pond.Config{Seed: 5, Hosts: 1, Pages: 30, MaxHost: 30, Static: true, Plain: true})
			if err := w.Misbehave(w.Hosts()[0].Name, mode); err != nil {
				t.Fatal(err)
			}
			cfg, s := pondTask(t, w, g, 0)
			cfg.Header.Budget = 3000
			if mode == pond.RobotsRules {
				cfg.Header.Budget = 2
			}
			if mode == pond.ManyLinks {
				cfg.Header.Budget = 10
			}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			r, err := Run(ctx, cfg)
			if err != nil {
				t.Fatal(err)
			}
			expect, ok := results[mode]
			if !ok {
				t.Fatalf("no expectation; got outcome %d %q, %d pages, %v", r.Outcome, r.Reason, r.Pages, r.Errors)
			}
			if expect.outcome != 0 && r.Outcome != expect.outcome || expect.pages > 0 && r.Pages > expect.pages {
				t.Errorf("outcome %d %q, %d pages, %v", r.Outcome, r.Reason, r.Pages, r.Errors)
			}
			if expect.outcome == channel.Updated && expect.pages == 0 && len(s.pages()) != 30 {
				t.Errorf("%d pages of 30, %v", len(s.pages()), r.Errors)
			}
			if len(expect.kinds) > 0 && !slices.ContainsFunc(expect.kinds, func(k string) bool { return r.Errors[k] > 0 }) {
				t.Errorf("want one of %q counted, got %v (%s)", expect.kinds, r.Errors, r.Reason)
			}
			// Without waits the next request may come before a handler that closed its connection has returned.
			closes := []pond.Mode{pond.HangUp, pond.CutOff, pond.ShortBody, pond.LongBody, pond.BrokenChunks, pond.MalformedHeaders, pond.HugeHeaders}
			if st := srv.Stats(); st.MaxInFlight > 1 && !slices.Contains(closes, mode) {
				t.Errorf("%d requests in flight", st.MaxInFlight)
			}
			for _, p := range s.pages() {
				if len(p.Body) > DefaultPage {
					t.Errorf("%s has %d bytes", p.URL, len(p.Body))
				}
			}
		})
	}
}
