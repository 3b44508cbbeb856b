package wire

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/multiformats/go-multistream"
	"google.golang.org/protobuf/proto"

	"shoal/channel"
	"shoal/internal/member"
	"shoal/internal/wire/frame"
	"shoal/internal/wire/wirepb"
)

// What a Hello wants.
const (
	wantKnown = iota
	wantJoin
	wantRenew
)

// greeter shows and checks certificates on connections, and passes on network documents.
type greeter struct {
	*papers
	*conns
	role     member.Role
	patience time.Duration
	expel    time.Duration                              // after which a connection closes whose certificate is outdated
	lobby    *multistream.MultistreamMuxer[protocol.ID] // what a connection gets before it is a member's
	reach    *reach
	greeting *counts
	numbers  *numbers
	life     *life
	log      *slog.Logger
	renew    chan struct{} // asks the joiner to renew now
	court    court
}

// greet shows our certificate on a connection and takes the other's.
func (g *greeter) greet(ctx context.Context, c network.Conn) {
	ctx, cancel := context.WithTimeout(ctx, g.patience)
	defer cancel()
	w, err := g.ask(ctx, c, &wirepb.Hello{Want: wantKnown, Certificate: g.Certificate()})
	if err == nil {
		// The document first: the other's certificate may be of a key that outdates the one that we know.
		g.learn(w.Document)
		var m Member
		if m, err = g.check(c, w.Certificate); err == nil {
			if m.Role == member.Manager {
				g.setClock(w)
			}
			if err = g.admit(c, m, w.Certificate); err != nil && c.IsClosed() && !errors.Is(err, errBanned) {
				return // it has ended meanwhile, and callers are told that it is gone
			}
		}
		if err == nil {
			return
		}
		g.numbers.rejectedErr(err)
		if errors.Is(err, Outdated) && g.gate.MemberOf(c) != nil {
			return // it has just heard of the newer keys; dropOutdated closes if it does not renew
		}
	} else if g.life.over() || c.IsClosed() && !isStatus(err) {
		return
	} else if isStatus(err) {
		g.numbers.rejected("refused_by_other")
		if errors.Is(err, Outdated) {
			g.renewSoon() // it may know newer keys than we do
		}
	} else if g.gate.MemberOf(c) != nil {
		return // a busy member has not answered in time, and is one still: what is under way goes on
	}
	g.log.Debug("not admitted", "peer", c.RemotePeer(), "err", err)
	g.court.settle(c.RemotePeer())
	g.gate.Reject(c, noMember(err))
}

// noMember is what callers are told of a greeting that has failed: that the connection is no member's, and as far as either side said so, why.
func noMember(err error) error {
	var s *Status
	if !errors.As(err, &s) {
		return fmt.Errorf("%w: %w", errGone, err)
	}
	return &Status{Code: NotMember, Reason: s.Reason, Text: s.Text}
}

// reply is a Welcome with what its way told of the other's clock.
type reply struct {
	*wirepb.Welcome
	took  time.Duration
	ahead time.Duration // of ours
}

// ask sends a Hello and reads the Welcome. A refusal is a *Status.
func (g *greeter) ask(ctx context.Context, c network.Conn, h *wirepb.Hello) (*reply, error) {
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
	if err := s.SetDeadline(time.Now().Add(g.patience)); err != nil {
		return nil, err
	}
	h.Version, h.Network = Protocol, g.network[:]
	h.DocumentIssuedMs = g.documentIssued()
	sent := g.now()
	h.NowMs = sent.UnixMilli()
	b, err := proto.Marshal(h)
	if err != nil {
		return nil, err
	}
	rw := multistream.NewMSSelect(s, ProtoMember)
	if err := frame.Write(rw, nil, b); err != nil {
		return nil, fmt.Errorf("%w: show certificate: %w", ErrUnreachable, err)
	}
	_ = s.CloseWrite() // the answer tells
	b, err = frame.Read(bufio.NewReaderSize(rw, 1024), maxWelcome, frame.Budget{})
	if err != nil {
		return nil, fmt.Errorf("%w: show certificate: %w", ErrUnreachable, err)
	}
	s.Close()
	return readWelcome(b, sent, g.now())
}

// readWelcome reads the answer to a Hello. A refusal is a *Status.
func readWelcome(b []byte, sent, now time.Time) (*reply, error) {
	var w wirepb.Welcome
	if err := proto.Unmarshal(b, &w); err != nil {
		return nil, &Status{Code: Malformed, Text: channel.PlainText("wire: its answer to our certificate cannot be read: "+err.Error(), maxText)}
	}
	if w.Code > math.MaxUint8 { // else it would pass for a smaller one
		return nil, &Status{Code: Malformed, Text: fmt.Sprintf("wire: its answer to our certificate has the code %d", w.Code)}
	}
	r := &reply{Welcome: &w, took: now.Sub(sent)}
	r.ahead = time.UnixMilli(w.NowMs).Sub(sent.Add(r.took / 2))
	if Code(w.Code) == ok {
		return r, nil
	}
	refused := &Status{Code: Code(w.Code), Reason: channel.PlainText(w.Reason, maxReason), Text: channel.PlainText(w.Text, maxText)}
	if w.WorkBits == 0 {
		return nil, refused
	}
	return nil, &toll{refused, member.Work{Bits: uint8(min(w.WorkBits, math.MaxUint8)), Salt: w.WorkSalt}}
}

// toll is a refusal that ends with a proof of work.
type toll struct {
	*Status
	work member.Work
}

// Unwrap gives the Status to errors.As.
func (t *toll) Unwrap() error { return t.Status }

// check verifies a certificate for the peer at the other end.
func (g *greeter) check(c network.Conn, sealed []byte) (Member, error) {
	if len(sealed) == 0 {
		return Member{}, errNotMember
	}
	cert, err := g.verifier.VerifyCertificate(g.Now(), sealed)
	if err != nil {
		return Member{}, refusal(err)
	}
	if cert.Peer != c.RemotePeer().String() {
		return Member{}, refusal(fmt.Errorf("%w: the certificate is of another peer", member.ErrAltered))
	}
	return Member{Peer: c.RemotePeer(), Account: cert.Account, Label: cert.Label, Role: cert.Role, NotAfter: cert.NotAfter, Prefix: publicPrefix(c)}, nil
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
	case errors.Is(err, member.ErrLedger):
		s.Code, s.Reason, s.Text = Busy, "ledger", member.ErrLedger.Error()
	case errors.Is(err, member.ErrWork):
		s.Code, s.Reason = Refused, "work"
	case errors.Is(err, member.ErrInvite):
		s.Code, s.Reason = Refused, "invite"
	case errors.Is(err, member.ErrDenied):
		s.Code, s.Reason = Refused, "denied"
	}
	return s
}

// answer negotiates a stream of a connection that is no member's: it gets the gate's protocol or nothing.
func (g *greeter) answer(s network.Stream) {
	if err := s.SetDeadline(time.Now().Add(g.patience)); err != nil {
		reset(s)
		return
	}
	p, _, err := g.lobby.Negotiate(s)
	if err != nil {
		g.numbers.rejected("other_protocol")
		_ = s.ResetWithError(network.StreamProtocolNegotiationFailed)
		return
	}
	switch p {
	case ProtoMember, ProtoStanding:
	case ProtoSeen:
		g.reach.tellSeen(s)
		return
	default:
		g.reach.dialBack(s)
		return
	}
	if err := s.SetProtocol(p); err != nil {
		_ = s.ResetWithError(network.StreamResourceLimitExceeded)
		return
	}
	if p == ProtoStanding {
		g.serveStanding(s)
		return
	}
	g.serveMember(s)
}

// serveMember answers a Hello.
func (g *greeter) serveMember(s network.Stream) {
	_, leave, alive := g.life.enter(context.Background())
	if !alive {
		reset(s)
		return
	}
	defer leave()
	key := callKey{s.Conn().RemotePeer(), ProtoMember}
	if !g.greeting.begin(key) {
		g.numbers.rejected("too_many_greetings")
		reset(s)
		return
	}
	defer g.greeting.end(key)
	defer s.Close()
	if err := s.SetDeadline(time.Now().Add(g.patience)); err != nil {
		reset(s)
		return
	}
	var h wirepb.Hello
	b, err := frame.Read(bufio.NewReaderSize(s, 1024), maxHello, frame.Budget{})
	if err == nil {
		err = proto.Unmarshal(b, &h)
	}
	if err != nil {
		g.numbers.rejected("malformed")
		reset(s)
		return
	}
	if g.begins(&h) {
		g.numbers.rejected("begins")
		reset(s)
		return
	}
	w, admit := g.welcome(s.Conn(), &h)
	w.NowMs = g.now().UnixMilli()
	if Code(w.Code) != ok {
		g.numbers.rejected(w.Reason)
	} else if doc, issued := g.verifier.SealedDocument(), g.documentIssued(); issued > h.DocumentIssuedMs {
		w.Document = doc
	}
	if b, err = proto.Marshal(w); err == nil {
		err = frame.Write(s, nil, b)
	}
	if err != nil {
		reset(s)
		return
	}
	if admit == nil {
		return
	}
	admit()
	if h.DocumentIssuedMs > g.documentIssued() && g.valid() {
		g.life.spawn(func(ctx context.Context) { g.greet(ctx, s.Conn()) }) // its answer brings the document
	}
}

// begins tells whether this is a manager that has just started, and can neither admit nor show a certificate yet. Who asks hears nothing, and so comes again soon: a
// refusal would be its word for long.
func (g *greeter) begins(h *wirepb.Hello) bool {
	return g.role == member.Manager && (h.Want != wantKnown && g.issuer.Load() == nil || g.Certificate() == nil)
}

// welcome decides on a Hello; admit is what follows once the answer is sent.
func (g *greeter) welcome(c network.Conn, h *wirepb.Hello) (w *wirepb.Welcome, admit func()) {
	refuse := func(s *Status) (*wirepb.Welcome, func()) {
		return &wirepb.Welcome{Code: uint32(s.Code), Reason: s.Reason, Text: clip(s.Text, maxText)}, nil
	}
	if string(h.Network) != string(g.network[:]) {
		return refuse(refusal(fmt.Errorf("%w than ours, which is %s", member.ErrOtherNetwork, g.network)))
	}
	if d, known := g.verifier.Document(); known && h.Version < d.MinProtocol {
		return refuse(&Status{Code: Outdated, Reason: "version",
			Text: fmt.Sprintf("this network speaks protocol version %d and later, your program %d; update it", d.MinProtocol, h.Version)})
	}
	issuer := g.issuer.Load()
	if h.Want != wantKnown {
		if issuer == nil {
			return refuse(&Status{Code: Refused, Reason: "no_issuer", Text: "this peer cannot admit members; ask a manager of the network"})
		}
		if s := clockStatus(time.UnixMilli(h.NowMs), g.now()); s != nil {
			return refuse(s)
		}
	}
	own := g.Certificate()
	if own == nil {
		return refuse(&Status{Code: NotMember, Reason: "not_joined", Text: "this peer has not joined the network itself yet"})
	}
	w = &wirepb.Welcome{Certificate: own}
	shown := h.Certificate
	var err error
	switch h.Want {
	case wantKnown:
	case wantJoin:
		w.Issued, err = issuer.Issue(g.Now(), member.Request{Peer: c.RemotePeer().String(), Addr: remoteAddr(c), Label: h.Label, Invite: h.Invite, Work: h.Work})
		shown = w.Issued
		if errors.Is(err, member.ErrLedger) {
			g.log.Error("the use of an invite was not kept, so nobody joined by it", "err", err)
		}
	case wantRenew:
		w.Issued, err = issuer.Renew(g.Now(), c.RemotePeer().String(), h.Certificate, g.verifier)
		shown = w.Issued
	default:
		return refuse(&Status{Code: Malformed, Reason: "malformed", Text: fmt.Sprintf("unknown request %d at the gate; update this program", h.Want)})
	}
	if err != nil {
		w, _ := refuse(refusal(err))
		if work, werr := issuer.Work(g.Now()); errors.Is(err, member.ErrWork) && werr == nil {
			w.WorkBits, w.WorkSalt = uint32(work.Bits), work.Salt
		}
		return w, nil
	}
	m, err := g.check(c, shown)
	if err != nil {
		s := refusal(err)
		if other := clockStatus(time.UnixMilli(h.NowMs), g.now()); other != nil {
			s.Text += "; " + other.Text
		}
		return refuse(s)
	}
	return w, func() {
		if g.admit(c, m, shown) == nil && h.Want == wantJoin {
			g.numbers.joined.Inc()
		}
	}
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
