package overlaytest

import (
	"bytes"
	"errors"
	"slices"
	"sync"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/coords"
	"shoal/internal/member"
)

// Uplink is what a peer says to its archive.
type Uplink interface {
	Claim(task channel.Signed) (lease.Reply, error)
	Put(c channel.Chunk) (lease.Reply, error)
	Release(id channel.ID, gen channel.Gen) (lease.Reply, error)
}

// Ledger is an archive that keeps its chunks in memory, under the fences of package lease. A chunk whose body begins with "report" is a crawl's last.
type Ledger struct {
	verifier *member.Verifier
	clock    func() time.Time // of the swarm

	mu     sync.Mutex
	ahead  time.Duration // of the swarm's clock: leases and pauses pass without waiting
	fences map[channel.ID]*lease.Fence
	chunks map[channel.ID][]channel.Chunk // stored
	feed   []lease.Event
}

// Open readies a ledger for a swarm.
func (l *Ledger) Open(v *member.Verifier, clock func() time.Time) {
	l.verifier, l.clock = v, clock
	l.fences, l.chunks = map[channel.ID]*lease.Fence{}, map[channel.ID][]channel.Chunk{}
}

var terms = lease.Default()

func (l *Ledger) now() time.Time { return l.clock().Add(l.ahead) }

func (l *Ledger) fence(id channel.ID) *lease.Fence {
	if l.fences[id] == nil {
		l.fences[id] = &lease.Fence{}
	}
	return l.fences[id]
}

func (l *Ledger) told(s lease.Step) lease.Reply {
	if s.Event.Kind != 0 {
		s.Event.Seq = uint64(len(l.feed) + 1)
		l.feed = append(l.feed, s.Event)
	}
	return s.Reply
}

// Claim of a peer.
func (l *Ledger) Claim(peer string, task channel.Signed) (lease.Reply, error) {
	h, err := l.verifier.VerifyTask(l.clock(), task)
	if err != nil {
		return lease.Reply{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.told(l.fence(h.Channel).Claim(l.now(), lease.PeerOf(peer), h.Gen, h.Latest.Add(l.ahead), terms)), nil
}

// Put of a peer.
func (l *Ledger) Put(peer string, c channel.Chunk) (lease.Reply, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.fence(c.Channel)
	before := f.Seq
	r := l.told(f.Put(l.now(), lease.PeerOf(peer), lease.Chunk{Gen: c.Gen, Seq: c.Seq, Prev: c.Prev, Hash: c.Hash(), Final: bytes.HasPrefix(c.Body, []byte("report"))}, terms))
	if f.Seq > before {
		l.chunks[c.Channel] = append(l.chunks[c.Channel], c)
	}
	return r, nil
}

// Release of a peer.
func (l *Ledger) Release(peer string, id channel.ID, gen channel.Gen) (lease.Reply, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.told(l.fence(id).Release(l.now(), lease.PeerOf(peer), gen)), nil
}

// pass lets time pass for leases and pauses.
func (l *Ledger) pass(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ahead += d
	for _, f := range l.fences {
		l.told(f.Tick(l.now()))
	}
}

// hander hands one channel out, as a manager does.
type hander struct {
	*world
	id      channel.ID
	issue   lease.Issue
	read    int           // of the feed
	gens    []channel.Gen // handed out
	reports int           // that counted
	acked   []channel.Chunk
}

// handOut places the next generation. It returns the task, and who has it.
func (h *hander) handOut() (channel.Signed, channel.Gen, int, error) {
	h.t.Helper()
	for _, q := range h.setup.Queues {
		q.mu.Lock()
		q.have = nil
		q.mu.Unlock()
	}
	l := h.setup.Ledger
	l.mu.Lock()
	now := l.now()
	gen, err := h.issue.Next(now, now.Add(10*time.Minute), terms)
	if err == nil {
		l.fence(h.id).Deposit(gen)
	}
	l.mu.Unlock()
	if err != nil {
		return channel.Signed{}, 0, 0, err
	}
	h.gens = append(h.gens, gen)
	t := h.task(h.id, func(hd *channel.Header) { hd.Gen = gen })
	if _, err := h.Place(t, coords.HostRecord{}); err != nil {
		h.t.Fatalf("generation %d: %v", gen, err)
	}
	h.issue.Placed(gen)
	who := slices.IndexFunc(h.setup.Queues, func(q *Queue) bool { return len(q.tasks()) > 0 })
	return t.Signed, gen, who, nil
}

// hear applies what the archive tells, and then all of it once more, which changes nothing.
func (h *hander) hear() {
	h.t.Helper()
	l := h.setup.Ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range append(slices.Clone(l.feed[h.read:]), l.feed...) {
		if h.issue.Apply(l.now(), e, terms)&lease.Apply != 0 {
			h.reports++
		}
	}
	h.read = len(l.feed)
	h.issue.Tick(l.now(), terms)
}

// want asks the archive for something and wants an answer.
func (h *hander) want(what string, want lease.Status, r lease.Reply, err error) lease.Reply {
	h.t.Helper()
	if err != nil || r.Status != want {
		h.t.Fatalf("%s: answered %v, %v; want %v", what, r.Status, err, want)
	}
	return r
}

// next is the chunk that follows what the archive said is its head.
func (h *hander) next(r lease.Reply, gen channel.Gen, body string) channel.Chunk {
	return channel.Chunk{Channel: h.id, Gen: gen, Seq: r.Seq + 1, Prev: r.Head, Body: []byte(body)}
}

// put has a peer store a chunk, twice: the first answer was lost.
func (h *hander) put(who int, r lease.Reply, gen channel.Gen, body string) lease.Reply {
	h.t.Helper()
	c := h.next(r, gen, body)
	got, err := h.Archive(who).Put(c)
	h.want(body, lease.Stored, got, err)
	h.acked = append(h.acked, c)
	again, err := h.Archive(who).Put(c)
	return h.want(body+", again", lease.Stored, again, err)
}

// hand hands the task out and has the peer claim it.
func (h *hander) hand() (channel.Signed, channel.Gen, int, lease.Reply) {
	h.t.Helper()
	task, gen, who, err := h.handOut()
	if err != nil {
		h.t.Fatal(err)
	}
	r, err := h.Archive(who).Claim(task)
	h.want("claim", lease.Granted, r, err)
	h.hear()
	return task, gen, who, r
}

// chain has a channel's task go through many hands: its copy is one unbroken chain all the same, nothing that was acknowledged is missing from it, and its generations
// only grow.
func chain(w *world) {
	h := &hander{world: w, id: 7}
	sleeper, lapsed := h.comings()
	h.strangers(sleeper, lapsed)
	if h.reports != 1 || h.issue.Out() || h.issue.Tries != 0 {
		w.t.Errorf("%d reports counted, and it stands at %v after %d tries", h.reports, h.issue.Phase, h.issue.Tries)
	}
	h.unbroken(h.acked)
	h.grow()
}

// comings has one peer leave politely, one let its lease lapse, and one never claim. The second one will come back.
func (h *hander) comings() (sleeper int, lapsed channel.Gen) {
	l := h.setup.Ledger
	_, gen, who, r := h.hand()
	h.put(who, h.put(who, r, gen, "one"), gen, "two")
	got, err := h.Archive(who).Release(h.id, gen)
	h.want("release", lease.Ended, got, err)
	h.hear()
	_, lapsed, sleeper, r = h.hand()
	if len(h.acked) != int(r.Seq) {
		h.t.Errorf("it goes on from %d, and %d were acknowledged", r.Seq, len(h.acked))
	}
	h.put(sleeper, r, lapsed, "three")
	l.pass(terms.Term + time.Second)
	h.hear()
	l.pass(terms.MaxBackoff)
	h.hear()
	if _, _, _, err := h.handOut(); err != nil {
		h.t.Fatal(err)
	}
	l.pass(time.Hour)
	h.hear()
	l.pass(terms.MaxBackoff)
	h.hear()
	return sleeper, lapsed
}

// strangers has the task's holder finish it amid a second claim, a claim of what was not handed out, a chunk that is not on the head, one of
// another peer's, and the sleeper's, who comes back.
func (h *hander) strangers(sleeper int, lapsed channel.Gen) {
	task, gen, who, r := h.hand()
	other := (who + 1) % peers
	got, err := h.Archive(other).Claim(task)
	h.want("another peer's claim", lease.Fenced, got, err)
	got, err = h.Archive(who).Claim(h.task(h.id, func(hd *channel.Header) { hd.Gen = gen + 5 }).Signed)
	h.want("a claim of what was never handed out", lease.Unclaimed, got, err)
	gap := h.next(r, gen, "four")
	gap.Seq++
	got, err = h.Archive(who).Put(gap)
	h.want("a chunk after a gap", lease.Behind, got, err)
	broken := h.next(r, gen, "four")
	broken.Prev[3] ^= 1
	got, err = h.Archive(who).Put(broken)
	if h.want("a chunk on another head", lease.Behind, got, err); got.Seq != r.Seq || got.Head != r.Head {
		h.t.Errorf("told to go on from %d, the head is %d", got.Seq, r.Seq)
	}
	got, err = h.Archive(other).Put(h.next(r, gen, "four"))
	h.want("another peer's chunk", lease.Fenced, got, err)
	got, err = h.Archive(sleeper).Put(h.next(r, lapsed, "four"))
	h.want("a chunk of a generation before", lease.Fenced, got, err)
	h.put(who, h.put(who, r, gen, "four"), gen, "report")
	h.hear()
}

// unbroken wants the stored chunks to be those that were acknowledged, each naming the one before it.
func (h *hander) unbroken(acked []channel.Chunk) {
	h.t.Helper()
	l := h.setup.Ledger
	l.mu.Lock()
	stored := l.chunks[h.id]
	l.mu.Unlock()
	if len(stored) != len(acked) {
		h.t.Fatalf("%d chunks are stored, %d were acknowledged", len(stored), len(acked))
	}
	var prev [32]byte
	for i, c := range stored {
		if c.Hash() != acked[i].Hash() || c.Prev != prev || c.Seq != uint64(i+1) || i > 0 && c.Gen < stored[i-1].Gen {
			h.t.Errorf("chunk %d of the chain is %+v", i+1, c)
		}
		prev = c.Hash()
	}
}

// grow wants generations that only grew.
func (h *hander) grow() {
	h.t.Helper()
	for i := 1; i < len(h.gens); i++ {
		if h.gens[i] <= h.gens[i-1] {
			h.t.Errorf("generations %v", h.gens)
		}
	}
}

// handedOut has a task swallowed every time: it is handed out eight times, after ever longer pauses, and then its channel is marked, with the reason.
func handedOut(w *world) {
	h := &hander{world: w, id: 8}
	l := w.setup.Ledger
	var pauses []time.Duration
	for {
		if _, _, _, err := h.handOut(); errors.Is(err, lease.ErrMarked) {
			break
		} else if err != nil {
			w.t.Fatal(err)
		}
		if _, _, _, err := h.handOut(); !errors.Is(err, lease.ErrOut) {
			w.t.Errorf("handed out while it is out: %v", err)
		}
		l.pass(10*time.Minute + terms.Slack)
		h.hear()
		if h.issue.Phase != lease.Pausing {
			continue
		}
		if _, _, _, err := h.handOut(); !errors.Is(err, lease.ErrPausing) {
			w.t.Errorf("handed out at once: %v", err)
		}
		pause := h.issue.Deadline().Sub(l.now())
		pauses = append(pauses, pause)
		l.pass(pause)
		h.hear()
	}
	if len(h.gens) != lease.DefaultHandouts || h.issue.Reason() == "" {
		w.t.Errorf("handed out %d times, then marked: %q", len(h.gens), h.issue.Reason())
	}
	if !slices.IsSorted(pauses) || len(pauses) != lease.DefaultHandouts-1 || pauses[1] <= pauses[0] {
		w.t.Errorf("pauses %v", pauses)
	}
	h.grow()
}
