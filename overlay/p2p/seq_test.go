package p2p

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"shoal/internal/member"
	"shoal/internal/wire"
	"shoal/overlay"
)

// A peer whose clock was ten minutes ahead, and was set right, is heard when it starts anew. Its records had been numbered on from the time that the clock had shown.
func TestHeardAfterAClockThatWasAhead(t *testing.T) {
	n := open(t, 0, 0)
	var ahead atomic.Int64
	dir := t.TempDir()
	run := func() *site {
		pn, err := wire.New(t.Context(), wire.Config{Key: [32]byte{1, 5}, Network: n.keys.Network, Patience: patience, Listen: []string{"/ip4/127.0.0.1/tcp/0"},
			Clock: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }})
		if err != nil {
			t.Fatal(err)
		}
		if err := pn.Join(t.Context(), member.JoinString{Network: n.keys.Network, Addrs: n.boss.node.Addrs()}, "ada"); err != nil {
			t.Fatal(err)
		}
		b := &bin{room: 1}
		return start(t, pn, Config{Queue: b, Dir: dir}, 100*time.Millisecond, b)
	}
	self := func(s *site) overlay.PeerRecord {
		done := make(chan overlay.PeerRecord, 1)
		s.runner.post(t.Context(), func(_ context.Context, now time.Time) { done <- s.runner.node.Self(now) })
		return <-done
	}
	heard := func(seq uint64) func() bool {
		return func() bool {
			for _, r := range n.boss.runner.Peers() {
				if r.Seq >= seq {
					return true
				}
			}
			return false
		}
	}
	p := run()
	n.until("the manager knows the peer", heard(1))
	if _, err := os.Stat(filepath.Join(dir, seqFile)); err == nil {
		t.Error("a number is kept while the clock goes right")
	}
	ahead.Store(int64(10 * time.Minute))
	far := self(p)
	n.until("records of a clock that is ahead are refused", func() bool { return n.boss.runner.Status().Refused["not_yet"] > 0 })
	ahead.Store(0)
	n.until("the peer is heard when its clock is right", heard(far.Seq))
	p.stop()
	last := n.boss.runner.Peers()[0]

	p = run()
	first := self(p)
	if first.Seq <= last.Seq {
		t.Fatalf("the new run's first record has number %d, the earlier run's last one %d: nobody hears it", first.Seq, last.Seq)
	}
	n.until("the new run is heard", heard(first.Seq))
}
