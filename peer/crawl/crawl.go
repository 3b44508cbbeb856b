// Package crawl crawls one channel once. It reads robots.txt, then fetches page after page from a to-do list, over one connection and with one
// request in flight. It spools the pages to the archive in checkpoints and ends with a report (section 2.1 of Xu, Zhang, Zhang, Fang,
// NPC 2010).
//
// The package knows no libp2p, no queue and no lease. A task says what to fetch, a Sink takes the pages, a function dials the host, and another
// is asked before each request whether to pause. The package does not choose tasks and does not share bandwidth.
//
// Invariants: there are never two requests in flight to the host. Between the end of a response and the next request lies at least the
// politeness wait. Only URLs of the scope that robots.txt allows are requested. A resumed crawl does not fetch a page again that a chunk
// holds. Every buffer, table and file has a bound. Nothing remains when Run returns.
package crawl

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"shoal/channel"
	"shoal/channel/order"
	"shoal/peer/crawl/redact"
)

// Bounds of a crawl.
const (
	DefaultMinGap  = time.Second
	MaxGap         = 30 * time.Second  // longest regular wait, whatever robots.txt asks for
	MaxRetryAfter  = channel.UsualRest // a host that asks for more is not crawled now
	DefaultPage    = 2 << 20           // bytes of a page
	MaxHeader      = 64 << 10          // bytes of a response header
	MaxRedirects   = 10                // hops of one chain
	RequestTimeout = 30 * time.Second
	Checkpoint     = 10 * time.Minute // longest time that a fetched page is only here
	ChunkBytes     = 1 << 20          // of pages in a checkpoint
	MaxFailures    = 5                // failures in a row to reach the host
	MaxBroken      = 20               // server errors and broken responses in a row
	MaxTries       = 3                // requests of one URL
	MaxSpill       = 256 << 20        // bytes of the to-do list on disk
	MaxSpool       = 64 << 20         // bytes of pages on disk; beyond it the crawl waits for the archive
	MaxPages       = 4_000_000        // pages of one crawl

	maxInterBytes = channel.MaxReportURLs // of inter-site URLs in a report
	maxLinkBytes  = 1 << 20               // of the links of a page
)

// ErrConfig is returned for a task that cannot be crawled.
var ErrConfig = errors.New("crawl: bad task")

// Sink takes what was fetched.
type Sink interface {
	// Put stores body, an encoded channel.ChunkBody, and returns when it is durable. With last it holds the report. An error ends the
	// crawl, which can be resumed from the last chunk that was put. The body belongs to the sink until Put returns.
	Put(ctx context.Context, body []byte, last bool) error
}

// Visit tells of one response, for logs and counters.
type Visit struct {
	URL    string
	At     time.Time
	Took   time.Duration
	Status int    // 0: no response
	Kind   string // of error; "": none
	Bytes  int    // of the body, decoded
	Change channel.Change
	Pages  int    // fetched so far
	Left   int    // URLs known and not fetched
	Title  string // of an HTML page
}

// Config is one crawl.
type Config struct {
	Header channel.Header
	Body   channel.Body
	Resume channel.Resume

	Dial      func(ctx context.Context, network, addr string) (net.Conn, error) // resolves names, too; limit.Guard's
	Sink      Sink
	Spool     string // existing folder for files of pages and of the to-do list
	Disk      int64  // most bytes there, a fifth of them for pages; 0: MaxSpool and MaxSpill
	UserAgent string // its first word, up to a "/", is the product token for robots.txt
	Peer      string // for the report

	Robots     *Robots                         // what earlier crawls read of robots.txt; nil: each crawl reads it
	Issuers    *Issuers                        // certificates that earlier crawls have met; nil: hosts must send all that theirs need
	Turns      *Turns                          // of all crawls on this computer; nil: none waits for another one
	Refuse     func(origin string) error       // why the volunteer has no requests sent to another origin than the task's; nil: they may be
	Network    string                          // for Turns
	MinGap     time.Duration                   // least wait between requests; 0: DefaultMinGap
	Unpaced    bool                            // no waits at all, for measurements on one's own pond
	After      time.Time                       // when another crawl may last have sent a request to the host; zero: long ago
	Checkpoint time.Duration                   // 0: the constant
	Roots      *x509.CertPool                  // nil: the system's
	Stop       <-chan struct{}                 // when closed, the crawl puts what it has and ends as Stopped; nil: never
	Flush      <-chan struct{}                 // each value asks for a checkpoint now; nil: none is asked for
	Before     func(ctx context.Context) error // called before each request, may block; an error ends the crawl as Stopped; nil: nothing
	Own        func() *redact.Finder           // finds this computer's addresses in what hosts answer; nil: nothing is looked for
	OnVisit    func(Visit)                     // called after each response; nil: nothing
	OnDisk     func(error)                     // called when Spool takes no more; must not block; the crawl goes on without it; nil: nothing

	files files // nil: the system's
}

// Validate says what is wrong with c.
func (c *Config) Validate() error {
	switch {
	case c.Dial == nil || c.Sink == nil:
		return fmt.Errorf("%w: Dial and Sink are needed", ErrConfig)
	case c.UserAgent == "":
		return fmt.Errorf("%w: no User-Agent; a crawler says who it is", ErrConfig)
	case !channel.IsFieldValue(c.UserAgent):
		return fmt.Errorf("%w: the User-Agent %q cannot be sent", ErrConfig, c.UserAgent)
	case c.Body.Scope.Host == "":
		return fmt.Errorf("%w: the scope names no host", ErrConfig)
	case c.Header.Host != "" && c.Header.Host != c.Body.Scope.Host:
		return fmt.Errorf("%w: header is for %s, body for %s", ErrConfig, c.Header.Host, c.Body.Scope.Host)
	}
	if err := order.Known(c.Body.Settings.Order); err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return nil
}

func (c *Config) disk() files {
	if c.files == nil {
		return disk{}
	}
	return c.files
}

func (c *Config) gap() time.Duration {
	if c.MinGap == 0 {
		return DefaultMinGap
	}
	return c.MinGap
}

// budget is how many pages the crawl may fetch.
func (c *Config) budget() int {
	n := MaxPages
	for _, b := range []int{c.Header.Budget, c.Body.Settings.Pages} {
		if b > 0 {
			n = min(n, b)
		}
	}
	return n
}

// spoolBytes and spillBytes divide what the crawl may have on disk.
func (c *Config) spoolBytes() int64 {
	if c.Disk <= 0 {
		return MaxSpool
	}
	return min(max(c.Disk/5, 2*ChunkBytes), MaxSpool)
}

func (c *Config) spillBytes() int64 {
	if c.Disk <= 0 {
		return MaxSpill
	}
	return min(max(c.Disk-c.spoolBytes(), 0), MaxSpill)
}

func (c *Config) pageBytes() int {
	if n := c.Body.Settings.PageBytes; n > 0 {
		return min(n, channel.MaxPage)
	}
	return DefaultPage
}

func (c *Config) depth() int {
	if n := c.Body.Scope.MaxDepth; n > 0 {
		return n
	}
	return channel.DefaultDepth
}

// dynamicDepth is how deep the crawl follows pages that are made on demand: a third of the depth, which is 5 of 15 by default, because
// there is no end of them (section 5.1 of Baeza-Yates, Castillo, Marín, Rodríguez, "Crawling a Country", WWW 2005).
func (c *Config) dynamicDepth() int {
	return order.DynamicDepth(c.depth())
}

// Run crawls. The last chunk holds the report too, unless the crawl was stopped: then it is not over and has none. An error means that the
// crawl could not go on here, because ctx is done or the Sink refused. It can be resumed from the last chunk that was put. When ctx is
// done, pages that were not put stay in Spool, and a Run of the same task in that folder puts them first.
//
// If the disk takes no pages, Run keeps them in memory and puts each one before it fetches the next. If the disk loses pages or the list of
// URLs, the crawl ends as Stopped and puts everything it has. That is enough to resume from.
func Run(ctx context.Context, cfg Config) (report channel.Report, err error) {
	if err := cfg.Validate(); err != nil {
		return channel.Report{}, err
	}
	s, err := newSession(&cfg)
	if err != nil {
		return channel.Report{}, err
	}
	outer := ctx
	ctx, s.cancel = context.WithCancelCause(ctx)
	defer s.cancel(nil)
	putting, stopPutting := context.WithCancel(outer)
	defer stopPutting()
	s.fetch = newFetcher(&cfg)
	s.spool = newSpool(&cfg, func(body []byte, last bool) error { return cfg.Sink.Put(putting, body, last) })
	quit := make(chan struct{})
	var keeper sync.WaitGroup
	keeper.Go(func() { s.keepCheckpoints(quit) })
	defer func() {
		s.cancel(nil)
		stopPutting()
		close(quit)
		keeper.Wait()
		s.fetch.close()
		s.spool.close(err != nil && outer.Err() != nil)
		s.frontier.close()
	}()
	return s.run(ctx)
}
