// Package order decides which page is fetched next when not all can be had. It holds the frontier of a crawl, a heap of sites and for
// each site a heap of pages, under any of the page orderings of Baeza-Yates, Castillo, Marín, Rodríguez, "Crawling a Country: Better
// Strategies than Breadth-First for Web Page Ordering" (WWW 2005), and the PageRank with which they are measured. The crawler and the
// simulator use the same ones.
//
// It is pure: no clock, no global randomness, no goroutines. It is not for fetching, politeness or URLs: a page and a site are numbers,
// given out by the caller, dense from zero.
//
// Invariants: a page is handed out at most once; a site has at most one page out; equal priorities are served in the order in which
// the pages were found, so the same calls always give the same crawl.
package order

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
)

// Page is a page's number.
type Page uint32

// Site is a site's number.
type Site uint32

// None is no page: the parent of a seed.
const None = Page(math.MaxUint32)

// Limits of a frontier.
const (
	MaxPages     = 1 << 26 // pages that a frontier can tell apart
	DefaultBatch = 100_000 // K of section 4.1: pages between two PageRanks
)

// Depths and pages of section 5.1, for Config.Limits.
const (
	DefaultDynamicDepth = 5
	DefaultStaticDepth  = 15
	DefaultSitePages    = 25_000
)

// DynamicDepth is how deep pages are followed that are made on demand: a third of the depth, which is 5 of 15 by default, because there is no end of them.
func DynamicDepth(depth int) int { return max(depth/3, min(depth, DefaultDynamicDepth)) }

// The orderings.
const (
	BreadthFirst         = "breadth-first"
	Backlink             = "backlink"
	BatchPageRank        = "batch-pagerank"
	PartialPageRank      = "partial-pagerank"
	OPIC                 = "opic"
	LargerSitesFirst     = "larger-sites-first"
	HistoricalOmniscient = "historical-omniscient"
	HistoricalRandom     = "historical-random"
	HistoricalZero       = "historical-zero"
	HistoricalParent     = "historical-parent"
	Omniscient           = "omniscient"
	Random               = "random"

	// Historical is how a channel asks for the best of the historical orderings that need no oracle.
	Historical = "historical"
)

var names = []string{BreadthFirst, Backlink, BatchPageRank, PartialPageRank, OPIC, LargerSitesFirst, HistoricalOmniscient,
	HistoricalRandom, HistoricalZero, HistoricalParent, Omniscient, Random}

// ErrConfig says that a frontier cannot be made as asked.
var ErrConfig = errors.New("order: bad config")

// Names of all orderings.
func Names() []string { return slices.Clone(names) }

// Live are the names that a crawl can use: all that need no oracle.
func Live() []string {
	out := slices.DeleteFunc(Names(), func(n string) bool { return n == Omniscient || n == HistoricalOmniscient })
	return append(out, Historical)
}

// Known returns an error if a crawl cannot use the named ordering. The empty name is breadth-first.
func Known(name string) error {
	if name == "" || slices.Contains(Live(), name) {
		return nil
	}
	return fmt.Errorf("%w: unknown ordering %q; known: %s", ErrConfig, name, strings.Join(Live(), " "))
}

// Limits keep an endless Web finite. A zero field is no limit.
type Limits struct {
	DynamicDepth int // links from a seed for a page made on demand
	StaticDepth  int // and for any other
	SitePages    int // pages fetched of a site
}

// Config of a frontier.
type Config struct {
	Order  string                                     // one of Names, or Historical; "": breadth-first
	Pages  int                                        // how many pages to expect; only saves growing
	Batch  int                                        // pages between two PageRanks; 0: DefaultBatch
	Waits  bool                                       // a site rests after a fetch until Ready is called; else it is ready at once
	Limits Limits                                     // zero: none
	Site   func(p Page) (s Site, dynamic bool)        // asked once, when a page is found; nil: all pages are of site 0 and static
	Last   func(p Page) (rank float64, known bool)    // PageRank in the last crawl, for historical orderings
	Ranks  []float32                                  // PageRanks of the last crawl, from which HistoricalRandom draws
	Oracle func(p Page) float64                       // true PageRank, for the omniscient orderings
	Rand   *rand.Rand                                 // for Random and HistoricalRandom
	start  func(f *Frontier, p, parent Page) float64  // priority of a page just found
	share  func(f *Frontier, p Page, out int) float64 // what a fetched page adds to the priority of each page that it links to
}

// rule fills in start and share: with them every ordering is the same machine.
func (c *Config) rule() error {
	zero := func(*Frontier, Page, Page) float64 { return 0 }
	nothing := func(*Frontier, Page, int) float64 { return 0 }
	c.start, c.share = zero, nothing
	last := func(fresh func(f *Frontier, p, parent Page) float64) {
		c.start = func(f *Frontier, p, parent Page) float64 {
			if r, ok := c.Last(p); ok {
				return r
			}
			return fresh(f, p, parent)
		}
	}
	oracle := func(_ *Frontier, p, _ Page) float64 { return c.Oracle(p) }
	if c.Order == Historical {
		c.Order = HistoricalRandom
	}
	historical := strings.HasPrefix(c.Order, "historical")
	switch {
	case historical && c.Last == nil:
		return fmt.Errorf("%w: %s needs the PageRank of an earlier crawl", ErrConfig, c.Order)
	case (c.Order == Omniscient || c.Order == HistoricalOmniscient) && c.Oracle == nil:
		return fmt.Errorf("%w: %s needs an oracle", ErrConfig, c.Order)
	case (c.Order == Random || c.Order == HistoricalRandom) && c.Rand == nil:
		return fmt.Errorf("%w: %s needs a source of randomness", ErrConfig, c.Order)
	}
	switch c.Order {
	case "", BreadthFirst, LargerSitesFirst, BatchPageRank:
	case Backlink:
		c.share = func(*Frontier, Page, int) float64 { return 1 }
	case OPIC:
		// All pages begin with the same cash, so it is left out of the priority and added when it is split.
		c.share = func(f *Frontier, p Page, out int) float64 { return (1 + f.key[p]) / float64(out) }
	case PartialPageRank:
		c.share = func(f *Frontier, p Page, out int) float64 { return f.key[p] / float64(out) }
	case HistoricalOmniscient:
		last(oracle)
	case HistoricalZero:
		last(zero)
	case HistoricalRandom:
		last(func(*Frontier, Page, Page) float64 {
			if len(c.Ranks) == 0 {
				return 0
			}
			return float64(c.Ranks[c.Rand.IntN(len(c.Ranks))])
		})
	case HistoricalParent:
		last(func(f *Frontier, p, parent Page) float64 {
			if parent == None {
				return 0
			}
			return f.key[parent] / float64(f.out)
		})
	case Omniscient:
		c.start = oracle
	case Random:
		c.start = func(*Frontier, Page, Page) float64 { return c.Rand.Float64() }
	default:
		return fmt.Errorf("%w: unknown ordering %q; known: %s", ErrConfig, c.Order, strings.Join(names, " "))
	}
	return nil
}

// Dynamic reports whether a URL looks like a page made on demand, as in section 5.1: it has a query or a known
// ending.
func Dynamic(url string) bool {
	if strings.IndexByte(url, '?') >= 0 {
		return true
	}
	if i := strings.IndexByte(url, '#'); i >= 0 {
		url = url[:i]
	}
	dot := strings.LastIndexByte(url, '.')
	return dot > strings.LastIndexByte(url, '/') && slices.Contains(endings, strings.ToLower(url[dot+1:]))
}

var endings = []string{"php", "php3", "php4", "php5", "phtml", "asp", "aspx", "jsp", "jspx", "do", "cgi", "pl", "cfm", "shtml", "dll", "exe"}
