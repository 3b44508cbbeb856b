package wire

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/peerstore"
	ma "github.com/multiformats/go-multiaddr"

	"shoal/internal/member"
	"shoal/internal/wire/wirepb"
)

// adoptKept takes what an earlier run left. What does not verify any more is dropped: renewing or joining replaces it.
func (n *Node) adoptKept() error {
	k := n.kept
	if k.Join != "" {
		id, err := k.Network()
		if err != nil {
			return err
		}
		if id != n.network {
			return fmt.Errorf("wire: this folder is a member of network %s, not of %s; use another folder", id, n.network)
		}
	}
	if k.Document != nil {
		if _, err := n.verifier.Recall(k.Document); err != nil {
			n.log.Warn("the kept network document is of no use", "err", err)
		}
	}
	return nil
}

// Certificate is our own, sealed; nil: none.
func (n *Node) Certificate() []byte {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.kept.Certificate
}

// valid reports whether there is a certificate that others should accept now.
func (n *Node) valid() bool {
	_, err := n.verifier.VerifyCertificate(n.Now(), n.Certificate())
	return err == nil
}

// Joined reports whether the node holds a certificate, be it valid or in need of renewal.
func (n *Node) Joined() bool { return n.Certificate() != nil }

// Kept is what the node would like to find again after a restart.
func (n *Node) Kept() Kept {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.kept
}

func (n *Node) documentIssued() int64 {
	if d, known := n.verifier.Document(); known {
		return d.Issued.UnixMilli()
	}
	return 0
}

// setClock takes a manager's clock, from its answer.
func (n *Node) setClock(r *reply) {
	// Beyond the skew somebody has to set a clock; correcting in silence would hide it. A slow answer tells little.
	if r.took < 10*time.Second && r.ahead.Abs() <= member.Skew {
		n.offset.Store(int64(r.ahead))
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

// managers are whom to ask for certificates: those of the document first, then those of the join string.
func (n *Node) managers() (l servers) {
	if d, known := n.verifier.Document(); known {
		l.addServers(d.Managers)
	}
	if j, err := member.ParseJoinString(n.Kept().Join); err == nil {
		l.addJoin(j)
	}
	return l
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

// Join makes the node a member, through one of the join string's managers.
func (n *Node) Join(ctx context.Context, j member.JoinString, account string) error {
	if j.Network != n.network {
		return fmt.Errorf("wire: the join string is of network %s, this node belongs to %s; use another folder to join another network", j.Network, n.network)
	}
	if err := member.CheckAccount(account); err != nil {
		return err
	}
	var managers servers
	managers.addJoin(j)
	if len(managers) == 0 {
		return fmt.Errorf("wire: the join string names no address that this version can use (%v); update it or ask for a new one", j.Addrs)
	}
	return n.obtain(ctx, managers, func() *wirepb.Hello { return &wirepb.Hello{Want: wantJoin, Account: account, Invite: j.Invite} }, func(k *Kept) {
		k.Join, k.Account = j.String(), account
	})
}

// Renew gets a newer certificate and document from a manager.
func (n *Node) Renew(ctx context.Context) error {
	if i := n.issuer.Load(); i != nil {
		return n.appoint(i)
	}
	held := n.Certificate()
	if held == nil {
		return ErrNotJoined
	}
	return n.obtain(ctx, n.managers(), func() *wirepb.Hello { return &wirepb.Hello{Want: wantRenew, Certificate: held} }, func(*Kept) {})
}

// obtain asks the managers in turn until one issues a certificate. Of several failures a refusal tells most.
func (n *Node) obtain(ctx context.Context, managers servers, hello func() *wirepb.Hello, keep func(*Kept)) error {
	failed := errors.New("wire: no manager is known")
	for i, m := range managers {
		err := n.obtainFrom(ctx, m, hello(), keep)
		if err == nil {
			return nil
		}
		if i == 0 || !isStatus(failed) {
			failed = err
		}
		if ctx.Err() != nil {
			break
		}
	}
	return failed
}

func (n *Node) obtainFrom(ctx context.Context, m peer.AddrInfo, hello *wirepb.Hello, keep func(*Kept)) error {
	release := n.gate.hold(m.ID)
	defer release()
	n.host.Peerstore().AddAddrs(m.ID, m.Addrs, peerstore.TempAddrTTL)
	n.gate.Backoff().Clear(m.ID) // whoever calls waits by himself
	c, err := n.gate.Swarm.DialPeer(ctx, m.ID)
	if err != nil {
		return fmt.Errorf("%w: no manager answers at %v; is it running, and does no firewall stand between? (%w)", ErrUnreachable, m.Addrs, err)
	}
	w, err := n.ask(ctx, c, hello)
	if err != nil {
		if n.gate.memberOf(c) == nil {
			c.Close()
		}
		return fmt.Errorf("manager %s: %w", m.ID, err)
	}
	if err := n.accept(c, w, keep); err != nil {
		if n.gate.memberOf(c) == nil {
			c.Close()
		}
		return fmt.Errorf("manager %s: %w", m.ID, err)
	}
	n.greetAgain(c)
	return nil
}

// accept checks and takes what a manager issued.
func (n *Node) accept(c network.Conn, w *reply, keep func(*Kept)) error {
	now := n.clock()
	explain := func(err error) error {
		if s := clockStatus(now, time.UnixMilli(w.NowMs)); s != nil {
			return fmt.Errorf("%s (%w)", s.Text, err)
		}
		return err
	}
	if len(w.Document) > 0 {
		if _, err := n.take(w.Document); err != nil {
			return explain(err)
		}
	}
	if _, known := n.verifier.Document(); !known {
		return errors.New("wire: it sent no network document")
	}
	if d, _ := n.verifier.Document(); d.MinProtocol > Protocol {
		return &Status{Code: Outdated, Reason: "version", Text: fmt.Sprintf("this network speaks protocol version %d and later, this program %d; update it", d.MinProtocol, Protocol)}
	}
	m, err := n.check(c, w.Certificate)
	if err != nil {
		return explain(err)
	}
	if m.Role != member.Manager {
		return fmt.Errorf("%w: it is no manager but a %s", member.ErrRole, m.Role)
	}
	n.setClock(w)
	cert, err := n.verifier.VerifyCertificate(n.Now(), w.Issued)
	if err != nil {
		return explain(err)
	}
	if cert.Peer != n.id.String() {
		return fmt.Errorf("%w: it issued a certificate for %s, we are %s", member.ErrAltered, cert.Peer, n.id)
	}
	if err := n.install(w.Issued, keep); err != nil {
		return err
	}
	return n.admit(c, m, w.Certificate)
}

// take learns a document, and where it says that the network's servers are.
func (n *Node) take(sealed []byte) (changed bool, err error) {
	old, _ := n.verifier.Document()
	d, changed, err := n.verifier.Learn(n.Now(), sealed)
	if err == nil && changed {
		n.rememberServers(old, d)
	}
	return changed, err
}

// rememberServers keeps the addresses of a document's servers for good, and no longer those of the document before.
func (n *Node) rememberServers(old, now member.Document) {
	known := map[string]bool{}
	defer n.servers.Store(&known)
	for _, step := range []struct {
		d   member.Document
		ttl time.Duration
	}{{old, peerstore.TempAddrTTL}, {now, peerstore.PermanentAddrTTL}} {
		var l servers
		l.addServers(step.d.Managers)
		l.addServers(step.d.Archives)
		l.addServers(step.d.Relays)
		for _, s := range l {
			if s.ID == n.id {
				continue
			}
			n.host.Peerstore().SetAddrs(s.ID, s.Addrs, step.ttl)
			for _, a := range s.Addrs {
				known[string(a.Bytes())] = true
			}
		}
	}
}

// admit makes a connection a member's. Servers are the last whose connections are given up.
func (n *Node) admit(c network.Conn, m Member, sealed []byte) error {
	if m.Role != member.Peer {
		n.host.ConnManager().TagPeer(m.Peer, "server", 100)
	}
	return n.gate.admit(c, m, sealed)
}

// install takes a certificate of our own.
func (n *Node) install(sealed []byte, change func(*Kept)) error {
	n.mu.Lock()
	n.kept.Certificate = sealed
	change(&n.kept)
	if doc := n.verifier.SealedDocument(); doc != nil {
		n.kept.Document = doc
	}
	k := n.kept
	n.mu.Unlock()
	if n.cfg.Keep == nil {
		return nil
	}
	if err := n.cfg.Keep(k); err != nil {
		return fmt.Errorf("wire: keep membership: %w", err)
	}
	return nil
}

// SetIssuer makes the node one that admits members, under the issuer's authority, with the network document of now. It appoints itself
// to its role. A rotated working key comes as a new issuer with a new document.
func (n *Node) SetIssuer(i *member.Issuer, document []byte) error {
	changed, err := n.take(document)
	if err != nil {
		return err
	}
	n.issuer.Store(i)
	if err := n.appoint(i); err != nil {
		return err
	}
	if changed {
		n.dropOutdated()
	}
	return nil
}

// appoint renews the node's own certificate and shows it.
func (n *Node) appoint(i *member.Issuer) error {
	sealed, err := i.Appoint(n.Now(), n.id.String(), n.cfg.Role)
	if err != nil {
		return err
	}
	if _, err := n.verifier.VerifyCertificate(n.Now(), sealed); err != nil {
		return err
	}
	if err := n.install(sealed, func(*Kept) {}); err != nil {
		return err
	}
	n.greetAgain(nil)
	return nil
}

// Learn takes a network document, as a manager does with its own. The members that are connected hear that there is one.
func (n *Node) Learn(sealed []byte) error {
	changed, err := n.take(sealed)
	if err != nil || !changed {
		return err
	}
	if cert := n.Certificate(); cert != nil {
		if err := n.install(cert, func(*Kept) {}); err != nil {
			return err
		}
	}
	if n.valid() {
		n.greetAgain(nil)
	} else {
		n.renewSoon()
	}
	n.dropOutdated()
	return nil
}

// learn takes a document that another member passed on.
func (n *Node) learn(sealed []byte) {
	if len(sealed) == 0 {
		return
	}
	if err := n.Learn(sealed); err != nil {
		n.rejectedErr(err)
		n.log.Warn("network document not taken", "err", err)
	}
}

// dropOutdated closes connections whose certificates a new document outdates, unless they show better ones in time.
func (n *Node) dropOutdated() {
	n.gate.spawn(func() {
		select {
		case <-n.ctx.Done():
			return
		case <-time.After(n.cfg.Gate):
		}
		for c, sealed := range n.gate.members() {
			if _, err := n.verifier.VerifyCertificate(n.Now(), sealed); err != nil {
				n.rejectedErr(err)
				expel(c)
			}
		}
	})
}

// greetAgain shows a new certificate on all connections but one.
func (n *Node) greetAgain(except network.Conn) {
	var conns []network.Conn
	for c := range n.gate.members() {
		if c != except {
			conns = append(conns, c)
		}
	}
	const atOnce = 8
	for k := range min(atOnce, len(conns)) {
		n.gate.spawn(func() {
			for i := k; i < len(conns) && n.ctx.Err() == nil; i += atOnce {
				n.greet(conns[i])
			}
		})
	}
}

func (n *Node) renewSoon() { poke(n.renew) }

// poke wakes who waits for c, now or later.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
