package dispatch

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/recrawl"
)

const tick = time.Minute

var epoch = time.Unix(1e9, 0).UTC()

// world is a Machine with everything around it: channels that are wanted, hosts and peers on a line, and an archive's fences.
type world struct {
	now   time.Time
	clock recrawl.Clock
	m     *Machine

	hosts  map[channel.HostKey]int // where they are
	chans  []*site
	peers  []*member
	spare  map[Peer]bool
	barred map[Peer]bool // they may not have channels that were never crawled
	blind  bool          // where hosts are is not known
	orders map[recrawl.Slot]Order
	told   []string // what Due and the Judge were told, since the last look
	expect time.Duration
	left   []recrawl.Slot // what idle threads might have taken and did not
	since  time.Time      // when the first task was asked for that Farther was told of last
}

// site is a channel.
type site struct {
	host   channel.HostKey
	issue  lease.Issue // as it was kept last
	fence  lease.Fence
	facts  recrawl.Facts
	wanted bool
	again  recrawl.Tick // when to ask, if wanted
	broken bool         // its issue cannot be read
	stale  bool         // an idle thread may take it, though it is not wanted
	stays  bool
}

// member is a peer.
type member struct {
	name  Peer
	at    int
	holds int
	held  int
	gone  bool
}

// threads of a peer are all that it holds but one, which waits.
func (p *member) threads() int { return max(p.holds-1, 1) }

func newWorld(cfg Config) *world {
	w := &world{now: epoch, hosts: map[channel.HostKey]int{}, spare: map[Peer]bool{}, barred: map[Peer]bool{}, orders: map[recrawl.Slot]Order{}, expect: time.Minute}
	w.clock = recrawl.Clock{Epoch: epoch, Step: tick}
	cfg.Clock = w.clock
	w.m = New(w.now, cfg, w, w, w)
	return w
}

// terms are short, and without slack.
func terms() lease.Terms {
	t := lease.Default()
	t.Slack, t.Term, t.ClaimWait, t.Backoff, t.MaxBackoff, t.Handouts = 0, 10*time.Minute, 20*time.Minute, time.Minute, 5*time.Minute, 5
	return t
}

func (w *world) peer(name Peer) *member {
	if i := slices.IndexFunc(w.peers, func(p *member) bool { return p.name == name }); i >= 0 {
		return w.peers[i]
	}
	p := &member{name: name, gone: true}
	w.peers = append(w.peers, p)
	return p
}

func (w *world) add(host channel.HostKey) recrawl.Slot {
	w.chans = append(w.chans, &site{host: host})
	return recrawl.Slot(len(w.chans) - 1)
}

// acts takes what the Machine asks for, and words it.
func (w *world) acts() []string {
	out := w.told
	w.told = nil
	for _, a := range w.m.Acts() {
		switch a.Kind {
		case Persist:
			w.chans[a.Slot].issue = a.Issue
		case Nothing:
			out = append(out, fmt.Sprintf("channel %d came to nothing", a.Slot))
		case GaveUp:
			out = append(out, fmt.Sprintf("channel %d is given up: %s", a.Slot, a.Note))
			w.chans[a.Slot].wanted = false
		case Swallowed:
			out = append(out, fmt.Sprintf("%s swallowed channel %d", a.Peer, a.Slot))
		case Unread:
			out = append(out, fmt.Sprintf("channel %d: %v", a.Slot, a.Err))
		}
	}
	return out
}

// tick has the Machine look, and carries out what it says.
func (w *world) tick() (orders []Order, lines []string) {
	orders = slices.Clone(w.m.Tick(w.now))
	for _, o := range orders {
		w.chans[o.Slot].issue = o.Issue
		w.chans[o.Slot].fence.Deposit(o.Gen)
		w.orders[o.Slot] = o
		to := string(o.Peer)
		if to == "" {
			to = "any peer"
		}
		lines = append(lines, fmt.Sprintf("hand out channel %d, generation %d, to %s, to start within %v", o.Slot, o.Gen, to, o.Latest.Sub(w.now)))
	}
	return orders, append(lines, w.acts()...)
}

// Due.

func (w *world) Next(now recrawl.Tick, load recrawl.Load, admit func(recrawl.Slot) (recrawl.Tick, bool)) int {
	n := 0
	for i, c := range w.chans {
		if load.Room >= 0 && n >= load.Room {
			break
		}
		if !c.wanted || c.again > now || c.facts.Out > 0 || c.facts.Flags&recrawl.Paused != 0 {
			continue
		}
		again, ok := admit(recrawl.Slot(i))
		switch {
		case ok:
			n++
			c.facts.Out, c.facts.Submitted, c.wanted = 1, now, false
		case again == recrawl.Enough:
			return n
		default:
			c.again = again
		}
	}
	return n
}

// Take implements Due.
func (w *world) Take(now recrawl.Tick, s recrawl.Slot, admit func(recrawl.Slot) (recrawl.Tick, bool)) bool {
	c := w.chans[s]
	if c.facts.Out > 0 || !c.wanted && !c.stale {
		return false
	}
	_, ok := admit(s)
	if ok {
		c.facts.Out, c.facts.Submitted, c.wanted, c.stale = 1, now, false, false
	}
	return ok
}

// Lacking implements Sparer.
func (w *world) Lacking(may func(recrawl.Slot) bool) bool {
	return slices.ContainsFunc(w.left, func(s recrawl.Slot) bool { return w.chans[s].stale && may(s) })
}

// Spare implements Sparer.
func (w *world) Spare(now recrawl.Tick, n int, may func(recrawl.Slot) bool, admit func(recrawl.Slot) (recrawl.Tick, bool)) (taken int) {
	w.left = nil
	for i, c := range w.chans {
		if taken == n || !c.stale || c.facts.Out > 0 || !may(recrawl.Slot(i)) {
			continue
		}
		if _, ok := admit(recrawl.Slot(i)); ok {
			taken++
			c.facts.Out, c.facts.Submitted, c.stale = 1, now, false
		} else {
			w.left = append(w.left, recrawl.Slot(i))
		}
	}
	return taken
}

func (w *world) Observe(now recrawl.Tick, s recrawl.Slot, e recrawl.Event) {
	c := w.chans[s]
	word := ""
	switch e.Kind {
	case recrawl.Accepted:
		word = "accepted"
	case recrawl.Refused:
		word = "refused"
		c.facts.Out, c.wanted, c.again = 0, true, now+3 // the strategy asks again
	case recrawl.Lapsed:
		word = "lapsed"
	case recrawl.Failed:
		word = "failed"
		c.facts.Out = 0
	case recrawl.Updated:
		c.facts.Out, c.facts.Updated = 0, now
		return
	}
	w.told = append(w.told, fmt.Sprintf("due: channel %d %s", s, word))
}

func (w *world) Edit(s recrawl.Slot, change func(*recrawl.Facts)) {
	change(&w.chans[s].facts)
	w.chans[s].wanted = false
}
func (w *world) Facts(s recrawl.Slot) recrawl.Facts { return w.chans[s].facts }
func (w *world) Intervals() []recrawl.Tick          { return []recrawl.Tick{15} }

// Channels.

func (w *world) Host(s recrawl.Slot) channel.HostKey { return w.chans[s].host }
func (w *world) Issue(s recrawl.Slot) (lease.Issue, error) {
	if w.chans[s].broken {
		return lease.Issue{}, fmt.Errorf("the disk is broken")
	}
	return w.chans[s].issue, nil
}
func (w *world) Expect(recrawl.Slot) time.Duration { return w.expect }

// Judge: the nearest of the share that is asked about; beyond those that count as near only one that nothing near it wanted.

func (w *world) Room(_ time.Time, a Ask) (Peer, Verdict) {
	if w.blind {
		return "", Unknown
	}
	if a.Only != "" {
		if p := w.peer(a.Only); p.gone || p.held >= p.holds {
			return "", Wait
		}
		return a.Only, Go
	}
	all := w.near(a.Host)
	k := max(int(a.Share*float64(len(all))), 1)
	for i, p := range all[:min(k, len(all))] {
		isNear := i == 0 || i < int(NearShare*float64(len(all)))
		if p.held < p.holds && !w.bars(a.Slot, p) && (isNear || w.spare[p.name]) && (!a.Spare || p.held < p.threads()) {
			return p.name, Go
		}
	}
	if w.chans[a.Slot].stays {
		return "", Stay
	}
	return "", Wait
}

func (w *world) Farther(_ time.Time, tasks []Ask) (task int, p Peer, ok bool) {
	least := 0
	w.since = tasks[0].Since
	for i, a := range tasks {
		all := w.near(a.Host)
		for _, m := range all {
			more := w.away(a.Host, m) - w.away(a.Host, all[0])
			may := m.held < m.holds && !w.bars(a.Slot, m) && (a.Pressing || w.spare[m.name] && m.held < m.threads())
			if may && (!ok || a.Pressing && !tasks[task].Pressing || a.Pressing == tasks[task].Pressing && more < least) {
				task, p, least, ok = i, m.name, more, true
			}
		}
	}
	return task, p, ok
}

func (w *world) bars(s recrawl.Slot, p *member) bool {
	return w.barred[p.name] && w.chans[s].facts.Updated == 0
}

// near are the peers that are there, the nearest to a host first.
func (w *world) near(host channel.HostKey) []*member {
	var all []*member
	for _, p := range w.peers {
		if !p.gone {
			all = append(all, p)
		}
	}
	slices.SortStableFunc(all, func(a, b *member) int { return w.away(host, a) - w.away(host, b) })
	return all
}

func (w *world) away(host channel.HostKey, p *member) int {
	return max(p.at-w.hosts[host], w.hosts[host]-p.at)
}

func (w *world) Held(p Peer, n int) { w.peer(p).held = n }

func (w *world) Capacity(time.Time) Capacity {
	var c Capacity
	for _, p := range w.peers {
		if !p.gone {
			c.Peers, c.Holds, c.Held = c.Peers+1, c.Holds+p.holds, c.Held+p.held
			c.Threads, c.Idle = c.Threads+p.threads(), c.Idle+max(p.threads()-p.held, 0)
		}
	}
	return c
}

func (w *world) Looked(time.Time) {
	clear(w.spare)
	for _, p := range w.peers {
		if !p.gone && p.held < p.holds {
			w.spare[p.name] = true
		}
	}
}

// hear hands an event of the archive to the Machine, and tells Due of a report.
func (w *world) hear(s recrawl.Slot, e lease.Event, p Peer) error {
	h, err := w.m.Hear(w.now, s, e, p)
	if err == nil && h.Effect&lease.Apply != 0 {
		w.Observe(w.clock.At(w.now), s, recrawl.Event{Kind: recrawl.Updated})
	}
	return err
}

// state words what the Machine holds of a channel.
func (w *world) state(s recrawl.Slot) string {
	c := w.chans[s]
	i, flying := w.m.Issue(s)
	var words []string
	switch {
	case !flying:
		words = append(words, "idle")
	case i.Out():
		words = append(words, "out, "+i.Phase.String())
	default:
		words = append(words, "waits, "+i.Phase.String())
	}
	if c.wanted {
		words = append(words, fmt.Sprintf("wanted at %v", w.clock.Time(c.again).Sub(epoch)))
	}
	if why := w.m.Blocked(c.host); why != "" {
		words = append(words, "blocked: "+why)
	}
	return fmt.Sprintf("channel %d: %s", s, strings.Join(words, "; "))
}
