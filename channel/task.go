package channel

import (
	"time"

	"shoal/coords"
)

// Header is the part of a task that travels. It holds what a peer needs to decide whether and when it may run the
// task, and who ordered it. The manager signs the encoded header; Signed carries the signed bytes.
type Header struct {
	Network    [32]byte // the network's root public key
	Channel    ID
	Gen        Gen
	Host       string // as Scope.Host
	Pages      int    // expected number of pages
	Budget     int    // pages that the task may fetch at most; 0: as many as the scope holds
	Issued     time.Time
	Latest     time.Time     // latest start
	Gap        time.Duration // least politeness wait, as the manager knows it
	Archive    string        // peer id of the archive that takes the claim
	BodySHA256 [32]byte
	BodyBytes  int
}

// Signed is a header with the manager's signature over its raw bytes, as received.
type Signed struct {
	Raw        []byte // encoded Header
	Sig        []byte // Ed25519 by the delegated key
	Delegation []byte // encoded, signed member.Delegation of that key to the root
	// Handovers are how the task came, unclaimed, from the peer that accepted it to the one that has it; the first one first. The manager's
	// signature does not cover them.
	Handovers []Handover
}

// Handover is a peer's signed word that it gave a task to another one.
type Handover struct {
	From, To string // peer ids
	Sig      []byte // by the key of From
}

// Body is the rest of a task. The archive hands it out with the claim. The header holds its SHA-256.
type Body struct {
	Scope      Scope
	Seeds      []string
	Inter      []string
	Settings   Settings
	Digests    []PageDigest // known pages; where not all fit, those that changed most often come first
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

// Validator lets the host answer an unchanged page with 304.
type Validator struct {
	URL          uint64
	ETag         string
	LastModified string
}

// IsFieldValue reports whether s may be the value of an HTTP field (RFC 9110, section 5.5). A validator that is not would end its line, to a server that
// takes a lone CR for that: what a member once sent as an ETag must not write lines of other members' requests.
func IsFieldValue(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' && s[i] != '\t' || s[i] == 0x7f {
			return false
		}
	}
	return true
}

// Importance is a page's PageRank in the stored graph.
type Importance struct {
	URL  uint64
	Rank float32
}

// Resume is the durable state from which another peer continues a crawl. The archive rebuilds it from the chunks of a
// channel.
type Resume struct {
	Seq      uint64
	Head     [32]byte   // hash of the last stored chunk; zero: none
	Frontier []Frontier // still to fetch, in order
	Done     []uint64   // URLHash of pages that this crawl need not fetch again
	Leads    []string   // URLs of other sites that pages link to. The archive keeps them for the report of the crawl; no peer is told
}

// Frontier is one URL of the to-do list.
type Frontier struct {
	URL   string
	Depth int
}
