package manager_test

import (
	"context"
	"testing"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/coords"
	"shoal/internal/wire/uplink"
	"shoal/manager"
	"shoal/overlay"
)

// sleepers are a village in which whoever takes the first task claims it and sleeps; nobody takes another one.
type sleepers struct {
	*village
	slept chan slept
}

// slept is the task of who sleeps.
type slept struct {
	channel.Header
	uplink.Claimed
}

func (s sleepers) Place(ctx context.Context, signed channel.Signed, h channel.Header, _ coords.HostRecord, _ overlay.Named) (overlay.Placed, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return overlay.Placed{}, overlay.ErrRefused
	}
	c, err := s.archive.Claim(ctx, "a", signed)
	if err == nil && c.Status == lease.Late { // the machine is busy
		return overlay.Placed{}, overlay.ErrRefused
	}
	if err != nil || c.Status != lease.Granted {
		s.t.Errorf("claim: %v, %v", c.Status, err)
		return overlay.Placed{}, overlay.ErrRefused
	}
	s.closed = true
	s.slept <- slept{h, c}
	return overlay.Placed{Peer: "a", Start: time.Now(), RTT: 5 * time.Millisecond, RandomRTT: 50 * time.Millisecond}, nil
}

// TestPagesBroughtAfterTheLeaseAreJudged has a peer sleep until its lease is over and its channel is to be crawled again, and bring pages then without giving its task back: they
// are judged as all others, and the lapse counts once.
func TestPagesBroughtAfterTheLeaseAreJudged(t *testing.T) {
	t.Parallel()
	s := sleepers{newVillage(t, "a", "b"), make(chan slept, 1)}
	b := open(t, t.TempDir(), func(c *manager.Config, w *swarm) {
		s.swarm, w.members = w, s
		c.Bar, c.MinPeersWait, c.Terms.Term = s.bar, 0, 300*time.Millisecond
	}, s)
	b.add(t, "https://a.example")
	task := <-s.slept
	until(t, "its channel to be offered again", func() bool { return b.m.Overview().Refused > 0 })
	for seq, head := task.Seq, task.Head; seq < task.Seq+2; seq++ {
		body, err := channel.ParseBody(task.Body)
		if err != nil {
			t.Fatal(err)
		}
		p := channel.Page{URL: body.Seeds[0], Status: 200, Change: channel.New, Fetched: time.Now(), Header: []byte("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"), Body: []byte(truth(body.Seeds[0]))}
		if seq > task.Seq {
			p.URL += "more"
		}
		p.Digest = channel.ContentDigest(p.Body)
		raw, err := channel.CompressBody((&channel.ChunkBody{Pages: []channel.Page{p}}).Marshal())
		if err != nil {
			t.Fatal(err)
		}
		c := channel.Chunk{Channel: task.Channel, Gen: task.Gen, Seq: seq + 1, Prev: head, Body: raw}
		if r, err := b.a.Put(t.Context(), "a", c); err != nil || r.Status != lease.Stored {
			t.Fatalf("chunk %d: %v, %v", c.Seq, r.Status, err)
		}
		head = c.Hash()
	}
	until(t, "what it brought to be judged", func() bool { return b.trust(t).Counts.Pages == 2 })
	if _, wasted := s.told(); wasted != 1 {
		t.Errorf("the overlay was told of %d wasted tasks of one", wasted)
	}
	_, events, _ := b.row(1)
	n := 0
	for _, e := range events {
		if e.What == lease.Brought.String() && e.Note != "" {
			n++
		}
	}
	if n != 1 {
		t.Errorf("the channel's history tells %d times of chunks that came late, want once: %+v", n, events)
	}
	// Who gives such a task back does not leave: it is here again.
	if _, err := b.a.Release(t.Context(), "a", task.Channel, task.Gen); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	s.closed = false
	s.mu.Unlock()
	<-s.slept
	until(t, "the next claim, which is behind that in the feed", func() bool { r, _, _ := b.row(1); return r.Out && r.Awaited.IsZero() })
	s.swarm.mu.Lock()
	defer s.swarm.mu.Unlock()
	if s.swarm.gaveBack != 0 {
		t.Error("the overlay was told that it leaves")
	}
}
