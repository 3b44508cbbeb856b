package recrawlsim

import (
	"math"
	"strconv"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/internal/sim"
	"shoal/manager/dispatch"
	"shoal/manager/share"
	"shoal/overlay"
	"shoal/recrawl"
)

// part is what one of several managers has: a scheduler and a dispatcher, both the product's, and some of the channels. All managers hand out to the same
// peers. What one sees of them is how they were at the beginning of a minute, beside what it has handed out itself; what others hand out in that
// minute it learns when a peer has no room.
type part struct {
	r        *run
	s        *recrawl.Scheduler
	channels []int32 // by slot; nil: all, by their numbers
	share    float64 // of the swarm

	// Of mode shoal.
	swarm    *shoal
	m        *dispatch.Machine
	capacity dispatch.Capacity
	promised int         // tasks of this minute
	waited   [2]int      // of them, those that find no room: wanted ones, and spare ones
	looks    int32       // minutes in which peers were looked at
	free     []int32     // threads of each peer that no task has or is promised; below 0: places of its queue that are; gone: it is not there
	full     [2][]fullTo // by slot: for tasks that do not press, and that do
	held     []int32     // tasks that this manager knows each peer to have
}

// split makes the managers. Each has as many of the product's partitions, and of the channels those whose hosts fall into them.
func (r *run) split(opt recrawl.Options) error {
	n := max(r.cfg.Managers, 1)
	for range n {
		strategy, err := recrawl.New(r.cfg.Strategy, r.cfg.Params)
		if err != nil {
			return err
		}
		p := &part{r: r, share: 1 / float64(n)}
		own := opt
		if r.cfg.Mode == "shoal" {
			own.Ahead = func(at recrawl.Slot) { r.touched += p.swarm.tasks[p.channel(at)].touch() }
		}
		if c := r.cfg.Scale; c != nil && c.Sites != nil { // links of others tell about how large a site is
			own.Pending = func(at recrawl.Slot) int { return r.linked(p.channel(at)) }
		}
		p.s = recrawl.NewScheduler(begin, strategy, own)
		r.parts = append(r.parts, p)
	}
	r.s = r.parts[0].s
	if n == 1 {
		return nil
	}
	rng := sim.Rand(r.cfg.Seed, "partitions")
	r.owner, r.slot = make([]uint8, len(r.w.group)), make([]recrawl.Slot, len(r.w.group))
	for ch := range r.owner {
		r.owner[ch] = uint8(rng.IntN(channel.Parts) * n / channel.Parts)
	}
	return nil
}

// add gives a channel to its manager.
func (r *run) add(ch int32, f recrawl.Facts) {
	if r.owner == nil {
		r.s.Add(f) // slots count up from 0: they are the channels' numbers
		return
	}
	p := r.parts[r.owner[ch]]
	r.slot[ch] = p.s.Add(f)
	p.channels = append(p.channels, ch) // slots count up from 0
}

// manager is the one that has a channel, and the channel's slot there.
func (r *run) manager(ch int32) (*part, recrawl.Slot) {
	if r.owner == nil {
		return r.parts[0], recrawl.Slot(ch)
	}
	return r.parts[r.owner[ch]], r.slot[ch]
}

// of is a channel's scheduler, and its slot there.
func (r *run) of(ch int32) (*recrawl.Scheduler, recrawl.Slot) {
	p, at := r.manager(ch)
	return p.s, at
}

// channel is the one in a slot.
func (p *part) channel(at recrawl.Slot) int32 {
	if p.channels == nil {
		return int32(at)
	}
	return p.channels[at]
}

// meanIntervals takes down the groups' intervals, on average over the managers.
func (r *run) meanIntervals() {
	for n, p := range r.parts {
		for i, t := range p.s.Strategy().Intervals() {
			r.intervals[i] += (float32(t) - r.intervals[i]) / float32(n+1)
		}
	}
}

// Next implements dispatch.Due. What is taken counts as submitted.
func (p *part) Next(now recrawl.Tick, load recrawl.Load, admit func(recrawl.Slot) (recrawl.Tick, bool)) int {
	return p.s.Next(now, load, p.count(now, admit))
}

// Spare implements dispatch.Sparer.
func (p *part) Spare(now recrawl.Tick, n int, may func(recrawl.Slot) bool, admit func(recrawl.Slot) (recrawl.Tick, bool)) int {
	return p.s.Spare(now, n, may, p.count(now, admit))
}

// Lacking implements dispatch.Sparer.
func (p *part) Lacking(may func(recrawl.Slot) bool) bool { return p.s.Lacking(may) }

// Edit implements dispatch.Due.
func (p *part) Edit(at recrawl.Slot, change func(*recrawl.Facts)) { p.s.Edit(at, change) }

// Facts implements dispatch.Due.
func (p *part) Facts(at recrawl.Slot) recrawl.Facts { return p.s.Facts(at) }

// Intervals implements dispatch.Due.
func (p *part) Intervals() []recrawl.Tick { return p.s.Intervals() }

// Take implements dispatch.Due.
func (p *part) Take(now recrawl.Tick, at recrawl.Slot, admit func(recrawl.Slot) (recrawl.Tick, bool)) bool {
	return p.s.Take(now, at, p.count(now, admit))
}

// count has what admit takes counted as submitted.
func (p *part) count(now recrawl.Tick, admit func(recrawl.Slot) (recrawl.Tick, bool)) func(recrawl.Slot) (recrawl.Tick, bool) {
	r, s := p.r, p.swarm
	return func(at recrawl.Slot) (recrawl.Tick, bool) {
		again, ok := admit(at)
		ch := p.channel(at)
		if t := &s.tasks[ch]; ok && !t.open {
			if t.left == 0 {
				t.left = r.w.pages[ch]
			}
			t.open, t.taken, t.since = true, false, int32(now-begin)
			r.out++
			r.m.submitted++
			r.m.submittedBy[r.w.group[ch]]++
		}
		return again, ok
	}
}

// Observe implements dispatch.Due. What is refused is over.
func (p *part) Observe(now recrawl.Tick, at recrawl.Slot, e recrawl.Event) {
	if t := &p.swarm.tasks[p.channel(at)]; e.Kind == recrawl.Refused && !t.taken {
		t.open, t.left = false, 0
		p.r.out--
		p.r.m.refused++
	}
	p.s.Observe(now, at, e)
}

// Host implements dispatch.Channels: every channel has a host of its own.
func (p *part) Host(recrawl.Slot) channel.HostKey { return 0 }

// Issue implements dispatch.Channels.
func (p *part) Issue(at recrawl.Slot) (lease.Issue, error) {
	return p.swarm.tasks[p.channel(at)].issue, nil
}

// Expect implements dispatch.Channels.
func (p *part) Expect(recrawl.Slot) time.Duration { return 0 }

// Room implements dispatch.Judge: a task waits while the peers near its host are full, and the longer it has waited the farther it may go, to a
// peer with a free thread. A spare task goes to a near one with a free thread, or does not go.
func (p *part) Room(_ time.Time, a dispatch.Ask) (dispatch.Peer, dispatch.Verdict) {
	if p.reserve(a) {
		return "", dispatch.Go
	}
	k := 0
	if a.Spare {
		k = 1
	}
	if p.waited[k]++; p.waited[k] > max(waitsLeast, len(p.free)/waitsShare) {
		return "", dispatch.Enough
	}
	return "", dispatch.Wait
}

// Of the tasks of a minute one for every waitsShare peers is asked for in vain, at least waitsLeast, spare ones apart from the others. The product asks for all; here
// that would be most of the work under overload.
const (
	waitsLeast = 64
	waitsShare = 4
)

// Farther implements dispatch.Judge: the task with room at the nearest peer, by their order.
func (p *part) Farther(_ time.Time, tasks []dispatch.Ask) (task int, best dispatch.Peer, ok bool) {
	s, least, near := p.swarm, math.MaxInt, &p.r.w.near
	for i := range tasks {
		if ok && tasks[task].Pressing && !tasks[i].Pressing {
			continue
		}
		end := near.each
		if ok && tasks[task].Pressing == tasks[i].Pressing {
			end = least
		}
		if rank := p.roomAt(&tasks[i], end); rank < end {
			task, best, least, ok = i, s.name(near.at(p.channel(tasks[i].Slot), rank)), rank, true
		}
	}
	return task, best, ok
}

// fullTo says of the peers nearest to a channel's host how many have no room, as far as was looked in a minute: they have none until the next one.
type fullTo struct {
	minute int32
	rank   uint16
}

// roomAt is the rank of the nearest peer that has room for a task, or end if none before it has.
func (p *part) roomAt(a *dispatch.Ask, end int) int {
	k, full := 0, int32(0)
	if a.Pressing {
		k, full = 1, -int32(p.swarm.places)
	}
	if p.full[k] == nil {
		p.full[k] = make([]fullTo, len(p.r.w.group))
	}
	to := &p.full[k][a.Slot]
	if to.minute != p.looks {
		*to = fullTo{minute: p.looks}
	}
	near, ch, rank := &p.r.w.near, p.channel(a.Slot), int(to.rank)
	for rank < end && p.free[near.at(ch, rank)] <= full {
		rank++
	}
	to.rank = uint16(max(rank, int(to.rank)))
	return min(rank, end)
}

// reserve finds room near a task's host, and keeps it from other tasks of this minute.
func (p *part) reserve(a dispatch.Ask) bool {
	near, ch := &p.r.w.near, p.channel(a.Slot)
	if near.narrow != nil {
		return reserved(p, of(near.narrow, near.each, ch), &a)
	}
	return reserved(p, of(near.wide, near.each, ch), &a)
}

func reserved[C uint16 | int32](m *part, peers []C, a *dispatch.Ask) bool {
	full, near, looked := -int32(m.swarm.places), overlay.Widen(0), 0
	if a.Only != "" {
		near = len(peers)
	}
	onlyNear := a.Spare || a.Share <= dispatch.NearShare || m.capacity.Idle <= 0 // farther away only free threads are taken
	s, ch := m.swarm, m.channel(a.Slot)
	first, within := nothing, time.Duration(0) // who would have the task, and should not; how far who has it instead may be
	for _, p := range peers {
		free := m.free[p]
		if free == gone {
			continue
		}
		if looked++; looked > near && onlyNear || first != nothing && m.r.w.away(ch, int32(p)) > within {
			break
		}
		if free <= 0 && (a.Spare || looked > near || free <= full) {
			continue
		}
		if first == nothing && s.apart.stays(ch, int32(p)) {
			first, within = int32(p), s.apart.reach(m.r.w.away(ch, int32(p)))
			continue
		}
		m.promise(ch, int32(p))
		return true
	}
	if first == nothing {
		return false
	}
	m.promise(ch, first)
	return true
}

// promise keeps room at a peer for a channel's task.
func (p *part) promise(ch, peer int32) {
	if p.free[peer] > 0 {
		p.capacity.Idle--
	}
	p.free[peer]--
	p.promised++
	p.swarm.tasks[ch].kept = peer
}

// gone is what a peer has free that is not there.
const gone = math.MinInt32

// queueShare is the part of its queue that the manager fills, as overlay.Holds has it.
const queueShare = 5

// Held implements dispatch.Judge.
func (p *part) Held(peer dispatch.Peer, n int) {
	if i, err := strconv.Atoi(string(peer)); err == nil {
		p.held[i] = int32(n)
	}
}

// Capacity implements dispatch.Judge. What is promised counts as idle here: the machine takes it off itself.
func (p *part) Capacity(time.Time) dispatch.Capacity {
	c := p.capacity
	c.Idle += p.promised
	return c
}

// look sums up the peers, for the tasks of a minute.
func (p *part) look() {
	p.capacity, p.promised, p.waited = dispatch.Capacity{}, 0, [2]int{}
	p.looks++
	c, s := &p.capacity, p.swarm
	for i, alive := range p.r.alive {
		p.free[i] = gone
		if !alive {
			continue
		}
		p.free[i] = int32(s.threads - s.has(int32(i)))
		c.Peers, c.Threads, c.Idle = c.Peers+1, c.Threads+s.threads, c.Idle+max(int(p.free[i]), 0)
		if p.held != nil {
			c.Holds, c.Held = c.Holds+s.threads+s.places, c.Held+int(p.held[i])
		}
	}
}

// Looked implements dispatch.Judge.
func (p *part) Looked(time.Time) {}

// shareEvery is how many minutes lie between two moves of quotas.
const shareEvery = 10

// share moves quotas between the managers, by what the next crawl is worth to each.
func (r *run) share(minute int) {
	if len(r.parts) == 1 {
		return
	}
	needs := make([]share.Need, len(r.parts))
	for i, p := range r.parts {
		needs[i] = share.Need{Share: p.share, Price: p.s.Strategy().Price()}
	}
	if !r.cfg.Quotas || minute%shareEvery != 0 {
		return
	}
	for i, s := range share.Quotas(needs) {
		r.parts[i].share = s
	}
}
