package lease

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"shoal/channel"
)

// Peer names a peer at the fence. The archive derives it from the libp2p peer id with PeerOf; a simulator numbers its peers.
type Peer uint64

// PeerOf returns the number of a peer id: 64 bits of its SHA-256, so that no peer can make an id that stands for
// another's claim.
func PeerOf(id string) Peer {
	sum := sha256.Sum256([]byte(id))
	return Peer(binary.BigEndian.Uint64(sum[:]))
}

// hold is how the generation at the fence stands. The numbers are stored.
type hold uint8

const (
	free     hold = iota // never claimed
	running              // claimed, lease until until
	lapsed               // the lease ended without progress; chunks on the head are stored, and their holder may fetch no more
	released             // given back
	done                 // its report is stored
)

var holdNames = [...]string{"free", "running", "lapsed", "released", "done"}

// Fence is the archive's half of one channel: 88 bytes without pointers. The zero value is a channel that was never claimed.
type Fence struct {
	Gen      channel.Gen // highest claimed
	Offered  channel.Gen // highest whose body the manager has deposited
	Peer     Peer        // first claimer of Gen
	Seq      uint64      // number of the last chunk, or of a repeated claim after it
	Head     [32]byte    // hash of the last one; zero: none
	until    int64       // running: end of the lease; else when its holder has stopped for certain; zero: not known, as before this was kept
	hold     hold
	progress bool // a chunk that brought something was stored under Gen
	stored   bool // a chunk was stored under Gen
	again    bool // Peer claimed Gen more than once, or was evicted: it may not hear that its lease is over
}

// Step is what follows from a call to a Fence.
type Step struct {
	Reply   Reply
	Persist bool  // the Fence must be durable, with Event in the feed, before the reply leaves
	Event   Event // for the manager; zero Kind: none
}

// Deposit asks whether the manager may offer gen. Answers Waiting, or Fenced with the highest generation that was ever used: the
// manager has forgotten some, and goes on above.
func (f *Fence) Deposit(gen channel.Gen) Step {
	if highest := max(f.Gen, f.Offered); gen <= highest {
		return Step{Reply: Reply{Status: Fenced, Highest: highest, Seq: f.Seq, Head: f.Head}}
	}
	f.Offered = gen
	return Step{Reply: Reply{Status: Waiting, Seq: f.Seq, Head: f.Head}, Persist: true}
}

// Claim binds gen to the first peer that asks, and moves the fence there. latest is the task's latest start.
func (f *Fence) Claim(now time.Time, p Peer, gen channel.Gen, latest time.Time, t Terms) Step {
	switch {
	case gen < f.Gen, gen == f.Gen && gen != 0 && (p != f.Peer || f.hold > lapsed):
		return f.fenced()
	case gen == f.Gen && gen != 0: // the same peer again: its reply was lost, or it restarted
		f.Seq, f.again = f.Seq+1, true // what its earlier life sent, and this claim has overtaken, is on no head
		s := f.reply(Granted, now)
		s.Reply.Rested = leastRested // its earlier life may have fetched until now
		s.Persist = true
		return s
	case gen == 0, gen > f.Offered:
		return f.reply(Unclaimed, now)
	case nanos(now) < f.until && f.kept(): // of an older one that runs, or that ended without its holder's knowing
		full := nanos(now.Add(t.Term))
		ahead := f.until > full // the clock was, when that was noted: it keeps others back for a term from now on
		f.until = min(f.until, full)
		r := f.reply(Held, now)
		r.Persist, r.Reply.Highest, r.Reply.Left = ahead, f.Gen, time.Duration(f.until-nanos(now))
		return r
	case now.After(latest):
		return Step{Reply: Reply{Status: Late, Seq: f.Seq, Head: f.Head}}
	}
	rested := f.rested(now)
	f.Gen, f.Peer = gen, p
	f.hold, f.progress, f.stored, f.again = running, false, false, false
	f.until = nanos(now.Add(t.Term))
	s := f.reply(Granted, now)
	s.Reply.Rested = rested
	s.Persist, s.Event = true, Event{Kind: Claimed, Gen: gen}
	return s
}

// kept reports whether until holds other claims back: a lease runs, or its holder may not know yet that it is over.
func (f *Fence) kept() bool {
	return f.hold == running || f.hold == released && (f.again || f.Peer == 0)
}

// rested is Reply.Rested for a claim of a new generation.
func (f *Fence) rested(now time.Time) time.Duration {
	d := time.Duration(nanos(now) - f.until)
	if f.until == 0 || d > mostRested {
		return 0
	}
	return max(d, leastRested) // the clock may have been set back
}

const (
	leastRested = time.Microsecond
	mostRested  = time.Minute // longer than a host wants to be left alone
)

// Chunk is what the fence needs to know of a channel.Chunk.
type Chunk struct {
	Gen   channel.Gen
	Seq   uint64
	Prev  [32]byte
	Hash  [32]byte
	Final bool // carries the report
	Empty bool // brings no page: it is kept in the chain, and lengthens no lease
}

// Check tells what Put would answer, and changes nothing: the archive asks before it writes a chunk's pages.
func (f *Fence) Check(p Peer, c Chunk) Status {
	switch {
	case c.Gen > f.Gen, c.Gen == 0:
		return Unclaimed
	case c.Gen < f.Gen, p != f.Peer:
		return Fenced
	case c.Seq == f.Seq && c.Hash == f.Head && f.stored:
		return Stored // again
	case f.hold > lapsed:
		return Fenced
	case c.Seq != f.Seq+1, c.Prev != f.Head:
		return Behind
	}
	return Granted // to be stored
}

// Put stores a chunk on the durable head, and nowhere else. A chunk that brings something lengthens the lease by a full term. An empty one does not, or a
// peer could hold a channel for ever with nothing. No chunk lengthens a lease that has lapsed: since then the manager may have handed out another channel
// of the host, whose holder would fetch beside this one. The manager is told of each that brings something then: its holder may never release, and another
// peer may claim at any moment.
func (f *Fence) Put(now time.Time, p Peer, c Chunk, t Terms) Step {
	switch s := f.Check(p, c); s {
	case Granted:
	case Fenced:
		return f.fenced()
	default:
		return f.reply(s, now)
	}
	f.Seq, f.Head, f.stored = c.Seq, c.Hash, true
	f.progress = f.progress || c.Final || !c.Empty
	var e Event
	switch {
	case c.Final:
		f.hold, f.until = done, nanos(now)
		e = Event{Kind: Reported, Gen: f.Gen, Progress: true}
	case f.hold == running && !c.Empty:
		f.until = nanos(now.Add(t.Term))
	case f.hold == lapsed && !c.Empty:
		e = Event{Kind: Brought, Gen: f.Gen, Progress: true, By: uint64(f.Peer)}
	}
	s := f.reply(Stored, now)
	s.Persist, s.Event = true, e
	return s
}

// Renew answers what a generation has left. It lengthens nothing but the wait for one that is unclaimed, and that not beyond its
// latest start; only chunks lengthen a lease.
func (f *Fence) Renew(now time.Time, p Peer, gen channel.Gen, latest time.Time, t Terms) Step {
	switch {
	case gen == 0, gen > f.Offered:
		return f.reply(Unclaimed, now)
	case gen < f.Gen, gen == f.Gen && p != f.Peer:
		return f.fenced()
	case gen == f.Gen:
		if f.hold > lapsed {
			return f.reply(Ended, now)
		}
		return f.reply(Granted, now)
	case !now.Before(latest):
		return Step{Reply: Reply{Status: Late, Seq: f.Seq, Head: f.Head}}
	}
	until := latest
	if t.ClaimWait > 0 && now.Add(t.ClaimWait).Before(latest) {
		until = now.Add(t.ClaimWait)
	}
	s := Step{Reply: Reply{Status: Waiting, Seq: f.Seq, Head: f.Head, Left: until.Sub(now)}}
	if t.ClaimWait > 0 { // else the manager waits until the latest start anyhow
		s.Persist, s.Event = true, Event{Kind: Queued, Gen: gen, Until: until}
	}
	return s
}

// Release gives a claimed generation back, so that another peer may go on at once. The peer has stopped fetching when it asks. But if it claimed
// again, it may have asked before it restarted, and the new claim may have overtaken the release. Then it does not know that its lease is over, so no
// other claim is granted before the lease ends by itself.
func (f *Fence) Release(now time.Time, p Peer, gen channel.Gen) Step {
	switch {
	case gen > f.Gen, gen == 0:
		return Step{Reply: Reply{Status: Unclaimed, Seq: f.Seq, Head: f.Head}}
	case gen < f.Gen, p != f.Peer:
		return f.fenced()
	}
	s := Step{Reply: Reply{Status: Ended, Seq: f.Seq, Head: f.Head}}
	if f.hold == running || f.hold == lapsed {
		if f.hold = released; !f.again {
			f.until = nanos(now)
		}
		s.Persist, s.Event = true, Event{Kind: Released, Gen: f.Gen, Progress: f.progress, Until: f.knows(), By: uint64(f.Peer)}
	}
	return s
}

// stopped is knows. That of a holder that has stopped is not later than now, by whatever clock it was noted: it keeps others back from when nobody holds the fence.
func (f *Fence) stopped(now time.Time) (until time.Time) {
	if f.kept() {
		return moment(f.until)
	}
	f.until = min(f.until, nanos(now))
	return time.Time{}
}

// Evict is Release by the operator's word. The peer has not asked for it, and fetches on until it hears of it, which it may not do before its lease is over.
func (f *Fence) Evict(now time.Time) Step {
	f.again = true
	return f.Release(now, f.Peer, f.Gen)
}

// knows is when a holder has stopped for certain that may not know yet that its lease is over; zero: it has.
func (f *Fence) knows() time.Time {
	if !f.kept() {
		return time.Time{}
	}
	return moment(f.until)
}

// Tick ends a lease that made no progress. The fence stays where it is: its holder may bring what it has as long as no other
// peer has claimed.
func (f *Fence) Tick(now time.Time) Step {
	if f.hold != running || nanos(now) < f.until {
		return Step{}
	}
	f.hold = lapsed
	return Step{Persist: true, Event: Event{Kind: Lapsed, Gen: f.Gen, Progress: f.progress, By: uint64(f.Peer)}}
}

// Restart gives a lease its full term: the archive was away, its holders could not renew. The term need not be durable again. No lease keeps others back
// for longer, by whatever clock it was granted.
func (f *Fence) Restart(now time.Time, t Terms) {
	if full := nanos(now.Add(t.Term)); f.hold == running || f.kept() && f.until > full {
		f.until = full
	}
}

// Follow has a fence go on where another one is, of which it shall look to a peer as if it were that one: with its chain and, unless somebody holds f, with the
// time since when nobody holds it.
func (f *Fence) Follow(g *Fence) {
	f.Seq, f.Head = g.Seq, g.Head
	if !f.kept() {
		f.until = g.until
	}
}

// Deadline is when Tick has work; zero: never.
func (f *Fence) Deadline() time.Time {
	if f.hold != running {
		return time.Time{}
	}
	return moment(f.until)
}

// Running reports whether a lease runs, as of the last Tick.
func (f *Fence) Running() bool { return f.hold == running }

// reply answers with the head and what is left of the lease.
func (f *Fence) reply(s Status, now time.Time) Step {
	r := Reply{Status: s, Seq: f.Seq, Head: f.Head}
	if f.hold == running && f.until > nanos(now) {
		r.Left = time.Duration(f.until - nanos(now))
	}
	return Step{Reply: r}
}

func (f *Fence) fenced() Step {
	return Step{Reply: Reply{Status: Fenced, Highest: max(f.Gen, f.Offered), Seq: f.Seq, Head: f.Head}}
}

// Revoke ends, by the operator's word, whatever runs or is offered: nothing of a generation so far is stored any more. A holder that has not
// heard of it may still send requests for two thirds of its lease, so no other claim is granted before that ends.
func (f *Fence) Revoke(now time.Time) Step {
	until := f.stopped(now)
	f.Gen = max(f.Gen, f.Offered) + 1
	f.Offered = f.Gen
	f.end(until)
	return Step{Persist: true, Reply: Reply{Status: Ended, Seq: f.Seq, Head: f.Head}, Event: Event{Kind: Released, Gen: f.Gen, Until: until}}
}

// TakeBack ends a generation of which the manager does not know whether a peer took it, unless it was claimed. Otherwise the manager would wait for a
// claim until the latest start, and mostly in vain: a peer that does not answer an offer is mostly gone. A generation below it that runs
// goes on, and the wait with it.
func (f *Fence) TakeBack(now time.Time, gen channel.Gen) Step {
	if gen != f.Offered || gen <= f.Gen || f.hold == running {
		return Step{}
	}
	until := f.stopped(now)
	f.Gen = gen
	f.end(until)
	return Step{Persist: true, Reply: Reply{Status: Ended, Seq: f.Seq, Head: f.Head}, Event: Event{Kind: Released, Gen: gen, Until: until}}
}

// end has nobody hold the fence. Where the holder before may not know of its end until some time, others are kept back as long.
func (f *Fence) end(until time.Time) {
	f.Peer, f.hold, f.progress, f.stored, f.again = 0, released, false, false, false
	if until.IsZero() {
		f.hold = done
	}
}

// Lost is TakeBack of a generation that was never deposited, so that no peer can have it: its manager was killed between writing it and leaving its body. Of one that was
// deposited nothing changes; of one that the fence has passed it says again that it is over.
func (f *Fence) Lost(now time.Time, gen channel.Gen) Step {
	switch {
	case f.hold == running:
		return Step{}
	case gen < f.Gen:
		return f.over()
	case gen <= max(f.Gen, f.Offered):
		return Step{}
	}
	f.Offered = gen
	return f.TakeBack(now, gen)
}

// Over says again that a generation is over that the manager takes for one that runs: it did not hear that, or forgot it. Of one that runs nothing changes, nor does anything else.
func (f *Fence) Over(now time.Time, gen channel.Gen) Step {
	switch {
	case f.hold == running:
		return Step{}
	case gen > max(f.Gen, f.Offered):
		return f.Lost(now, gen)
	case gen > f.Gen:
		return f.TakeBack(now, gen)
	}
	return f.over()
}

func (f *Fence) over() Step {
	return Step{Persist: true, Reply: Reply{Status: Ended, Seq: f.Seq, Head: f.Head}, Event: Event{Kind: Released, Gen: f.Gen, Until: f.knows()}}
}
