package archive

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/manager/archive/intake"
	"shoal/manager/archive/ledger"
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
