package wire

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/peerstore"

	"shoal/internal/member"
	"shoal/internal/wire/wirepb"
)

// joiner makes a node a member and keeps it one, or makes it one that admits members.
type joiner struct {
	*greeter
	renewing *renewing
}

// Join makes the node a member, through one of the join string's managers. label is a name that its user chose, for show. Where the network
// asks for a proof of work, Join searches for one until ctx ends.
func (j *joiner) Join(ctx context.Context, s member.JoinString, label string) error {
	if s.Network != j.network {
		return fmt.Errorf("wire: the join string is of network %s, this node belongs to %s; use another folder to join another network", s.Network, j.network)
	}
	if err := member.CheckLabel(label); err != nil {
		return err
	}
	var managers servers
	managers.addJoin(s)
	if len(managers) == 0 {
		return fmt.Errorf("wire: the join string names no address that this version can use (%v); update it or ask for a new one", s.Addrs)
	}
	var proof []byte
	try := func() error {
		return j.obtain(ctx, managers, func() *wirepb.Hello {
			return &wirepb.Hello{Want: wantJoin, Label: label, Invite: s.Invite, Work: proof}
		}, func(k *Kept) {
			k.Join, k.Account = s.String(), label
		})
	}
	err := try()
	var asked *toll
	if !errors.As(err, &asked) {
		return err
	}
	if proof, err = j.prove(ctx, asked.work); err != nil {
		return err
	}
	return try()
}

// searchStep is how many numbers are tried between two looks at the context.
const searchStep = 1 << 14

// prove searches for a proof of work.
func (j *joiner) prove(ctx context.Context, w member.Work) ([]byte, error) {
	if err := w.Validate(); err != nil {
		return nil, err
	}
	j.log.Info("the network asks newcomers for a proof of work; searching for it", "bits", w.Bits)
	for from := uint64(0); ctx.Err() == nil; from += searchStep {
		if proof := w.Search(j.self.String(), from, searchStep); proof != nil {
			return proof, nil
		}
	}
	return nil, fmt.Errorf("wire: the proof of work that the network asks for was not found in time: %w", ctx.Err())
}

// Renew gets a newer certificate and document from a manager.
func (j *joiner) Renew(ctx context.Context) error {
	if i := j.issuer.Load(); i != nil {
		return j.appoint(i)
	}
	held := j.Certificate()
	if held == nil {
		return ErrNotJoined
	}
	return j.obtain(ctx, j.managers(), func() *wirepb.Hello { return &wirepb.Hello{Want: wantRenew, Certificate: held} }, func(*Kept) {})
}

// obtain asks the managers in turn until one issues a certificate. Of several failures a refusal tells most.
func (j *joiner) obtain(ctx context.Context, managers servers, hello func() *wirepb.Hello, keep func(*Kept)) error {
	failed := errors.New("wire: no manager is known")
	for i, m := range managers {
		err := j.obtainFrom(ctx, m, hello(), keep)
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

func (j *joiner) obtainFrom(ctx context.Context, m peer.AddrInfo, hello *wirepb.Hello, keep func(*Kept)) error {
	release := j.gate.Hold(m.ID)
	defer release()
	j.store.AddAddrs(m.ID, m.Addrs, peerstore.TempAddrTTL)
	j.gate.Backoff().Clear(m.ID) // the caller paces its tries itself
	c, err := j.gate.Dial(ctx, m.ID)
	if err != nil {
		return fmt.Errorf("%w: no manager answers at %v; is it running, and does no firewall stand between? (%w)", ErrUnreachable, m.Addrs, err)
	}
	w, err := j.ask(ctx, c, hello)
	if err != nil {
		if j.gate.MemberOf(c) == nil {
			c.Close()
		}
		return fmt.Errorf("manager %s: %w", m.ID, err)
	}
	if err := j.accept(c, w, keep); err != nil {
		if j.gate.MemberOf(c) == nil {
			c.Close()
		}
		return fmt.Errorf("manager %s: %w", m.ID, err)
	}
	j.greetAgain(c)
	return nil
}

// accept checks and takes what a manager issued.
func (j *joiner) accept(c network.Conn, w *reply, keep func(*Kept)) error {
	now := j.now()
	explain := func(err error) error {
		if s := clockStatus(now, time.UnixMilli(w.NowMs)); s != nil {
			return fmt.Errorf("%s (%w)", s.Text, err)
		}
		return err
	}
	if len(w.Document) > 0 {
		if _, err := j.take(w.Document); err != nil {
			return explain(err)
		}
	}
	if _, known := j.verifier.Document(); !known {
		return errors.New("wire: it sent no network document")
	}
	if d, _ := j.verifier.Document(); d.MinProtocol > Protocol {
		return &Status{Code: Outdated, Reason: "version", Text: fmt.Sprintf("this network speaks protocol version %d and later, this program %d; update it", d.MinProtocol, Protocol)}
	}
	m, err := j.check(c, w.Certificate)
	if err != nil {
		return explain(err)
	}
	if m.Role != member.Manager {
		return fmt.Errorf("%w: it is no manager but a %s", member.ErrRole, m.Role)
	}
	j.setClock(w)
	cert, err := j.verifier.VerifyCertificate(j.Now(), w.Issued)
	if err != nil {
		return explain(err)
	}
	if cert.Peer != j.self.String() {
		return fmt.Errorf("%w: it issued a certificate for %s, we are %s", member.ErrAltered, cert.Peer, j.self)
	}
	if err := j.install(w.Issued, keep); err != nil {
		return err
	}
	return j.admit(c, m, w.Certificate)
}

// SetIssuer makes the node one that admits members, under the issuer's authority, with the network document of now. It appoints itself
// to its role. A rotated working key comes as a new issuer with a new document.
func (j *joiner) SetIssuer(i *member.Issuer, document []byte) error {
	changed, err := j.takeBy(j.verifier.LearnOwn, document)
	if err != nil {
		return err
	}
	j.bar()
	j.issuer.Store(i)
	if err := j.appoint(i); err != nil {
		return err
	}
	if changed {
		j.dropOutdated()
	}
	return nil
}

// appoint renews the node's own certificate and shows it.
func (j *joiner) appoint(i *member.Issuer) error {
	sealed, err := i.Appoint(j.Now(), j.self.String(), j.role)
	if err != nil {
		return err
	}
	if _, err := j.verifier.VerifyCertificate(j.Now(), sealed); err != nil {
		return err
	}
	if err := j.install(sealed, func(*Kept) {}); err != nil {
		return err
	}
	j.greetAgain(nil)
	return nil
}
