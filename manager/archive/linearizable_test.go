package archive

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"shoal/channel"
	"shoal/channel/lease"
)

// call is what a peer, or the manager, asks of the archive about one channel.
type call struct {
	what string // deposit, claim, put, renew or release
	id   channel.ID
	peer int
	gen  channel.Gen
	seq  uint64 // put
	prev [32]byte
	hash [32]byte
	last bool // put: with the report
}

// reply is the archive's answer. An unknown one was lost in a restart: the call may have been done or not.
type reply struct {
	unknown bool
	status  lease.Status
	seq     uint64
	head    [32]byte
}

// register is what a channel's fence is to whoever calls it while no lease runs out: a register that holds the generation, its peer and the head of its chain.
type register struct {
	offered, gen         channel.Gen
	lies                 uint64 // a bit for each generation below 64 that was deposited
	peer                 int
	seq                  uint64
	head                 [32]byte
	running, ended       bool // the lease of gen; it was given back or reported
	stored, again, given bool // a chunk was stored under gen; it was claimed again; it was given back
}

// do is the register's specification, written from docs/protocol.md and not from the code.
func (r register) do(c call) (reply, register) {
	at := func(s lease.Status) reply { return reply{status: s, seq: r.seq, head: r.head} }
	switch c.what {
	case "deposit":
		if c.gen <= max(r.gen, r.offered) { // but a repeated one may be answered as the first was
			return at(lease.Fenced), r
		}
		r.offered, r.lies = c.gen, r.lies|1<<c.gen
		return at(lease.Waiting), r
	case "claim":
		return r.claim(c)
	case "put":
		return r.put(c)
	case "renew":
		switch {
		case r.unknown(c.gen):
			return at(lease.Unclaimed), r
		case c.gen > r.gen:
			return at(lease.Waiting), r
		case c.gen < r.gen || c.peer != r.peer:
			return at(lease.Fenced), r
		case r.ended:
			return at(lease.Ended), r
		}
		return at(lease.Granted), r
	case "release":
		switch {
		case c.gen > r.gen:
			return at(lease.Unclaimed), r
		case c.gen < r.gen || c.peer != r.peer:
			return at(lease.Fenced), r
		}
		r.given = r.given || r.running
		r.running, r.ended = false, true
		return at(lease.Ended), r
	}
	panic(c.what)
}

// unknown tells whether a generation could be claimed if it had been deposited, and was not. A higher one may have been, as a manager goes on after a deposit that was
// lost.
func (r register) unknown(gen channel.Gen) bool { return gen > r.gen && r.lies&(1<<gen) == 0 }

func (r register) claim(c call) (reply, register) {
	switch {
	case r.unknown(c.gen):
		return reply{status: lease.Unclaimed, seq: r.seq, head: r.head}, r
	case c.gen < r.gen, c.gen == r.gen && (c.peer != r.peer || r.ended):
		return reply{status: lease.Fenced, seq: r.seq, head: r.head}, r
	case c.gen == r.gen:
		r.seq++
		r.again = true
	case r.running, r.given && r.again: // who claimed again may not know that it gave back
		return reply{status: lease.Held, seq: r.seq, head: r.head}, r
	default:
		r.gen, r.peer = c.gen, c.peer
		r.running, r.ended, r.stored, r.again, r.given = true, false, false, false, false
	}
	return reply{status: lease.Granted, seq: r.seq, head: r.head}, r
}

func (r register) put(c call) (reply, register) {
	s := lease.Stored
	switch {
	case c.gen > r.gen:
		s = lease.Unclaimed
	case c.gen < r.gen, c.peer != r.peer:
		s = lease.Fenced
	case c.seq == r.seq && c.hash == r.head && r.stored: // again
	case r.ended:
		s = lease.Fenced
	case c.seq != r.seq+1, c.prev != r.head:
		s = lease.Behind
	default:
		r.seq, r.head, r.stored = c.seq, c.hash, true
		if c.last {
			r.running, r.ended = false, true
		}
	}
	return reply{status: s, seq: r.seq, head: r.head}, r
}

// fits reports whether two answers say the same. An answer that refuses says nothing of the head that anybody may rely on.
func fits(want, got reply) bool {
	if want.status != got.status {
		return false
	}
	return want.status != lease.Granted && want.status != lease.Stored || want.seq == got.seq && want.head == got.head
}

var fenceModel = (&porcupine.NondeterministicModel{
	Partition: func(all []porcupine.Operation) [][]porcupine.Operation {
		of := map[channel.ID][]porcupine.Operation{}
		for _, o := range all {
			id := o.Input.(call).id
			of[id] = append(of[id], o)
		}
		var out [][]porcupine.Operation
		for _, h := range of {
			out = append(out, h)
		}
		return out
	},
	Init: func() []any { return []any{register{}} },
	Step: func(state, input, output any) []any {
		s := state.(register)
		got := output.(reply)
		want, next := s.do(input.(call))
		switch {
		case got.unknown && next != s:
			return []any{s, next}
		case got.unknown || fits(want, got):
			return []any{next}
		case input.(call).what == "deposit" && s.gen < input.(call).gen && got.status == lease.Waiting:
			return []any{s}
		}
		return nil
	},
	DescribeOperation: func(input, output any) string {
		c, r := input.(call), output.(reply)
		answer := fmt.Sprintf("%v, seq %d on %x", r.status, r.seq, r.head[:2])
		if r.unknown {
			answer = "?"
		}
		return fmt.Sprintf("channel %d: peer %d: %s %d: seq %d, %x on %x, final %v -> %s", c.id, c.peer, c.what, c.gen, c.seq, c.hash[:2], c.prev[:2], c.last, answer)
	},
}).ToModel()

// callers are an archive that is opened anew now and then, with what its callers did.
type callers struct {
	t       *testing.T
	dir     string
	latest  time.Time
	began   time.Time
	archive atomic.Pointer[Archive]
	offered [4]atomic.Uint64 // by channel: highest generation that was deposited
	mu      sync.Mutex
	history []porcupine.Operation
}

// do calls the archive and notes when it was called, and when it answered.
func (w *callers) do(client int, c call, f func(*Archive) (reply, error)) reply {
	a := w.archive.Load()
	called := time.Since(w.began).Nanoseconds()
	out, err := f(a)
	o := porcupine.Operation{ClientId: client, Input: c, Call: called, Output: out, Return: time.Since(w.began).Nanoseconds()}
	if err != nil { // the archive was closed
		out.unknown = true
		o.Output, o.Return = out, time.Hour.Nanoseconds()
		for w.archive.Load() == a && w.t.Context().Err() == nil {
			time.Sleep(time.Millisecond)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.history = append(w.history, o)
	return out
}

// calls is how many were answered or lost so far.
func (w *callers) calls() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.history)
}

// manage deposits generations of all channels.
func (w *callers) manage(rng *rand.Rand, calls int) {
	for range calls {
		n := rng.IntN(len(w.offered))
		gen := channel.Gen(w.offered[n].Load() + 1)
		if rng.IntN(8) == 0 {
			gen = max(gen-1, 1) // what a manager without its last memory does
		}
		w.deposit(n, gen)
		time.Sleep(time.Duration(rng.IntN(2000)) * time.Microsecond)
	}
}

func (w *callers) deposit(n int, gen channel.Gen) {
	signed, body := task(channel.ID(n+1), gen, w.latest)
	w.do(0, call{what: "deposit", id: channel.ID(n + 1), gen: gen}, func(a *Archive) (reply, error) {
		err := a.Deposit(context.Background(), signed, body)
		if fenced := (*FencedError)(nil); errors.As(err, &fenced) {
			return reply{status: lease.Fenced}, nil
		}
		return reply{status: lease.Waiting}, err
	})
	w.offered[n].Store(max(w.offered[n].Load(), uint64(gen)))
}

// crawl is a peer that claims, puts, renews and releases in any order, with what it was told of the head, or with something else.
func (w *callers) crawl(peer int, rng *rand.Rand, calls int) {
	type view struct {
		gen  channel.Gen
		seq  uint64
		head [32]byte
	}
	views := map[channel.ID]view{}
	for range calls {
		id := channel.ID(rng.IntN(len(w.offered)) + 1)
		for range 6 { // rather one that the peer has claimed
			if _, has := views[id]; !has {
				id = channel.ID(rng.IntN(len(w.offered)) + 1)
			}
		}
		v := views[id]
		c := call{id: id, peer: peer, gen: v.gen}
		if newest := channel.Gen(w.offered[id-1].Load()); newest > 0 && (v.gen == 0 || rng.IntN(4) == 0) {
			c.gen = newest
		}
		signed, _ := task(id, c.gen, w.latest)
		name := fmt.Sprint("peer-", peer)
		ctx := context.Background()
		switch n := rng.IntN(12); {
		case n < 3 || v.gen == 0:
			c.what = "claim"
			r := w.do(peer, c, func(a *Archive) (reply, error) {
				got, err := a.Claim(ctx, name, signed)
				return reply{status: got.Status, seq: got.Seq, head: got.Head}, err
			})
			if !r.unknown && r.status == lease.Granted {
				views[id] = view{c.gen, r.seq, r.head}
			}
		case n < 8:
			c.what, c.seq, c.prev, c.last = "put", v.seq+1, v.head, rng.IntN(5) == 0
			chunk := w.chunk(c, name, rng)
			c.hash = chunk.Hash()
			for range 1 + rng.IntN(2) { // some come twice
				r := w.do(peer, c, func(a *Archive) (reply, error) {
					got, err := a.Put(ctx, name, chunk)
					return reply{status: got.Status, seq: got.Seq, head: got.Head}, err
				})
				if !r.unknown && r.status == lease.Stored {
					views[id] = view{c.gen, r.seq, r.head}
				}
			}
		case n < 9:
			c.what = "renew"
			w.do(peer, c, func(a *Archive) (reply, error) {
				got, err := a.Renew(ctx, name, signed)
				return reply{status: got.Status, seq: got.Seq, head: got.Head}, err
			})
		default:
			c.what = "release"
			w.do(peer, c, func(a *Archive) (reply, error) {
				got, err := a.Release(ctx, name, id, c.gen)
				return reply{status: got.Status, seq: got.Seq, head: got.Head}, err
			})
			if rng.IntN(2) == 0 { // else it goes on as if it had not
				delete(views, id)
			}
		}
	}
}

// chunk is one that brings nothing but its place in the chain, or a report.
func (w *callers) chunk(c call, peer string, rng *rand.Rand) channel.Chunk {
	b := channel.ChunkBody{Frontier: []channel.Frontier{{URL: fmt.Sprintf("http://site-%d.example/%d", c.id, rng.Uint32())}}}
	if c.last {
		now := time.Now()
		b.Report = &channel.Report{Channel: c.id, Gen: c.gen, Peer: peer, Outcome: channel.Stopped, Started: now, Ended: now}
	}
	raw, err := channel.CompressBody(b.Marshal())
	if err != nil {
		w.t.Error(err)
	}
	return channel.Chunk{Channel: c.id, Gen: c.gen, Seq: c.seq, Prev: c.prev, Body: raw}
}

func (w *callers) open() {
	cfg := testConfig(w.dir)
	cfg.Terms = lease.Terms{Term: time.Hour} // no lease runs out
	a, err := Open(context.Background(), cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	w.archive.Store(a)
}

// Whatever deposits, claims, chunks, renewals and releases come at the same time, through restarts of the archive, there is an order in which a single
// register would have answered the same (Herlihy and Wing, "Linearizability", 1990).
func TestCallsAreLinearizable(t *testing.T) {
	t.Parallel()
	const peers, restarts, between = 5, 3, 60
	w := &callers{t: t, dir: t.TempDir(), latest: time.Now().Add(time.Hour), began: time.Now()}
	w.open()
	for n := range w.offered {
		w.deposit(n, 1) // so that there is something to claim
	}
	var wg sync.WaitGroup
	wg.Go(func() { w.manage(rand.New(rand.NewPCG(1, 0)), 90) })
	for p := range peers {
		wg.Go(func() { w.crawl(p+1, rand.New(rand.NewPCG(1, uint64(p+1))), 120) })
	}
	ended := make(chan struct{})
	go func() { defer close(ended); wg.Wait() }()
	for range restarts {
		for n := w.calls() + between; w.calls() < n; { // calls are under way then
			select {
			case <-ended:
				t.Fatalf("all callers ended after %d calls", w.calls())
			case <-time.After(time.Millisecond):
			}
		}
		old := w.archive.Load()
		if err := old.Close(); err != nil {
			t.Error(err)
		}
		w.open()
	}
	wg.Wait()
	if err := w.archive.Load().Close(); err != nil {
		t.Error(err)
	}
	done := map[string]int{}
	for _, o := range w.history {
		what := o.Input.(call).what
		switch out := o.Output.(reply); {
		case out.unknown:
			what = "lost " + what
		case out.status == lease.Granted || out.status == lease.Stored || out.status == lease.Ended:
			what += ", done"
		default:
			what += ", refused"
		}
		done[what]++
	}
	t.Log(done)
	for _, what := range []string{"claim, done", "claim, refused", "put, done", "put, refused", "release, done"} {
		if done[what] == 0 {
			t.Errorf("no %s: %v", what, done)
		}
	}
	result, info := porcupine.CheckOperationsVerbose(fenceModel, w.history, 0)
	if result != porcupine.Ok {
		slices.SortFunc(w.history, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
		for _, o := range w.history {
			t.Log(o.Call, o.Return, fenceModel.DescribeOperation(o.Input, o.Output))
		}
		t.Errorf("the calls are not linearizable: %v, %v", result, info.PartialLinearizations() != nil)
	}
}

// The model itself finds two peers that both were granted a generation, and a claim that was granted while an older one ran.
func TestTheModelRefuses(t *testing.T) {
	op := func(n int64, c call, r reply) porcupine.Operation {
		c.id = 1
		return porcupine.Operation{ClientId: c.peer, Input: c, Output: r, Call: 2 * n, Return: 2*n + 1}
	}
	granted := reply{status: lease.Granted}
	before := []porcupine.Operation{
		op(1, call{what: "deposit", gen: 1}, reply{status: lease.Waiting}), op(2, call{what: "claim", peer: 1, gen: 1}, granted),
	}
	for name, c := range map[string]struct {
		more []porcupine.Operation
		ok   bool
	}{
		"as it should be":         {nil, true},
		"two peers, one task":     {[]porcupine.Operation{op(3, call{what: "claim", peer: 2, gen: 1}, granted)}, false},
		"a chunk of another peer": {[]porcupine.Operation{op(3, call{what: "put", peer: 2, gen: 1, seq: 1}, reply{status: lease.Stored, seq: 1})}, false},
		"a lost deposit before another": {[]porcupine.Operation{op(3, call{what: "deposit", gen: 2}, reply{unknown: true}), op(4, call{what: "deposit", gen: 3}, reply{status: lease.Waiting}),
			op(5, call{what: "claim", peer: 2, gen: 2}, reply{status: lease.Unclaimed})}, true},
		"a deposit that is forgotten": {[]porcupine.Operation{op(3, call{what: "deposit", gen: 2}, reply{status: lease.Waiting}),
			op(5, call{what: "claim", peer: 2, gen: 2}, reply{status: lease.Unclaimed})}, false},
		"a lost release": {[]porcupine.Operation{op(3, call{what: "release", peer: 1, gen: 1}, reply{unknown: true}), op(4, call{what: "deposit", gen: 2}, reply{status: lease.Waiting}),
			op(5, call{what: "claim", peer: 2, gen: 2}, granted)}, true},
		"a lease that runs": {[]porcupine.Operation{op(3, call{what: "deposit", gen: 2}, reply{status: lease.Waiting}), op(4, call{what: "claim", peer: 2, gen: 2}, granted)}, false},
	} {
		if got := porcupine.CheckOperations(fenceModel, append(slices.Clone(before), c.more...)); got != c.ok {
			t.Errorf("%s: %v", name, got)
		}
	}
}
