package manager

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"shoal/channel"
	"shoal/coords"
	"shoal/manager/dispatch"
	"shoal/overlay"
	"shoal/recrawl"
)

// nearness is the dispatcher's judge. overlay.Judge decides; nearness shows it the members that the swarm knows and what the database knows of
// hosts, and has the hosts measured that it wants measured. Owned by the loop.
type nearness struct {
	*core
	keep       *keeper
	pace       *pace
	judge      *overlay.Judge
	complaints complaints
	errands    *errands
	auditor    *auditor
	asks       *askedOf
	looks      recrawl.Tick // of the last look at all that was due

	// Of the tasks that go now.
	read  map[recrawl.Slot]*channel.Channel // channels that were read for their hosts' names
	hosts map[recrawl.Slot]*channel.Host    // their hosts, as they are in the database
	named map[recrawl.Slot]overlay.Named

	reads  float64 // that may be made of the database now
	readAt time.Time
}

const (
	readsASecond  = 4096             // of hosts whose place is not known; far more than can be placed
	surveyTimeout = 20 * time.Second // of one host
)

func newNearness(c *core, keep *keeper, pace *pace) (*nearness, error) {
	judge, err := overlay.NewJudge(overlay.JudgeConfig{Vantages: c.cfg.Vantages, Probes: overlay.Default("").Probes, Small: overlay.SmallTicks * c.cfg.Tick}, rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return &nearness{core: c, keep: keep, pace: pace, judge: judge, complaints: complaints{}, read: map[recrawl.Slot]*channel.Channel{},
		hosts: map[recrawl.Slot]*channel.Host{}, named: map[recrawl.Slot]overlay.Named{}}, nil
}

// learn says that something new is known of a host.
func (n *nearness) learn(host channel.HostKey) { n.judge.Learn(host) }

// Held implements dispatch.Judge.
func (n *nearness) Held(p dispatch.Peer, k int) { n.judge.Held(n.cfg.Now(), overlay.ID(p), k) }

// Capacity implements dispatch.Judge.
func (n *nearness) Capacity(time.Time) dispatch.Capacity {
	n.judge.See(n.cfg.Swarm.View())
	peers, holds, held := n.judge.Capacity()
	threads, idle := n.judge.Threads()
	return dispatch.Capacity{Peers: peers, Holds: holds, Held: held, Threads: threads, Idle: idle}
}

// peers is how many members take tasks.
func (n *nearness) peers() int { return n.Capacity(time.Time{}).Peers }

// Looked implements dispatch.Judge. Once a tick is enough.
func (n *nearness) Looked(now time.Time) {
	if tick := n.clock.At(now); tick != n.looks {
		n.looks = tick
		n.judge.Looked()
	}
}

// Room implements dispatch.Judge.
func (n *nearness) Room(now time.Time, a dispatch.Ask) (dispatch.Peer, dispatch.Verdict) {
	n.judge.See(n.cfg.Swarm.View())
	if !n.judge.Knows(now, a.Host) {
		if !n.mayRead(now) {
			return "", dispatch.Enough
		}
		n.locate(now, a)
	}
	ask := overlay.Ask{Host: a.Host, Share: a.Share, Pages: n.pace.pages(a.Slot), Gap: n.cfg.Gap, Not: n.complaints[a.Slot].peer, Spare: a.Spare, Only: overlay.ID(a.Only)}
	n.suit(now, a.Slot, &ask)
	named, verdict := n.judge.Near(now, ask)
	if verdict == overlay.Go && named.Peer == "" && isErrand(a.Slot) {
		verdict = overlay.Full // no other peer will do
	}
	switch verdict {
	case overlay.Unmeasured:
		return "", dispatch.Unknown
	case overlay.Full:
		if isErrand(a.Slot) { // who looks at pages again is drawn from all
			return "", dispatch.Stay
		}
		return "", dispatch.Wait
	}
	n.named[a.Slot] = named
	return dispatch.Peer(named.Peer), dispatch.Go
}

// Farther implements dispatch.Judge.
func (n *nearness) Farther(now time.Time, tasks []dispatch.Ask) (int, dispatch.Peer, bool) {
	asks := make([]overlay.Ask, len(tasks))
	for i := range tasks {
		asks[i] = overlay.Ask{Host: tasks[i].Host, Not: n.complaints[tasks[i].Slot].peer, Pressing: tasks[i].Pressing, Since: tasks[i].Since, Usual: float64(n.sizes.mean()), Pages: n.pace.size(tasks[i].Slot)}
		asks[i].May, _ = n.mayTake(now, tasks[i].Slot) // else a peer that may not have the task would be named each time, and no other
	}
	i, p, ok := n.judge.Farther(now, asks)
	return i, dispatch.Peer(p), ok
}

// mayRead says whether one more host may be read about now. With a million channels due and all peers full, the loop would otherwise do nothing
// else.
func (n *nearness) mayRead(now time.Time) bool {
	n.reads, n.readAt = min(max(n.reads+readsASecond*now.Sub(n.readAt).Seconds(), 0), readsASecond), now
	if n.reads < 1 {
		return false
	}
	n.reads--
	return true
}

// locate tells the judge what the database knows of a task's host. What cannot be read is as good as unknown.
func (n *nearness) locate(now time.Time, a dispatch.Ask) {
	name, err := n.name(a.Slot)
	var h channel.Host
	if err == nil {
		h, err = n.keep.readHost(name)
	}
	switch {
	case err != nil:
		n.log.Warn("where a host is cannot be read", "slot", a.Slot, "err", err)
		name = ""
	case len(n.hosts) < maxBatch:
		n.hosts[a.Slot] = &h
	}
	n.judge.Locate(now, a.Host, name, h.Record)
}

// name is the name of a channel's host.
func (n *nearness) name(s recrawl.Slot) (string, error) {
	if isErrand(s) {
		if e := n.errands.at(s).errand; e != nil {
			return e.host, nil
		}
		return "", nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), saveTimeout)
	defer cancel()
	ch, err := n.cfg.Store.Channel(ctx, n.table.ID(s))
	if err != nil {
		return "", fmt.Errorf("read channel %d: %w", n.table.ID(s), err)
	}
	if len(n.read) < maxBatch {
		n.read[s] = &ch
	}
	return ch.Scope.Host, nil
}

// survey has the hosts measured that the judge wants measured, beside the loop. What comes of it is kept with the hosts.
func (n *nearness) survey(ctx context.Context) {
	for _, s := range n.judge.Surveys() {
		h, err := n.keep.readHost(s.Name)
		if err != nil {
			n.log.Warn("a host is measured as if it were new", "host", s.Name, "err", err)
		}
		h.Record.Samples, h.Record.Best = slices.Clone(h.Record.Samples), slices.Clone(h.Record.Best)
		n.beside.Go(func() {
			limited, cancel := context.WithTimeout(ctx, surveyTimeout)
			defer cancel()
			samples, err := n.cfg.Swarm.Survey(limited, s, h.Record)
			if err != nil || len(samples) == 0 {
				n.log.Debug("host not measured", "host", s.Name, "err", err)
			}
			n.post(ctx, func(time.Time) {
				n.judge.Surveyed(s.Host)
				n.measured(s.Name, samples)
			})
		})
	}
}

// clear forgets what was noted of the tasks that have gone.
func (n *nearness) clear() {
	clear(n.read)
	clear(n.hosts)
	clear(n.named)
}

// measured keeps with a host what candidates for its task measured: the next task's choice is better for it.
// Called on the loop.
func (n *nearness) measured(name string, samples []coords.Sample) {
	if len(samples) == 0 {
		return
	}
	h, err := n.keep.hostRecord(name)
	if err != nil {
		n.log.Debug("host not read", "host", name, "err", err)
		return
	}
	n.learn(channel.KeyOf(name))
	for _, s := range samples {
		h.Record.Add(s)
	}
}
