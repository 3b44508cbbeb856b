package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"shoal/internal/lab/rogue"
)

// Clerks are members that take few tasks and call the archive about each over the wire, several at once: they claim, store empty chunks, renew, release, in any order.
// They note each call and its answer. At the end there must be an order of all calls in which one register for each channel would have answered the same.

const (
	chaosClerks  = 3
	clerksTasks  = 2 // at a time, of all of them
	clerksCalls  = 5 // of each clerk about a task
	clerksAnswer = 10 * time.Second
	clerksRest   = 2 * time.Second // after a task, before the next
)

// clerkCall is one call, and clerkReply its answer. An unknown one may have been done or not.
type clerkCall struct {
	what    string // claim, chunk, renew, release
	channel uint64
	gen     uint64
	clerk   int
	seq     uint64
	prev    [32]byte
	hash    [32]byte
}

type clerkReply struct {
	unknown bool
	rogue.Said
}

// desk is what the clerks of a run share.
type clerkDesk struct {
	began time.Time
	crew  []*rogue.Volunteer // complete before the first offer is taken
	rng   *rand.Rand         // guarded by mu

	mu      sync.Mutex
	busy    int
	history []porcupine.Operation
}

// employ has the clerks join and work until the returned function is called.
func (c *chaosRun) employ() (leave func()) {
	d := &clerkDesk{began: time.Now(), rng: rand.New(rand.NewPCG(c.script.Seed, 0xc1e4))}
	c.clerks = d
	ctx, cancel := context.WithCancel(c.t.Context())
	var wg sync.WaitGroup
	for i := range chaosClerks {
		scene := c.scene
		scene.Account = fmt.Sprint("clerk-", i)
		v, err := rogue.Join(ctx, scene, rogue.Attack{Name: "clerk", RTT: time.Millisecond, Takes: d.takes, Work: d.work})
		if err != nil {
			c.t.Fatal(err)
		}
		d.crew = append(d.crew, v)
	}
	for _, v := range d.crew {
		wg.Go(func() { _ = v.Run(ctx) }) // it ends with its context
	}
	leave = sync.OnceFunc(func() { cancel(); wg.Wait() })
	c.t.Cleanup(leave)
	return leave
}

func (d *clerkDesk) takes() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.busy >= clerksTasks {
		return false
	}
	d.busy++
	return true
}

// work has all clerks call about one task, at the same time.
func (d *clerkDesk) work(ctx context.Context, _ *rogue.Volunteer, o rogue.Offer) error {
	defer func() {
		select {
		case <-ctx.Done():
		case <-time.After(clerksRest):
		}
		d.mu.Lock()
		d.busy--
		d.mu.Unlock()
	}()
	var wg sync.WaitGroup
	for i := range d.crew {
		d.mu.Lock()
		rng := rand.New(rand.NewPCG(d.rng.Uint64(), uint64(i)))
		d.mu.Unlock()
		wg.Go(func() { d.calls(ctx, i, o, rng) })
	}
	wg.Wait()
	return nil
}

// calls are one clerk's about a task. It goes on from what it was told last, or from something else. In the end it gives the task back.
func (d *clerkDesk) calls(ctx context.Context, clerk int, o rogue.Offer, rng *rand.Rand) {
	v := d.crew[clerk]
	last := d.call(ctx, v, clerkCall{what: "claim", clerk: clerk}, o)
	for range clerksCalls {
		c := clerkCall{what: "chunk", clerk: clerk, seq: last.Seq + 1, prev: last.Head}
		switch n := rng.IntN(10); {
		case n < 2:
			c = clerkCall{what: "claim", clerk: clerk}
		case n < 4:
			c = clerkCall{what: "renew", clerk: clerk}
		case n < 5:
			c = clerkCall{what: "release", clerk: clerk}
		}
		if r := d.call(ctx, v, c, o); !r.unknown && (r.Status == rogue.Granted || r.Status == rogue.Stored) {
			last = r
		}
	}
	d.call(ctx, v, clerkCall{what: "release", clerk: clerk}, o)
}

// call calls, and notes the call with its answer. A call without an answer may be done at any later time.
func (d *clerkDesk) call(ctx context.Context, v *rogue.Volunteer, c clerkCall, o rogue.Offer) (r clerkReply) {
	if ctx.Err() != nil {
		return clerkReply{unknown: true}
	}
	ctx, cancel := context.WithTimeout(ctx, clerksAnswer)
	defer cancel()
	c.channel, c.gen = o.Header.Channel, o.Header.Gen
	called := time.Since(d.began).Nanoseconds()
	var err error
	switch c.what {
	case "claim":
		r.Said, err = v.SayClaim(ctx, o)
	case "renew":
		r.Said, err = v.SayRenew(ctx, o)
	case "release":
		r.Said, err = v.SayRelease(ctx, o)
	default:
		c.hash, r.Said, err = v.SayChunk(ctx, o, c.seq, c.prev)
	}
	returned := time.Since(d.began).Nanoseconds()
	if err != nil {
		r, returned = clerkReply{unknown: true}, (1000 * time.Hour).Nanoseconds()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.history = append(d.history, porcupine.Operation{ClientId: c.clerk, Input: c, Output: r, Call: called, Return: returned})
	return r
}

// taskRegister is what the clerks know of a channel's claims: the highest generation that one of them was granted, its holder and its chain. Other members have
// generations of the same channel in between, of which the clerks know nothing: a refusal may have its reason there, and tells nothing.
type taskRegister struct {
	gen    uint64
	holder int
	seq    uint64
	head   [32]byte
	ended  bool // given back
	open   bool // the claim's answer was lost, and with it what chain it found: this one, or a longer one
}

// on is the register if its chain, as far as that is open, is one of which a later answer tells.
func (r taskRegister) on(seq uint64, head [32]byte) taskRegister {
	if r.open && seq > r.seq {
		r.seq, r.head = seq, head
	}
	r.open = false
	return r
}

// next is the register after a call that was done with an answer; ok: a register may have answered so.
func (r taskRegister) next(c clerkCall, seq uint64, head [32]byte) (after taskRegister, ok bool) {
	switch c.what {
	case "claim":
		if c.gen > r.gen {
			// The chain may be longer than the clerks know. It cannot be shorter, nor another one of the same length.
			return taskRegister{gen: c.gen, holder: c.clerk, seq: seq, head: head}, seq > r.seq || seq == r.seq && head == r.head
		}
		r = r.on(seq-1, head)
		ok = c.gen == r.gen && r.holder == c.clerk && !r.ended && seq == r.seq+1 && head == r.head
		r.seq++
		return r, ok
	case "chunk":
		if r.ended {
			r = r.on(c.seq, c.hash)
		}
		r = r.on(c.seq-1, c.prev)
		again := c.seq == r.seq && c.hash == r.head
		ok = c.gen == r.gen && r.holder == c.clerk && seq == c.seq && head == c.hash && (again || !r.ended && c.seq == r.seq+1 && c.prev == r.head)
		r.seq, r.head = c.seq, c.hash
		return r, ok
	case "renew":
		r = r.on(seq, head)
		return r, c.gen == r.gen && r.holder == c.clerk && !r.ended && seq == r.seq && head == r.head
	}
	ok = c.gen == r.gen && r.holder == c.clerk
	r.ended = true
	return r, ok
}

// done reports whether a status says that the call did what it asks for.
func done(c clerkCall, status uint32) bool {
	switch c.what {
	case "chunk":
		return status == rogue.Stored
	case "release":
		return status == rogue.Ended
	}
	return status == rogue.Granted
}

var clerksModel = (&porcupine.NondeterministicModel{
	Partition: func(all []porcupine.Operation) [][]porcupine.Operation {
		of := map[uint64][]porcupine.Operation{}
		for _, o := range all {
			id := o.Input.(clerkCall).channel
			of[id] = append(of[id], o)
		}
		var out [][]porcupine.Operation
		for _, h := range of {
			out = append(out, h)
		}
		return out
	},
	Init: func() []any { return []any{taskRegister{}} },
	Step: func(state, input, output any) []any {
		r, c, got := state.(taskRegister), input.(clerkCall), output.(clerkReply)
		switch {
		case got.unknown:
			return lost(r, c)
		case !done(c, got.Status):
			return []any{r}
		}
		if after, ok := r.next(c, got.Seq, got.Head); ok {
			return []any{after}
		}
		return nil
	},
	DescribeOperation: func(input, output any) string {
		c, r := input.(clerkCall), output.(clerkReply)
		answer := fmt.Sprintf("%d, seq %d on %x", r.Status, r.Seq, r.Head[:2])
		if r.unknown {
			answer = "?"
		}
		return fmt.Sprintf("channel %d: clerk %d: %s %d: seq %d, %x on %x -> %s", c.channel, c.clerk, c.what, c.gen, c.seq, c.hash[:2], c.prev[:2], answer)
	},
}).ToModel()

// lost are the registers after a call whose answer was lost: as before, or as it makes them. What chain a claim of a new generation found is known when
// its holder is told of it; until then it is the one before.
func lost(r taskRegister, c clerkCall) []any {
	all := []any{r}
	seq, head := r.seq, r.head
	switch {
	case c.what == "claim" && c.gen > r.gen:
		return append(all, taskRegister{gen: c.gen, holder: c.clerk, seq: seq, head: head, open: true})
	case c.what == "claim" && r.open:
		return all // a longer chain is as open as it was
	case c.what == "chunk":
		seq, head = c.seq, c.hash
	case c.what == "claim" && c.gen == r.gen:
		seq++
	}
	if after, ok := r.next(c, seq, head); ok && after != r {
		all = append(all, after)
	}
	return all
}

// TestClerksModel shows the model histories of one channel that are in order, and others that are not.
func TestClerksModel(t *testing.T) {
	t.Parallel()
	var none, old, next [32]byte
	old[0], next[0] = 1, 2
	type op struct {
		clerkCall
		clerkReply
	}
	claim := func(clerk int, gen uint64, r clerkReply) op {
		return op{clerkCall{what: "claim", clerk: clerk, gen: gen}, r}
	}
	renew := func(clerk int, gen uint64, r clerkReply) op {
		return op{clerkCall{what: "renew", clerk: clerk, gen: gen}, r}
	}
	chunk := func(clerk int, seq uint64, prev, hash [32]byte, r clerkReply) op {
		return op{clerkCall{what: "chunk", clerk: clerk, gen: 2, seq: seq, prev: prev, hash: hash}, r}
	}
	said := func(status uint32, seq uint64, head [32]byte) clerkReply {
		return clerkReply{Said: rogue.Said{Status: status, Seq: seq, Head: head}}
	}
	lost, granted := clerkReply{unknown: true}, said(rogue.Granted, 1, old)
	for name, c := range map[string]struct {
		ops  []op
		want bool
	}{
		"granted, stored, renewed":                         {[]op{claim(0, 2, granted), chunk(0, 2, old, next, said(rogue.Stored, 2, next)), renew(0, 2, said(rogue.Granted, 2, next))}, true},
		"the claim was lost, and found a chain":            {[]op{claim(0, 2, lost), renew(0, 2, granted)}, true},
		"likewise, and a chunk goes on from it":            {[]op{claim(0, 2, lost), chunk(0, 2, old, next, said(rogue.Stored, 2, next))}, true},
		"likewise, and two holders":                        {[]op{claim(0, 2, lost), renew(0, 2, granted), renew(1, 2, granted)}, false},
		"likewise, and the chain gets shorter":             {[]op{claim(0, 2, lost), renew(0, 2, said(rogue.Granted, 3, next)), renew(0, 2, granted)}, false},
		"likewise, with another chain of the same length":  {[]op{claim(0, 2, lost), renew(0, 2, granted), renew(0, 2, said(rogue.Granted, 1, next))}, false},
		"the claim was lost, and the chain before as well": {[]op{claim(0, 1, granted), claim(0, 2, lost), renew(0, 2, said(rogue.Granted, 0, none))}, false},
		"renewed without a claim":                          {[]op{renew(0, 2, granted)}, false},
		"an older generation after a newer one":            {[]op{claim(0, 2, granted), claim(1, 1, granted)}, false},
	} {
		var h []porcupine.Operation
		for i, o := range c.ops {
			returned := int64(2*i + 1)
			if o.unknown {
				returned = 1000
			}
			h = append(h, porcupine.Operation{ClientId: o.clerk, Input: o.clerkCall, Output: o.clerkReply, Call: int64(2 * i), Return: returned})
		}
		if got := porcupine.CheckOperations(clerksModel, h); got != c.want {
			t.Errorf("%s: in order: %v, want %v", name, got, c.want)
		}
	}
}

// judge looks for an order of the clerks' calls, and tells how many were done.
func (d *clerkDesk) judge(c *chaosRun) {
	d.mu.Lock()
	defer d.mu.Unlock()
	counts := map[string]int{}
	for _, o := range d.history {
		call, out := o.Input.(clerkCall), o.Output.(clerkReply)
		switch {
		case out.unknown:
			counts[call.what+" lost"]++
		case done(call, out.Status):
			counts[call.what+" done"]++
		default:
			counts[call.what+" refused"]++
		}
	}
	c.t.Logf("calls of clerks over the wire: %v", counts)
	if !c.brief && counts["claim done"] == 0 {
		c.t.Error("no clerk was ever granted a claim, so that nothing shows whether claims are linearizable")
	}
	const most = 5 * time.Minute
	switch porcupine.CheckOperationsTimeout(clerksModel, d.history, most) {
	case porcupine.Illegal:
		slices.SortFunc(d.history, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
		for _, h := range clerksModel.Partition(d.history) {
			if porcupine.CheckOperationsTimeout(clerksModel, h, most) != porcupine.Illegal {
				continue
			}
			for _, o := range h {
				c.t.Logf("%v to %v: %s", time.Duration(o.Call), time.Duration(o.Return), clerksModel.DescribeOperation(o.Input, o.Output))
			}
		}
		c.t.Error("claims, chunks, renewals and releases over the wire are not linearizable")
	case porcupine.Unknown:
		c.t.Errorf("no order of the clerks' calls was found or ruled out within %v", most)
	}
}
