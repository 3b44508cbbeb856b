package wire

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	manet "github.com/multiformats/go-multiaddr/net"
	"github.com/multiformats/go-multistream"
	"google.golang.org/protobuf/proto"

	"shoal/internal/member"
	"shoal/internal/wire/wirepb"
)

// What a Hello wants.
const (
	wantKnown = iota
	wantJoin
	wantRenew
)

// greet shows our certificate on a connection and takes the other's.
func (n *Node) greet(c network.Conn) {
	ctx, cancel := context.WithTimeout(n.ctx, n.cfg.Patience)
	defer cancel()
	w, err := n.ask(ctx, c, &wirepb.Hello{Want: wantKnown, Certificate: n.Certificate()})
	if err == nil {
		// The document first: the other's certificate may be of a key that outdates the one that we know.
		n.learn(w.Document)
		var m Member
		if m, err = n.check(c, w.Certificate); err == nil {
			if m.Role == member.Manager {
				n.setClock(w)
			}
			err = n.admit(c, m, w.Certificate)
		}
		if err == nil {
			return
		}
		n.rejectedErr(err)
		if errors.Is(err, Outdated) && n.gate.memberOf(c) != nil {
			return // it has just heard of the newer keys; dropOutdated closes if it does not renew
		}
	} else if n.ctx.Err() != nil || c.IsClosed() {
		return
	} else if isStatus(err) {
		n.rejected("refused_by_other")
		if errors.Is(err, Outdated) {
			n.renewSoon() // it may know newer keys than we do
		}
	}
	n.log.Debug("not admitted", "peer", c.RemotePeer(), "err", err)
	expel(c)
}

// reply is a Welcome with what its way told of the other's clock.
type reply struct {
	*wirepb.Welcome
	took  time.Duration
	ahead time.Duration // of ours
}

// ask sends a Hello and reads the Welcome. A refusal is a *Status.
func (n *Node) ask(ctx context.Context, c network.Conn, h *wirepb.Hello) (*reply, error) {
	s, err := c.NewStream(network.WithAllowLimitedConn(ctx, "greeting"))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	defer reset(s) // after Close it does nothing
	stop := context.AfterFunc(ctx, func() { reset(s) })
	defer stop()
	if err := s.SetProtocol(ProtoMember); err != nil {
		return nil, err
	}
	if err := s.SetDeadline(time.Now().Add(n.cfg.Patience)); err != nil {
		return nil, err
	}
	h.Version, h.Network = Protocol, n.network[:]
	h.DocumentIssuedMs = n.documentIssued()
	sent := n.clock()
	h.NowMs = sent.UnixMilli()
	b, err := proto.Marshal(h)
	if err != nil {
		return nil, err
	}
	rw := multistream.NewMSSelect(s, ProtoMember)
	if err := writeFrame(rw, nil, b); err != nil {
		return nil, fmt.Errorf("%w: show certificate: %w", ErrUnreachable, err)
	}
	_ = s.CloseWrite() // the answer tells
	b, err = readFrame(bufio.NewReaderSize(rw, 1024), maxWelcome, func(int) error { return nil })
	if err != nil {
		return nil, fmt.Errorf("%w: show certificate: %w", ErrUnreachable, err)
	}
	s.Close()
	return readWelcome(b, sent, n.clock())
}

// readWelcome reads the answer to a Hello. A refusal is a *Status.
func readWelcome(b []byte, sent, now time.Time) (*reply, error) {
	var w wirepb.Welcome
	if err := proto.Unmarshal(b, &w); err != nil {
		return nil, &Status{Code: Malformed, Text: clip("wire: its answer to our certificate cannot be read: "+err.Error(), maxText)}
	}
	if w.Code > math.MaxUint8 { // else it would pass for a smaller one
		return nil, &Status{Code: Malformed, Text: fmt.Sprintf("wire: its answer to our certificate has the code %d", w.Code)}
	}
	r := &reply{Welcome: &w, took: now.Sub(sent)}
	r.ahead = time.UnixMilli(w.NowMs).Sub(sent.Add(r.took / 2))
	if Code(w.Code) != ok {
		return nil, &Status{Code: Code(w.Code), Reason: clip(w.Reason, 32), Text: clip(w.Text, maxText)}
	}
	return r, nil
}

// check verifies a certificate for the peer at the other end.
func (n *Node) check(c network.Conn, sealed []byte) (Member, error) {
	if len(sealed) == 0 {
		return Member{}, errNotMember
	}
	cert, err := n.verifier.VerifyCertificate(n.Now(), sealed)
	if err != nil {
		return Member{}, refusal(err)
	}
	if cert.Peer != c.RemotePeer().String() {
		return Member{}, refusal(fmt.Errorf("%w: the certificate is of another peer", member.ErrAltered))
	}
	return Member{Peer: c.RemotePeer(), Account: cert.Account, Role: cert.Role, NotAfter: cert.NotAfter}, nil
}

// refusal puts package member's reasons into a Status of the caller's own.
func refusal(err error) *Status {
	var known *Status
	if errors.As(err, &known) {
		own := *known
		return &own
	}
	s := &Status{Code: NotMember, Reason: member.Reason(err), Text: err.Error()}
	switch {
	case errors.Is(err, member.ErrOutdated), errors.Is(err, member.ErrExpired):
		s.Code = Outdated
	case errors.Is(err, member.ErrRate):
		s.Code, s.Reason = Busy, "rate"
	case errors.Is(err, member.ErrInvite):
		s.Code, s.Reason = Refused, "invite"
	case errors.Is(err, member.ErrDenied):
		s.Code, s.Reason = Refused, "denied"
	}
	return s
}

// answer negotiates a stream of a connection that is no member's: it gets the gate's protocol or nothing.
func (n *Node) answer(s network.Stream) {
	if err := s.SetDeadline(time.Now().Add(n.cfg.Patience)); err != nil {
		reset(s)
		return
	}
	p, _, err := n.lobby.Negotiate(s)
	if err != nil {
		n.rejected("other_protocol")
		_ = s.ResetWithError(network.StreamProtocolNegotiationFailed)
		return
	}
	switch p {
	case ProtoMember:
	case ProtoSeen:
		n.tellSeen(s)
		return
	default:
		n.dialBack(s)
		return
	}
	if err := s.SetProtocol(p); err != nil {
		_ = s.ResetWithError(network.StreamResourceLimitExceeded)
		return
	}
	n.serveMember(s)
}

// serveMember answers a Hello.
func (n *Node) serveMember(s network.Stream) {
	if !n.enter() {
		reset(s)
		return
	}
	defer n.leave()
	key := callKey{s.Conn().RemotePeer(), ProtoMember}
	if !n.begin(key) {
		n.rejected("too_many_greetings")
		reset(s)
		return
	}
	defer n.end(key)
	defer s.Close()
	if err := s.SetDeadline(time.Now().Add(n.cfg.Patience)); err != nil {
		reset(s)
		return
	}
	var h wirepb.Hello
	b, err := readFrame(bufio.NewReaderSize(s, 1024), maxHello, func(int) error { return nil })
	if err == nil {
		err = proto.Unmarshal(b, &h)
	}
	if err != nil {
		n.rejected("malformed")
		reset(s)
		return
	}
	w, admit := n.welcome(s.Conn(), &h)
	w.NowMs = n.clock().UnixMilli()
	if Code(w.Code) != ok {
		n.rejected(w.Reason)
	} else if doc, issued := n.verifier.SealedDocument(), n.documentIssued(); issued > h.DocumentIssuedMs {
		w.Document = doc
	}
	if b, err = proto.Marshal(w); err == nil {
		err = writeFrame(s, nil, b)
	}
	if err != nil {
		reset(s)
		return
	}
	if admit == nil {
		return
	}
	admit()
	if h.DocumentIssuedMs > n.documentIssued() && n.valid() {
		n.gate.spawn(func() { n.greet(s.Conn()) }) // its answer brings the document
	}
}

// welcome decides on a Hello; admit is what follows once the answer is sent.
func (n *Node) welcome(c network.Conn, h *wirepb.Hello) (w *wirepb.Welcome, admit func()) {
	refuse := func(s *Status) (*wirepb.Welcome, func()) {
		return &wirepb.Welcome{Code: uint32(s.Code), Reason: s.Reason, Text: clip(s.Text, maxText)}, nil
	}
	if string(h.Network) != string(n.network[:]) {
		return refuse(refusal(fmt.Errorf("%w than ours, which is %s", member.ErrOtherNetwork, n.network)))
	}
	if d, known := n.verifier.Document(); known && h.Version < d.MinProtocol {
		return refuse(&Status{Code: Outdated, Reason: "version",
			Text: fmt.Sprintf("this network speaks protocol version %d and later, your program %d; update it", d.MinProtocol, h.Version)})
	}
	issuer := n.issuer.Load()
	if h.Want != wantKnown {
		if issuer == nil {
			return refuse(&Status{Code: Refused, Reason: "no_issuer", Text: "this peer cannot admit members; ask a manager of the network"})
		}
		if s := clockStatus(time.UnixMilli(h.NowMs), n.clock()); s != nil {
			return refuse(s)
		}
	}
	own := n.Certificate()
	if own == nil {
		return refuse(&Status{Code: NotMember, Reason: "not_joined", Text: "this peer has not joined the network itself yet"})
	}
	w = &wirepb.Welcome{Certificate: own}
	shown := h.Certificate
	var err error
	switch h.Want {
	case wantKnown:
	case wantJoin:
		w.Issued, err = issuer.Issue(n.Now(), member.Request{Peer: c.RemotePeer().String(), Addr: remoteAddr(c), Account: h.Account, Invite: h.Invite})
		shown = w.Issued
	case wantRenew:
		w.Issued, err = issuer.Renew(n.Now(), c.RemotePeer().String(), h.Certificate, n.verifier)
		shown = w.Issued
	default:
		return refuse(&Status{Code: Malformed, Reason: "malformed", Text: fmt.Sprintf("unknown request %d at the gate; update this program", h.Want)})
	}
	if err != nil {
		return refuse(refusal(err))
	}
	m, err := n.check(c, shown)
	if err != nil {
		s := refusal(err)
		if other := clockStatus(time.UnixMilli(h.NowMs), n.clock()); other != nil {
			s.Text += "; " + other.Text
		}
		return refuse(s)
	}
	return w, func() {
		if n.admit(c, m, shown) == nil && h.Want == wantJoin {
			n.joined.Inc()
		}
	}
}

func remoteAddr(c network.Conn) netip.Addr {
	ip, err := manet.ToIP(c.RemoteMultiaddr())
	if err != nil {
		return netip.Addr{}
	}
	a, _ := netip.AddrFromSlice(ip)
	return a
}

// clockStatus says how the asker's clock differs, if it differs too much.
func clockStatus(theirs, ours time.Time) *Status {
	ahead := theirs.Sub(ours)
	way := "ahead of"
	if ahead < 0 {
		ahead, way = -ahead, "behind"
	}
	if ahead <= member.Skew {
		return nil
	}
	return &Status{Code: Clock, Reason: "clock", Text: fmt.Sprintf("your clock is %s %s the manager's; set it and try again", roughly(ahead), way)}
}

// roughly is a duration as one says it.
func roughly(d time.Duration) string {
	for _, u := range []struct {
		unit time.Duration
		name string
	}{{24 * time.Hour, "days"}, {time.Hour, "hours"}, {time.Minute, "minutes"}} {
		if d >= 2*u.unit {
			return fmt.Sprintf("%d %s", d.Round(u.unit)/u.unit, u.name)
		}
	}
	return fmt.Sprintf("%d seconds", d.Round(time.Second)/time.Second)
}
