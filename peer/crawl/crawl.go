// Package crawl is one crawl of one channel: robots.txt first, then one connection and one request in flight, page after page from a
// to-do list, spooled to the archive in checkpoints, with a report at the end (section 2.1 of Xu, Zhang, Zhang, Fang, NPC 2010).
//
// It knows no libp2p, no queue and no lease: what is fetched comes as a task, where pages go is a Sink, how a host is dialled is a
// function, and when to pause is asked before each request. It is not for choosing tasks or sharing bandwidth.
//
// Invariants: never two requests in flight to the host; between the end of one response and the next request lies at least the
// politeness wait; only URLs of the scope that robots.txt allows are requested; a page that a chunk holds is not fetched again after a
// resume; every buffer, table and file has a bound; nothing remains when Run returns.
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
	MaxGap         = 30 * time.Second // longest regular wait, whatever robots.txt asks for
	MaxRetryAfter  = 5 * time.Minute  // a host that asks for more is left alone
	DefaultPage    = 2 << 20          // bytes of a page
	MaxHeader      = 64 << 10         // bytes of a response header
	MaxRedirects   = 10               // hops of one chain
	RequestTimeout = 30 * time.Second
	Checkpoint     = 10 * time.Minute // longest time that a fetched page stays here only
	ChunkBytes     = 1 << 20          // of pages in a checkpoint
	MaxFailures    = 5                // failures to reach the host in a row
	MaxBroken      = 20               // server errors, and responses that are none or have no end, in a row
	MaxTries       = 3                // requests of one URL
	MaxSpill       = 256 << 20        // bytes of the to-do list on disk
	MaxSpool       = 64 << 20         // bytes of pages on disk; a crawl whose archive is slow waits then
	MaxPages       = 4_000_000        // pages of one crawl

	maxInterBytes = channel.MaxReport * 3 / 4 // of inter-site URLs in a report
	maxLinkBytes  = 1 << 20                   // of the links of a page
)

// ErrConfig is returned for a task that cannot be crawled as it stands.
var ErrConfig = errors.New("crawl: bad task")

// Sink takes what was fetched.
type Sink interface {
	// Put returns when body, an encoded channel.ChunkBody, is durable; last: it holds the report. An error ends the crawl: whoever
	// resumes it begins at the last chunk that was put. body is the sink's until it returns.
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
	Pages  int // fetched so far
	Left   int // URLs known and not fetched
}

// Config is one crawl.
type Config struct {
	Header channel.Header
	Body   channel.Body
	Resume channel.Resume

	Dial      func(ctx context.Context, network, addr string) (net.Conn, error) // limit.Guard's; it resolves names
	Sink      Sink
	Spool     string // existing folder for files of pages and of the to-do list
	Disk      int64  // bytes there at most, a fifth of them for pages; 0: MaxSpool and MaxSpill
	UserAgent string // its first word, up to a "/", is the product token for robots.txt
	Peer      string // for the report

	Robots     *Robots                         // what earlier crawls read of robots.txt; nil: it is read for each
	MinGap     time.Duration                   // wait between requests at least; 0: DefaultMinGap
	Unpaced    bool                            // no waits at all: for measuring against one's own pond
	Checkpoint time.Duration                   // 0: the constant
	Roots      *x509.CertPool                  // nil: the system's
	Stop       <-chan struct{}                 // closed: put what there is and end as Stopped; nil: never
	Flush      <-chan struct{}                 // a value: put a checkpoint now; nil: never
	Before     func(ctx context.Context) error // called before each request, may block; an error ends the crawl as Stopped; nil: nothing
	Own        func() *redact.Finder           // finds this computer's addresses in what hosts answer; nil: nothing is looked for
	OnVisit    func(Visit)                     // called after each response; nil: nothing
	OnDisk     func(error)                     // told that Spool takes no more, must not block; the crawl goes on without it; nil: nothing

	files files // nil: the system's
}

// Validate says what is wrong with c.
func (c *Config) Validate() error {
	switch {
	case c.Dial == nil || c.Sink == nil:
		return fmt.Errorf("%w: Dial and Sink are needed", ErrConfig)
	case c.UserAgent == "":
		return fmt.Errorf("%w: no User-Agent; a crawler says who it is", ErrConfig)
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

// budget is how many pages may be fetched in all.
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

// dynamicDepth is how deep pages that are made on demand are followed: a third of the depth, which is 5 of 15 by default, since their
// number has no end (section 5.1 of Baeza-Yates, Castillo, Marín, Rodríguez, "Crawling a Country", WWW 2005).
func (c *Config) dynamicDepth() int {
	return max(c.depth()/3, min(c.depth(), order.DefaultDynamicDepth))
}

// Run crawls. The report is in the last chunk too, but for a crawl that was stopped, which has none: it is not over. An error means that
// the crawl could not go on here (ctx done, Sink refused) and that what was put last is where to resume; when ctx is done,
// what was not put stays in Spool, and a Run of the same task in that folder puts it first.
//
// Where the disk takes no pages they are kept in memory, each put before the next is fetched; where it loses some, or the list of URLs, the crawl
// ends as Stopped, with all put that there is: whoever resumes it finds the list in what was put.
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
