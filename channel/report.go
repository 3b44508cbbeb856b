package channel

import "time"

// Outcome is how a task ended.
type Outcome uint8

// The outcomes. Only Updated brings the stored copy up to date.
const (
	Updated     Outcome = iota + 1 // crawled to its end: an update
	Failed                         // host unreachable, robots unreachable, nothing fetched
	HostBlocked                    // the host refuses us: challenge pages, mass 403 or 429
	Stopped                        // ended early by its peer; the rest resumes elsewhere
	Lapsed                         // the lease ended without progress (said by the archive)
	Refused                        // a peer's own rules forbid the host (deny list, admin policy)
)

// Chunk is one link of a channel's copy. It is stored only if Prev is the durable head.
type Chunk struct {
	Channel ID
	Gen     Gen
	Seq     uint64   // 1 for the first chunk of a crawl; a crawl that resumes counts on
	Prev    [32]byte // hash of the predecessor; zero: none
	Body    []byte   // zstd of an encoded ChunkBody
}

// ChunkBody is what a chunk carries. The last chunk of a crawl has a Report.
type ChunkBody struct {
	Pages    []Page
	Frontier []Frontier // added to the to-do list
	Report   *Report
}

// Page is one fetched URL.
type Page struct {
	URL       string // canonical
	Depth     int
	Fetched   time.Time
	Status    int // HTTP status; 0: no response, Error says why
	Error     string
	Change    Change
	Digest    uint64 // ContentDigest of the body; also for pages that are not sent
	Shingle   uint64 // similarity fingerprint
	Header    []byte // response header as received: status line and fields, CRLF
	Body      []byte // decoded content; empty when unchanged
	Links     []string
	RTT       time.Duration // of the request
	Truncated bool
	// ShowsVisitor says that the body shows the address of the peer that fetched it. Headers show none: the peer removes it there.
	ShowsVisitor bool
}

// Change says how a page compares with the stored copy.
type Change uint8

// The values of Change.
const (
	New Change = iota + 1
	Changed
	NearUnchanged // differs, but hardly by its shingles
	Unchanged     // same digest, or 304
	Gone          // 404 or 410 where there was a page
	Errored
)

// Report is the summary of a finished task.
type Report struct {
	Channel       ID
	Gen           Gen
	Peer          string
	Outcome       Outcome
	Reason        string
	Started       time.Time
	Ended         time.Time
	Pages         int // fetched, unchanged ones included
	New           int
	Changed       int
	NearUnchanged int
	Unchanged     int
	Gone          int
	BytesDown     int64
	BytesUp       int64
	Truncated     bool // the page budget or the depth ended the crawl with URLs left
	Left          int  // URLs left in the frontier at the end
	Inter         []string
	Errors        map[string]int // by kind
	RTT           time.Duration  // minimum TCP connect time to the host
	Gap           time.Duration  // politeness wait between requests
	Rest          time.Duration  // for how long after Ended the host wants no request: after a slow answer, or as it asked by Retry-After; above UsualRest only with HostBlocked
	Robots        string         // "allowed", "none", "disallowed", "unreachable"
}

// UsualRest is the longest wait between two requests that a host is believed by the word of one peer. A longer one, of MostRest at most, takes the word of two.
const (
	UsualRest = 5 * time.Minute
	MostRest  = 24 * time.Hour
)
