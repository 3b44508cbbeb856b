package manager_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"shoal/channel"
	"shoal/channel/badgerdb"
	"shoal/channel/lease"
	"shoal/coords"
	"shoal/manager"
	"shoal/manager/archive"
	"shoal/manager/desk"
	"shoal/overlay"
)

// swarm stands in for overlay and peers: what is placed is claimed and reported at once, or as the test says.
type swarm struct {
	t         *testing.T
	archive   *archive.Archive
	mu        sync.Mutex
	rng       *rand.Rand
	holds     int // threads and slots
	refuse    bool
	store     func(*badgerdb.DB) manager.Store // the manager's, instead of the database; set before anything runs
	vanish    bool                             // takes tasks, claims them and is never heard of again
	stalls    bool                             // with vanish: it is the same peer each time
	brief     bool                             // leases so short that they may end amid a crawl; set before anything runs
	recalls   bool                             // tasks may be called back at any moment; set before anything runs
	ignore    bool                             // takes tasks and never claims them
	silent    bool                             // does not answer the next offer
	claimed   map[channel.ID]bool              // with leaves: those whose tasks were claimed
	leaves    bool                             // peers give back what they have claimed, the first time; set before anything runs
	members   desk.Members                     // who is refused, where a test asks
	accountOf func(peer string) string         // for the archive
	fail      string                           // host of which every crawl reports that it failed
	once      bool                             // with fail: only the first crawl does, by "peer"
	refuses   string                           // host of which every crawl reports that it refuses crawlers
	grows     string                           // host whose second crawl has room for three pages more; none of its pages ever changes
	large     string                           // host of which every crawl reports nine pages
	placed    map[channel.ID]int
	running   map[string]int // by host; a task does not any more when it sends its last chunk
	crawls    sync.WaitGroup
	overlap   int // hosts that two tasks ran on at once

	gaveBack          int
	others            int         // peers beside the one, which are given no tasks
	as                string      // the peer that claims and delivers; empty: "peer"
	delivered, wasted int         // what the manager said of tasks that were taken
	inter             []string    // other sites' URLs that every crawl finds; set before anything runs
	asks              chan func() // every offer waits until its function here was called; set before anything runs
	// amid is called between the claim and the chunk of every crawl, and tells whether the chunk must be refused; set before anything runs.
	amid func(channel.Header) (refused bool)
}

func (s *swarm) Coord() coords.Coord { return coords.Coord{Err: 1} }

func (s *swarm) Delivered(overlay.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.delivered++
}

func (s *swarm) Wasted(overlay.ID, time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wasted++
}

func (s *swarm) GaveBack(overlay.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gaveBack++
}

func (s *swarm) told() (delivered, wasted int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.delivered, s.wasted
}

func (s *swarm) View() *overlay.View {
	peers := []overlay.PeerRecord{{ID: "peer", Load: overlay.Load{Threads: uint8(s.holds)}}}
	for i := range s.others {
		peers = append(peers, overlay.PeerRecord{ID: overlay.ID(fmt.Sprint("other-", i)), Load: overlay.Load{Threads: 1}})
	}
	return overlay.ViewOf(time.Now(), peers)
}

func (s *swarm) Survey(context.Context, overlay.Survey, coords.HostRecord) ([]coords.Sample, error) {
	return []coords.Sample{{Vantage: "peer", RTT: 10 * time.Millisecond, At: coords.Coord{Err: .1}}}, nil
}

func (s *swarm) Place(_ context.Context, signed channel.Signed, h channel.Header, r coords.HostRecord, _ overlay.Named) (overlay.Placed, error) {
	if s.asks != nil {
		answer := make(chan struct{})
		s.asks <- sync.OnceFunc(func() { close(answer) })
		<-answer
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(r.Samples) == 0 {
		s.t.Errorf("channel %d is placed without a measurement of its host", h.Channel)
	}
	if s.refuse {
		return overlay.Placed{}, overlay.ErrRefused
	}
	if s.silent {
		s.silent = false
		return overlay.Placed{}, overlay.ErrUnsure
	}
	s.placed[h.Channel]++
	if s.running[h.Host]++; s.running[h.Host] > 1 {
		s.overlap++
	}
	vanish := s.vanish
	if s.ignore {
		s.running[h.Host]--
		return overlay.Placed{Peer: "peer", Start: time.Now(), RTT: 5 * time.Millisecond, RandomRTT: 50 * time.Millisecond}, nil
	}
	s.crawls.Go(func() { s.crawl(signed, h, vanish) })
	return overlay.Placed{Peer: "peer", Start: time.Now(), Hops: 2, RTT: 5 * time.Millisecond, RandomRTT: 50 * time.Millisecond}, nil
}

// firstOf says whether a channel's task is claimed for the first time.
func (s *swarm) firstOf(id channel.ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.claimed == nil {
		s.claimed = map[channel.ID]bool{}
	}
	was := s.claimed[id]
	s.claimed[id] = true
	return !was
}

func (s *swarm) crawl(signed channel.Signed, h channel.Header, vanish bool) {
	over := sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.running[h.Host]--
	})
	defer over()
	ctx := context.Background()
	s.mu.Lock()
	peer, fails := cmp.Or(s.as, "peer"), s.fail == h.Host && (!s.once || h.Gen == 1) // read together, as tests set them together
	if s.once && h.Gen == 1 {
		peer = "peer"
	}
	s.mu.Unlock()
	if vanish && !s.stalls { // a channel is not given up on the word of one account
		peer = fmt.Sprint("peer-", h.Gen)
	}
	c, err := s.archive.Claim(ctx, peer, signed)
	if errors.Is(err, archive.ErrClosed) {
		return // the test is over
	}
	if err == nil && c.Status == lease.Late {
		return // the machine is busy; it is handed out again
	}
	if s.recalls && err == nil && c.Status == lease.Fenced {
		return
	}
	if err != nil || c.Status != lease.Granted {
		s.t.Errorf("claim of channel %d, generation %d: %v, %v", h.Channel, h.Gen, c.Status, err)
		return
	}
	if vanish {
		return
	}
	if s.leaves && s.firstOf(h.Channel) {
		if _, err := s.archive.Release(ctx, peer, h.Channel, h.Gen); err != nil {
			s.t.Error(err)
		}
		return
	}
	body, err := channel.ParseBody(c.Body)
	if err != nil {
		s.t.Error(err)
		return
	}
	want := lease.Stored
	if s.amid != nil && s.amid(h) {
		want = lease.Fenced
	}
	now := time.Now()
	page := channel.Page{URL: body.Seeds[0], Status: 200, Change: channel.New, Fetched: now, Header: []byte("HTTP/1.1 200 OK\r\n\r\n"), Body: []byte(fmt.Sprint("page of gen ", h.Gen))}
	page.Digest = channel.ContentDigest(page.Body)
	chunk := channel.ChunkBody{Pages: []channel.Page{page}, Report: &channel.Report{Channel: h.Channel, Gen: h.Gen, Peer: peer,
		Outcome: channel.Updated, Started: now, Ended: now.Add(time.Millisecond), Pages: 1, Changed: 1, BytesDown: 100, Errors: map[string]int{"timeout": 1}, Inter: s.inter}}
	s.mu.Lock()
	if s.large == h.Host {
		chunk.Report.Pages, chunk.Report.Unchanged = 9, 8
		for i := range 8 {
			same := page // as it is stored, but for the first crawl
			same.URL, same.Body = fmt.Sprintf("%ssame-%d", body.Seeds[0], i), []byte("the same each time")
			same.Digest = channel.ContentDigest(same.Body)
			chunk.Pages = append(chunk.Pages, same)
		}
	}
	if s.grows == h.Host {
		r := chunk.Report
		chunk.Pages[0].Body = []byte("never changes")
		chunk.Pages[0].Digest = channel.ContentDigest(chunk.Pages[0].Body)
		if s.placed[h.Channel] > 1 {
			for i := range 3 {
				more := chunk.Pages[0]
				more.URL = fmt.Sprintf("%smore-%d", body.Seeds[0], i)
				chunk.Pages = append(chunk.Pages, more)
			}
		}
		r.Changed, r.Pages, r.New, r.Truncated, r.Left = 0, len(chunk.Pages), len(chunk.Pages), s.placed[h.Channel] == 1, 3
	}
	if s.refuses == h.Host {
		r := chunk.Report
		chunk.Pages, r.Pages, r.New, r.Changed, r.Outcome, r.Reason = nil, 0, 0, 0, channel.HostBlocked, "go away"
	}
	if fails {
		r := chunk.Report
		chunk.Pages, r.Pages, r.Changed, r.Outcome, r.Reason = nil, 0, 0, channel.Failed, "nothing could be fetched"
		r.Errors = map[string]int{"timeout": 3, "dns": 1, "skipped-robots": 7}
	}
	s.mu.Unlock()
	raw, err := channel.CompressBody(chunk.Marshal())
	if err != nil {
		s.t.Error(err)
		return
	}
	over()
	r, err := s.archive.Put(ctx, peer, channel.Chunk{Channel: h.Channel, Gen: h.Gen, Seq: c.Seq + 1, Prev: c.Head, Body: raw})
	if (s.brief || s.recalls) && err == nil && r.Status == lease.Fenced {
		return
	}
	if err != nil || r.Status != want {
		s.t.Errorf("chunk of channel %d, generation %d: %v, %v", h.Channel, h.Gen, r.Status, err)
	}
}
