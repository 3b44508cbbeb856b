package wire

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/peerstore"
	ma "github.com/multiformats/go-multiaddr"

	"shoal/internal/member"
)

// papers are what a node holds and knows of its network: its certificate, the newest document, the manager's clock.
type papers struct {
	network  member.NetworkID
	self     peer.ID
	verifier *member.Verifier
	keep     func(Kept) error // nil: nothing is kept
	now      func() time.Time // the own clock
	log      *slog.Logger
	store    peerstore.Peerstore

	issuer  atomic.Pointer[member.Issuer]   // nil: it admits no members
	offset  atomic.Int64                    // nanoseconds that the manager's clock is ahead of ours
	servers atomic.Pointer[map[string]bool] // their addresses, as bytes

	mu   sync.Mutex // guards all below
	kept Kept
}

// Network is the network that it belongs to.
func (p *papers) Network() member.NetworkID { return p.network }

// Verifier checks tasks, certificates and documents against the newest document that the node has learnt.
func (p *papers) Verifier() *member.Verifier { return p.verifier }

// Document is the newest network document, and whether there is one.
func (p *papers) Document() (member.Document, bool) { return p.verifier.Document() }

// Now is the network's time: the own clock, corrected by what the managers' answers told of theirs. Deadlines that a manager sets are
// compared with it.
func (p *papers) Now() time.Time { return p.now().Add(time.Duration(p.offset.Load())) }

// adoptKept takes what an earlier run left. What does not verify any more is dropped: renewing or joining replaces it.
func (p *papers) adoptKept() error {
	k := p.kept
	if k.Join != "" {
		id, err := k.Network()
		if err != nil {
			return err
		}
		if id != p.network {
			return fmt.Errorf("wire: this folder is a member of network %s, not of %s; use another folder", id, p.network)
		}
	}
	if k.Document != nil {
		if _, err := p.verifier.Recall(k.Document); err != nil {
			p.log.Warn("the kept network document is of no use", "err", err)
		}
	}
	return nil
}

// Certificate is our own, sealed; nil: none.
func (p *papers) Certificate() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.kept.Certificate
}

// valid reports whether there is a certificate that others should accept now.
func (p *papers) valid() bool {
	_, err := p.verifier.VerifyCertificate(p.Now(), p.Certificate())
	return err == nil
}

// Joined reports whether the node holds a certificate, be it valid or in need of renewal.
func (p *papers) Joined() bool { return p.Certificate() != nil }

// Kept is what the node would like to find again after a restart.
func (p *papers) Kept() Kept {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.kept
}

// documentIssued is the date of the newest document, in Unix milliseconds, as nodes tell each other which they hold; 0: there is none, or it was signed by a clock that was
// ahead. Such a one is not passed on, and any other may take its place.
func (p *papers) documentIssued() int64 {
	if d, known := p.verifier.Document(); known && !p.verifier.Ahead(p.Now()) {
		return d.Issued.UnixMilli()
	}
	return 0
}

// setClock takes a manager's clock, from its answer.
func (p *papers) setClock(r *reply) {
	// Beyond the skew a clock must be set; correcting it in silence would hide that. A slow answer says little.
	if r.took < 10*time.Second && r.ahead.Abs() <= member.Skew {
		p.offset.Store(int64(r.ahead))
	}
}

// install takes a certificate of our own.
func (p *papers) install(sealed []byte, change func(*Kept)) error {
	p.mu.Lock()
	p.kept.Certificate = sealed
	change(&p.kept)
	if doc := p.verifier.SealedDocument(); doc != nil {
		p.kept.Document = doc
	}
	k := p.kept
	p.mu.Unlock()
	if p.keep == nil {
		return nil
	}
	if err := p.keep(k); err != nil {
		return fmt.Errorf("wire: keep membership: %w", err)
	}
	return nil
}

// managers are whom to ask for certificates: those of the document first, then those of the join string.
func (p *papers) managers() (l servers) {
	if d, known := p.verifier.Document(); known {
		l.addServers(d.Managers)
	}
	if j, err := member.ParseJoinString(p.Kept().Join); err == nil {
		l.addJoin(j)
	}
	return l
}

// take learns a document, and where it says that the network's servers are.
func (p *papers) take(sealed []byte) (changed bool, err error) {
	return p.takeBy(p.verifier.Learn, sealed)
}

// takeBy does that by one of the verifier's ways.
func (p *papers) takeBy(learn func(time.Time, []byte) (member.Document, bool, error), sealed []byte) (changed bool, err error) {
	old, _ := p.verifier.Document()
	d, changed, err := learn(p.Now(), sealed)
	if err == nil && changed {
		p.rememberServers(old, d)
	}
	return changed, err
}

// rememberServers keeps the addresses of a document's servers for good, and no longer those of the document before.
func (p *papers) rememberServers(old, now member.Document) {
	known := map[string]bool{}
	defer p.servers.Store(&known)
	for _, step := range []struct {
		d   member.Document
		ttl time.Duration
	}{{old, peerstore.TempAddrTTL}, {now, peerstore.PermanentAddrTTL}} {
		var l servers
		l.addServers(step.d.Managers)
		l.addServers(step.d.Archives)
		l.addServers(step.d.Relays)
		for _, s := range l {
			if s.ID == p.self {
				continue
			}
			p.store.SetAddrs(s.ID, s.Addrs, step.ttl)
			for _, a := range s.Addrs {
				known[string(a.Bytes())] = true
			}
		}
	}
}

// servers are peers with their addresses, each peer once, in order of first mention.
type servers []peer.AddrInfo

func (l *servers) add(id peer.ID, addrs ...ma.Multiaddr) {
	for i := range *l {
		if (*l)[i].ID == id {
			(*l)[i].Addrs = append((*l)[i].Addrs, addrs...)
			return
		}
	}
	*l = append(*l, peer.AddrInfo{ID: id, Addrs: addrs})
}

func (l *servers) addServers(list []member.Server) {
	for _, s := range list {
		if id, err := peer.Decode(s.Peer); err == nil {
			l.add(id, parseAddrs(s.Addrs)...)
		}
	}
}

func (l *servers) addJoin(j member.JoinString) {
	for _, a := range parseAddrs(j.Addrs) {
		if t, id := peer.SplitAddr(a); id != "" && t != nil {
			l.add(id, t)
		}
	}
}

// isServer reports whether an address is one of the document's servers.
func (p *papers) isServer(a ma.Multiaddr) bool {
	known := p.servers.Load()
	return known != nil && (*known)[string(a.Bytes())]
}

// parseAddrs drops what it cannot read: a newer manager may name transports that this version does not know.
func parseAddrs(in []string) (out []ma.Multiaddr) {
	for _, s := range in {
		if a, err := ma.NewMultiaddr(s); err == nil {
			out = append(out, a)
		}
	}
	return out
}
