package rogue

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"google.golang.org/protobuf/proto"

	"shoal/channel/channelpb"
	"shoal/internal/wire/wirepb"
	"shoal/overlay/p2p/overlaypb"
)

// Scene describes the network in which a volunteer misbehaves.
type Scene struct {
	Network []byte        // name of the network: its root public key
	Boss    peer.AddrInfo // manager and archive
	Account string        // that it claims
	Invite  string
	Page    string // host:port of the operator's page
	// Fetch gets a page as an honest crawler would. Attacks that need no pages never call it.
	Fetch func(ctx context.Context, url string) (status int, header, body []byte, err error)
	Log   func(format string, args ...any) // nil: silent
}

// Stats counts a volunteer's actions and their answers.
type Stats struct {
	Offered, Accepted, Claimed, Stored, Refused, Updates, Forged, Pages atomic.Int64
}

// Volunteer is a member that stays in the network until its context ends.
type Volunteer struct {
	Scene
	Stats Stats

	attack Attack
	host   host.Host
	key    crypto.PrivKey
	cert   []byte
	tasks  sync.WaitGroup

	mu    sync.Mutex
	pages map[string][]string // URLs that it has fetched, by origin; guarded by mu
}

const learntMost = 1000 // URLs of an origin

// learn remembers that an origin has a page.
func (v *Volunteer) learn(origin, url string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.pages == nil {
		v.pages = map[string][]string{}
	}
	if of := v.pages[origin]; len(of) < learntMost && !slices.Contains(of, url) {
		v.pages[origin] = append(of, url)
	}
}

// learnt returns the pages that the volunteer has fetched of an origin.
func (v *Volunteer) learnt(origin string) []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.pages[origin])
}

// Offer is a task that the network offered.
type Offer struct {
	Signed []byte // the request of a claim
	Header *channelpb.Header
}

// ID returns the volunteer's peer id.
func (v *Volunteer) ID() string { return v.host.ID().String() }

// Join returns a volunteer that is a member but has not gossiped yet.
func Join(ctx context.Context, scene Scene, a Attack) (*Volunteer, error) {
	h, key, err := open("/ip4/127.0.0.1/tcp/0")
	if err != nil {
		return nil, err
	}
	v := &Volunteer{Scene: scene, attack: a, host: h, key: key}
	if v.Log == nil {
		v.Log = func(string, ...any) {}
	}
	if err := v.join(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("rogue: join: %w", err), h.Close())
	}
	return v, nil
}

func (v *Volunteer) join(ctx context.Context) error {
	if err := v.host.Connect(ctx, v.Boss); err != nil {
		return err
	}
	w, err := v.hello(ctx, &wirepb.Hello{Want: 1, Label: v.Account, Invite: v.Invite})
	if err != nil {
		return err
	}
	if v.cert = w.Issued; len(v.cert) == 0 {
		return fmt.Errorf("answered %d %s: %s", w.Code, w.Reason, w.Text)
	}
	return nil
}

func (v *Volunteer) hello(ctx context.Context, h *wirepb.Hello) (*wirepb.Welcome, error) {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	h.Version, h.NowMs, h.Network = 1, time.Now().UnixMilli(), v.Network
	_, b, err := exchange(ctx, v.host, v.Boss.ID, "/shoal/member/1", Frame(encode(h)), false)
	if err != nil {
		return nil, err
	}
	w := &wirepb.Welcome{}
	return w, proto.Unmarshal(b, w)
}

const gossipEvery = 2 * time.Second

// Run takes part until ctx ends, then disconnects.
func (v *Volunteer) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer v.host.Close()
	defer v.tasks.Wait()
	defer cancel()
	v.serve(ctx)
	if v.attack.Beside != nil {
		v.tasks.Go(func() { v.attack.Beside(ctx, v) })
	}
	for {
		if err := v.gossip(ctx); err != nil && ctx.Err() == nil {
			v.Log("gossip: %v", err)
			if err := v.again(ctx); err != nil {
				v.Log("connect again: %v", err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(gossipEvery):
		}
	}
}

// again connects anew and shows the certificate.
func (v *Volunteer) again(ctx context.Context) error {
	if err := v.host.Network().ClosePeer(v.Boss.ID); err != nil {
		return err
	}
	if err := v.host.Connect(ctx, v.Boss); err != nil {
		return err
	}
	w, err := v.hello(ctx, &wirepb.Hello{Certificate: v.cert})
	if err == nil && w.Code != 0 {
		return fmt.Errorf("answered %d %s: %s", w.Code, w.Reason, w.Text)
	}
	return err
}

func (v *Volunteer) gossip(ctx context.Context) error {
	_, err := v.Call(ctx, "/shoal/gossip/1", encode(&overlaypb.Gossip{Self: v.record()}))
	return err
}

// record claims that the volunteer is idle, large, and in the middle of everything.
func (v *Volunteer) record() *overlaypb.Sealed {
	r := &overlaypb.Record{Network: v.Network, Id: v.ID(), Seq: uint64(time.Now().UnixNano()), IssuedMs: time.Now().UnixMilli(), Threads: 5, Slots: 5,
		Coord: &channelpb.Coord{Vec: make([]float64, 8), Height: 1e-5, Err: .1}}
	if v.attack.Record != nil {
		v.attack.Record(r)
	}
	for _, a := range v.host.Addrs() {
		r.Addrs = append(r.Addrs, a.String())
	}
	raw := encode(r)
	sig, err := v.key.Sign(append([]byte("shoal record 1\x00"), raw...))
	if err != nil {
		return &overlaypb.Sealed{}
	}
	return &overlaypb.Sealed{Record: raw, Sig: sig}
}

// Call sends a request to the manager or archive. It returns an error for every answer but a good one.
func (v *Volunteer) Call(ctx context.Context, on protocol.ID, req []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	code, answer, err := exchange(ctx, v.host, v.Boss.ID, on, Frame(req), true)
	if err == nil && code != 0 {
		v.Stats.Refused.Add(1)
		err = fmt.Errorf("rogue: %s answered %d %q", on, code, answer)
	}
	return answer, err
}

// serve answers the requests that the network sends to a peer.
func (v *Volunteer) serve(ctx context.Context) {
	handle := func(on protocol.ID, coded bool, f func(req []byte) proto.Message) {
		v.host.SetStreamHandler(on, func(s network.Stream) {
			defer s.Close()
			_ = s.SetDeadline(time.Now().Add(Patience))
			req, err := readFrame(bufio.NewReader(s), maxAnswer)
			if err != nil {
				_ = s.Reset()
				return
			}
			var out []byte
			if coded {
				out = append(out, 0)
			}
			if _, err := s.Write(append(out, Frame(encode(f(req)))...)); err != nil {
				_ = s.Reset()
			}
		})
	}
	handle("/shoal/member/1", false, func([]byte) proto.Message {
		return &wirepb.Welcome{NowMs: time.Now().UnixMilli(), Certificate: v.cert}
	})
	handle("/shoal/gossip/1", true, func([]byte) proto.Message { return &overlaypb.Gossip{Self: v.record()} })
	handle("/shoal/near/1", true, func([]byte) proto.Message { return &overlaypb.Near{Records: []*overlaypb.Sealed{v.record()}} })
	handle("/shoal/probe/1", true, func([]byte) proto.Message {
		return &overlaypb.Probed{RttUs: uint64(v.attack.rtt().Microseconds()), Self: v.record()}
	})
	handle("/shoal/offer/1", true, func(req []byte) proto.Message { return v.offered(ctx, req) })
	handle("/shoal/passed/1", true, func(req []byte) proto.Message { return v.passed(ctx, req) })
}

// passed answers a request that a server passes on from another member.
func (v *Volunteer) passed(ctx context.Context, req []byte) proto.Message {
	var ride wirepb.Ride
	if proto.Unmarshal(req, &ride) != nil {
		return &overlaypb.Answer{}
	}
	switch ride.Protocol {
	case "/shoal/gossip/1":
		return &overlaypb.Gossip{Self: v.record()}
	case "/shoal/probe/1":
		return &overlaypb.Probed{RttUs: uint64(v.attack.rtt().Microseconds()), Self: v.record()}
	case "/shoal/offer/1":
		return v.offered(ctx, ride.Request)
	}
	return &overlaypb.Near{}
}

func (v *Volunteer) offered(ctx context.Context, req []byte) proto.Message {
	v.Stats.Offered.Add(1)
	var o overlaypb.Offer
	var signed channelpb.Signed
	var header channelpb.Header
	if proto.Unmarshal(req, &o) != nil || proto.Unmarshal(o.Signed, &signed) != nil || proto.Unmarshal(signed.Raw, &header) != nil {
		return &overlaypb.Answer{}
	}
	task := Offer{Signed: o.Signed, Header: &header}
	if v.attack.Takes != nil && !v.attack.Takes() {
		return &overlaypb.Answer{StartMs: time.Now().Add(time.Hour).UnixMilli()}
	}
	if v.attack.Work != nil {
		v.tasks.Go(func() {
			if err := v.attack.Work(ctx, v, task); err != nil && ctx.Err() == nil {
				v.Log("%s: %v", header.Host, err)
			}
		})
	}
	if v.attack.Busy {
		return &overlaypb.Answer{StartMs: time.Now().Add(time.Hour).UnixMilli()}
	}
	v.Stats.Accepted.Add(1)
	return &overlaypb.Answer{Accept: true, StartMs: time.Now().UnixMilli()}
}

func encode(m proto.Message) []byte {
	b, err := proto.Marshal(m)
	if err != nil {
		panic("rogue: " + err.Error()) // only invalid UTF-8, which nothing here writes
	}
	return b
}

// Standing asks the manager, over a connection of its own, how far it believes the volunteer, and objects to a case; 0: to none. It works when the
// volunteer is no member any more.
func (v *Volunteer) Standing(ctx context.Context, number uint64, objection string) (*wirepb.Standing, error) {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	if err := v.host.Connect(ctx, v.Boss); err != nil {
		return nil, err
	}
	_, b, err := exchange(ctx, v.host, v.Boss.ID, "/shoal/standing/1", Frame(encode(&wirepb.StandingAsk{Case: number, Objection: objection})), false)
	if err != nil {
		return nil, err
	}
	s := &wirepb.Standing{}
	return s, proto.Unmarshal(b, s)
}
