package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"shoal/internal/lab/pond"
	"shoal/internal/member"
	"shoal/internal/wire"
	"shoal/internal/wire/homing"
)

// TestOutage kills the manager of six peers and starts it again a minute later. It counts the attempts that the outage costs, and those
// that fail after the return. A stopwatch would measure the machine.
func TestOutage(t *testing.T) {
	t.Parallel()
	w, err := pond.NewWorld(pond.Config{Seed: 5, Hosts: 8, Pages: 200, MaxHost: 40, Plain: true})
	if err != nil {
		t.Fatal(err)
	}
	addr, data := servePond(t, w).Addr().String(), t.TempDir()
	boss := func(listen string) *process {
		return start(t, "shoal", "manager", "--data", data, "--listen", listen, "--page", "127.0.0.1:0", "--pond", addr, "--lease", "1m")
	}
	m := boss(fmt.Sprintf("/ip4/127.0.0.1/tcp/%d", unusedPort(t)))
	g, join := pageOf(m, "Page "), m.word("shoal-peer join ")
	j, err := member.ParseJoinString(join)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := ma.NewMultiaddr(j.Addrs[0])
	if err != nil {
		t.Fatal(err)
	}
	at, _ := peer.SplitAddr(whole)
	const peers = 6
	dirs, _ := volunteers(t, peers, join, "--pond", addr, "--no-quic", "--no-low-priority", "--log-level", "warn")
	m.until("knows all peers", func() bool { return g.overview().Peers == peers })

	m.kill()
	knocked := knocks(t, at)
	began, tries := time.Now(), make([]int, peers)
	time.Sleep(time.Minute) // the outage: what is counted is counted over it
	for i, dir := range dirs {
		h := homeOf(t, dir)
		if tries[i] = h.Tries; !h.Away() || h.Why == "" {
			t.Errorf("a peer whose manager is gone: %+v", h)
		}
	}
	n, long := knocked(), time.Since(began)
	if most := peers * (1 + int(long/(homing.Default().Again*3/5))); n > most {
		t.Errorf("%d attempts of %d peers in %v, at most %d wanted", n, peers, long, most)
	}
	known := peers // one each may be under way
	for _, k := range tries {
		known += k
	}
	if n > known {
		t.Errorf("%d attempts of %d peers, whose ways home failed %v times: something else dials", n, peers, tries)
	}

	returned := time.Now()
	m = boss(at.String())
	g = pageOf(m, "Page ")
	m.until("knows all peers again", func() bool { return g.overview().Peers == peers })
	for i, dir := range dirs {
		var h wire.Home
		m.until("is found by each peer", func() bool { h = homeOf(t, dir); return h.At != "" })
		// One while the manager starts, and one that was under way; a manager that is slow to start or to answer is tried again.
		if most := 2 + int(time.Since(returned)/(homing.Default().Again*3/5)); h.Tries > tries[i]+most {
			t.Errorf("peer %d had failed %d times before the return; now %+v", i, tries[i], h)
		}
	}
	t.Logf("%d attempts of %d peers in an outage of %v, all were back %v after the start", n, peers, long.Round(time.Second), time.Since(began.Add(long)).Round(time.Second))
}

// knocks listens in place of a program that was killed, and hangs up. The function it returns ends that, and tells how often it was tried.
func knocks(t *testing.T, at ma.Multiaddr) func() int {
	t.Helper()
	to, err := manet.ToNetAddr(at)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", to.String())
	if err != nil {
		t.Fatal(err)
	}
	var n atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			n.Add(1)
			c.Close()
		}
	}()
	end := func() int {
		l.Close()
		<-done
		return int(n.Load())
	}
	t.Cleanup(func() { end() })
	return end
}

// homeOf asks a peer about its connection to the manager.
func homeOf(t *testing.T, dir string) wire.Home {
	t.Helper()
	p := start(t, "shoal-peer", "status", "--json", "--data", dir)
	<-p.done
	var st struct{ Home wire.Home }
	if err := json.Unmarshal(p.out.Bytes(), &st); err != nil {
		t.Fatalf("status: %v: %s %s", err, p.out.String(), p.said())
	}
	return st.Home
}
