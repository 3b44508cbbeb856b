package lease

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"math/bits"
	"strings"
	"testing"
	"time"

	"shoal/channel"
)

// epoch is the time zero of every world.
var epoch = time.Unix(1_000_000_000, 0)

// world is one channel with a manager, an archive and peers, whose messages are calls. Durable copies are kept apart, so that a crash
// is a copy back. It checks the invariants after every step.
type world struct {
	now   time.Time
	terms Terms

	issue, issueDisk, backup Issue
	cursor, cursorDisk       int
	backupCursor             int
	backupApplied            map[channel.Gen]int
	latest                   map[channel.Gen]time.Time // what the signed headers say

	fence, fenceDisk Fence
	feed             []Event    // durable
	chain            []Chunk    // what the archive has stored, durable
	acked            [][32]byte // hashes that a Stored reply promised
	applied          map[channel.Gen]int
	tries            int // handings-out since the last report, by a second count
	gens             channel.Gen
	marked           bool
	fetched          time.Time            // when a peer was last seen to have the right to fetch
	lapsed           map[channel.Gen]bool // of which the manager heard or will hear that their lease is over
	freed            []freeing            // when the manager was told that a host is free
	boast            string               // of a reply that says that the host has rested for longer; empty: none did
	untold           map[channel.Gen]bool // of which chunks were stored of whose pages the manager has not heard since

	peers    map[string]*peer
	underWay []func() Reply // what peers have sent and the archive has not received
}

// peer is a runner with what it knows of the channel.
// freeing says that of generations up to one no peer sends requests from then on.
type freeing struct {
	gen  channel.Gen
	from time.Time
}

type peer struct {
	name  string
	life  int // replies to an earlier life, or to a crawl that was given up, go unheard
	gen   channel.Gen
	hold  Holder
	seq   uint64
	head  [32]byte
	spool []Chunk // sent or to be sent, not acknowledged
	begun bool    // it has claimed gen since it started
}

func newWorld(t Terms) *world {
	return &world{now: epoch, terms: t, latest: map[channel.Gen]time.Time{}, applied: map[channel.Gen]int{}, lapsed: map[channel.Gen]bool{}, untold: map[channel.Gen]bool{}, peers: map[string]*peer{}}
}

func (w *world) peer(name string) *peer {
	p := w.peers[name]
	if p == nil {
		p = &peer{name: name}
		w.peers[name] = p
	}
	return p
}

// next hands out: durable, then deposited at the archive, as the dispatcher does.
func (w *world) next(wait time.Duration) (channel.Gen, error) {
	latest := w.now.Add(wait)
	gen, err := w.issue.Next(w.now, latest, w.terms)
	if err != nil {
		return 0, err
	}
	w.issueDisk = w.issue
	if s := w.deposit(gen); s.Status == Fenced {
		w.save(w.issue.Outran(gen, s.Highest))
		return gen, fmt.Errorf("FENCED, highest %d", s.Highest)
	}
	w.latest[gen] = latest
	w.gens = gen
	w.tries++
	return gen, nil
}

// killed hands out as next does, and has the manager killed before the task is deposited.
func (w *world) killed(wait time.Duration) (channel.Gen, error) {
	latest := w.now.Add(wait)
	gen, err := w.issue.Next(w.now, latest, w.terms)
	if err != nil {
		return 0, err
	}
	w.issueDisk = w.issue
	w.latest[gen], w.gens = latest, gen
	w.tries++
	w.crashManager()
	return gen, nil
}

func (w *world) deposit(gen channel.Gen) Reply {
	s := w.fence.Deposit(gen)
	w.archived(s)
	return s.Reply
}

// save makes the Issue durable where the effect says so.
func (w *world) save(e Effect) Effect {
	if e&Persist != 0 {
		w.issueDisk, w.cursorDisk = w.issue, w.cursor
	}
	if e&GaveUp != 0 {
		w.marked = true
	}
	return e
}

// refused is the outcome of a placing that no peer accepted.
func (w *world) refused(gen channel.Gen) Effect {
	e := w.save(w.issue.Refused(gen))
	if e&HandOut != 0 {
		w.tries--
	}
	return e
}

// archived makes a step of the fence durable.
func (w *world) archived(s Step) {
	if !s.Persist {
		return
	}
	w.fenceDisk = w.fence
	if s.Event.Kind != 0 {
		s.Event.Seq = uint64(len(w.feed) + 1)
		if s.Event.Kind == Lapsed {
			w.lapsed[s.Event.Gen] = true
		}
		if s.Event.Kind == Released {
			from := w.now
			if s.Event.Until.After(from) {
				from = s.Event.Until
			}
			w.freed = append(w.freed, freeing{s.Event.Gen, from})
		}
		w.feed = append(w.feed, s.Event)
	}
}

// deliver gives the manager what the feed holds beyond its cursor; again: from that position on.
func (w *world) deliver(again int) string {
	var out []string
	for w.cursor = max(0, w.cursor-again); w.cursor < len(w.feed); {
		e := w.feed[w.cursor]
		w.cursor++
		revoked, phase := e.Gen > w.issue.Live, w.issue.Phase // it was not claimed, or has lapsed
		eff := w.issue.Apply(w.now, e, w.terms)
		w.issueDisk, w.cursorDisk = w.issue, w.cursor // cursor and effects in one transaction
		w.save(eff)
		if eff&Apply != 0 {
			w.applied[e.Gen]++
			w.tries = 0
		}
		if e.Kind == Released && ((e.Progress || revoked) && eff&HandOut != 0 || e.Progress && revoked && phase != Marked && eff != 0) {
			w.tries = max(w.tries-1, 0)
		}
		if e.Progress && eff != 0 { // the manager reads all that is stored of it
			delete(w.untold, e.Gen)
		}
		out = append(out, fmt.Sprintf("%v %d%s", e.Kind, e.Gen, eff))
	}
	if out == nil {
		return "nothing new"
	}
	return strings.Join(out, "; ")
}

func (w *world) backUp() {
	w.backup, w.backupCursor, w.backupApplied = w.issueDisk, w.cursorDisk, maps.Clone(w.applied)
}

func (w *world) restoreManager() {
	w.issue, w.cursor, w.applied = w.backup, w.backupCursor, maps.Clone(w.backupApplied)
	w.issueDisk, w.cursorDisk = w.issue, w.cursor
	w.issue.Restore()
}

func (w *world) crashManager() {
	w.issue, w.cursor = w.issueDisk, w.cursorDisk
	w.issue.Restore()
}

func (w *world) crashArchive() {
	w.fence = w.fenceDisk
	w.fence.Restart(w.now, w.terms)
}

func (w *world) tick() (Effect, Event) {
	e := w.save(w.issue.Tick(w.now, w.terms))
	s := w.fence.Tick(w.now)
	w.archived(s)
	return e, s.Event
}

func (w *world) claim(p *peer, gen channel.Gen) Reply {
	s := w.fence.Claim(w.now, PeerOf(p.name), gen, w.latest[gen], w.terms)
	w.archived(s)
	if d := w.now.Sub(w.fetched); s.Reply.Status == Granted && !w.fetched.IsZero() && (d+leastRested < s.Reply.Rested || s.Reply.Rested == 0 && d < mostRested) {
		w.boast = fmt.Sprintf("%s is told that the host has rested for %v (0: a minute), and it was %v", p.name, s.Reply.Rested, d)
	}
	return s.Reply
}

// claimed is the peer's side of a claim's reply.
func (w *world) claimed(p *peer, gen channel.Gen, sent time.Time, r Reply) {
	if r.Status != Granted {
		if p.gen == gen {
			p.drop()
		}
		return
	}
	if p.gen != gen {
		p.gen, p.spool, p.hold = gen, nil, Holder{}
	}
	p.begun = true
	if len(p.spool) == 0 {
		p.seq, p.head = r.Seq, r.Head
	}
	p.hold.Acked(sent, r.Left)
}

// chunk makes the next chunk of p's crawl.
func (p *peer) chunk(final bool) Chunk {
	seq, head := p.seq, p.head
	if n := len(p.spool); n > 0 {
		seq, head = p.spool[n-1].Seq, p.spool[n-1].Hash
	}
	c := Chunk{Gen: p.gen, Seq: seq + 1, Prev: head, Final: final}
	c.Hash = sha256.Sum256(fmt.Appendf(nil, "%s %d %d %d %x %v", p.name, p.life, c.Gen, c.Seq, c.Prev, final))
	p.spool = append(p.spool, c)
	return c
}

func (w *world) put(p *peer, c Chunk) Reply {
	s := w.fence.Put(w.now, PeerOf(p.name), c, w.terms)
	if s.Persist {
		w.chain = append(w.chain, c)
		if !c.Empty {
			w.untold[c.Gen] = true
		}
	}
	w.archived(s)
	if s.Reply.Status == Stored {
		w.acked = append(w.acked, c.Hash)
	}
	return s.Reply
}

// putted is the peer's side of a chunk's reply.
func (w *world) putted(p *peer, c Chunk, sent time.Time, r Reply) {
	if p.gen != c.Gen {
		return
	}
	switch r.Status {
	case Stored:
		for len(p.spool) > 0 && p.spool[0].Seq <= c.Seq {
			p.seq, p.head = p.spool[0].Seq, p.spool[0].Hash
			p.spool = p.spool[1:]
		}
		if c.Final {
			p.drop()
			return
		}
		p.hold.Acked(sent, r.Left)
	case Behind: // go on from the head, with what is left of the spool, or discard it
		for len(p.spool) > 0 && p.spool[0].Prev != r.Head {
			p.spool = p.spool[1:]
		}
		p.seq, p.head = r.Seq, r.Head
		p.hold.Acked(sent, r.Left)
	case Fenced, Unclaimed:
		p.drop()
	}
}

// drop ends p's crawl of the channel.
func (p *peer) drop() {
	p.life++
	p.gen, p.spool, p.hold, p.begun = 0, nil, Holder{}, false
}

// restart begins a new life, which has the spool of the one before. Its report was in memory alone: the new one does not know that the crawl had
// ended.
func (p *peer) restart() {
	p.life++
	p.hold, p.begun = Holder{}, false
	if n := len(p.spool); n > 0 && p.spool[n-1].Final {
		p.spool = p.spool[:n-1]
	}
}

// fail is what checks report to; *testing.T and *rapid.T are.
type fail interface {
	Helper()
	Fatalf(string, ...any)
}

// check asserts the invariants.
func (w *world) check(t fail) {
	t.Helper()
	var holders []string
	for name, p := range w.peers {
		if p.hold.May(w.now) {
			holders = append(holders, name)
		}
	}
	if len(holders) > 0 {
		w.fetched = w.now
	}
	if w.boast != "" {
		t.Fatalf("%s", w.boast)
	}
	if len(holders) > 1 {
		t.Fatalf("%d peers may send requests: %v", len(holders), holders)
	}
	for _, name := range holders {
		f := &w.fence
		if w.lapsed[w.peers[name].gen] {
			t.Fatalf("%s may send requests by a lease that has lapsed: the manager may have another channel of the host crawled", name)
		}
		for _, r := range w.freed {
			if w.peers[name].gen <= r.gen && !w.now.Before(r.from) {
				t.Fatalf("%s may send requests by generation %d, and the manager was told that the host is free from %v on", name, w.peers[name].gen, r.from.Sub(epoch))
			}
		}
		if f.hold == released && f.until > w.now.UnixNano() && (f.Peer == 0 || f.Peer == PeerOf(name) && f.again) {
			continue // revoked, or released by its earlier life, and not heard of it: no other may claim
		}
		if f.hold != running || f.until <= w.now.UnixNano() || f.Peer != PeerOf(name) || f.Gen != w.peers[name].gen {
			t.Fatalf("%s may send requests without a lease: fence at %d, %s until %v", name, f.Gen, holdNames[f.hold], f.Deadline().Sub(epoch))
		}
	}
	var head [32]byte
	have := map[[32]byte]bool{}
	var seq uint64
	for n, c := range w.chain {
		if c.Prev != head || c.Seq <= seq {
			t.Fatalf("chunk %d of the chain is number %d on %x, not on %x, number %d", n+1, c.Seq, c.Prev[:4], head[:4], seq)
		}
		seq, head, have[c.Hash] = c.Seq, c.Hash, true
	}
	if w.fence.Head != head || w.fence.Seq < seq || w.fenceDisk.Head != head {
		t.Fatalf("head is %x, chain ends with %x", w.fence.Head[:4], head[:4])
	}
	for _, h := range w.acked {
		if !have[h] {
			t.Fatalf("acknowledged chunk %x is missing", h[:4])
		}
	}
	for gen, n := range w.applied {
		if n > 1 {
			t.Fatalf("report of generation %d was applied %d times", gen, n)
		}
	}
	if w.tries > w.terms.handouts() && bits.OnesCount32(w.issue.failed) >= leastParties && w.issue.Out() {
		t.Fatalf("one task was handed out %d times, and %d accounts had failed", w.tries, bits.OnesCount32(w.issue.failed))
	}
	if w.marked && w.issue.Phase == Marked && w.issue.Reason() == "" {
		t.Fatalf("marked without a reason")
	}
	if n := len(w.chain); n > 1 && w.chain[n-1].Gen < w.chain[n-2].Gen {
		t.Fatalf("generation went back")
	}
}

// allTold asserts, once no lease runs and the feed is read, that the manager has heard of all that was brought.
func (w *world) allTold(t fail) {
	t.Helper()
	for gen := range w.untold {
		t.Fatalf("the manager never heard that generation %d brought something", gen)
	}
}

func (e Effect) String() string {
	var s string
	for n, name := range []string{" persist", " apply", " hand-out", " gave-up"} {
		if e&(1<<n) != 0 {
			s += name
		}
	}
	return s
}

func TestElapsed(t *testing.T) {
	start := time.Now() // has both readings
	ran := start.Add(10 * time.Second)
	slept := ran.Round(0).Add(time.Hour) // the wall went on, no monotonic reading
	if got := Elapsed(start, ran); got != 10*time.Second {
		t.Errorf("elapsed %v, want 10s", got)
	}
	if got := Elapsed(start, slept); got != time.Hour+10*time.Second {
		t.Errorf("elapsed over a sleep %v, want 1h0m10s", got)
	}
	back := start.Round(0).Add(-time.Hour)
	if got := Elapsed(back, start); got != time.Hour {
		t.Errorf("elapsed %v, want 1h", got)
	}
}

func TestOffset(t *testing.T) {
	var o Offset
	if got := o.Time(epoch); !got.Equal(epoch) {
		t.Errorf("an unknown offset moved the time to %v", got)
	}
	// our clock is 90 s late; answers take 20 ms one way, a slow one 2 s
	o.Learn(epoch, epoch.Add(40*time.Millisecond), epoch.Add(90*time.Second+20*time.Millisecond))
	o.Learn(epoch, epoch.Add(2*time.Second), epoch.Add(90*time.Second+1900*time.Millisecond))
	if got := o.Time(epoch).Sub(epoch); got != 90*time.Second {
		t.Errorf("offset %v, want 90s", got)
	}
	// our clock is set right: after many readings it is believed, though they are less exact
	for range 100 {
		o.Learn(epoch, epoch.Add(100*time.Millisecond), epoch.Add(50*time.Millisecond))
	}
	if got := o.Time(epoch).Sub(epoch); got != 0 {
		t.Errorf("offset after the clock was set %v, want 0", got)
	}
}

func TestTermsValidate(t *testing.T) {
	if err := Default().Validate(); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []Terms{{}, {Term: time.Minute, Backoff: 2, MaxBackoff: 1}, {Term: time.Minute, Handouts: 300}, {Term: time.Minute, Slack: -1}} {
		if bad.Validate() == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
}
