package lease

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"shoal/channel"
)

// message is a request or a reply on its way; do is what its arrival does.
type message struct {
	do func()
}

// TestRandomInterleavings lets managers crash and be restored, archives restart, peers vanish, sleep and come back, messages be lost,
// late and repeated, and checks after every step that at most one peer may send requests, that the chain is unbroken and holds all that
// was acknowledged, that generations grow, that reports count once and that no task is handed out more than eight times. In the end a
// channel whose peers are all gone can be handed out again within the terms.
func TestRandomInterleavings(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		terms := Terms{Term: 30 * time.Minute, Slack: 5 * time.Second, Backoff: time.Minute, MaxBackoff: 10 * time.Minute}
		if rapid.Bool().Draw(t, "short claim wait") {
			terms.ClaimWait = 4 * time.Minute
		}
		w := newWorld(terms)
		w.backUp()
		var net []message
		tasks := map[string][]channel.Gen{} // queued at peers
		names := []string{"a", "b", "c"}
		who := func() *peer { return w.peer(rapid.SampledFrom(names).Draw(t, "peer")) }
		send := func(do func()) { net = append(net, message{do}) }
		take := func() (message, bool) {
			if len(net) == 0 {
				return message{}, false
			}
			return net[rapid.IntRange(0, len(net)-1).Draw(t, "message")], true
		}
		drop := func(n int) { net = slices.Delete(net, n, n+1) }
		// call sends a request, and its reply to the same life of p.
		call := func(p *peer, ask func() Reply, hear func(sent time.Time, r Reply)) {
			life, sent := p.life, w.now
			send(func() {
				r := ask()
				send(func() {
					if p.life == life {
						hear(sent, r)
					}
				})
			})
		}
		sendPut := func(p *peer, c Chunk) {
			call(p, func() Reply { return w.put(p, c) }, func(sent time.Time, r Reply) { w.putted(p, c, sent, r) })
		}
		pending := func(p *peer) bool { return len(p.spool) > 0 && p.spool[len(p.spool)-1].Final }

		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) { w.check(t) },
			"time": func(t *rapid.T) {
				w.now = w.now.Add(time.Duration(rapid.IntRange(0, 15*60).Draw(t, "seconds")) * time.Second)
			},
			"tick":       func(t *rapid.T) { w.tick() },
			"feed":       func(t *rapid.T) { w.deliver(0) },
			"feed again": func(t *rapid.T) { w.deliver(rapid.IntRange(0, 5).Draw(t, "back")) },
			"hand out": func(t *rapid.T) {
				gen, err := w.next(time.Duration(rapid.IntRange(1, 20).Draw(t, "minutes")) * time.Minute)
				if err != nil {
					return
				}
				switch rapid.SampledFrom([]string{"placed", "placed", "placed", "lost reply", "unsure", "refused", "crash"}).Draw(t, "outcome") {
				case "placed":
					p := who()
					tasks[p.name] = append(tasks[p.name], gen)
					w.save(w.issue.Placed(gen))
				case "lost reply":
					for _, n := range names[:2] {
						tasks[n] = append(tasks[n], gen)
					}
					w.save(w.issue.Placed(gen))
				case "unsure":
					if rapid.Bool().Draw(t, "taken") {
						p := who()
						tasks[p.name] = append(tasks[p.name], gen)
					}
					w.save(w.issue.Placed(gen))
					if rapid.Bool().Draw(t, "at once") {
						w.archived(w.fence.TakeBack(w.now, gen))
					} else {
						send(func() { w.archived(w.fence.TakeBack(w.now, gen)) })
					}
				case "refused":
					w.refused(gen)
				case "crash":
					tasks["a"] = append(tasks["a"], gen)
					w.crashManager()
				}
			},
			"killed before the deposit": func(t *rapid.T) {
				gen, err := w.killed(time.Duration(rapid.IntRange(1, 20).Draw(t, "minutes")) * time.Minute)
				if err == nil {
					send(func() { w.archived(w.fence.Lost(w.now, gen)) })
				}
			},
			"looks for lost ones": func(t *rapid.T) {
				if gen := w.issue.Gen; w.issue.Phase == Awaited {
					send(func() { w.archived(w.fence.Lost(w.now, gen)) })
				}
			},
			"looks for ended ones": func(t *rapid.T) {
				if gen := w.issue.Live; w.issue.Phase == Leased {
					send(func() { w.archived(w.fence.Over(w.now, gen)) })
				}
			},
			"claim": func(t *rapid.T) {
				p := who()
				if len(tasks[p.name]) == 0 {
					return
				}
				gen := rapid.SampledFrom(tasks[p.name]).Draw(t, "gen") // again and again, in any order
				if p.gen > gen {
					return // a runner of one channel does one crawl at a time
				}
				call(p, func() Reply { return w.claim(p, gen) }, func(sent time.Time, r Reply) {
					if p.gen <= gen {
						w.claimed(p, gen, sent, r)
					}
				})
			},
			"chunk": func(t *rapid.T) {
				if p := who(); p.begun && !pending(p) && len(p.spool) < 4 {
					c := p.chunk(false)
					if rapid.Bool().Draw(t, "send") {
						sendPut(p, c)
					}
				}
			},
			"final": func(t *rapid.T) {
				if p := who(); p.begun && !pending(p) {
					p.hold.Stop()
					sendPut(p, p.chunk(true))
				}
			},
			"resend": func(t *rapid.T) {
				if p := who(); p.begun && len(p.spool) > 0 {
					sendPut(p, rapid.SampledFrom(p.spool).Draw(t, "chunk"))
				}
			},
			"renew": func(t *rapid.T) {
				p := who()
				if len(tasks[p.name]) == 0 {
					return
				}
				gen := rapid.SampledFrom(tasks[p.name]).Draw(t, "gen")
				call(p, func() Reply {
					s := w.fence.Renew(w.now, PeerOf(p.name), gen, w.latest[gen], w.terms)
					w.archived(s)
					return s.Reply
				}, func(sent time.Time, r Reply) {
					if p.gen == gen && p.begun && r.Status == Granted {
						p.hold.Acked(sent, r.Left)
					}
				})
			},
			"release": func(t *rapid.T) {
				p := who()
				if p.gen == 0 {
					return
				}
				gen := p.gen
				p.drop()
				if rapid.Bool().Draw(t, "and forgets") { // else it is killed before that, and claims again
					tasks[p.name] = slices.DeleteFunc(tasks[p.name], func(g channel.Gen) bool { return g == gen })
				}
				send(func() { w.archived(w.fence.Release(w.now, PeerOf(p.name), gen)) })
			},
			"peer restarts": func(t *rapid.T) {
				p := who()
				p.restart()
				if rapid.Bool().Draw(t, "without its spool") {
					p.drop()
				}
			},
			"arrive": func(t *rapid.T) {
				if len(net) > 0 {
					n := rapid.IntRange(0, len(net)-1).Draw(t, "message")
					m := net[n]
					drop(n)
					m.do()
				}
			},
			"arrive twice": func(t *rapid.T) {
				if m, ok := take(); ok && len(net) < 40 {
					m.do()
				}
			},
			"lose": func(t *rapid.T) {
				if len(net) > 0 {
					drop(rapid.IntRange(0, len(net)-1).Draw(t, "message"))
				}
			},
			"operator revokes": func(t *rapid.T) {
				if rapid.IntRange(0, 3).Draw(t, "revoke") == 0 {
					w.archived(w.fence.Revoke(w.now))
				}
			},
			"operator bans the holder": func(t *rapid.T) {
				if rapid.IntRange(0, 3).Draw(t, "ban") == 0 && w.fence.Running() {
					w.archived(w.fence.Evict(w.now))
				}
			},
			"archive restarts": func(t *rapid.T) { w.crashArchive() },
			"manager crashes":  func(t *rapid.T) { w.crashManager() },
			"backup":           func(t *rapid.T) { w.backUp() },
			"manager restored": func(t *rapid.T) {
				w.restoreManager()
				w.tries = int(w.issue.Tries) // what it forgot, it cannot count
			},
		})

		// Everybody is gone: the channel comes back within a lease, a claim wait and a pause.
		end := w.now.Add(20*time.Minute + terms.Slack + terms.Term + terms.MaxBackoff)
		for ; !w.now.After(end); w.now = w.now.Add(time.Second * 5) {
			w.tick()
			w.deliver(0)
			w.check(t)
		}
		if w.issue.Out() {
			t.Fatalf("still %v (generation %d, live %d) after all leases ended", w.issue.Phase, w.issue.Gen, w.issue.Live)
		}
	})
}

// TestWhatIsBroughtIsTold has peers claim, sleep through their leases, wake and bring what they have, and give their tasks back or not, with no message lost: the manager hears
// of all that was stored, so that somebody looks at it.
func TestWhatIsBroughtIsTold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(Terms{Term: 30 * time.Minute, Slack: 5 * time.Second, Backoff: time.Minute, MaxBackoff: 10 * time.Minute})
		who := func() *peer { return w.peer(rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "peer")) }
		put := func(p *peer, final bool) {
			c := p.chunk(final)
			w.putted(p, c, w.now, w.put(p, c))
		}
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) { w.check(t) },
			"time": func(*rapid.T) {
				w.now = w.now.Add(20 * time.Minute)
				w.archived(w.fence.Tick(w.now)) // which the archive does as soon as a lease ends
			},
			"tick": func(*rapid.T) { w.tick() },
			"feed": func(*rapid.T) { w.deliver(0) },
			"hand out": func(t *rapid.T) {
				gen, err := w.next(10 * time.Minute)
				if err != nil {
					return
				}
				if rapid.Bool().Draw(t, "refused") {
					w.refused(gen)
					return
				}
				p := who()
				w.save(w.issue.Placed(gen))
				p.drop()
				w.claimed(p, gen, w.now, w.claim(p, gen))
			},
			"chunk": func(*rapid.T) {
				if p := who(); p.begun {
					put(p, false)
				}
			},
			"final": func(t *rapid.T) {
				if p := who(); p.begun && rapid.Bool().Draw(t, "final") {
					p.hold.Stop()
					put(p, true)
				}
			},
			"release": func(*rapid.T) {
				if p := who(); p.begun {
					w.archived(w.fence.Release(w.now, PeerOf(p.name), p.gen))
					p.drop()
				}
			},
			"manager crashes": func(*rapid.T) { w.crashManager() },
		})
		w.now = w.now.Add(time.Hour)
		w.tick()
		w.deliver(0)
		w.allTold(t)
	})
}

// TestGenerationsOnlyGrow hands out after every kind of loss and looks at the numbers alone.
func TestGenerationsOnlyGrow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(Terms{Term: time.Minute})
		w.backUp()
		var last channel.Gen
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0:
				w.restoreManager()
			case 1:
				w.crashManager()
			case 2:
				w.backUp()
			}
			gen, err := w.next(time.Minute)
			if err == nil {
				if gen <= last {
					t.Fatalf("generation %d after %d", gen, last)
				}
				last = gen
			}
			w.refused(w.issue.Gen)
		}
	})
}
