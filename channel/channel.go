// Package channel defines the types that the manager, the archive and the peers share: what is crawled (Channel,
// Scope), the Web host it lives on (Host), one recrawl (Header and Body of a task) and its results (Chunk, Page,
// Report). It also defines their wire form, protobuf messages with size limits. The package is pure. It does not
// store channels (see channel/badgerdb) and does not decide when to crawl them (see recrawl).
//
// The fields of a task are those of section 2.1 of Xu, Zhang, Zhang, Fang, "Scale-Adaptable Recrawl Strategies for
// DHT-Based Distributed Web Crawling System" (NPC 2010).
package channel

import (
	"time"

	"shoal/coords"
)

// ID names a channel within one network. The manager assigns it. No channel has ID zero.
type ID uint64

// Gen numbers the handings-out of a channel. Every handing-out, also a repeated one, gets a higher number. The pair
// (ID, Gen) is the fence.
type Gen uint64

// Kind is the kind of a channel's scope.
type Kind uint8

// The three kinds of channel.
const (
	WholeHost   Kind = iota + 1 // a whole Web host
	Directory                   // one directory of it
	Directories                 // a set of directories
)

// Scope is a channel's reach.
type Scope struct {
	Kind     Kind
	Host     string   // scheme and authority in canonical form: "https://example.org", "http://example.org:8080"
	Dirs     []string // for Directory and Directories: path prefixes that begin and end with "/"
	Filters  []string // RE2; a URL must match one of them; empty: all match
	Exclude  []string // RE2; a URL that matches one of them is out of scope
	MaxDepth int      // links from a seed; 0: DefaultDepth
}

// DefaultDepth is the maximum depth of a scope that does not set one.
const DefaultDepth = 15

// State says whether a channel is crawled.
type State uint8

// The states of a channel.
const (
	Active State = iota + 1
	Paused       // by an operator
	Marked       // given up after too many failures, or blocked by its host; Reason says why
	Removed
)

// Channel is the unit of recrawling, with its settings and what reports have taught about it.
type Channel struct {
	ID       ID
	Scope    Scope
	Seeds    []string // canonical URLs
	Inter    []string // URLs into this channel that crawls of other channels found; at most MaxInter
	Added    time.Time
	State    State
	Reason   string
	Settings Settings
	Learnt   Learnt
}

// Settings are an operator's settings for one channel. A zero value selects the network's default.
type Settings struct {
	Order     string  // page ordering of channel/order; "": breadth-first
	Pages     int     // page budget of one task; 0: learnt, beginning with a modest first visit
	PageBytes int     // largest page body fetched; 0: 2 MiB
	Weight    float32 // importance among channels; 0: 1
	TextOnly  bool    // spool main text instead of raw pages
	Group     int     // fixed priority group + 1; 0: learnt
}

// Learnt is what the manager learnt about a channel from reports.
type Learnt struct {
	Gen           Gen // last handing-out issued
	Failed        int // crawls in a row that failed; 0: the last one did not
	Submitted     time.Time
	Updated       time.Time
	Changed       time.Time
	Visits        int // updates so far
	Changes       int // updates that found changes
	Pages         int // pages of the stored copy
	Budget        int // pages that the next task may fetch
	Service       time.Duration
	LastOutcome   Outcome
	LastError     string
	Out           bool   // a task is out
	EstimatorBlob []byte // the scheduler's record of the channel
	History       []byte // its last visits, in the scheduler's form
}

// Host is a Web host with the state that all its channels share.
type Host struct {
	Name       string        // as Scope.Host
	NextVisit  time.Time     // no task may start before
	Rest       time.Duration // how much later that is than when it was said, by the same clock; 0: not known
	CrawlDelay time.Duration
	Blocked    string // why it must not be crawled; "": it may
	Record     coords.HostRecord
}

// Limits on what is stored and sent. The code that receives the bytes enforces each of them.
const (
	MaxURL          = 2048      // bytes of a URL
	MaxSeeds        = 1000      // seeds of a task
	MaxInter        = 1000      // inter-site URLs of a task
	MaxFilters      = 64        // RE2 patterns of a scope, each list
	MaxFilterBytes  = 1024      // bytes of a pattern
	MaxDirs         = 256       // directories of a scope
	MaxHeader       = 2 << 10   // bytes of a signed task header
	MaxBody         = 2 << 20   // bytes of a task body
	MaxDigests      = 30_000    // (URL, content) pairs of a task, about 400 kB
	MaxKnownInter   = 100_000   // digests of known inter-site URLs of a task
	MaxChunk        = 4 << 20   // bytes of a chunk on the wire, compressed
	MaxChunkBody    = 16 << 20  // bytes of a chunk's body, decompressed
	MaxPage         = 8 << 20   // bytes of a page in a chunk
	MaxReport       = 512 << 10 // bytes of a report
	MaxReportInter  = 10_000    // inter-site URLs of a report
	MaxReportURLs   = 384 << 10 // bytes of these together: the rest of a report fits beside them
	MaxFrontierPart = 20_000    // frontier entries of a chunk
	MaxFrontier     = 1_000_000 // frontier entries of a resume state
	MaxDone         = 4_000_000 // pages done of a resume state
	MaxResume       = 64 << 20  // bytes of a resume state
	MaxChunkPages   = 20_000    // pages of a chunk
	MaxPageHeader   = 64 << 10  // bytes of a page's response header
	MaxPageLinks    = 10_000    // links of a page
	MaxChunkLinks   = 500_000   // links of all pages of a chunk
	MaxDelegation   = 1 << 10   // bytes of an encoded delegation
	MaxSig          = 64        // bytes of a signature
	MaxPeerID       = 128       // bytes of a peer id
	MaxHandovers    = 4         // peers that gave an unclaimed task on, one to the next
	MaxText         = 512       // bytes of a reason, an error or a name; longer ones are cut when encoded
	MaxValidator    = 256       // bytes of an ETag or Last-Modified
	MaxErrorKinds   = 64        // kinds of error in a report; the encoder counts further kinds as "other"
	MaxHistory      = 128       // bytes of a channel's last visits
	MaxEstimator    = 256       // bytes of an estimator's state; the manager reads up to 48 fastest when it starts
	MaxChannel      = 8 << 20   // bytes of an encoded channel
	MaxHost         = 64 << 10  // bytes of an encoded host
	MaxLearnt       = 4 << 10   // bytes of what was learnt about a channel, encoded
)
