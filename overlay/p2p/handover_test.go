package p2p

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"shoal/channel"
	"shoal/internal/member"
	"shoal/overlay"
	pb "shoal/overlay/p2p/overlaypb"
)

// A task shows from whom it came over all that handed it on. A peer's word does not count for a task that it did not have, or for another taker.
func TestGiver(t *testing.T) {
	network := member.NetworkID{1}
	a, b, c := newStamp(t, 1, network), newStamp(t, 2, network), newStamp(t, 3, network)
	give := func(s channel.Signed, from, to *stamp) channel.Signed {
		t.Helper()
		out, err := HandOver(from.key, s, to.id)
		if err != nil {
			t.Fatal(err)
		}
		read, err := channel.ParseSigned(out.Marshal())
		if err != nil {
			t.Fatal(err)
		}
		return read
	}
	task, other := channel.Signed{Raw: []byte("task"), Sig: []byte("s")}, channel.Signed{Raw: []byte("other"), Sig: []byte("s")}
	once := give(task, a, b)
	twice := give(once, b, c)
	with := func(s channel.Signed, hs ...channel.Handover) channel.Signed { s.Handovers = hs; return s }
	for what, k := range map[string]struct {
		s    channel.Signed
		has  *stamp
		from *stamp // nil: it does not show
	}{
		"never handed over": {task, a, a},
		"once":              {once, b, a},
		"twice":             {twice, c, a},
		"to another":        {once, c, nil},
		"back":              {give(twice, c, a), a, a},
		"of another task":   {with(other, once.Handovers...), b, nil},
		"out of order":      {with(task, twice.Handovers[1], twice.Handovers[0]), b, nil},
		"a gap":             {with(task, once.Handovers[0], give(task, c, a).Handovers[0]), a, nil},
		"unsigned":          {with(task, channel.Handover{From: string(a.id), To: string(b.id)}), b, nil},
		"signed by another": {with(task, channel.Handover{From: string(a.id), To: string(b.id), Sig: give(task, c, b).Handovers[0].Sig}), b, nil},
		"no peer":           {with(task, channel.Handover{From: "x", To: string(b.id), Sig: once.Handovers[0].Sig}), b, nil},
	} {
		from, err := Giver(k.s, string(k.has.id))
		if k.from == nil && !errors.Is(err, errHandovers) || k.from != nil && (err != nil || from != string(k.from.id)) {
			t.Errorf("%s: from %q, %v", what, from, err)
		}
	}
	long := task
	for range channel.MaxHandovers {
		long = give(give(long, a, b), b, a)
		if len(long.Handovers) == channel.MaxHandovers {
			break
		}
	}
	if s, err := HandOver(a.key, long, b.id); !errors.Is(err, errHandovers) {
		t.Errorf("handed over %d times: %v", len(s.Handovers), err)
	}
	if len(once.Handovers) != 1 || len(task.Handovers) != 0 {
		t.Error("to hand a task over changes it")
	}
}

// The header of a task is no secret to those that were asked to take it. A peer takes it from the manager, and from a peer that shows how it came to it.
func TestTasksComeFromWhoMayGiveThem(t *testing.T) {
	n := open(t, 3, 5)
	n.until("the manager knows all peers", func() bool { return n.takers() == 3 })
	from, to := n.peers[0], n.peers[1]
	ask := func(m proto.Message) ([]byte, error) {
		raw, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		on := protoOffer
		if _, ok := m.(*pb.Handoff); ok {
			on = protoHandoff
		}
		if err := from.node.Connect(t.Context(), to.node.ID(), to.node.Addrs()...); err != nil {
			t.Fatal(err)
		}
		return from.node.Call(t.Context(), to.node.ID(), on, raw, maxMessage)
	}
	s, _ := n.task(1, time.Hour)
	if answer, err := ask(&pb.Offer{Signed: s.Marshal()}); err == nil {
		t.Errorf("a peer's offer is answered %v", answer)
	}
	give := func(s channel.Signed, by, to *site) channel.Signed {
		out, err := HandOver(by.runner.sealer.key, s, to.runner.id)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	taken := func(tasks ...channel.Signed) []bool {
		h := &pb.Handoff{}
		for _, s := range tasks {
			h.Tasks = append(h.Tasks, s.Marshal())
		}
		raw, err := ask(h)
		var a pb.HandoffAnswer
		if err != nil || proto.Unmarshal(raw, &a) != nil {
			t.Fatal(err)
		}
		return a.Taken
	}
	s2, _ := n.task(2, time.Hour)
	if got := taken(s, give(s, n.peers[2], to), give(s, from, n.peers[2]), give(s, from, to), give(give(s2, n.peers[2], from), from, to)); !slices.Equal(got, []bool{false, false, false, true, true}) {
		t.Errorf("of a bare task, another's, one for another, its own, and one that was given to it, %v were taken", got)
	}
	if k := to.runner.Status().Refused; k["role"] != 1 || k["handover"] != 3 {
		t.Errorf("refusals are counted as %v", k)
	}
	to.runner.Fenced(give(s, from, to))
	s3, _ := n.task(3, time.Hour)
	if got := taken(give(s3, from, to)); got[0] {
		t.Error("a peer that gave what may not be claimed goes on to give")
	}
}

// Who gave what may not be claimed may give again after a while; no more than a number of them are remembered.
func TestGiversAreForgotten(t *testing.T) {
	var g givers
	a, b := newStamp(t, 1, member.NetworkID{1}), newStamp(t, 2, member.NetworkID{1})
	s, err := HandOver(a.key, channel.Signed{Raw: []byte("task"), Sig: []byte("s")}, b.id)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	g.fenced(now, channel.Signed{Raw: []byte("never handed over")})
	g.fenced(now, s)
	may := func(now time.Time) error { return g.may(now, s, string(b.id), string(a.id)) }
	if may(now) == nil || may(now.Add(giverRest)) != nil {
		t.Errorf("at once %v, after a while %v", may(now), may(now.Add(giverRest)))
	}
	for i := range 2 * maxGivers {
		g.fenced(now.Add(time.Second), channel.Signed{Handovers: []channel.Handover{{From: fmt.Sprint(overlay.ID("peer"), i)}}})
	}
	if len(g.until) > maxGivers || may(now) != nil {
		t.Errorf("%d are remembered, and of the first of all: %v", len(g.until), may(now))
	}
}
