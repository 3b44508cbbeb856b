package archive

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/manager/archive/intake"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/pages"
)

// TestClaimOfAClockThatWasAhead has a peer claim a task while the archive's clock is ahead, and send its pages once the clock is right. By the clock the claim is yet to come, or
// was just made: who sends what the gap allows is believed, before and after a restart.
func TestClaimOfAClockThatWasAhead(t *testing.T) {
	for _, c := range []struct {
		ahead   time.Duration
		restart bool          // of the archive, when the clock is set right
		after   time.Duration // the claim, true time
		gap     time.Duration
		pages   int
		refused bool
	}{
		{ahead: 20 * time.Second, after: 5 * time.Second, gap: 250 * time.Millisecond, pages: 1},
		{ahead: 20 * time.Second, restart: true, after: 5 * time.Second, gap: 250 * time.Millisecond, pages: 1},
		{ahead: 20 * time.Second, restart: true, after: 25 * time.Second, gap: 50 * time.Millisecond, pages: 500},
		{ahead: 10 * time.Minute, after: time.Minute, gap: time.Second, pages: 60},
		{ahead: 10 * time.Minute, restart: true, after: time.Minute, gap: time.Second, pages: 60},
		{ahead: 10 * time.Minute, restart: true, after: 10*time.Minute + time.Second, gap: time.Second, pages: 601},
		{ahead: time.Hour, restart: true, after: time.Hour + time.Second, gap: 5 * time.Second, pages: 720},
		{after: 25 * time.Second, gap: time.Second, pages: 800, refused: true},
		{restart: true, after: 25 * time.Second, gap: time.Second, pages: 800, refused: true},
	} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			right := time.Unix(1_700_000_000, 0).UTC()
			cl := &clock{right.Add(c.ahead)}
			cfg := testConfig(t.TempDir())
			cfg.Clock = cl.Now
			a := open(t, cfg)
			r := claimWithGap(t, a, c.gap)
			cl.now = right
			if c.restart {
				if err := a.Close(); err != nil {
					t.Fatal(err)
				}
				a = open(t, cfg)
				r.a = a
			}
			var b channel.ChunkBody
			cl.now = right.Add(c.after)
			for n := range c.pages {
				b.Pages = append(b.Pages, r.page(fmt.Sprint("/", n), "text", channel.New))
			}
			if c.refused {
				if _, err := a.Put(t.Context(), r.peer, r.chunk(b)); !errors.Is(err, ledger.ErrBadChunk) || !errors.Is(err, intake.ErrPace) {
					t.Errorf("%d pages at once: %v", c.pages, err)
				}
				return
			}
			r.put(b)
			r.put(channel.ChunkBody{Report: r.report(channel.Updated)})
			entries, _, err := a.Feed(t.Context(), "", 10)
			if err != nil || len(entries) != 2 || entries[1].Report == nil {
				t.Fatalf("the feed says %+v, %v", entries, err)
			}
			if at := entries[1].Report.Ended; at.After(cl.now) {
				t.Errorf("the crawl ended at %v by its report, and it is %v", at, cl.now)
			}
			if p, err := a.Page(t.Context(), r.url("/0")); err != nil || p.Fetched.After(cl.now) {
				t.Errorf("the page was fetched at %v, and it is %v; %v", p.Fetched, cl.now, err)
			}
		})
	}
}

// claimWithGap has a peer claim a task that leaves so much time between two requests.
func claimWithGap(t *testing.T, a *Archive, gap time.Duration) *runner {
	t.Helper()
	s, raw := task(1, 1, a.cfg.Clock().Add(time.Hour))
	h, err := channel.ParseHeader(s.Raw)
	if err != nil {
		t.Fatal(err)
	}
	h.Gap = gap
	s.Raw = h.Marshal()
	if err := a.Deposit(t.Context(), s, raw); err != nil {
		t.Fatal(err)
	}
	got, err := a.Claim(t.Context(), "alice", s)
	if err != nil || got.Status != lease.Granted {
		t.Fatal(got.Status, err)
	}
	return &runner{t, a, "alice", 1, 1, got.Resume.Seq, got.Resume.Head, nil}
}

// TestNewestAfterAClockThatWasAhead has a page be crawled while the archive's clock is wrong, and found changed once it is right: the newest version is the one that came last, by
// the page, by the index and by the files.
func TestNewestAfterAClockThatWasAhead(t *testing.T) {
	for _, step := range []time.Duration{10 * time.Minute, 300 * 24 * time.Hour} {
		t.Run(step.String(), func(t *testing.T) {
			right := time.Unix(1_700_000_000, 0).UTC()
			cl := &clock{right.Add(step)}
			cfg := testConfig(t.TempDir())
			cfg.Clock = cl.Now
			a := open(t, cfg)
			crawl := func(gen channel.Gen, at time.Time, body string, change channel.Change) {
				t.Helper()
				cl.now = at
				r, _ := start(t, a, "alice", 1, gen)
				p := r.page("/", body, change)
				p.Fetched = at.Add(time.Second)
				if gen == 1 {
					p.Fetched = right.Add(time.Second) // peers have clocks of their own
				}
				cl.now = at.Add(2 * time.Second)
				r.put(channel.ChunkBody{Pages: []channel.Page{p, r.page(fmt.Sprint("/new-", gen), "text", channel.New)}, Report: r.report(channel.Updated)})
			}
			newest := func(body string, captures int) {
				t.Helper()
				c, err := a.Get(t.Context(), "http://site-1.example/", time.Time{})
				if err != nil || string(c.Body) != body {
					t.Fatalf("the newest version: %.20q, %v; want %.20q", c.Body, err, body)
				}
				if p, err := a.Page(t.Context(), "http://site-1.example/"); err != nil || !p.Fetched.Equal(c.Fetched) || p.Visits != captures {
					t.Errorf("the page was fetched at %v, its newest version at %v; %d visits, %v", p.Fetched, c.Fetched, p.Visits, err)
				}
				var index bytes.Buffer
				if err := a.CDXJ(t.Context(), &index, pages.Index{URL: "http://site-1.example/"}); err != nil {
					t.Fatal(err)
				}
				seen := map[string]bool{}
				for line := range strings.Lines(index.String()) {
					seen[strings.Fields(line)[1]] = true
				}
				if len(seen) != captures {
					t.Errorf("readers of the index tell %d of %d captures apart:\n%s", len(seen), captures, &index)
				}
			}
			crawl(1, right.Add(step), "old "+long, channel.New)
			newest("old "+long, 1)
			crawl(2, right.Add(time.Minute), "new "+long, channel.Changed)
			newest("new "+long, 2)
			crawl(3, right.Add(2*time.Minute), "old "+long, channel.Changed) // whose payload is stored
			newest("old "+long, 3)
			crawl(4, right.Add(3*time.Minute), "newer "+long, channel.Changed)
			newest("newer "+long, 4)
			if p, err := a.Page(t.Context(), "http://site-1.example/new-4"); err != nil || p.Fetched.After(cl.now) {
				t.Errorf("a page that was never fetched before: %v, and it is %v; %v", p.Fetched, cl.now, err)
			}
			at, later := time.Time{}, right.Add(step+time.Hour)
			crawl(5, later, "last "+long, channel.Changed)
			newest("last "+long, 5)
			if p, err := a.Page(t.Context(), "http://site-1.example/"); err != nil || !p.Fetched.Equal(later.Add(time.Second)) {
				t.Errorf("once the time has come that the clock showed, fetched %v, want %v; %v", p.Fetched, later.Add(time.Second), err)
			}
			if err := a.Close(); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(cfg.Dir, "state", "MANIFEST"), []byte("no manifest"), 0o640); err != nil {
				t.Fatal(err)
			}
			if _, err := Rebuild(t.Context(), cfg); err != nil {
				t.Fatal(err)
			}
			a = open(t, cfg)
			for back, body := range []string{"last ", "newer ", "old ", "new ", "old "} {
				c, err := a.Get(t.Context(), "http://site-1.example/", at)
				if err != nil || string(c.Body) != body+long {
					t.Fatalf("by the files the version %d before the newest is %.20q, %v; want %q", back, c.Body, err, body)
				}
				at = c.Fetched.Add(-time.Microsecond)
			}
		})
	}
}
