package dispatch

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/internal/lab/scenario"
	"shoal/recrawl"
)

// TestScenarios plays the files of testdata: a line that begins with "> " is a step, the lines after it are what follows from it.
func TestScenarios(t *testing.T) { scenario.Play(t, 1, play) }

func play(t *testing.T, script []byte) []byte {
	w := newWorld(Config{Terms: terms()})
	return scenario.Steps(script, func(step []string) []string { return w.do(t, step) })
}

// do plays one step. Times are virtual: "after" moves them.
func (w *world) do(t *testing.T, f []string) (lines []string) {
	t.Helper()
	number := func(n int) int {
		v, err := strconv.Atoi(f[n])
		if err != nil {
			t.Fatalf("%v: %v", f, err)
		}
		return v
	}
	dur := func(n int) time.Duration {
		d, err := time.ParseDuration(f[n])
		if err != nil {
			t.Fatalf("%v: %v", f, err)
		}
		return d
	}
	slot := func() recrawl.Slot { return recrawl.Slot(number(1)) }
	switch f[0] {
	case "after": // after DURATION: time passes, nothing looks
		w.now = w.now.Add(dur(1))
		return nil
	case "peer": // peer NAME AT HOLDS
		p := w.peer(Peer(f[1]))
		p.at, p.holds, p.gone = number(2), number(3), false
		return nil
	case "gone": // gone PEER
		w.peer(Peer(f[1])).gone = true
		return nil
	case "bar": // bar PEER: it may not have channels that were never crawled
		w.barred[Peer(f[1])] = true
		return nil
	case "host": // host KEY AT
		w.hosts[channel.HostKey(number(1))] = number(2)
		return nil
	case "channel": // channel HOST [crawled]: the next number
		s := w.add(channel.HostKey(number(1)))
		if len(f) > 2 {
			w.chans[s].facts.Updated = 1
		}
		return []string{fmt.Sprintf("channel %d", s)}
	case "wanted":
		w.chans[slot()].wanted = true
		return nil
	case "stays": // stays CHANNEL: Farther must not be asked about it
		w.chans[slot()].stays = true
		return nil
	case "tick":
		_, lines = w.tick()
		return lines
	case "blind": // blind true|false: where hosts are is not known
		w.blind = f[1] == "true"
		return nil
	case "broken": // broken CHANNEL true|false
		w.chans[slot()].broken = f[2] == "true"
		return nil
	case "state":
		return []string{w.state(slot())}
	case "room":
		return []string{fmt.Sprintf("room for %d, %d out, %d wait, %d for a near peer", w.m.Room(w.now), w.m.Out(), w.m.Immediate(), w.m.Near())}
	case "deadline":
		return []string{fmt.Sprintf("in %v", w.m.Deadline().Sub(w.now))}
	case "limit": // limit max-out N | min-peers N DURATION | until DURATION EXPECTED
		switch f[1] {
		case "max-out":
			w.m.cfg.MaxOut = number(2)
		case "min-peers":
			w.m.cfg.MinPeers, w.m.cfg.MinPeersWait = number(2), dur(3)
		case "until":
			w.m.cfg.Until, w.expect = w.now.Add(dur(2)), dur(3)
		}
		return nil
	}
	return append(w.outcome(t, f, slot(), number), w.acts()...)
}

// outcome tells the Machine what came of an order, or what an operator wants.
func (w *world) outcome(t *testing.T, f []string, s recrawl.Slot, number func(int) int) []string {
	t.Helper()
	o := w.orders[s]
	news := func(is bool) []string {
		if is {
			return nil
		}
		return []string{"that is no news"}
	}
	hear := func(k lease.Kind, p Peer) []string {
		if err := w.hear(s, lease.Event{Kind: k, Gen: o.Gen, Progress: len(f) > 3}, p); err != nil {
			return []string{err.Error()}
		}
		return nil
	}
	switch f[0] {
	case "placed": // placed CHANNEL PEER
		return news(w.m.Placed(w.now, o, Peer(f[2]), w.now))
	case "refused":
		return news(w.m.Refused(w.now, o))
	case "unsure":
		return news(w.m.Unsure(w.now, o))
	case "unsent":
		return news(w.m.Unsent(w.now, o, 10*time.Second))
	case "outran": // outran CHANNEL HIGHEST
		return news(w.m.Outran(w.now, o, channel.Gen(number(2))))
	case "claimed": // claimed CHANNEL PEER
		return hear(lease.Claimed, Peer(f[2]))
	case "lapsed":
		return hear(lease.Lapsed, Peer(f[2]))
	case "released": // released CHANNEL PEER [progress]
		return hear(lease.Released, Peer(f[2]))
	case "reported":
		return hear(lease.Reported, Peer(f[2]))
	case "now":
		if err := w.m.CrawlNow(w.now, s); errors.Is(err, lease.ErrOut) {
			return []string{"it is out"}
		} else if err != nil {
			return []string{err.Error()}
		}
	case "anew": // anew CHANNEL: an operator asks for it though it is out; the archive takes back what it names
		gen := Anew(w.m, s)
		if gen == 0 {
			return []string{"nothing to take back"}
		}
		if e := w.chans[s].fence.TakeBack(w.now, gen).Event; e.Kind != 0 {
			if err := w.hear(s, e, ""); err != nil {
				return []string{err.Error()}
			}
		}
		return []string{fmt.Sprintf("generation %d is taken back", gen)}
	case "pause": // pause CHANNEL
		w.Edit(s, func(f *recrawl.Facts) { f.Flags |= recrawl.Paused })
		Rest(w.m, s)
	case "flag": // flag CHANNEL: paused, as a manager that stops before it sees to that leaves it
		w.Edit(s, func(f *recrawl.Facts) { f.Flags |= recrawl.Paused })
	case "resume": // resume CHANNEL
		w.Edit(s, func(f *recrawl.Facts) { f.Flags &^= recrawl.Paused })
		w.chans[s].wanted = true
	case "block": // block HOST [WHY]
		w.m.Block(channel.HostKey(number(1)), strings.Join(f[2:], " "))
	case "leave": // leave HOST MINUTES
		w.m.Leave(channel.HostKey(number(1)), w.now.Add(time.Duration(number(2))*time.Minute))
	case "hurry": // hurry HOST MINUTES
		w.m.Hurry(channel.HostKey(number(1)), w.now.Add(time.Duration(number(2))*time.Minute))
	case "visit": // visit HOST: by the owner itself
		if !w.m.Visit(w.now, channel.HostKey(number(1))) {
			return []string{"not now"}
		}
	case "left": // left HOST MINUTES
		w.m.Left(channel.HostKey(number(1)), w.now.Add(time.Duration(number(2))*time.Minute))
	case "reserve": // reserve CHANNEL ABOVE
		gen, err := w.m.Reserve(s, channel.Gen(number(2)))
		if err != nil {
			return []string{err.Error()}
		}
		return []string{fmt.Sprintf("generation %d", gen)}
	case "not-before": // not-before CHANNEL MINUTES
		w.m.NotBefore(s, w.now.Add(time.Duration(number(2))*time.Minute))
	case "remove":
		until, ok := w.m.StandOff(w.now, s)
		if ok {
			w.m.Leave(w.chans[s].host, until)
		}
		w.m.Forget(s)
		w.chans[s].wanted = false
	case "unmark":
		if err := w.m.Unmark(s); err != nil {
			return []string{err.Error()}
		}
	case "restart": // the manager: from what was kept
		w.restart()
	default:
		t.Fatalf("unknown step %v", f)
	}
	return nil
}

// restart makes a new Machine of what was kept.
func (w *world) restart() {
	for _, p := range w.peers {
		p.held = 0
	}
	w.m = New(w.now, w.m.cfg, w, w, w)
	for i, c := range w.chans {
		c.issue.Restore()
		if c.facts.Out = 0; c.issue.Out() || c.issue.Phase == lease.Pausing {
			c.facts.Out = 1
		}
		w.m.Restore(w.now, recrawl.Slot(i), c.issue)
	}
}
