// Package member decides who belongs to a network and who may do what in it. A network is an Ed25519 root key. The
// root delegates to the manager's working keys (Delegation). These certify members (Certificate), sign the Document
// that every member fetches, and sign tasks. With the network's name, its NetworkID, all of it can be checked
// offline.
//
// The package is pure: clock and randomness are passed in. Only keyfile.go touches files. The package does not decide
// what a member may send (package wire asks for the certificate first) or what a task means (package channel).
//
// Invariants: a signature covers the raw bytes as received, never a re-encoding; every signature names the kind of
// thing that it signs (RFC 8032 Ed25519ctx), so that it is not valid for another kind; bytes from others are bounded
// before they are read; each reason for refusing is an error of its own.
package member

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Skew is how far two clocks may disagree before certificates, delegations and tasks are refused because of it.
const Skew = 5 * time.Minute

// Limits of what is read from others.
const (
	MaxAccount     = 128      // bytes of an account
	MaxLabel       = 128      // bytes of a name that a person chose
	MaxBanned      = 2000     // bans in a document
	MaxPeer        = 64       // bytes of a peer id
	MaxAddr        = 256      // bytes of an address
	MaxAddrs       = 16       // addresses of a server, and of a join string
	MaxServers     = 256      // servers of a kind in a document
	MaxDelegations = 16       // delegations in a document
	MaxDelegation  = 256      // bytes of a sealed delegation
	MaxCertificate = 1 << 10  // bytes of a sealed certificate
	MaxDocument    = 64 << 10 // bytes of a sealed document
	MaxName        = 256      // bytes of a network's name, of its contact
	MaxInvite      = 128      // bytes of an invite's text
	MaxJoinString  = 4 << 10  // bytes of a join string
)

// Reasons for refusing. Reason gives the short word for counters.
var (
	ErrUnsigned     = errors.New("member: not signed")
	ErrAltered      = errors.New("member: signature does not match: altered on the way, or not by that key")
	ErrLate         = errors.New("member: past its latest start")
	ErrOtherNetwork = errors.New("member: of another network")
	ErrExpired      = errors.New("member: expired")
	ErrNotYet       = errors.New("member: not valid yet")
	ErrRole         = errors.New("member: not allowed for that role")
	ErrDelegation   = errors.New("member: the signer's delegation is broken")
	ErrOutdated     = errors.New("member: the signer's delegation is outdated: the network has moved to newer keys")
	ErrMalformed    = errors.New("member: malformed")
	ErrTooLarge     = errors.New("member: too large")
)

var reasons = []struct {
	err  error
	word string
}{
	{ErrDelegation, "delegation"}, {ErrOutdated, "outdated"}, {ErrUnsigned, "unsigned"}, {ErrAltered, "altered"}, {ErrLate, "late"},
	{ErrOtherNetwork, "other_network"}, {ErrExpired, "expired"}, {ErrNotYet, "not_yet"}, {ErrRole, "role"}, {ErrTooLarge, "too_large"},
	{ErrMalformed, "malformed"}, {ErrDenied, "denied"}, {ErrText, "text"},
}

// Reason is the word by which a refusal is counted; "other" for errors that are not of this package.
func Reason(err error) string {
	for _, r := range reasons {
		if errors.Is(err, r.err) {
			return r.word
		}
	}
	return "other"
}

// Role is what a member is in the network.
type Role uint8

// The roles of members.
const (
	Peer Role = iota + 1
	Manager
	Archive
	Relay
)

func (r Role) String() string {
	switch r {
	case Peer:
		return "peer"
	case Manager:
		return "manager"
	case Archive:
		return "archive"
	case Relay:
		return "relay"
	}
	return fmt.Sprintf("role %d", uint8(r))
}

// Roles says what a delegated key may sign.
type Roles uint32

// What may be delegated.
const (
	SignTasks Roles = 1 << iota
	SignCertificates
	SignDocuments
	AllRoles = SignTasks | SignCertificates | SignDocuments
)

// Delegation is the root's word that a working key may sign for the network.
type Delegation struct {
	Network   NetworkID
	Key       [32]byte // Ed25519 public key
	Roles     Roles
	NotBefore time.Time
	NotAfter  time.Time
	Serial    uint64 // grows with every delegation; a document can outdate those below a serial
}

// Certificate makes a peer a member.
type Certificate struct {
	Network   NetworkID
	Peer      string // peer id, in text form
	Account   string // what it is held to: an invite's, or its own key's; empty for servers
	Label     string // a name that its user chose; for show, and may be empty
	Role      Role
	NotBefore time.Time
	NotAfter  time.Time
}

// Server is a manager, archive or relay, and where to find it.
type Server struct {
	Peer  string
	Addrs []string // multiaddrs, without the peer id
}

// Document is what every member fetches on joining and renewing.
type Document struct {
	Network     NetworkID
	Name        string   // for people; may be empty
	Delegations [][]byte // sealed; those in use
	MinSerial   uint64   // delegations below it are outdated
	Managers    []Server
	Archives    []Server
	Relays      []Server
	Contact     string        // URL, for the User-Agent of crawls
	ClaimWait   time.Duration // how long after its latest start a task may still be claimed
	Lease       time.Duration // within which a claimed task must show progress
	MinProtocol uint32        // lowest protocol version that members still speak
	Issued      time.Time
	NotAfter    time.Time
	Banned      []Ban // peers and accounts whose certificates are good for nothing any more
}

// check refuses a time outside of a validity, give or take Skew.
func check(what string, now, notBefore, notAfter time.Time) error {
	if now.Add(Skew).Before(notBefore) {
		return fmt.Errorf("%w: %s, from %s on, it is %s", ErrNotYet, what, stamp(notBefore), stamp(now))
	}
	if now.Add(-Skew).After(notAfter) {
		return fmt.Errorf("%w: %s, at %s, it is %s", ErrExpired, what, stamp(notAfter), stamp(now))
	}
	return nil
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Root is a network's root key.
type Root struct{ key ed25519.PrivateKey }

// NewRoot makes a network from 32 random bytes.
func NewRoot(seed [32]byte) Root { return Root{ed25519.NewKeyFromSeed(seed[:])} }

// ID is the network's name.
func (r Root) ID() NetworkID { return NetworkID(r.key.Public().(ed25519.PublicKey)) }

// Delegate signs a delegation for this network.
func (r Root) Delegate(d Delegation) ([]byte, error) {
	d.Network = r.ID()
	if err := d.validate(); err != nil {
		return nil, err
	}
	return seal(r.key, contextDelegation, d.marshal(), nil, MaxDelegation)
}

// Equal reports whether two servers are the same one at the same addresses.
func (s Server) Equal(o Server) bool { return s.Peer == o.Peer && slices.Equal(s.Addrs, o.Addrs) }
