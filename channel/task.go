package channel

import (
	"time"

	"shoal/coords"
)

// Header is the part of a task that travels: what a peer needs to decide whether, when and under whose word it may run it.
// It is signed by the manager as raw bytes; Signed carries these.
type Header struct {
	Network    [32]byte // the network's root public key
	Channel    ID
	Gen        Gen
	Host       string // as Scope.Host
	Pages      int    // expected number of pages
	Budget     int    // pages that it may fetch at most; 0: as many as the scope holds
	Issued     time.Time
	Latest     time.Time     // latest start
	Gap        time.Duration // politeness wait that the manager knows of, at least
	Archive    string        // peer id of the archive that takes the claim
	BodySHA256 [32]byte
	BodyBytes  int
}

// Signed is a header with the manager's signature over its raw bytes, as received.
type Signed struct {
	Raw        []byte // encoded Header
	Sig        []byte // Ed25519 by the delegated key
	Delegation []byte // encoded, signed member.Delegation of that key to the root
}

// Body is the rest of a task; the archive hands it out with the claim. Its SHA-256 is in the header.
type Body struct {
	Scope      Scope
	Seeds      []string
	Inter      []string
	Settings   Settings
	Digests    []PageDigest // known pages, changed most often first where they do not all fit
	KnownInter []uint64     // URLHash of known inter-site URLs
	Validators []Validator
	Importance []Importance // for historical orderings
	Record     coords.HostRecord
	Contact    string // the manager's contact URL, for the User-Agent
}

// PageDigest says that a URL had this content when it was last archived.
type PageDigest struct {
	URL     uint64 // URLHash
	Content uint64 // ContentDigest
}

// Validator makes an unchanged page cost a 304.
type Validator struct {
	URL          uint64
	ETag         string
	LastModified string
}

// Importance is a page's PageRank in the stored graph.
type Importance struct {
	URL  uint64
	Rank float32
}

// Resume is the durable state from which another runner goes on: what the archive rebuilt from the chunks of a channel.
type Resume struct {
	Seq      uint64
	Head     [32]byte   // hash of the last stored chunk; zero: none
	Frontier []Frontier // still to fetch, in order
	Done     []uint64   // URLHash of pages that need not be fetched again in this crawl
}

// Frontier is one URL of the to-do list.
type Frontier struct {
	URL   string
	Depth int
}
