package crawl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"shoal/channel"
	"shoal/channel/order"
	"shoal/peer/crawl/robots"
)

// session is the state of one crawl. All of it is owned by the goroutine of Run.
type session struct {
	cfg     *Config
	product string
	scope   *channel.Matcher
	fetch   *fetcher
	spool   *spool
	todo    todo
	again   []item // to be tried once more, before the to-do list
	soon    []item // to be fetched before the to-do list, if that is first seen, first fetched
	feeds   int    // that were fetched for their signals
	seen    *seenSet
	known   known
	inter   *seenSet // known and found inter-site URLs
	traps   *traps
	refused refusals
	page    page
	hashes  []uint64 // links of the page that is worked on

	signalled map[uint64]bool // said to be new or changed, and not fetched yet

	robots     *robots.Rules
	robotsRead time.Time

	report     channel.Report
	budget     int // pages that may still be fetched
	ruleCost   int // of robots
	asked      int // of robots, for links of the page that is worked on: verdicts by their cost
	failures   int // in a row
	broken     int // responses in a row that are server errors, or never came to their end
	good       int // pages that are as the host wants them seen, gone ones included
	interBytes int
	resumed    bool // pages of this crawl are stored already
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
		s.todo = newFIFO(cfg.disk(), cfg.Spool, cfg.spillBytes())
	} else if s.todo, err = newOrdered(cfg); err != nil {
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
	left, err := s.resume() // first: whatever ends this run, what an earlier one fetched is put
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
	s.fetch.cancel(nil) // a request that is still under way has no reader any more
	if err == nil {
		err = s.finish(outcome, why)
	}
	if err != nil {
		return s.report, fmt.Errorf("crawl %s: %w", s.cfg.Body.Scope.Host, err)
	}
	return s.report, nil
}

// resume notes what is stored and what an earlier run left, and gives what these found to fetch.
func (s *session) resume() (left []channel.Frontier, err error) {
	for _, h := range s.cfg.Resume.Done {
		s.seen.add(h)
	}
	if left, err = s.unspool(); err != nil {
		return nil, err
	}
	s.resumed = s.seen.n > 0
	left = append(s.cfg.Resume.Frontier, left...)
	s.cfg.Resume = channel.Resume{} // it may hold a million URLs
	return left, nil
}

// seed fills the to-do list: the seeds, what an interrupted crawl left, and URLs that crawls of other channels found.
func (s *session) seed(ctx context.Context, left []channel.Frontier) (err error) {
	s.fetch.conditional = s.meets(left)
	if err := s.admitAll(s.cfg.Body.Seeds); err != nil {
		return err
	}
	var found []listed
	if !s.resumed && s.report.Errors["skipped-robots"] == 0 {
		if found, err = s.readSitemaps(ctx); err != nil {
			return err
		}
	}
	last := map[uint64]bool{}
	for i := range found {
		switch found[i].says {
		case fresh:
			if err := s.told(&found[i], 1); err != nil {
				return err
			}
		case stale:
			last[urlHash(found[i].url)] = true
		}
	}
	for _, f := range left {
		if len(last) > 0 && last[urlHash(f.URL)] {
			continue // it comes with the rest of found
		}
		if err := s.admit(f.URL, f.Depth, 0, false); err != nil {
			return err
		}
	}
	if err := s.admitAll(s.cfg.Body.Inter); err != nil {
		return err
	}
	for i := range found {
		if err := s.told(&found[i], 1); err != nil {
			return err
		}
	}
	s.hashes = s.hashes[:0]
	if !s.resumed && s.left() == 0 && s.report.Errors["skipped-robots"] > 0 {
		s.report.Robots = robotsDisallowed
	}
	return nil
}

func (s *session) admitAll(urls []string) error {
	for _, u := range urls {
		c, err := channel.Canonical(u)
		if err != nil {
			s.count("bad-seed")
			continue
		}
		if err := s.admit(c, 0, 0, true); err != nil {
			return err
		}
	}
	return nil
}

// meets tells whether all pages that the archive is known to have are fetched already or in a list. If they are, an answer of 304, which
// hides what a page links to, hides nothing: what an unchanged page links to was there before.
func (s *session) meets(list []channel.Frontier) bool {
	if len(list) == 0 || len(s.cfg.Body.Validators) == 0 {
		return false
	}
	listed := newSeen(len(list))
	for _, f := range list {
		listed.add(urlHash(f.URL))
	}
	for _, u := range s.cfg.Body.Seeds {
		if c, err := channel.Canonical(u); err == nil {
			listed.add(urlHash(c))
		}
	}
	for _, p := range s.known.pairs {
		if !listed.has(p.URL) && !s.seen.has(p.URL) {
			return false
		}
	}
	return true
}

// unspool takes up what an earlier run of this task fetched and did not put, and gives what that found to fetch.
func (s *session) unspool() (left []channel.Frontier, err error) {
	err = s.spool.load(s.seen.has, func(b *channel.ChunkBody) {
		for i := range b.Pages {
			p := &b.Pages[i]
			if s.seen.add(urlHash(p.URL)) {
				s.budget--
				s.tally(p)
			}
		}
		left = append(left, b.Frontier...)
	})
	return left, err
}

// admit puts a canonical URL on the to-do list if it is new, in scope, allowed, and not a trap. Record says whether the checkpoint is to
// know of it.
func (s *session) admit(u string, depth, hops int, record bool) error {
	if !s.scope.Contains(u) {
		return nil
	}
	return s.enlist(item{url: u, hash: urlHash(u), depth: depth, hops: hops}, record, false)
}

// enlist is admit for what is known to be in scope. Soon says whether it is to be fetched before what is on the list.
func (s *session) enlist(it item, record, soon bool) error {
	u, depth := it.url, it.depth
	if s.seen.has(it.hash) {
		return nil
	}
	if depth > s.cfg.depth() {
		s.report.Truncated = true
		return nil
	}
	if depth > s.cfg.dynamicDepth() && order.Dynamic(u) {
		return nil // not seen: a shorter way may lead to it
	}
	s.seen.add(it.hash)
	if !s.allowed(u) {
		s.count("skipped-robots")
		return nil
	}
	if depth > 0 && s.traps.caught(u) != "" {
		s.count("skipped-trap")
		return nil
	}
	if _, first := s.todo.(*fifo); soon && first && len(s.soon) < maxSoon {
		s.soon = append(s.soon, it)
	} else if err := s.todo.add(it); errors.Is(err, errSpillFull) {
		s.count("skipped-full")
		s.report.Truncated = true
		return nil
	} else if err != nil {
		return err
	}
	if record {
		return s.spool.add(it)
	}
	return nil
}

// maxAsked bounds the time that robots.txt takes for the links of one page, a few seconds where each rule that it is asked for is as slow as
// can be: 500 KiB hold 50,000 rules, a page a hundred thousand links.
const maxAsked = 20_000_000

// tooDear counts a link of the page that is worked on, and tells whether those before it took all the time that robots.txt may take.
func (s *session) tooDear() bool {
	if s.asked += s.ruleCost; s.asked <= maxAsked {
		return false
	}
	s.count("skipped-rules")
	s.report.Truncated = true
	return true
}

// crawl fetches until there is nothing left or something ends it. Where the pace lets us, the next request is on its way while a response
// is worked on.
func (s *session) crawl(ctx context.Context) (channel.Outcome, string, error) {
	if s.report.Robots == robotsDisallowed {
		return channel.Failed, "robots.txt forbids every seed", nil
	}
	var got response
	have := false
	for {
		begun, stale := false, time.Since(s.robotsRead) > robotsLife
		if have && !stale && s.fetch.overlaps() && !s.spool.crowded() {
			var err error
			if begun, err = s.begin(); err != nil {
				return 0, "", err
			}
		}
		if have {
			outcome, why, err := s.work(&got)
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
			if ok, err := s.begin(); err != nil {
				return 0, "", err
			} else if !ok {
				return s.over()
			}
		}
		got, have = s.fetch.end(s.cfg.pageBytes()), true
		if err := s.ended(ctx, &got); err != nil {
			return 0, "", err
		}
	}
}

// begin sends the next request, if there is one.
func (s *session) begin() (bool, error) {
	it, ok, err := s.next()
	if ok {
		fields := s.fetch.fields
		if !s.signalled[it.hash] {
			fields = s.fetch.conditions(it)
		}
		s.fetch.begin(it, fields)
	}
	return ok, err
}

// ended tells whether something ends the crawl besides what a response says.
func (s *session) ended(ctx context.Context, r *response) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.spool.failed(); err != nil {
		return err
	}
	if r.stopped || s.fetch.ctx.Err() != nil {
		return errStop
	}
	return nil
}

// next gives the URL to fetch.
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
		if !ok || err != nil {
			return item{}, false, err
		}
		if !s.allowed(it.url) { // robots.txt was read again since
			s.count("skipped-robots")
			s.todo.done(it, nil, false)
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
	return s.todo.next()
}

// left is how many URLs are known and not fetched.
func (s *session) left() int { return s.todo.len() + len(s.soon) + len(s.again) }

// stopPatience is how long a crawl that is told to stop waits for the response that is under way.
const stopPatience = 2 * time.Second

// keep puts checkpoints in time and hears when the crawl is told to stop, while the session waits for the host. It ends with quit.
func (s *session) keep(quit <-chan struct{}) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	stop := s.cfg.Stop
	var enough <-chan time.Time
	for {
		select {
		case <-quit:
			return
		case <-stop:
			stop, enough = nil, time.After(stopPatience)
			continue
		case <-enough:
			s.fetch.cancel(errStop)
			continue
		case <-s.cfg.Flush:
			if s.spool.checkpoint() != nil {
				s.fetch.cancel(errStop) // the session asks the spool why
			}
		case <-s.spool.news:
		case <-s.spool.broken:
			s.fetch.cancel(errStop)
			return
		case <-timer.C:
		}
		timer.Reset(s.spool.tend())
	}
}

// over says how a crawl ended that came to its end.
func (s *session) over() (channel.Outcome, string, error) {
	s.report.Left = s.left()
	s.report.Truncated = s.report.Truncated || s.report.Left > 0
	if s.good == 0 && !s.resumed {
		if s.refused.refused > 0 {
			return channel.HostBlocked, "the host refuses all requests", nil
		}
		return channel.Failed, "nothing could be fetched", nil
	}
	return channel.Updated, "", nil
}

// finish puts the last checkpoint, with the report unless the crawl was stopped.
func (s *session) finish(outcome channel.Outcome, why string) error {
	r := &s.report
	r.Outcome, r.Reason, r.Ended = outcome, why, time.Now()
	r.Left = s.left()
	r.BytesDown = s.fetch.read.Load()
	r.RTT = time.Duration(s.fetch.rtt.Load())
	r.Gap = s.fetch.pace.gap
	if up, ok := s.cfg.Sink.(interface{ BytesUp() int64 }); ok {
		r.BytesUp = up.BytesUp()
	}
	var last *channel.Report
	if outcome != channel.Stopped {
		last = r
	}
	err := s.spool.finish(last)
	if errors.Is(err, errDisk) { // what it lost is fetched again by whoever goes on
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

// visited tells OnVisit.
func (s *session) visited(r *response, change channel.Change, kind string) {
	if s.cfg.OnVisit == nil {
		return
	}
	s.cfg.OnVisit(Visit{URL: r.it.url, At: r.at, Took: r.rtt, Status: r.status, Kind: kind, Bytes: len(r.body), Change: change,
		Pages: s.report.Pages, Left: s.left()})
}
