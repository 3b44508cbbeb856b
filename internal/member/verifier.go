package member

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"shoal/channel"
)

// Verifier checks what members show, against the root key and the newest document that it was given. It remembers what it has
// checked, since the same delegation comes with everything and the same task comes with its offer and again with its claim.
// Signatures do not age, times are checked on every call. It is safe for concurrent use.
type Verifier struct {
	network NetworkID

	mu          sync.Mutex // guards all below
	minSerial   uint64
	document    Document
	sealed      []byte
	banned      bans // of the document, and of premature
	premature   premature
	serial      uint64 // of the document's signer
	delegations map[[32]byte]Delegation
	tasks       map[[32]byte]struct{}
	ring        [maxTasks][32]byte // oldest first, from next on
	next        int
}

const (
	maxTasks           = 512
	maxSeenDelegations = 32
)

// NewVerifier checks for one network.
func NewVerifier(network NetworkID) *Verifier {
	return &Verifier{network: network, delegations: map[[32]byte]Delegation{}, tasks: map[[32]byte]struct{}{}}
}

// Network is the network that it checks for.
func (v *Verifier) Network() NetworkID { return v.network }

// VerifyTask checks who signed a task and whether it may still start. now should be the manager's time as well as the caller knows it
// (wire.Node.Now): the latest start is taken literally.
func (v *Verifier) VerifyTask(now time.Time, s channel.Signed) (channel.Header, error) {
	if n := len(s.Raw) + len(s.Sig) + len(s.Delegation); n > channel.MaxHeader {
		return channel.Header{}, fmt.Errorf("task: %w: %d bytes, at most %d", ErrTooLarge, n, channel.MaxHeader)
	}
	if len(s.Sig) == 0 || len(s.Delegation) == 0 {
		return channel.Header{}, fmt.Errorf("task: %w", ErrUnsigned)
	}
	h, err := channel.ParseHeader(s.Raw)
	if err != nil {
		return channel.Header{}, fmt.Errorf("task: %w: %w", ErrMalformed, err)
	}
	if h.Network != v.network {
		return channel.Header{}, fmt.Errorf("task: %w: %s", ErrOtherNetwork, NetworkID(h.Network))
	}
	d, err := v.signer(at(now), s.Delegation, SignTasks)
	if err != nil {
		return channel.Header{}, fmt.Errorf("task: %w", err)
	}
	if err := v.taskSignature(d.Key, s); err != nil {
		return channel.Header{}, fmt.Errorf("task: %w", err)
	}
	if now.Add(Skew).Before(h.Issued) {
		return channel.Header{}, fmt.Errorf("task: %w: issued at %s, it is %s", ErrNotYet, stamp(h.Issued), stamp(now))
	}
	if now.After(h.Latest) {
		return channel.Header{}, fmt.Errorf("task: %w: %s, it is %s", ErrLate, stamp(h.Latest), stamp(now))
	}
	return h, nil
}

// taskSignature checks a task's signature once; key is the one that its delegation names.
func (v *Verifier) taskSignature(key [32]byte, s channel.Signed) error {
	id := taskID(key, s)
	v.mu.Lock()
	_, seen := v.tasks[id]
	v.mu.Unlock()
	if seen && len(s.Sig) == 64 {
		return nil
	}
	if err := verify(key, contextTask, s.Raw, s.Sig); err != nil {
		return err
	}
	v.remember(id)
	return nil
}

// taskID names a task as one key signed it. The key and the signature's length come first, so nothing but these very bytes has this id.
func taskID(key [32]byte, s channel.Signed) [32]byte {
	sum := sha256.New()
	sum.Write(key[:])
	sum.Write(s.Sig)
	sum.Write(s.Raw)
	return [32]byte(sum.Sum(nil))
}

// remember notes a task whose signature is good, in place of the one that was noted longest ago.
func (v *Verifier) remember(id [32]byte) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, seen := v.tasks[id]; !seen {
		delete(v.tasks, v.ring[v.next])
		v.tasks[id], v.ring[v.next] = struct{}{}, id
		v.next = (v.next + 1) % maxTasks
	}
}

// Signing returns a function that signs tasks with a's key, as SignHeader does. The verifier does not check their signatures again: that takes
// longer than signing does.
func (v *Verifier) Signing(a *Authority) func(channel.Header) (channel.Signed, error) {
	return func(h channel.Header) (channel.Signed, error) {
		s, err := a.SignHeader(h)
		if err == nil {
			v.remember(taskID(a.Delegation().Key, s))
		}
		return s, err
	}
}

// VerifyCertificate checks that a peer is a member now. Whether the peer is the one that shows it is for the caller to compare.
func (v *Verifier) VerifyCertificate(now time.Time, sealed []byte) (Certificate, error) {
	m, err := unseal("certificate", sealed, MaxCertificate)
	if err != nil {
		return Certificate{}, err
	}
	if len(m.Sig) == 0 || len(m.Delegation) == 0 {
		return Certificate{}, fmt.Errorf("certificate: %w", ErrUnsigned)
	}
	c, err := parseCertificate(m.Raw)
	if err != nil {
		return Certificate{}, err
	}
	if c.Network != v.network {
		return Certificate{}, fmt.Errorf("certificate: %w: %s, not %s", ErrOtherNetwork, c.Network, v.network)
	}
	d, err := v.signer(at(now), m.Delegation, SignCertificates)
	if err != nil {
		return Certificate{}, fmt.Errorf("certificate: %w", err)
	}
	if err := verify(d.Key, contextCertificate, m.Raw, m.Sig); err != nil {
		return Certificate{}, fmt.Errorf("certificate: %w", err)
	}
	if err := v.bans().refuse(c); err != nil {
		return c, err
	}
	return c, check("the certificate", now, c.NotBefore, c.NotAfter)
}

// Banned reports whether the newest document refuses a peer or its account.
func (v *Verifier) Banned(peer, account string) bool {
	b := v.bans()
	return b.holds(peer) || b.holds(account)
}

func (v *Verifier) bans() bans {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.banned
}

// premature is a document that was signed by a clock that was ahead, and has given way to one with an earlier date. The zero value: there is none.
type premature struct {
	banned bans      // whom it bans
	issued time.Time // a document of a later date was signed later
	until  time.Time // when no certificate of before it is good any more
}

// Learn takes a sealed document. It keeps the newest: a document of a newer delegation wins, then the later one. Documents that are
// older than what it has change nothing and are no error; changed tells.
//
// A document that is dated later than now by more than Skew was signed by a clock that was ahead, and taken by one. Any that may be taken now replaces it. That one may be older
// in truth, as whoever passes it on likes: so the bans of the first count until a document comes that is dated later than it, or until nobody needs them.
func (v *Verifier) Learn(now time.Time, sealed []byte) (d Document, changed bool, err error) {
	return v.learn(sealed, at(now), now, false)
}

// LearnOwn takes a document that the caller has just signed, as Learn does. It is the newest, and who is not banned by it is not banned.
func (v *Verifier) LearnOwn(now time.Time, sealed []byte) (d Document, changed bool, err error) {
	return v.learn(sealed, at(now), now, true)
}

// Recall takes a document that was learnt before and kept. Its time may have passed: it still tells which keys are outdated and where
// the servers were.
func (v *Verifier) Recall(sealed []byte) (d Document, err error) {
	d, _, err = v.learn(sealed, func(string, time.Time, time.Time) error { return nil }, time.Time{}, false)
	return d, err
}

// learn takes a document. now is zero if times do not matter.
func (v *Verifier) learn(sealed []byte, timely timeCheck, now time.Time, own bool) (d Document, changed bool, err error) {
	m, err := unseal("document", sealed, MaxDocument)
	if err != nil {
		return Document{}, false, err
	}
	if len(m.Sig) == 0 || len(m.Delegation) == 0 {
		return Document{}, false, fmt.Errorf("document: %w", ErrUnsigned)
	}
	if d, err = parseDocument(m.Raw); err != nil {
		return Document{}, false, err
	}
	if d.Network != v.network {
		return Document{}, false, fmt.Errorf("document: %w: %s, not %s", ErrOtherNetwork, d.Network, v.network)
	}
	by, err := v.signer(timely, m.Delegation, SignDocuments)
	if err != nil {
		return Document{}, false, fmt.Errorf("document: %w", err)
	}
	if err := verify(by.Key, contextDocument, m.Raw, m.Sig); err != nil {
		return Document{}, false, fmt.Errorf("document: %w", err)
	}
	if err := timely("the network document", d.Issued, d.NotAfter); err != nil {
		return Document{}, false, err
	}
	// No key may outdate delegations newer than its own: a stolen old key could lock the network out of its new one.
	if d.MinSerial > by.Serial {
		return Document{}, false, fmt.Errorf("document: %w: it outdates delegations up to %d with one of %d", ErrRole, d.MinSerial, by.Serial)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.newer(by, m.Delegation, d.Issued, now) {
		return v.document, false, nil
	}
	v.ban(&d, now, own)
	v.document, v.sealed, v.serial = d, sealed, max(v.serial, by.Serial)
	v.minSerial = max(v.minSerial, d.MinSerial)
	return d, true, nil
}

// ban takes whom a new document bans, before it takes the place of the one that is held. v.mu is held.
func (v *Verifier) ban(d *Document, now time.Time, own bool) {
	if d.Issued.Before(v.document.Issued) && ahead(v.document.Issued, now) {
		v.premature = premature{v.banned, v.document.Issued, now.Add(CertificateLife + 2*Skew)}
	}
	if p := &v.premature; own || d.Issued.After(p.issued) || now.After(p.until) {
		*p = premature{}
	}
	v.banned = sorted(slices.Concat(d.Banned, v.premature.banned))
}

// ahead reports whether something was dated by a clock that was ahead. now is zero if times do not matter.
func ahead(issued, now time.Time) bool { return !now.IsZero() && issued.After(now.Add(Skew)) }

// Ahead reports whether the document that is held was signed by a clock that was ahead, so that any other is better.
func (v *Verifier) Ahead(now time.Time) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return ahead(v.document.Issued, now)
}

// newer reports whether a document comes after the one that is held. Keys that this one names as in use sign documents beside each other, as those of
// several managers do: then the date decides, unless that of the held one is of a clock that was ahead. Another key must be younger. v.mu is held.
func (v *Verifier) newer(by Delegation, sealed []byte, issued, now time.Time) bool {
	if by.Serial == v.serial || slices.ContainsFunc(v.document.Delegations, func(b []byte) bool { return bytes.Equal(b, sealed) }) {
		return issued.After(v.document.Issued) || ahead(v.document.Issued, now)
	}
	return by.Serial > v.serial
}

// Document is the newest document learnt, and whether there is one.
func (v *Verifier) Document() (Document, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.document, v.sealed != nil
}

// SealedDocument is the newest document as it can be kept and passed on; nil: none.
func (v *Verifier) SealedDocument() []byte {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.sealed
}

// timeCheck refuses what is valid at another time.
type timeCheck func(what string, notBefore, notAfter time.Time) error

func at(now time.Time) timeCheck {
	return func(what string, notBefore, notAfter time.Time) error { return check(what, now, notBefore, notAfter) }
}

// signer checks the delegation that came with something, and that it may sign that.
func (v *Verifier) signer(timely timeCheck, sealed []byte, need Roles) (Delegation, error) {
	id := sha256.Sum256(sealed)
	v.mu.Lock()
	d, seen := v.delegations[id]
	minSerial := v.minSerial
	v.mu.Unlock()
	if !seen {
		var err error
		if d, err = openDelegation(v.network, sealed); err != nil {
			if errors.Is(err, ErrOtherNetwork) {
				return Delegation{}, err
			}
			return Delegation{}, fmt.Errorf("%w: %w", ErrDelegation, err)
		}
		v.mu.Lock()
		if len(v.delegations) >= maxSeenDelegations {
			clear(v.delegations)
		}
		v.delegations[id] = d
		v.mu.Unlock()
	}
	if d.Serial < minSerial {
		return Delegation{}, fmt.Errorf("%w: serial %d, oldest in use is %d", ErrOutdated, d.Serial, minSerial)
	}
	if err := timely("the signer's delegation", d.NotBefore, d.NotAfter); err != nil {
		return Delegation{}, err
	}
	if d.Roles&need == 0 {
		return Delegation{}, fmt.Errorf("%w: its signer's delegation does not cover it", ErrRole)
	}
	return d, nil
}
