package e2e

import (
	"context"
	"errors"
	"fmt"
	mrand "math/rand/v2"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"

	"shoal/channel"
	"shoal/internal/member"
	"shoal/internal/wire"
	"shoal/internal/wire/uplink"
	"shoal/overlay"
	"shoal/overlay/p2p"
)

// volunteer is a peer that makes its pages up: real on the wire, with no crawl behind it.
type volunteer struct {
	c       *crash
	node    *wire.Node
	archive peer.ID
	client  *uplink.Client
	jobs    chan channel.Signed
	mu      sync.Mutex
	held    int
}

// Quote implements overlay.Queue.
func (v *volunteer) Quote(now time.Time, _ channel.Header) (time.Time, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return now.Add(time.Millisecond), v.held < crashThreads
}

// Take implements overlay.Queue.
func (v *volunteer) Take(_ time.Time, s channel.Signed, _ channel.Header) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.held >= cap(v.jobs) {
		return errors.New("full")
	}
	v.held++
	v.jobs <- s
	return nil
}

// Load implements overlay.Queue.
func (v *volunteer) Load(time.Time) overlay.Load {
	v.mu.Lock()
	defer v.mu.Unlock()
	return overlay.Load{Threads: crashThreads, Running: uint8(min(v.held, crashThreads))}
}

// join starts peers and an operator, who go on over all kills.
func (c *crash) join() {
	c.t.Helper()
	join := c.manager.word("shoal-peer join ")
	j, err := member.ParseJoinString(join)
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	c.t.Cleanup(func() { cancel(); wg.Wait() })
	for n := range crashPeers {
		var seed [32]byte
		seed[0], seed[1] = byte(n+1), 9
		node, err := wire.New(ctx, wire.Config{Key: seed, Network: j.Network, Listen: []string{"/ip4/127.0.0.1/tcp/0"}})
		if err != nil {
			c.t.Fatal(err)
		}
		c.t.Cleanup(func() { node.Close() })
		if err := node.Join(ctx, j, fmt.Sprint("volunteer", n)); err != nil {
			c.t.Fatal(err)
		}
		doc, ok := node.Document()
		if !ok || len(doc.Archives) == 0 {
			c.t.Fatal("no network document, or none with an archive")
		}
		id, err := peer.Decode(doc.Archives[0].Peer)
		if err != nil {
			c.t.Fatal(err)
		}
		v := &volunteer{c: c, node: node, archive: id, client: uplink.NewClient(node, id), jobs: make(chan channel.Signed, 2*crashThreads)}
		c.peers = append(c.peers, v)
		cfg := overlay.Default(overlay.ID(node.ID().String()))
		cfg.Every, cfg.Timeout = time.Second, 2*time.Second
		probe := func(context.Context, string) (time.Duration, error) { return 10 * time.Millisecond, nil }
		r, err := p2p.New(p2p.Config{Wire: node, Queue: v, Probe: probe, Overlay: cfg, Dir: c.t.TempDir()})
		if err != nil {
			c.t.Fatal(err)
		}
		wg.Go(func() {
			if err := r.Run(ctx); err != nil && ctx.Err() == nil {
				c.t.Error(err)
			}
		})
		for range crashThreads {
			wg.Go(func() {
				for {
					select {
					case <-ctx.Done():
						return
					case s := <-v.jobs:
						v.crawl(ctx, s)
						v.mu.Lock()
						v.held--
						v.mu.Unlock()
					}
				}
			})
		}
	}
	wg.Go(func() { c.operate(ctx) })
}

// again asks until there is an answer, the archive is away for longer than a lease lasts, or ctx ends.
func again[R any](ctx context.Context, v *volunteer, ask func(context.Context) (R, error)) (out R, err error) {
	for end := time.Now().Add(2 * crashLease); ctx.Err() == nil && time.Now().Before(end); {
		one, cancel := context.WithTimeout(ctx, crashLease)
		out, err = ask(one)
		cancel()
		if err == nil || errors.Is(err, wire.Malformed) || errors.Is(err, wire.Refused) {
			return out, err
		}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
		if s, ok := v.node.Host().Network().(*swarm.Swarm); ok {
			s.Backoff().Clear(v.archive) // it does not wait because the last one did not answer
		}
	}
	return out, errors.Join(err, ctx.Err(), errors.New("gave up"))
}

// crawl is one task: claimed, a few chunks, a report; now and then it is dropped without a word.
func (v *volunteer) crawl(ctx context.Context, s channel.Signed) {
	h, err := channel.ParseHeader(s.Raw)
	if err != nil {
		v.c.t.Error(err)
		return
	}
	began := time.Now()
	claim, err := again(ctx, v, func(ctx context.Context) (uplink.Claimed, error) { return v.client.Claim(ctx, s) })
	if err != nil || claim.Status != uplink.Granted {
		return
	}
	seq, head := claim.Resume.Seq, claim.Resume.Head
	chunks := 1 + mrand.IntN(4)
	if mrand.IntN(10) == 0 && !v.c.isCalm() {
		return // with the task: its lease must lapse
	}
	for n := range chunks {
		body := channel.ChunkBody{}
		for p := range 1 + mrand.IntN(3) {
			text := words(500 + mrand.IntN(2000))
			body.Pages = append(body.Pages, channel.Page{URL: fmt.Sprintf("%s/%d/%d/%d", h.Host, h.Gen, seq+1, p), Fetched: time.Now(), Status: 200,
				Change: channel.New, Digest: channel.ContentDigest([]byte(text)), Header: []byte("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n"), Body: []byte(text)})
		}
		if n == chunks-1 {
			body.Report = &channel.Report{Channel: h.Channel, Gen: h.Gen, Outcome: channel.Updated, Started: began, Ended: time.Now(), Pages: chunks, New: chunks}
		}
		raw, err := channel.CompressBody(body.Marshal())
		if err != nil {
			v.c.t.Error(err)
			return
		}
		chunk := channel.Chunk{Channel: h.Channel, Gen: h.Gen, Seq: seq + 1, Prev: head, Body: raw}
		r, err := again(ctx, v, func(ctx context.Context) (uplink.Reply, error) { return v.client.Put(ctx, chunk) })
		if err != nil || r.Status != uplink.Stored {
			return
		}
		v.c.ack(lease1{h.Channel, h.Gen}, body.Pages)
		seq, head = r.Seq, r.Head
	}
}

// ack notes what the archive has acknowledged.
func (c *crash) ack(of lease1, pages []channel.Page) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.chunks == nil {
		c.chunks = map[lease1]time.Time{}
	}
	c.chunks[of] = time.Now()
	c.acks++
	for _, p := range pages {
		c.acked[p.URL] = string(p.Body)
	}
}

func (c *crash) isCalm() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calm
}
