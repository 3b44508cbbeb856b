package rogue

import (
	"math"
	"time"

	"github.com/libp2p/go-libp2p/core/protocol"

	"shoal/channel/channelpb"
	"shoal/internal/wire/wirepb"
	"shoal/overlay/p2p/overlaypb"
)

// Misdeed is a message that no honest member sends, and the expected answer.
type Misdeed struct {
	What   string
	On     protocol.ID
	Raw    []byte // with its frame
	Hangs  bool   // no answer comes
	Code   byte   // of the answer
	Reason string // for which it is counted
}

// At says which protocols a misdeed violates.
type At struct{ Peer, Manager, Archive bool }

// Misdeeds returns the misdeeds of a member that has already sent a correct record to a peer, a manager or an
// archive.
func (p *Program) Misdeeds(network []byte, at At) (all []Misdeed) {
	p.t.Helper()
	framed := func(what string, on protocol.ID, req []byte, code byte, reason string) {
		all = append(all, Misdeed{What: what, On: on, Raw: Frame(req), Code: code, Reason: reason})
	}
	gossip := func(what, reason string, code byte, self *overlaypb.Sealed, others ...*overlaypb.Sealed) {
		framed(what, "/shoal/gossip/1", p.Encode(&overlaypb.Gossip{Self: self, Records: others}), code, reason)
	}
	record := func(change func(*overlaypb.Record)) *overlaypb.Sealed { return p.Record(network, change) }
	nan, wide := make([]float64, 8), make([]string, 9)
	nan[3] = math.NaN()
	forged := record(nil)
	forged.Sig[5] ^= 1

	framed("noise", "/shoal/gossip/1", []byte("\xff\xff\xff"), 1, "overlay_malformed")
	framed("too much", "/shoal/gossip/1", make([]byte, 64<<10), 2, "too_large")
	all = append(all, Misdeed{What: "half a request", On: "/shoal/near/1", Raw: []byte{100, 'x'}, Hangs: true, Reason: "malformed"})
	gossip("a coordinate that is no number", "overlay_coordinate", 1, record(func(r *overlaypb.Record) { r.Coord.Vec = nan }))
	gossip("a forged record", "overlay_altered", 1, forged)
	gossip("a record that nobody signed", "overlay_unsigned", 1, &overlaypb.Sealed{Record: forged.Record})
	gossip("a replayed record", "overlay_replayed", 1, record(func(r *overlaypb.Record) { r.Seq, r.IssuedMs = 1, time.Now().Add(-time.Hour).UnixMilli() }))
	gossip("a record from the future", "overlay_not_yet", 1, record(func(r *overlaypb.Record) { r.IssuedMs = time.Now().Add(6 * time.Minute).UnixMilli() }))
	gossip("a record of another network", "overlay_other_network", 1, record(func(r *overlaypb.Record) { r.Network = make([]byte, 32) }))
	gossip("a record of too many addresses", "overlay_malformed", 1, record(func(r *overlaypb.Record) { r.Addrs = wide }))
	gossip("a record beyond its size", "overlay_too_large", 1, record(func(r *overlaypb.Record) { r.Addrs = []string{string(make([]byte, 2<<10))} }))
	gossip("hearsay without a pass", "overlay_pass_unsigned", 0, record(nil), record(nil))
	gossip("more hearsay than there may be", "overlay_too_many_records", 0, record(nil), make([]*overlaypb.Sealed, 13)...)
	framed("a lookup toward nowhere", "/shoal/near/1",
		p.Encode(&overlaypb.FindNear{At: &channelpb.Coord{Vec: make([]float64, 8), Height: math.Inf(1), Err: 1}, N: 8}), 1, "overlay_coordinate")
	framed("a manager's question", "/shoal/probe/1", p.Encode(&overlaypb.Probe{Host: "http://a.example"}), 4, "overlay_role")
	task := p.Encode(&channelpb.Signed{Raw: []byte("a header")})
	if at.Peer {
		framed("an offer of nothing", "/shoal/offer/1", p.Encode(&overlaypb.Offer{Signed: []byte("\xff")}), 4, "overlay_task_malformed")
		framed("a task that nobody signed", "/shoal/offer/1", p.Encode(&overlaypb.Offer{Signed: task}), 4, "overlay_task_unsigned")
		framed("too many tasks", "/shoal/handoff/1", p.Encode(&overlaypb.Handoff{Tasks: make([][]byte, 65)}), 1, "overlay_malformed")
		framed("a server's ride", "/shoal/passed/1", nil, 4, "role")
	}
	if at.Manager {
		framed("a ride of noise", "/shoal/ride/1", []byte("\xff"), 1, "malformed")
		framed("a ride to nobody", "/shoal/ride/1", p.Encode(&wirepb.Ride{Peer: "nobody", Protocol: "/shoal/gossip/1"}), 1, "malformed")
	}
	if at.Archive {
		framed("a claim of noise", "/shoal/claim/1", []byte("\xff"), 1, "archive_malformed")
		framed("a claim of no task", "/shoal/claim/1", task, 1, "archive_malformed")
		framed("a renewal of no task", "/shoal/renew/1", task, 1, "archive_malformed")
		framed("a chunk of noise", "/shoal/chunk/1", []byte("\xff"), 1, "archive_malformed")
	}
	return all
}

// Greeting is a greeting that the gate refuses.
type Greeting struct {
	What   string
	Hello  *wirepb.Hello
	Code   uint32
	Reason string
}

// Greetings returns greetings with which a stranger, who shows another's certificate, is refused by a manager.
func (p *Program) Greetings(network, certificate []byte) []Greeting {
	altered := append([]byte(nil), certificate...)
	altered[len(altered)-1] ^= 1 // of its signer's delegation
	now := time.Now()
	return []Greeting{
		{"nothing to show", &wirepb.Hello{Network: network}, 3, "not_member"},
		{"somebody else's certificate", &wirepb.Hello{Network: network, Certificate: certificate}, 3, "altered"},
		{"a certificate by whom nobody delegated", &wirepb.Hello{Network: network, Certificate: altered}, 3, "delegation"},
		{"another network", &wirepb.Hello{Network: make([]byte, 32), Want: 1, Label: "x"}, 3, "other_network"},
		{"a clock six minutes ahead", &wirepb.Hello{Network: network, Want: 1, Label: "x", NowMs: now.Add(6 * time.Minute).UnixMilli()}, 7, "clock"},
		{"a clock six minutes behind", &wirepb.Hello{Network: network, Want: 1, Label: "x", NowMs: now.Add(-6 * time.Minute).UnixMilli()}, 7, "clock"},
		{"a wish that there is not", &wirepb.Hello{Network: network, Want: 9}, 1, "malformed"},
		{"a renewal of nothing", &wirepb.Hello{Network: network, Want: 2}, 3, "malformed"},
	}
}
