// Package arbiter fetches single pages for the manager, where two peers say different things of one. What it saw decides (manager/trust).
//
// It fetches as a peer does: by package peer/crawl, with the same User-Agent, through a guarded dialler that the caller hands in, and only what robots.txt
// allows. It sends one request at a time, at most one a second, however much is asked of it, and waits as long between two pages of a host as robots.txt
// wants. A page can be fetched from several vantages, each a
// dialler of its own, since hosts show different pages to different countries.
//
// The package judges nothing, keeps nothing but the rules of robots.txt and certificates of issuers, and is not for crawling: it follows no link and no redirect.
package arbiter

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"shoal/channel"
	"shoal/peer/crawl"
)

// Errors of Fetch.
var (
	ErrConfig = errors.New("arbiter: bad configuration")
	// ErrUnseen says that the page could not be fetched; the wrapping error says why.
	ErrUnseen = errors.New("arbiter: the page could not be fetched")
)

// Dial connects to a Web host, and refuses what is none: limit.Guard's DialContext.
type Dial func(ctx context.Context, network, addr string) (net.Conn, error)

// Config of an Arbiter.
type Config struct {
	Vantages  []Dial         // from where pages are fetched, the usual one first; at least one
	UserAgent string         // as peers send it. No default
	Roots     *x509.CertPool // nil: the system's
	Dir       string         // existing folder for a page on its way, of this Arbiter alone; empty: the system's for temporary files
	Every     time.Duration  // least time between two requests; 0: a second
}

// DefaultEvery is the least time between two requests.
const DefaultEvery = time.Second

// fetchTime bounds one Fetch: robots.txt and the page, each with the wait before it.
const fetchTime = 2*crawl.RequestTimeout + 10*time.Second

// Arbiter fetches pages. Any goroutine may call its methods.
type Arbiter struct {
	cfg     Config
	robots  []*crawl.Robots // by vantage: what is forbidden may differ
	issuers crawl.Issuers
	turn    chan time.Time       // holds when the next request may be sent, while none is under way
	hosts   map[string]time.Time // by origin: before then it is left alone. Who has the turn owns it
}

// New makes an Arbiter.
func New(cfg Config) (*Arbiter, error) {
	if len(cfg.Vantages) == 0 || cfg.UserAgent == "" || cfg.Every < 0 {
		return nil, fmt.Errorf("%w: %d vantages, User-Agent %q, %v between requests", ErrConfig, len(cfg.Vantages), cfg.UserAgent, cfg.Every)
	}
	if cfg.Every == 0 {
		cfg.Every = DefaultEvery
	}
	if err := cfg.sweep(); err != nil {
		return nil, err
	}
	a := &Arbiter{cfg: cfg, turn: make(chan time.Time, 1), hosts: map[string]time.Time{}}
	for range cfg.Vantages {
		a.robots = append(a.robots, crawl.NewRobots())
	}
	a.turn <- time.Time{}
	return a, nil
}

// pageFolder is how the names of folders begin that hold a page on its way.
const pageFolder = "arbiter-"

// sweep removes the folders of pages that were on their way when an earlier process was killed.
func (c Config) sweep() error {
	if c.Dir == "" {
		return nil
	}
	old, err := os.ReadDir(c.Dir)
	for _, f := range old {
		if strings.HasPrefix(f.Name(), pageFolder) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(c.Dir, f.Name())))
		}
	}
	if err != nil {
		return fmt.Errorf("arbiter: remove what an earlier process left: %w", err)
	}
	return nil
}

// Vantages is from how many places a page can be fetched.
func (a *Arbiter) Vantages() int { return len(a.cfg.Vantages) }

// Fetch fetches a page, given by its canonical URL, from one of the vantages. It waits for its turn, and leaves the host alone for at
// least least between two requests. It returns how long the host wants to be left alone. A redirect is a page of its own: its target is not fetched.
// The page has what peers send of it to a channel with some settings: its text only, or a part of so many bytes.
func (a *Arbiter) Fetch(ctx context.Context, url string, vantage int, least time.Duration, as channel.Settings) (channel.Page, time.Duration, error) {
	if vantage < 0 || vantage >= len(a.cfg.Vantages) {
		return channel.Page{}, 0, fmt.Errorf("%w: vantage %d of %d", ErrConfig, vantage, len(a.cfg.Vantages))
	}
	var next time.Time
	select {
	case next = <-a.turn:
	case <-ctx.Done():
		return channel.Page{}, 0, ctx.Err()
	}
	defer func() { a.turn <- next }()
	origin := channel.Origin(url)
	if at := a.hosts[origin]; at.After(next) {
		next = at
	}
	if err := until(ctx, next); err != nil {
		return channel.Page{}, 0, err
	}
	gap := least
	defer func() {
		next = time.Now().Add(a.cfg.Every)
		a.leave(origin, time.Now(), gap)
	}()
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	page, robots, err := a.fetch(ctx, origin, url, vantage, least, channel.Settings{TextOnly: as.TextOnly, PageBytes: as.PageBytes})
	gap = max(gap, robots)
	if err != nil {
		return channel.Page{}, gap, fmt.Errorf("%w: %s: %w", ErrUnseen, url, err)
	}
	return page, gap, nil
}

// leave leaves a host alone after a request, and forgets what has passed.
func (a *Arbiter) leave(origin string, now time.Time, gap time.Duration) {
	maps.DeleteFunc(a.hosts, func(_ string, at time.Time) bool { return !at.After(now) })
	a.hosts[origin] = now.Add(max(gap, a.cfg.Every))
}

// fetch crawls the page as the rest of a crawl that has only this page left: so no sitemap is read and no link is followed. The crawl keeps its own
// requests apart, and tells by how much.
func (a *Arbiter) fetch(ctx context.Context, origin, url string, vantage int, least time.Duration, as channel.Settings) (channel.Page, time.Duration, error) {
	dir, err := os.MkdirTemp(a.cfg.Dir, pageFolder)
	if err != nil {
		return channel.Page{}, 0, fmt.Errorf("no folder for the page: %w", err)
	}
	defer os.RemoveAll(dir)
	got := &taken{url: url}
	report, err := crawl.Run(ctx, crawl.Config{
		Header: channel.Header{Channel: 1, Gen: 1, Host: origin, Budget: 2},
		Body:   channel.Body{Scope: channel.Scope{Kind: channel.WholeHost, Host: origin}, Settings: as},
		Resume: channel.Resume{Frontier: []channel.Frontier{{URL: url}}, Done: []uint64{channel.URLHash(origin + "/robots.txt")}},
		Dial:   a.cfg.Vantages[vantage], Sink: got, Spool: dir, UserAgent: a.cfg.UserAgent, Roots: a.cfg.Roots, Robots: a.robots[vantage], Issuers: &a.issuers, MinGap: max(a.cfg.Every, least),
	})
	switch {
	case err != nil:
		return channel.Page{}, report.Gap, err
	case got.page == nil && report.Errors["skipped-robots"] > 0:
		return channel.Page{}, report.Gap, errors.New("robots.txt forbids it")
	case got.page == nil:
		return channel.Page{}, report.Gap, fmt.Errorf("nothing came: %s", report.Reason)
	case got.page.Status == 0:
		return channel.Page{}, report.Gap, errors.New(got.page.Error)
	}
	return *got.page, report.Gap, nil
}

// until waits.
func until(ctx context.Context, at time.Time) error {
	t := time.NewTimer(time.Until(at))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// taken is a sink that keeps one page.
type taken struct {
	url  string
	page *channel.Page
}

// Put implements crawl.Sink.
func (t *taken) Put(_ context.Context, body []byte, _ bool) error {
	b, err := channel.ParseChunkBody(body)
	if err != nil {
		return err
	}
	for i := range b.Pages {
		if b.Pages[i].URL == t.url {
			t.page = &b.Pages[i]
		}
	}
	return nil
}
