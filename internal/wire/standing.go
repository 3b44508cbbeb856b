package wire

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/peerstore"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/multiformats/go-multistream"
	"google.golang.org/protobuf/proto"

	"shoal/channel"
	"shoal/internal/member"
	"shoal/internal/wire/frame"
	"shoal/internal/wire/wirepb"
)

// ProtoStanding asks a manager how far it believes the asker. Who is no member may ask too: a suspended peer is none any more.
const ProtoStanding protocol.ID = "/shoal/standing/1"

// Limits of a standing.
const (
	MaxHeld      = 20   // cases of an answer
	MaxObjection = 1000 // bytes
	maxStandAsk  = MaxObjection + 1024
	maxStanding  = 96 << 10
	maxHeldURL   = 2048
	standTries   = 3                     // the connection of one that is no member may close at any moment
	standWait    = time.Second           // for an answer under way, before such a connection is closed
	standLook    = 50 * time.Millisecond // between two looks at that
)

// StandingAsk is what a peer wants besides its standing. The zero StandingAsk wants nothing more.
type StandingAsk struct {
	Objection Objection
	Profile   *Profile // that its account is shown with from now on; nil: as before
	Certify   bool     // a certificate of contribution
	Name      string   // that is to stand on it
}

// Objection is a peer's word about one case against it. Case 0: there is none.
type Objection struct {
	Case uint64
	Text string
}

// Standing is how far a manager believes a peer.
type Standing struct {
	Standing  string // newcomer, established, suspended, banned; empty: unknown
	Suspect   bool
	Waits     bool    // a newcomer that gets no tasks, since others of its address prefix have the places there
	Enforced  bool    // false: nothing follows from scores
	Score     float64 // the highest
	SuspendAt float64
	Held      []Held // the newest first, at most MaxHeld
	More      int    // cases that are left out
	Refused   string // why what was asked for was not done; empty: it was, or nothing was

	Credit      *Credit // nil: the manager keeps none
	Certificate string  // that was asked for
}

// Held is one case against a peer.
type Held struct {
	Case      uint64
	URL       string
	Reason    string
	Ruled     time.Time
	Amount    float64 // that was added to the score
	Objection string  // that was made; empty: none yet
}

// Court answers peers about themselves.
type Court func(ctx context.Context, from peer.ID, ask StandingAsk) (Standing, error)

func (s *Standing) marshal() ([]byte, error) {
	m := &wirepb.Standing{Standing: s.Standing, Suspect: s.Suspect, Waits: s.Waits, Enforced: s.Enforced, Score: s.Score, SuspendAt: s.SuspendAt, More: uint32(min(max(s.More, 0), math.MaxInt32)), Refused: clip(s.Refused, maxText)}
	for i := range s.Held[:min(len(s.Held), MaxHeld)] {
		h := &s.Held[i]
		m.Held = append(m.Held, &wirepb.Held{Case: h.Case, Url: clip(h.URL, maxHeldURL), Reason: clip(h.Reason, maxText), RuledUs: h.Ruled.UnixMicro(), Amount: h.Amount, Objection: clip(h.Objection, MaxObjection)})
	}
	m.Credit, m.Certificate = s.Credit.proto(), clip(s.Certificate, member.MaxContribution)
	return proto.Marshal(m)
}

func readStanding(b []byte) (*Standing, error) {
	var m wirepb.Standing
	if err := proto.Unmarshal(b, &m); err != nil {
		return nil, err
	}
	s := &Standing{Standing: channel.PlainText(m.Standing, maxReason), Suspect: m.Suspect, Waits: m.Waits, Enforced: m.Enforced, Score: finite(m.Score), SuspendAt: finite(m.SuspendAt), More: int(min(m.More, math.MaxInt32)), Refused: channel.PlainText(m.Refused, maxText)}
	for _, h := range m.Held[:min(len(m.Held), MaxHeld)] {
		s.Held = append(s.Held, Held{h.Case, channel.PlainText(h.Url, maxHeldURL), channel.PlainText(h.Reason, maxText), time.UnixMicro(h.RuledUs), finite(h.Amount), channel.PlainText(h.Objection, MaxObjection)})
	}
	s.Credit, s.Certificate = readCredit(m.Credit), clip(m.Certificate, member.MaxContribution)
	return s, nil
}

// finite is x, or zero for what is no number that JSON can tell.
func finite(x float64) float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return 0
	}
	return x
}

// court is the protocol's state on one node.
type court struct {
	mu     sync.Mutex // guards all below
	answer Court
	asking map[peer.ID]int // answers under way, either way
}

func (c *court) begin(p peer.ID) (end func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asking == nil {
		c.asking = map[peer.ID]int{}
	}
	c.asking[p]++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.asking[p]--; c.asking[p] == 0 {
			delete(c.asking, p)
		}
	}
}

// settle waits while an answer to or from a peer is under way, for a moment.
func (c *court) settle(p peer.ID) {
	for end := time.Now().Add(standWait); time.Now().Before(end); time.Sleep(standLook) {
		c.mu.Lock()
		n := c.asking[p]
		c.mu.Unlock()
		if n == 0 {
			return
		}
	}
}

// ServeStanding has a manager answer peers about themselves.
func (g *greeter) ServeStanding(answer Court) {
	g.court.mu.Lock()
	defer g.court.mu.Unlock()
	g.court.answer = answer
}

// serveStanding answers one StandingAsk, one at a time for each peer.
func (g *greeter) serveStanding(s network.Stream) {
	ctx, leave, alive := g.life.enter(context.Background())
	defer leave()
	from := s.Conn().RemotePeer()
	key := callKey{from, ProtoStanding}
	g.court.mu.Lock()
	answer := g.court.answer
	g.court.mu.Unlock()
	if !alive || answer == nil {
		reset(s)
		return
	}
	if !g.greeting.begin(key) {
		g.numbers.rejected("too_many_standings")
		reset(s)
		return
	}
	defer g.greeting.end(key)
	defer g.court.begin(from)()
	defer s.Close()
	ctx, cancel := context.WithTimeout(ctx, g.patience)
	defer cancel()
	if err := s.SetDeadline(time.Now().Add(g.patience)); err != nil {
		reset(s)
		return
	}
	var ask wirepb.StandingAsk
	b, err := frame.Read(bufio.NewReaderSize(s, 1024), maxStandAsk, frame.Budget{})
	if err == nil {
		err = proto.Unmarshal(b, &ask)
	}
	if err != nil {
		g.numbers.rejected("malformed")
		reset(s)
		return
	}
	said, err := answer(ctx, from, readStandingAsk(&ask))
	if err == nil {
		b, err = said.marshal()
	}
	if err == nil {
		err = frame.Write(s, nil, b)
	}
	if err != nil {
		g.log.Debug("a peer is not told how far it is believed", "peer", from, "err", err)
		reset(s)
	}
}

// ErrNoStanding says that no manager told how far it believes the asker.
var ErrNoStanding = errors.New("wire: no manager told how far it believes this peer")

// Standing asks a manager how far it believes this node, and for what else the node wants. It works for a node that has been suspended too.
func (j *joiner) Standing(ctx context.Context, ask StandingAsk) (*Standing, error) {
	b, err := proto.Marshal(ask.proto())
	if err != nil {
		return nil, err
	}
	failed := ErrNoStanding
	for _, m := range j.managers() {
		for range standTries {
			said, err := j.standingOf(ctx, m, b)
			if err == nil {
				return said, nil
			}
			if failed = fmt.Errorf("%w: %w", ErrNoStanding, err); ctx.Err() != nil {
				return nil, failed
			}
		}
	}
	return nil, failed
}

func (j *joiner) standingOf(ctx context.Context, m peer.AddrInfo, ask []byte) (*Standing, error) {
	release := j.gate.Hold(m.ID)
	defer release()
	defer j.court.begin(m.ID)()
	j.store.AddAddrs(m.ID, m.Addrs, peerstore.TempAddrTTL)
	j.gate.Backoff().Clear(m.ID)
	ctx, cancel := context.WithTimeout(ctx, j.patience)
	defer cancel()
	c, err := j.gate.Dial(ctx, m.ID)
	if err != nil {
		return nil, fmt.Errorf("%w: no manager answers at %v (%w)", ErrUnreachable, m.Addrs, err)
	}
	s, err := c.NewStream(ctx)
	if err != nil {
		return nil, err
	}
	defer reset(s) // after Close it does nothing
	stop := context.AfterFunc(ctx, func() { reset(s) })
	defer stop()
	if err := errors.Join(s.SetProtocol(ProtoStanding), s.SetDeadline(time.Now().Add(j.patience))); err != nil {
		return nil, err
	}
	rw := multistream.NewMSSelect(s, ProtoStanding)
	if err := frame.Write(rw, nil, ask); err != nil {
		return nil, err
	}
	_ = s.CloseWrite() // the answer tells
	b, err := frame.Read(bufio.NewReaderSize(rw, 1024), maxStanding, frame.Budget{})
	if err != nil {
		return nil, err
	}
	s.Close()
	return readStanding(b)
}
