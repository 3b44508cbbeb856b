package overlaysim

import (
	"math"
	"time"

	"shoal/channel"
	"shoal/coords"
	"shoal/internal/sim"
	"shoal/manager/dispatch"
	"shoal/overlay"
	"shoal/recrawl"
)

// nearness is the dispatcher's judge under load: an overlay.Judge that sees what the manager's node knows of the peers, as in the product's manager.
// Hosts are measured before their first task; it has them measured again where a peer seems nearer than all that have.
type nearness struct {
	s     *swarm
	judge *overlay.Judge
	view  *overlay.View
	seen  int64        // when view was taken
	looks recrawl.Tick // of the last look at all that was wanted
	named map[recrawl.Slot]overlay.Named
}

const (
	viewEvery = int64(250 * time.Millisecond) // as the runner publishes its node's table
	vantages  = 8                             // peers that measure a new host, as the manager has it
	surveyReq = 1 << 40                       // requests above it are surveys of places, those below it placings
)

func newNearness(s *swarm) *nearness {
	j, err := overlay.NewJudge(overlay.JudgeConfig{Vantages: vantages, Probes: overlay.Default("").Probes}, sim.Rand(1, "judge"))
	if err != nil {
		panic(err) // the configuration does not depend on flags
	}
	return &nearness{s: s, judge: j, named: map[recrawl.Slot]overlay.Named{}}
}

// see shows the judge the node's table.
func (k *nearness) see() {
	if n := k.s.n; k.view == nil || n.now-k.seen >= viewEvery {
		k.view, k.seen = n.members[manager].node.View(n.time()), n.now
	}
	k.judge.See(k.view)
}

// Room implements dispatch.Judge.
func (k *nearness) Room(now time.Time, a dispatch.Ask) (dispatch.Peer, dispatch.Verdict) {
	k.see()
	t := k.s.tasks[a.Slot]
	host := channel.HostKey(t.place)
	if !k.judge.Knows(now, host) {
		k.judge.Locate(now, host, hostOf(t.place), k.s.host(t.place).record)
	}
	named, verdict := k.judge.Near(now, overlay.Ask{Host: host, Share: a.Share, Pages: int(math.Ceil(t.left)), Gap: gap, Only: overlay.ID(a.Only)})
	k.survey(now)
	switch verdict {
	case overlay.Unmeasured:
		return "", dispatch.Unknown
	case overlay.Full:
		return "", dispatch.Wait
	}
	k.named[a.Slot] = named
	return dispatch.Peer(named.Peer), dispatch.Go
}

// Farther implements dispatch.Judge.
func (k *nearness) Farther(now time.Time, tasks []dispatch.Ask) (int, dispatch.Peer, bool) {
	asks := make([]overlay.Ask, len(tasks))
	for i := range tasks {
		asks[i] = overlay.Ask{Host: channel.HostKey(k.s.tasks[tasks[i].Slot].place), Pressing: tasks[i].Pressing}
	}
	i, p, ok := k.judge.Farther(now, asks)
	return i, dispatch.Peer(p), ok
}

// take is the peer that was named for a task that goes now.
func (k *nearness) take(at recrawl.Slot) overlay.Named {
	named := k.named[at]
	delete(k.named, at)
	return named
}

// survey has the hosts measured that the judge wants measured.
func (k *nearness) survey(now time.Time) {
	n := k.s.n
	for _, h := range k.judge.Surveys() {
		n.after(0, func() {
			n.send(manager, n.members[manager].node.Survey(now, surveyReq+uint64(h.Host), h, k.s.host(int(h.Host)).record))
		})
	}
}

// surveyed takes what came of that.
func (k *nearness) surveyed(place int, samples []coords.Sample) {
	r := &k.s.host(place).record
	for _, m := range samples {
		r.Add(m)
	}
	k.judge.Surveyed(channel.HostKey(place))
}

// Held implements dispatch.Judge.
func (k *nearness) Held(p dispatch.Peer, n int) { k.judge.Held(k.s.n.time(), overlay.ID(p), n) }

// Capacity implements dispatch.Judge.
func (k *nearness) Capacity(time.Time) dispatch.Capacity {
	k.see()
	peers, holds, held := k.judge.Capacity()
	return dispatch.Capacity{Peers: peers, Holds: holds, Held: held}
}

// Looked implements dispatch.Judge. Once a tick is enough.
func (k *nearness) Looked(now time.Time) {
	if tick := clock.At(now); tick != k.looks {
		k.looks = tick
		k.judge.Looked()
	}
}
