package p2p

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"shoal/coords"
	"shoal/internal/lab/processor"
	"shoal/internal/wire"
	"shoal/overlay"
)

// BenchmarkMessage is what a message costs the loop of a manager that knows 4,096 members in forty towns, beside decoding: questions of lookups, gossip that brings
// the newer records of twelve members, and answers of peers to which a task is offered. They take 8, 17 and 3 us of CPU. While the runner
// copied its table after every message, the first two took 583 and 551.
func BenchmarkMessage(b *testing.B) {
	n := openNet(b, func(c wire.Config) *wire.Node {
		c.Listen = []string{"/ip4/127.0.0.1/tcp/0"}
		mn, err := wire.New(b.Context(), c)
		if err != nil {
			b.Fatal(err)
		}
		return mn
	})
	s := start(b, n.boss.node, Config{Places: true}, time.Hour, nil)
	rng := rand.New(rand.NewPCG(1, 2))
	peers := make([]overlay.PeerRecord, overlay.MaxKnown)
	for i := range peers {
		at, town := coords.Coord{Err: .1, Height: rng.ExpFloat64() * 3}, rand.New(rand.NewPCG(uint64(rng.IntN(40)), 1))
		for k := range at.Vec {
			at.Vec[k] = town.NormFloat64()*60/float64(k+1) + rng.NormFloat64()*2
		}
		peers[i] = overlay.PeerRecord{ID: overlay.ID(fmt.Sprint("peer", i)), Seq: 1, Issued: time.Now(), Coord: at, Load: overlay.Load{Threads: 5, Slots: 25}}
	}
	wait := func(f func(now time.Time)) {
		done := make(chan struct{})
		s.runner.post(b.Context(), func(_ context.Context, now time.Time) { f(now); close(done) })
		<-done
	}
	wait(func(now time.Time) {
		for _, p := range peers {
			if err := s.runner.node.Meet(now, p); err != nil {
				b.Error(err)
			}
		}
	})
	seq := uint64(1)
	for _, m := range []struct {
		name string
		step func(i int, now time.Time)
	}{
		{"find", func(i int, now time.Time) {
			s.runner.node.Step(now, "peer0", overlay.FindNear{Req: 1, At: peers[i%len(peers)].Coord, N: 8})
		}},
		{"gossip", func(i int, now time.Time) {
			seq++
			newer := func(k int) *overlay.PeerRecord {
				p := peers[(i*(overlay.MaxGossip+1)+k)%len(peers)]
				p.Seq, p.Issued = seq, now
				p.Coord.Vec[0] += rng.NormFloat64() / 10
				return &p
			}
			g := overlay.Gossip{Req: 1, Self: *newer(0)}
			for k := range overlay.MaxGossip {
				g.Records = append(g.Records, newer(k+1))
			}
			s.runner.node.Step(now, g.Self.ID, g)
		}},
		{"offer and answer", func(i int, now time.Time) {
			p := &peers[i%len(peers)]
			for _, o := range s.runner.node.PlaceAt(now, 1<<40, overlay.Task{}, coords.HostRecord{}, overlay.Named{Peer: p.ID}) {
				s.runner.node.Step(now, o.To, overlay.Answer{Req: o.Msg.(overlay.Offer).Req, Accept: true, Start: now})
			}
		}},
	} {
		b.Run(m.name, func(b *testing.B) {
			b.ReportAllocs()
			before := processor.Time(b)
			for i := 0; b.Loop(); i++ {
				s.runner.post(b.Context(), func(_ context.Context, now time.Time) { m.step(i, now) })
			}
			wait(func(time.Time) {})
			b.ReportMetric(float64((processor.Time(b)-before).Nanoseconds())/1e3/float64(b.N), "cpu-us/op")
		})
	}
}
