package crawl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"shoal/channel"
	"shoal/peer/crawl/robots"
)

// session is the state of one crawl. The goroutine of Run owns it.
type session struct {
	cfg      *Config
	product  string
	scope    *channel.Matcher
	fetch    *fetcher
	cancel   context.CancelCauseFunc // ends the present request, and a wait for the next
	spool    *spool
	frontier frontier
	again    []item // URLs to try once more, before the to-do list
	soon     []item // URLs to fetch before a first-in, first-out to-do list
	feeds    int    // feeds fetched for their signals
	seen     *seenSet
	known    known
	inter    *seenSet // known and found inter-site URLs
	traps    *traps
	refused  refusals
	page     page
	hashes   []uint64 // links of the current page
	spelt    []byte   // scratch of tells

	signalled map[uint64]bool // pages that a sitemap or feed calls new or changed, and that are not fetched yet

	robots     *robots.Rules
	robotsRead time.Time
	comeBack   time.Duration // after so long the host wants to be asked again, if that is longer than any wait within a crawl

	report     channel.Report
	budget     int // pages that the crawl may still fetch
	ruleCost   int // cost of one verdict of robots
	asked      int // cost of the verdicts for links of the current page
	failures   int // to reach the host, in a row
	broken     int // server errors and broken responses in a row
	good       int // pages without an error, gone ones included
	outside    int // seeds outside of the scope
	interBytes int
	hearsay    hearsay
	resumed    bool // an earlier run of this crawl has fetched pages
}

func newSession(cfg *Config) (*session, error) {
	scope, err := cfg.Body.Scope.Compile()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	expect := max(cfg.Header.Pages, len(cfg.Resume.Frontier)) + len(cfg.Resume.Done)
	s := &session{
		cfg: cfg, product: product(cfg.UserAgent), scope: scope,
		seen: newSeen(min(expect, MaxPages)), known: newKnown(cfg.Body.Digests), inter: newSeen(len(cfg.Body.KnownInter)),
		traps: newTraps(), signalled: map[uint64]bool{}, robots: &robots.Rules{}, budget: cfg.budget() - len(cfg.Resume.Done),
		report: channel.Report{
			Channel: cfg.Header.Channel, Gen: cfg.Header.Gen, Peer: cfg.Peer, Started: time.Now(), Errors: map[string]int{},
			Pages: len(cfg.Resume.Done),
		},
	}
	if cfg.Body.Settings.Order == "" || cfg.Body.Settings.Order == "breadth-first" {
		s.frontier = newFIFO(cfg.disk(), cfg.Spool, cfg.spillBytes())
	} else if s.frontier, err = newOrdered(cfg); err != nil {
		return nil, err
	}
	for _, h := range cfg.Body.KnownInter {
		s.inter.add(h)
	}
	return s, nil
}

// run crawls from robots.txt to the report.
func (s *session) run(ctx context.Context) (channel.Report, error) {
	var outcome channel.Outcome
	var why string
	left, err := s.resume() // first, so that the pages of an earlier run are put however this one ends
	if err == nil && !s.recallRobots() {
		outcome, why, err = s.readRobots(ctx)
	}
	if err == nil && outcome == 0 {
		if err = s.seed(ctx, left); err == nil {
			outcome, why, err = s.crawl(ctx)
		}
	}
	if errors.Is(err, errStop) {
		outcome, why, err = channel.Stopped, "told to stop", nil
	}
	if errors.Is(err, errDisk) {
		s.spool.trouble(err)
		outcome, why, err = channel.Stopped, err.Error(), nil
	}
	s.cancel(nil) // a request that is still under way is not needed any more
	if err == nil {
		err = s.finish(outcome, why)
	}
	if err != nil {
		return s.report, fmt.Errorf("crawl %s: %w", s.cfg.Body.Scope.Host, err)
	}
	return s.report, nil
}

// crawl fetches until nothing is left or something ends it. If the pace allows it, the next request is on its way while the session handles
// a response.
func (s *session) crawl(ctx context.Context) (channel.Outcome, string, error) {
	if s.report.Robots == robotsDisallowed {
		return channel.Failed, "robots.txt forbids every seed", nil
	}
	var got response
	have := false
	for {
		begun, stale := false, aged(s.robotsRead, time.Now()) > robotsLife
		if have && !stale && s.fetch.overlaps() && !s.spool.crowded() {
			var err error
			if begun, err = s.begin(ctx); err != nil {
				return 0, "", err
			}
		}
		if have {
			outcome, why, err := s.handle(&got)
			if outcome != 0 || err != nil {
				return outcome, why, err
			}
			if s.spool.full() {
				if err := s.spool.checkpoint(); err != nil {
					return 0, "", err
				}
			}
		}
		if stale {
			if outcome, why, err := s.readRobots(ctx); outcome != 0 || err != nil {
				return outcome, why, err
			}
		}
		if !begun {
			if ok, err := s.begin(ctx); err != nil {
				return 0, "", err
			} else if !ok {
				return s.outcome()
			}
		}
		got, have = s.fetch.end(ctx, s.cfg.pageBytes()), true
		if err := s.ended(ctx, &got); err != nil {
			return 0, "", err
		}
	}
}

// begin sends the next request. It returns false if there is none.
func (s *session) begin(ctx context.Context) (bool, error) {
	it, ok, err := s.next()
	if ok {
		fields := s.fetch.fields
		if !s.signalled[it.hash] {
			fields = s.fetch.conditions(it)
		}
		s.fetch.begin(ctx, it, fields)
	}
	return ok, err
}

// ended returns an error if something other than a response ends the crawl.
func (s *session) ended(ctx context.Context, r *response) error {
	if err := ctx.Err(); err != nil && !errors.Is(context.Cause(ctx), errStop) {
		return err
	}
	if err := s.spool.failed(); err != nil {
		return err
	}
	if r.stopped || ctx.Err() != nil {
		return errStop
	}
	return nil
}

// next gives the next URL to fetch.
func (s *session) next() (item, bool, error) {
	if n := len(s.again); n > 0 {
		it := s.again[0]
		s.again = slices.Delete(s.again, 0, 1)
		return it, true, nil
	}
	if s.budget <= 0 {
		return item{}, false, nil
	}
	for {
		it, ok, err := s.pop()
		if !ok && err == nil {
			it, ok = s.hearsay.next()
		}
		if !ok || err != nil {
			return item{}, false, err
		}
		if s.hearsay.holds(it) {
			continue
		}
		if !s.allowed(it.url) { // robots.txt has been read again since the URL was listed
			s.count("skipped-robots")
			s.frontier.done(it, nil, false)
			continue
		}
		s.budget--
		return it, true, nil
	}
}

func (s *session) pop() (item, bool, error) {
	if len(s.soon) > 0 {
		it := s.soon[0]
		s.soon = slices.Delete(s.soon, 0, 1)
		return it, true, nil
	}
	return s.frontier.next()
}

// unfetched is how many URLs are known and not fetched.
func (s *session) unfetched() int { return s.frontier.len() + len(s.soon) + len(s.again) }

// outcome says how a crawl ended that has nothing left to fetch.
func (s *session) outcome() (channel.Outcome, string, error) {
	s.report.Left = s.unfetched()
	s.report.Truncated = s.report.Truncated || s.report.Left > 0
	if s.good == 0 && !s.resumed {
		if s.refused.refused > 0 {
			return channel.HostBlocked, "the host refuses all requests", nil
		}
		if s.outside > 0 && s.outside == len(s.cfg.Body.Seeds) && len(s.report.Errors) == 0 {
			return channel.Failed, "the channel's filters, exclude patterns or directories leave out all its seeds, and nothing else leads to a page of it", nil
		}
		return channel.Failed, "nothing could be fetched", nil
	}
	return channel.Updated, "", nil
}

// finish puts the last checkpoint, and with it the report unless the crawl was stopped.
func (s *session) finish(outcome channel.Outcome, why string) error {
	r := &s.report
	r.Outcome, r.Reason, r.Ended = outcome, why, time.Now()
	r.Left = s.unfetched()
	r.BytesDown = s.fetch.read.Load()
	r.RTT = time.Duration(s.fetch.rtt.Load())
	r.Gap, r.Rest = s.fetch.pace.gap, max(s.fetch.pace.left(r.Ended), s.comeBack)
	if up, ok := s.cfg.Sink.(interface{ BytesUp() int64 }); ok {
		r.BytesUp = up.BytesUp()
	}
	var last *channel.Report
	if outcome != channel.Stopped {
		last = r
	}
	err := s.spool.finish(last)
	if errors.Is(err, errDisk) { // a resumed crawl fetches the lost pages again
		r.Outcome, r.Reason = channel.Stopped, err.Error()
		err = s.spool.finish(nil)
	}
	return err
}

func (s *session) count(kind string) {
	if kind != "" {
		s.report.Errors[kind]++
	}
}

// visited calls OnVisit.
func (s *session) visited(r *response, change channel.Change, kind string) {
	if s.cfg.OnVisit == nil {
		return
	}
	s.cfg.OnVisit(Visit{URL: r.it.url, At: r.at, Took: r.rtt, Status: r.status, Kind: kind, Bytes: len(r.body) + r.rest.n, Change: change,
		Pages: s.report.Pages, Left: s.unfetched(), Title: r.title})
}
