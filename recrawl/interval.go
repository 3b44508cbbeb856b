package recrawl

import (
	"fmt"
	"math"
	"slices"
)

// interval is fixed, iir and icr: each group has one recrawl interval, and a slot is due that long after its last submission.
//
// iir and icr reassign the intervals from the record of updates when at least half of the channels of the fastest group have more than
// ripeUpdates updates since the last reassignment. Three places of the paper's pseudocode are open, and are read so: counters start anew
// for every group; T -= delta*T where it writes ":-="; nothing bounds group 0. Both strategies ratchet upwards unless delta is large:
// T <- (T/s)(1-delta)^e, with s the success and e the share of reassignments that encourage, is stationary only when
// e*ln(1-delta) = ln s.
//
// A new interval holds from a channel's next submission on. If it held at once, all channels of a group that it makes overdue would be
// submitted in the same minute, and stay in step for ever.
//
// Time in which the manager was stopped does not count: neither reassignment nor a channel's gap between updates is longer by it.
//
// The paper's crawlers refuse nothing. Here a channel whose task was refused is due again after refusedShare of its interval, an hour at most: it would
// otherwise miss a whole interval though nothing crawled it, whereas the paper's tasks wait in a queue.
type interval struct {
	Base
	name string
	p    Params
	g    *Groups

	epoch uint16
	since Tick
	t     []float64 // intervals; empty: the groups' initial ones
	past  []regime  // before them, latest first
	last  []float64 // success at the last reassignment
	n     []tally
	base  Tick
	told  bool // peers refuse what they cannot start
	cap   *Limits
	usage usage // of the peers' threads since the last reassignment
	rests pauses
}

// tally is a group's record since the last reassignment.
type tally struct {
	sub, suc int64
	mean     float64 // sum of its channels' mean gaps between updates
	channels int     // channels with an update: those that mean counts
	ripe     int     // channels with more than ripeUpdates
}

// regime is the intervals that held from a tick on.
type regime struct {
	since Tick
	t     []float64
}

const (
	ripeUpdates  = 5
	refusedShare = 1. / 2
	regimesKept  = 8 // the oldest one holds for all channels submitted before it too
)

func (v *interval) Name() string { return v.name }

// Start keeps the intervals that were reached before. What facts counted for them holds too, unless they were counted anew.
func (v *interval) Start(now Tick, in Setting) {
	v.g, v.base, v.cap = in.Groups, now, in.Limits
	v.n = make([]tally, v.g.K())
	if len(v.t) > 0 && len(v.t) != v.g.K() || v.last == nil || len(v.last) != v.g.K() { // not restored
		v.epoch, v.since, v.t, v.past = 1, now, nil, nil
		v.last = make([]float64, v.g.K())
	}
	v.rests.setBack(now)
	v.usage.at = min(v.usage.at, now)
	for i := range v.past {
		v.past[i].since = min(v.past[i].since, now)
	}
	if v.since > now {
		v.since = now
		v.begin(now)
	}
	if in.Anew {
		v.rests.heard(now) // others were in force meanwhile
		if v.since != now {
			v.begin(now)
		}
	}
}

func (v *interval) Intervals() []float64 {
	t := make([]float64, v.g.K())
	for i := range t {
		t[i] = v.of(i)
	}
	return t
}

func (v *interval) of(group int) float64 {
	if group < len(v.t) {
		return v.t[group]
	}
	return v.g.Interval(group)
}

// promised is the interval that held for a group when one of its channels was submitted.
func (v *interval) promised(group int, submitted Tick) float64 {
	t := v.t
	if submitted < v.since {
		for _, r := range v.past {
			t = r.t
			if submitted >= r.since {
				break
			}
		}
	}
	if group < len(t) {
		return t[group]
	}
	return v.g.Interval(group)
}

func (v *interval) Rank(now, _ Tick, _ Slot, f *Facts) (float32, Tick) {
	if f.Submitted == 0 {
		return math.MaxFloat32, now
	}
	t := v.promised(int(f.Group), f.Submitted)
	if v.told && f.Flags&Denied != 0 && f.Out == 0 {
		t = min(t*refusedShare, max(retryMost, float64(v.cap.Least)))
	}
	due := f.Submitted + wholeTicks(t)
	return -float32(due - v.base), due
}

func (v *interval) Quota(now Tick, l Load) Quota {
	q := Quota{Max: -1, Floor: -math.MaxFloat32}
	if v.name == "fixed" {
		q.Strict = true
		return q
	}
	v.usage.see(now, l)
	if v.rests.see(now); v.rests.lost > v.since { // how long it was since then is not known
		v.begin(now)
	}
	first := 0
	for first < v.g.K()-1 && v.g.Count(first) == 0 {
		first++
	}
	if n := v.g.Count(first); n > 0 && now > v.since && v.n[first].ripe*2 >= n {
		v.reassign(now)
	}
	return q
}

func (v *interval) Observe(now Tick, _ Slot, f *Facts, e Event) {
	if e.Kind == Added {
		v.rests.heard(min(max(f.Submitted, f.Updated), now))
	} else if e.Kind == Updated {
		v.rests.see(now)
	}
	if e.Kind == Refused {
		v.told = true
	}
	if v.name == "fixed" || f.Flags&Paused != 0 { // a channel that rests, and what an operator has crawled of it, tell nothing of the group
		return
	}
	n := &v.n[f.Group]
	switch e.Kind {
	case Added:
		v.count(f, 1)
	case Removed, Moved:
		v.count(f, -1)
	case Submitted:
		v.fresh(f)
		n.sub++
		if f.Subs < 255 {
			f.Subs++
		}
	case Updated:
		v.fresh(f)
		n.suc++
		n.mean -= v.gap(f, f.Updated)
		switch f.Succ {
		case 0:
			n.channels++
		case ripeUpdates:
			n.ripe++
		}
		if f.Succ < 255 {
			f.Succ++
		}
		n.mean += v.gap(f, now)
	}
}

// fresh clears a channel's counters if they belong to an earlier reassignment.
func (v *interval) fresh(f *Facts) {
	if f.Epoch == v.epoch {
		return
	}
	f.Epoch, f.Subs, f.Succ, f.Anchor = v.epoch, 0, 0, 0
	if f.Updated > 0 {
		f.Anchor = uint16(min(max(v.rests.awake(f.Updated, v.since), 0), math.MaxUint16))
	}
}

// count puts a channel's counters into its group's record or takes them out.
func (v *interval) count(f *Facts, sign int) {
	if f.Epoch != v.epoch {
		return
	}
	n := &v.n[f.Group]
	n.sub += int64(sign) * int64(f.Subs)
	n.suc += int64(sign) * int64(f.Succ)
	if f.Succ > 0 {
		n.channels += sign
		n.mean += float64(sign) * v.gap(f, f.Updated)
	}
	if f.Succ > ripeUpdates {
		n.ripe += sign
	}
}

// gap is a channel's mean gap between updates since its counters began (the paper's hInterval).
func (v *interval) gap(f *Facts, last Tick) float64 {
	if f.Succ == 0 {
		return 0
	}
	return float64(v.rests.awake(v.since, last)+Tick(f.Anchor)) / float64(f.Succ)
}

// reassign gives the groups new intervals. A group without updates keeps its own.
func (v *interval) reassign(now Tick) {
	t := v.Intervals()
	dt := float64(max(v.rests.awake(v.since, now), 1))
	switch v.name {
	case "iir":
		v.byInterval(t, dt)
	case "icr":
		v.byCapacity(t, dt)
	}
	for i, n := range v.n {
		if n.sub == 0 {
			continue
		}
		success := float64(n.suc) / float64(n.sub)
		if success > v.last[i] {
			t[i] -= v.p.Delta * t[i]
		}
		v.last[i] = success
	}
	v.useThreads(t)
	v.checkPriorities(t)
	v.begin(now)
	v.t = t
}

// begin starts all counts anew. Channels that were submitted before keep the intervals of that time.
func (v *interval) begin(now Tick) {
	v.past = slices.Insert(v.past, 0, regime{v.since, v.t})
	v.past = v.past[:min(len(v.past), regimesKept)]
	v.since = now
	v.epoch++
	if v.epoch == waitEpoch {
		v.epoch = 1
	}
	clear(v.n)
	v.usage.reset()
}

// byInterval sets each interval to the mean gap between updates in the group: pooled over its channels, dt*n/sum(hSuc), or the mean of the
// channels' own means, which channels without an update do not have.
func (v *interval) byInterval(t []float64, dt float64) {
	for i, n := range v.n {
		switch {
		case n.suc == 0:
		case v.p.IIR == "channel":
			t[i] = n.mean / float64(n.channels)
		default:
			t[i] = dt * float64(v.g.Count(i)) / float64(n.suc)
		}
	}
}

// byCapacity sets T0 = dt * sum(n_i/m_i) / sum(hSuc), equation (4), and T_i = T0*m_i, with m_i the ratio of the group's initial interval
// to the fastest group's.
func (v *interval) byCapacity(t []float64, dt float64) {
	var wanted float64
	var suc int64
	for i, n := range v.n {
		wanted += float64(v.g.Count(i)) * v.g.Interval(0) / v.g.Interval(i)
		suc += n.suc
	}
	if suc == 0 {
		return
	}
	for i := range t {
		t[i] = dt * wanted / float64(suc) * v.g.Interval(i) / v.g.Interval(0)
	}
}

// checkPriorities keeps slower groups slower, but by no more than mu.
func (v *interval) checkPriorities(t []float64) {
	for i := 1; i < len(t); i++ {
		if t[i] < t[i-1] {
			t[i] = v.p.Sigma * t[i-1]
		}
		t[i] = min(t[i], v.p.Mu*t[i-1])
	}
}

// useThreads shortens intervals as far as peers have offered more threads than were used, down to what the cap allows for the group's mean
// channel. The paper's crawlers offer nothing that they do not get, so that what updates show is their capacity.
func (v *interval) useThreads(t []float64) {
	k := v.usage.factor()
	for i := range t {
		least := 0.
		if v.cap.Cap > 0 {
			least = min(v.g.Interval(i)/v.cap.Cap, t[i])
		}
		t[i] = max(t[i]/k, least)
	}
}

func (v *interval) AppendState(b []byte) []byte {
	b = appendInts(b, int64(v.epoch), int64(v.since))
	b = appendFloats(b, v.t)
	b = appendFloats(b, v.last)
	b = appendInts(b, int64(len(v.past)))
	for _, r := range v.past {
		b = appendInts(b, int64(r.since))
		b = appendFloats(b, r.t)
	}
	if n := len(v.rests.all); n > 0 { // versions before 0.2.0 begin anew with what follows
		b = appendInts(b, int64(n))
		for _, p := range v.rests.all {
			b = appendInts(b, int64(p.from), int64(p.to))
		}
	}
	return b
}

func (v *interval) Restore(b []byte) error {
	r := reader{b: b}
	epoch, since := r.int(), r.int()
	t, last := r.floats(), r.floats()
	all := [][]float64{t}
	var past []regime
	if len(r.b) > 0 { // older states end here, without past intervals
		for n := r.int(); n > 0 && len(past) < regimesKept; n-- {
			past = append(past, regime{Tick(r.int()), r.floats()})
			all = append(all, past[len(past)-1].t)
		}
	}
	var rests []pause
	if len(r.b) > 0 { // states without pauses end here
		for n := r.int(); n > 0 && len(rests) < pausesKept; n-- {
			rests = append(rests, pause{Tick(r.int()), Tick(r.int())})
		}
	}
	if err := r.end(); err != nil {
		return err
	}
	for _, p := range rests {
		if p.from < 0 || p.to < p.from {
			return fmt.Errorf("%w: a pause from %d to %d", ErrState, p.from, p.to)
		}
	}
	for _, t := range all {
		for _, x := range t {
			if !(x > 0) {
				return fmt.Errorf("%w: an interval of %v", ErrState, x)
			}
		}
	}
	v.epoch, v.since, v.t, v.last, v.past = uint16(epoch), Tick(since), t, last, past
	v.rests.all = rests
	return nil
}
