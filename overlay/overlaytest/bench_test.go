package overlaytest

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"shoal/channel"
	"shoal/coords"
	"shoal/internal/lab/processor"
	"shoal/internal/member"
	"shoal/internal/sim"
	"shoal/overlay"
)

// crowd is a manager and a thousand peers at places in a plane, carried in virtual time; peers take every task. Each counts what it sends and how long it computes.
type crowd struct {
	nodes   []*overlay.Node
	points  []sim.Point
	index   map[overlay.ID]int
	began   time.Time
	now     int64
	queue   sim.Queue[letter]
	ticks   []int64
	verify  func(channel.Signed) bool // nil: as if it were true
	sent    int64                     // by the manager, gossip apart
	took    time.Duration             // by the manager
	settled bool
	done    []overlay.Event
}

type roomy struct{}

func (roomy) Quote(now time.Time, _ channel.Header) (time.Time, bool) { return now, true }
func (roomy) Take(time.Time, channel.Signed, channel.Header) error    { return nil }
func (roomy) Load(time.Time) overlay.Load                             { return overlay.Load{Threads: 5, Slots: 5} }
func (c *crowd) time() time.Time                                      { return c.began.Add(time.Duration(c.now)) }
func (c *crowd) rtt(a, b int) time.Duration {
	return time.Duration(max(2*c.points[a].To(c.points[b]), .3) * 1e6)
}

func newCrowd(b *testing.B, peers, hosts int) *crowd {
	rng := sim.Rand(1, "crowd")
	c := &crowd{points: sim.Synthetic(peers+1+hosts, rng), index: map[overlay.ID]int{}, began: time.Now(), ticks: make([]int64, peers+1)}
	for i := range peers + 1 {
		own := rand.New(rand.NewPCG(rng.Uint64(), rng.Uint64()))
		place, err := coords.NewNode(coords.Default(), own)
		if err != nil {
			b.Fatal(err)
		}
		cfg := overlay.Default(overlay.ID(fmt.Sprint("p", i)))
		cfg.Places = i == 0
		n, err := overlay.New(c.time(), cfg, place, roomy{}, own)
		if err != nil {
			b.Fatal(err)
		}
		c.nodes, c.index[cfg.ID], c.ticks[i] = append(c.nodes, n), i, -1
	}
	for i, n := range c.nodes {
		c.send(i, n.Greet(c.time(), "p0", nil))
	}
	return c
}

func (c *crowd) send(from int, out []overlay.Send) {
	for _, s := range out {
		if _, gossip := s.Msg.(overlay.Gossip); from == 0 && !gossip {
			c.sent++
		}
		to := c.index[s.To]
		c.queue.Push(c.now+int64(c.rtt(from, to)/2), letter{from, to, s.Msg})
	}
	n := c.nodes[from]
	c.done = append(c.done, n.Events()...)
	if at := int64(n.Deadline().Sub(c.began)); c.ticks[from] < 0 || at < c.ticks[from] {
		c.ticks[from] = at
		c.queue.Push(at, letter{to: from})
	}
}

func (c *crowd) step() {
	at, l := c.queue.Pop()
	c.now = max(at, c.now)
	if l.msg == nil && at != c.ticks[l.to] {
		return
	}
	begun := time.Time{}
	if l.to == 0 && c.settled {
		begun = time.Now()
	}
	c.handle(l)
	if !begun.IsZero() {
		c.took += time.Since(begun)
	}
}

func (c *crowd) handle(l letter) {
	n := c.nodes[l.to]
	switch m := l.msg.(type) {
	case nil:
		c.ticks[l.to] = -1
		c.send(l.to, n.Tick(c.time()))
		return
	case overlay.Gossip:
		if m.Answer {
			n.Sample(m.Self.ID, m.Self.Coord, c.rtt(l.from, l.to))
		}
	case overlay.Offer:
		if c.verify != nil && !c.verify(m.Signed) {
			return
		}
	case overlay.ProbeHost: // three handshakes
		var host int
		fmt.Sscanf(m.Host, "http://h%d.example", &host) //nolint:errcheck // its own name
		rtt := c.rtt(l.to, host)
		c.queue.Push(c.now+int64(3*rtt+c.rtt(l.to, l.from)/2), letter{l.to, l.from, overlay.Probed{Req: m.Req, RTT: rtt, At: n.Coord()}})
		return
	}
	from := overlay.ID(fmt.Sprint("p", l.from))
	c.send(l.to, n.Step(c.time(), from, l.msg))
}

// BenchmarkPlacements lets one manager place tasks among 1,000 peers, 64 at a time. Each task is signed, looked up,
// measured and offered, and the peer that is offered it checks its signature, all on one core. A baseline signs
// nothing. Every host is measured already and has tasks again and again, as with a running manager. manager-us is the
// manager's own share of the time, from which follows how many placements a manager with a core of its own could
// make.
func BenchmarkPlacements(b *testing.B) {
	const peers, hosts, atOnce = 1000, 2000, 64
	c := newCrowd(b, peers, hosts)
	for c.now < int64(25*time.Minute) {
		c.step()
	}
	root := member.NewRoot([32]byte{7})
	now := time.Now()
	w := &world{root: root}
	auth, err := newAuthority(root, now)
	if err != nil {
		b.Fatal(err)
	}
	v := member.NewVerifier(root.ID())
	var known []overlay.PeerRecord
	for _, n := range c.nodes[1:] {
		known = append(known, n.Self(c.time()))
	}
	rng := sim.Rand(2, "hosts")
	records := make([]coords.HostRecord, hosts)
	for h := range records {
		for _, p := range append(overlay.NearVantages(&records[h], known, 16, rng), overlay.NearVantages(&coords.HostRecord{}, known, 8, rng)...) {
			records[h].Add(coords.Sample{Vantage: string(p.ID), At: p.Coord, RTT: c.rtt(c.index[p.ID], peers+1+h), When: now.Unix()})
		}
	}
	c.settled = true
	for _, signed := range []bool{true, false} {
		b.Run(map[bool]string{true: "signed", false: "unsigned"}[signed], func(b *testing.B) {
			c.verify = nil
			if signed {
				c.verify = func(s channel.Signed) bool { _, err := v.VerifyTask(time.Now(), s); return err == nil }
			}
			c.sent, c.took, c.done = 0, 0, nil
			placed, refused, under := 0, 0, 0
			before := processor.Time(b)
			b.ResetTimer()
			for id := 0; placed+refused < b.N; {
				for ; under < atOnce && id < b.N; id++ {
					begun := time.Now()
					host := rng.IntN(hosts)
					h := channel.Header{Network: w.root.ID(), Channel: channel.ID(id + 1), Gen: 1, Host: fmt.Sprintf("http://h%d.example", peers+1+host), Pages: 100, Gap: time.Second,
						Issued: begun, Latest: begun.Add(time.Hour), Archive: "archive", BodyBytes: 1}
					t := overlay.Task{Header: h}
					if signed {
						if t.Signed, err = auth.SignHeader(h); err != nil {
							b.Fatal(err)
						}
					}
					c.send(0, c.nodes[0].Place(c.time(), uint64(id+1), t, records[host]))
					c.took += time.Since(begun)
					under++
				}
				c.step()
				for _, e := range c.done {
					under--
					if e.Err != nil {
						refused++
						continue
					}
					placed++
				}
				c.done = c.done[:0]
			}
			if refused > b.N/50+1 {
				b.Errorf("%d of %d tasks were not placed", refused, b.N)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "placements/s")
			b.ReportMetric(float64(c.sent)/float64(b.N), "manager-msgs/op")
			b.ReportMetric(float64(c.took.Microseconds())/float64(b.N), "manager-us/op")
			b.ReportMetric(float64((processor.Time(b)-before).Microseconds())/float64(b.N), "cpu-us/op")
		})
	}
}
