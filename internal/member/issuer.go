package member

import (
	"container/list"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"
)

// Reasons for not issuing a certificate.
var (
	ErrInvite = errors.New("member: this network takes members by invite")
	ErrRate   = errors.New("member: too many at once")
	ErrDenied = errors.New("member: not welcome any more")
	ErrLedger = errors.New("member: the use of an invite cannot be kept now; try again later")
)

// Policy says to whom certificates are issued.
type Policy struct {
	Closed bool // only with an invite; default open: anyone, at the rates below

	Work    uint8 // zero bits of the proof of work that joining without an invite costs; 0: none. At most MaxWork
	Account Rate  // joins of one account: by one invite, or of one peer; the zero Rate: DefaultAccount
	Prefix  Rate  // joins from one address prefix (/24, /48); the zero Rate: DefaultPrefix
	Renew   Rate  // renewals of one peer; the zero Rate: DefaultRenew

	Life  time.Duration // of a certificate; 0: CertificateLife
	Grace time.Duration // how long after its end a certificate can still be renewed without an invite; 0: DefaultGrace
}

// Rate is a token bucket: Burst at once, one more every Every.
type Rate struct {
	Burst int
	Every time.Duration
}

// What a policy takes where it says nothing. A company's volunteers share one address and often one account.
var (
	DefaultAccount = Rate{Burst: 256, Every: 15 * time.Second}
	DefaultPrefix  = Rate{Burst: 512, Every: 10 * time.Second}
	DefaultRenew   = Rate{Burst: 8, Every: 15 * time.Minute}
)

// DefaultGrace lets a computer that was off over the holidays come back by itself.
const DefaultGrace = 30 * 24 * time.Hour

// Limits of an issuer's tables. The longest unused entry gives way.
const (
	maxBuckets = 20_000 // of each kind
	maxDenied  = 10_000
	maxInvites = 10_000 // partly used invites
)

// Validate says what is wrong with a policy.
func (p Policy) Validate() error {
	for _, r := range []Rate{p.Account, p.Prefix, p.Renew} {
		if r != (Rate{}) && (r.Burst < 1 || r.Every <= 0) {
			return fmt.Errorf("member: rate of %d at once and one every %s: both must be above zero", r.Burst, r.Every)
		}
	}
	if p.Work > MaxWork {
		return fmt.Errorf("member: a proof of work of %d bits: at most %d, or nobody comes through with it", p.Work, MaxWork)
	}
	if p.Life < 0 || p.Grace < 0 {
		return fmt.Errorf("member: certificate life %s, grace %s: neither may be negative", p.Life, p.Grace)
	}
	return nil
}

// Request asks for a certificate. Peer and Addr are what the caller has seen itself, the rest is what the asker says.
type Request struct {
	Peer   string
	Addr   netip.Addr // where the request came from; invalid: unknown, counted together
	Label  string
	Invite string
	Work   []byte // a proof
}

// Issuer decides who becomes a member. It is safe for concurrent use.
type Issuer struct {
	authority *Authority
	policy    Policy

	mu       sync.Mutex // guards all below
	accounts buckets
	prefixes buckets
	renewals buckets
	denied   map[string]bool
	held     map[string]time.Time // prefixes from which no peer may join before then
	used     map[inviteID]usage
	keep     func(ledger []byte) error // nil: the ledger is not kept
	shared   *sharedInvites            // nil: no other manager issues
	taken    [][32]byte                // keys of invites that others made, who are not there any more
}

// NewIssuer issues under an authority that may sign certificates.
func NewIssuer(a *Authority, p Policy) (*Issuer, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	if a.Delegation().Roles&SignCertificates == 0 {
		return nil, fmt.Errorf("%w: the working key may not sign certificates", ErrRole)
	}
	if p.Account == (Rate{}) {
		p.Account = DefaultAccount
	}
	if p.Prefix == (Rate{}) {
		p.Prefix = DefaultPrefix
	}
	if p.Renew == (Rate{}) {
		p.Renew = DefaultRenew
	}
	if p.Life == 0 {
		p.Life = CertificateLife
	}
	if p.Grace == 0 {
		p.Grace = DefaultGrace
	}
	return &Issuer{authority: a, policy: p, accounts: newBuckets(p.Account), prefixes: newBuckets(p.Prefix), renewals: newBuckets(p.Renew),
		denied: map[string]bool{}, held: map[string]time.Time{}, used: map[inviteID]usage{}}, nil
}

// Issue makes a peer a member. Its account is its invite's, or else its own.
func (i *Issuer) Issue(now time.Time, r Request) ([]byte, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if err := CheckLabel(r.Label); err != nil {
		return nil, err
	}
	account, invited, err := i.accountFor(now, r)
	if err != nil {
		return nil, err
	}
	if i.refused(r.Peer, account, r.Label) {
		return nil, ErrDenied
	}
	prefix := Prefix(r.Addr)
	if until, held := i.held[prefix]; held && now.Before(until) {
		return nil, fmt.Errorf("%w: a peer of your network address was banned a short while ago; try again in %s", ErrRate, until.Sub(now).Round(time.Second))
	}
	for _, b := range []struct {
		of   *buckets
		key  string
		what string
	}{{&i.prefixes, prefix, "from your network address"}, {&i.accounts, account, "for this account"}} {
		if wait := b.of.wait(now, b.key); wait > 0 {
			return nil, fmt.Errorf("%w: too many joined %s; try again in %s", ErrRate, b.what, wait.Round(time.Second))
		}
	}
	if !invited {
		if err := i.checkWork(now, r); err != nil {
			return nil, err
		}
	}
	i.prefixes.take(now, prefix)
	i.accounts.take(now, account)
	if invited { // others may join and renew meanwhile
		err := i.useInvite(now, r.Invite)
		if err == nil && i.refused(r.Peer, account, r.Label) {
			err = ErrDenied
		}
		if err != nil {
			i.prefixes.giveBack(prefix)
			i.accounts.giveBack(account)
			return nil, err
		}
	}
	return i.certify(now, Certificate{Peer: r.Peer, Account: account, Label: r.Label, Role: Peer})
}

// accountFor is the account under which a peer asks to join, and whether that is its invite's. Where anyone may join, an invite that is
// good no longer counts as none.
func (i *Issuer) accountFor(now time.Time, r Request) (account string, invited bool, err error) {
	if r.Invite == "" && !i.policy.Closed {
		return AccountOfPeer(r.Peer), false, nil
	}
	in, err := i.readInvite(now, r.Invite)
	switch {
	case err == nil:
		return accountOfInvite(in.id), true, nil
	case !i.policy.Closed:
		return AccountOfPeer(r.Peer), false, nil
	}
	return "", false, err
}

// refused reports whether a peer may not be a member. Bans from before version 0.2 may be of a name that its user chose.
func (i *Issuer) refused(peer, account, label string) bool {
	return i.denied[peer] || i.denied[account] || label != "" && i.denied[label]
}

// Renew gives a member a newer certificate of the same account and role. held is the one that it shows; it may have ended within the
// policy's grace, or begin only later, as one that was given while this manager's clock was ahead.
func (i *Issuer) Renew(now time.Time, peer string, held []byte, v *Verifier) ([]byte, error) {
	c, err := v.VerifyCertificate(now, held)
	if errors.Is(err, ErrExpired) && now.Before(c.NotAfter.Add(i.policy.Grace)) || errors.Is(err, ErrNotYet) && !c.NotAfter.IsZero() {
		err = nil
	}
	if err != nil {
		return nil, err
	}
	if c.Peer != peer {
		return nil, fmt.Errorf("%w: the certificate is of another peer", ErrAltered)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.refused(peer, c.Account, c.Label) {
		return nil, ErrDenied
	}
	if wait := i.renewals.wait(now, peer); wait > 0 {
		return nil, fmt.Errorf("%w: renewed too often; try again in %s", ErrRate, wait.Round(time.Second))
	}
	i.renewals.take(now, peer)
	return i.certify(now, Certificate{Peer: peer, Account: c.Account, Label: c.Label, Role: c.Role})
}

// Appoint certifies one of the network's own servers, which is of no account.
func (i *Issuer) Appoint(now time.Time, peer string, role Role) ([]byte, error) {
	return i.certify(now, Certificate{Peer: peer, Role: role})
}

func (i *Issuer) certify(now time.Time, c Certificate) ([]byte, error) {
	c.NotBefore, c.NotAfter = now, now.Add(i.policy.Life)
	return i.authority.Certify(c)
}

// Deny refuses a peer or an account from now on, or no longer. What it holds is ended by the document that names it (Document.Banned).
func (i *Issuer) Deny(name string, deny bool) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !deny {
		delete(i.denied, name)
		return nil
	}
	if name == "" || len(name) > MaxAccount {
		return fmt.Errorf("member: deny %q: neither a peer id nor an account", clip(name))
	}
	if len(i.denied) >= maxDenied && !i.denied[name] {
		return fmt.Errorf("%w: %d are denied already; rotate to a closed network instead", ErrTooLarge, maxDenied)
	}
	i.denied[name] = true
	return nil
}

// HoldPrefix refuses every peer that joins from an address prefix until a time. A time in the past lifts the hold.
func (i *Issuer) HoldPrefix(prefix string, now, until time.Time) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for p, end := range i.held {
		if !now.Before(end) {
			delete(i.held, p)
		}
	}
	if delete(i.held, prefix); now.Before(until) && len(i.held) < maxDenied {
		i.held[prefix] = until
	}
}

// Prefix is what counts as one network address: /24 of IPv4, /48 of IPv6.
func Prefix(a netip.Addr) string {
	a = a.Unmap().WithZone("")
	if !a.IsValid() {
		return "unknown"
	}
	bits := 48
	if a.Is4() {
		bits = 24
	}
	p, err := a.Prefix(bits)
	if err != nil {
		return "unknown"
	}
	return p.String()
}

// buckets is a table of token buckets that forgets the longest unused one when full.
type buckets struct {
	rate  Rate
	of    map[string]*list.Element
	order *list.List // of *bucket, latest used first
}

type bucket struct {
	key  string
	full time.Time // when it will hold Burst tokens
}

func newBuckets(r Rate) buckets { return buckets{r, map[string]*list.Element{}, list.New()} }

// wait is how long until a token is there.
func (b *buckets) wait(now time.Time, key string) time.Duration {
	e := b.of[key]
	if e == nil {
		return 0
	}
	// The bucket lacks (full-now)/Every tokens; one must be left.
	return max(0, e.Value.(*bucket).full.Sub(now)-time.Duration(b.rate.Burst-1)*b.rate.Every)
}

func (b *buckets) take(now time.Time, key string) {
	e := b.of[key]
	if e == nil {
		if len(b.of) >= maxBuckets {
			last := b.order.Back()
			delete(b.of, last.Value.(*bucket).key)
			b.order.Remove(last)
		}
		e = b.order.PushFront(&bucket{key: key})
		b.of[key] = e
	}
	b.order.MoveToFront(e)
	k := e.Value.(*bucket)
	if k.full.Before(now) {
		k.full = now
	}
	k.full = k.full.Add(b.rate.Every)
}

// giveBack takes back a take.
func (b *buckets) giveBack(key string) {
	if e := b.of[key]; e != nil {
		k := e.Value.(*bucket)
		k.full = k.full.Add(-b.rate.Every)
	}
}
