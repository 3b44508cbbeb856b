package lease

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"shoal/channel"
	"shoal/internal/lab/scenario"
)

// TestScenarios plays the files of testdata: a line that begins with "> " is a step, the lines after it are what follows. A file is one
// row of the table "Nothing lost".
func TestScenarios(t *testing.T) { scenario.Play(t, 1, play) }

func play(t *testing.T, script []byte) []byte {
	terms := Default()
	terms.Slack = 0
	w := newWorld(terms)
	return scenario.Steps(script, func(step []string) []string {
		defer w.check(t)
		if s := w.do(t, step); s != "" {
			return []string{s}
		}
		return nil
	})
}

// do plays one step. Times are virtual: "after" moves them.
func (w *world) do(t *testing.T, f []string) string {
	gen := func(n int) channel.Gen {
		g, err := strconv.ParseUint(f[n], 10, 64)
		if err != nil {
			t.Fatalf("%v: %v", f, err)
		}
		return channel.Gen(g)
	}
	dur := func(n int) time.Duration {
		d, err := time.ParseDuration(f[n])
		if err != nil {
			t.Fatalf("%v: %v", f, err)
		}
		return d
	}
	switch f[0] {
	case "terms": // terms claim-wait DURATION
		w.terms.ClaimWait = dur(2)
	case "after": // after DURATION: time passes without a call
		w.now = w.now.Add(dur(1))
	case "tick":
		e, ev := w.tick()
		return fmt.Sprintf("manager:%v %v; archive: %v", e, w.issue.Phase, ev.Kind)
	case "next": // next WAIT
		g, err := w.next(dur(1))
		if err != nil {
			return "manager: " + err.Error()
		}
		return fmt.Sprintf("manager: gen %d, try %d", g, w.issue.Tries)
	case "killed": // killed WAIT
		g, err := w.killed(dur(1))
		if err != nil {
			return "manager: " + err.Error()
		}
		return fmt.Sprintf("manager: gen %d %v", g, w.issue.Phase)
	case "placed":
		w.save(w.issue.Placed(gen(1)))
		return fmt.Sprintf("manager: %v until %v", w.issue.Phase, w.issue.Deadline().Sub(epoch))
	case "refused":
		e := w.refused(gen(1))
		return fmt.Sprintf("manager:%v %v, tries %d", e, w.issue.Phase, w.issue.Tries)
	case "feed", "feed-again":
		again := 0
		if f[0] == "feed-again" {
			again = len(w.feed)
		}
		s := w.deliver(again)
		return fmt.Sprintf("%s\nmanager: gen %d %v %s", s, w.issue.Gen, w.issue.Phase, w.issue.Reason())
	case "restart": // restart manager|archive
		if f[1] == "manager" {
			w.crashManager()
			return fmt.Sprintf("manager: gen %d %v", w.issue.Gen, w.issue.Phase)
		}
		w.crashArchive()
		return fmt.Sprintf("archive: lease of gen %d until %v", w.fence.Gen, w.fence.Deadline().Sub(epoch))
	case "revoke": // by the operator
		s := w.fence.Revoke(w.now)
		w.archived(s)
		return fmt.Sprintf("archive: fence at gen %d", w.fence.Gen)
	case "evict": // its peer was banned
		w.archived(w.fence.Evict(w.now))
		return fmt.Sprintf("archive: fence at gen %d, free from %v on", w.fence.Gen, w.freed[len(w.freed)-1].from.Sub(epoch))
	case "take-back": // take-back GEN: by the manager
		w.archived(w.fence.TakeBack(w.now, gen(1)))
		return fmt.Sprintf("archive: fence at gen %d", w.fence.Gen)
	case "lost": // lost GEN: by the manager, after its start
		w.archived(w.fence.Lost(w.now, gen(1)))
		return fmt.Sprintf("archive: fence at gen %d", w.fence.Gen)
	case "backup":
		w.backUp()
	case "restore":
		w.restoreManager()
		return fmt.Sprintf("manager: gen %d %v", w.issue.Gen, w.issue.Phase)
	default: // PEER VERB ...
		return w.doPeer(t, w.peer(f[0]), f, gen)
	}
	return ""
}

func (w *world) doPeer(t *testing.T, p *peer, f []string, gen func(int) channel.Gen) string {
	lost := f[len(f)-1] == "lost" // the reply never arrives
	show := func(r Reply) string {
		s := fmt.Sprintf("%v", r.Status)
		switch r.Status {
		case Fenced, Held:
			s += fmt.Sprintf(" highest %d", r.Highest)
		case Stored, Behind, Granted:
			s += fmt.Sprintf(" seq %d", r.Seq)
		}
		if r.Left > 0 {
			s += fmt.Sprintf(" left %v", r.Left)
		}
		if r.Rested > 0 {
			s += fmt.Sprintf(" rested %v", r.Rested)
		}
		return "archive: " + s
	}
	switch f[1] {
	case "claim": // claim GEN [lost]
		r := w.claim(p, gen(2))
		if !lost {
			w.claimed(p, gen(2), w.now, r)
		}
		return show(r)
	case "empty": // a chunk without pages
		c := p.chunk(false)
		c.Empty = true
		r := w.put(p, c)
		if !lost {
			w.putted(p, c, w.now, r)
		}
		return show(r)
	case "put", "final": // a new chunk
		if f[1] == "final" {
			p.hold.Stop()
		}
		c := p.chunk(f[1] == "final")
		r := w.put(p, c)
		if !lost {
			w.putted(p, c, w.now, r)
		}
		return show(r)
	case "spool": // a chunk is made and not sent
		p.chunk(false)
		return ""
	case "resend": // the oldest one not acknowledged
		c := p.spool[0]
		r := w.put(p, c)
		if !lost {
			w.putted(p, c, w.now, r)
		}
		return show(r)
	case "renew":
		g := gen(2)
		s := w.fence.Renew(w.now, PeerOf(p.name), g, w.latest[g], w.terms)
		w.archived(s)
		if s.Reply.Status == Granted && !lost {
			p.hold.Acked(w.now, s.Reply.Left)
		}
		return show(s.Reply)
	case "release":
		p.hold.Stop()
		s := w.fence.Release(w.now, PeerOf(p.name), gen(2))
		w.archived(s)
		return show(s.Reply)
	case "may":
		return fmt.Sprintf("%s: may fetch %v, for %v", p.name, p.hold.May(w.now), max(0, p.hold.Left(w.now)))
	case "restart": // the spool is kept, the right to fetch is not
		p.restart()
		return ""
	case "send": // send final|release: it is sent, and on its way
		p.hold.Stop()
		ask := func() Reply { s := w.fence.Release(w.now, PeerOf(p.name), p.gen); w.archived(s); return s.Reply }
		if f[2] == "final" {
			c := p.chunk(true)
			ask = func() Reply { return w.put(p, c) }
		}
		w.underWay = append(w.underWay, ask)
		return ""
	case "arrives": // what was sent first, and the reply reaches nobody
		ask := w.underWay[0]
		w.underWay = w.underWay[1:]
		return show(ask())
	}
	t.Fatalf("unknown step %v", f)
	return ""
}
