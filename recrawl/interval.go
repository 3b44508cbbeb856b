package recrawl

import (
	"fmt"
	"math"
	"slices"
)

// interval is fixed, iir and icr: each group has one recrawl interval, and a slot is due that long after its last submission.
//
// iir and icr reassign the intervals from the record of updates when at least half of the channels of the fastest group have more than
// ripeUpdates updates since the last reassignment. The paper's pseudocode is read so: counters start anew for every group; T -= delta*T
// where it writes ":-="; nothing bounds group 0. Both ratchet upwards unless delta is large: T <- (T/s)(1-delta)^e, s the success,
// e the share of reassignments that encourage, is stationary only when e*ln(1-delta) = ln s.
//
// A new interval holds from a channel's next submission on. If it held at once, all channels of a group that it makes overdue would be
// submitted in the same minute, and in step ever after.
//
// The paper's crawlers refuse nothing. A channel whose task was refused is due again after refusedShare of its interval: else it would miss a whole
// one, though nobody crawled it, whereas the paper's tasks wait in a queue.
type interval struct {
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
}

// tally is a group's record since the last reassignment.
type tally struct {
	sub, suc int64
	mean     float64 // sum of its channels' mean gaps between updates
	channels int     // that mean has: those with an update
	ripe     int     // those with more than ripeUpdates
}

// regime is the intervals that held from a tick on.
type regime struct {
	since Tick
	t     []float64
}

const (
	ripeUpdates  = 5
	refusedShare = 1. / 2
	regimesKept  = 8 // a channel that was submitted before the oldest of them goes by the oldest
)

func (v *interval) Name() string { return v.name }

func (v *interval) Start(now Tick, g *Groups) {
	v.g, v.base = g, now
	v.n = make([]tally, g.K())
	if len(v.t) > 0 && len(v.t) != g.K() || v.last == nil || len(v.last) != g.K() { // not restored
		v.epoch, v.since, v.t, v.past = 1, now, nil, nil
		v.last = make([]float64, g.K())
	}
}

// Resume goes on with the intervals that were reached.
func (v *interval) Resume(now Tick) {
	if v.since != now {
		v.begin(now)
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

// promised is the interval that held for a group when a channel of it was submitted.
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
		t *= refusedShare
	}
	due := f.Submitted + wholeTicks(t)
	return -float32(due - v.base), due
}

func (v *interval) Quota(now Tick, _ Load) Quota {
	q := Quota{Max: -1, Floor: -math.MaxFloat32}
	if v.name == "fixed" {
		return q
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

func (v *interval) Taken(Tick, int, float32, bool) {}

func (v *interval) Observe(now Tick, _ Slot, f *Facts, e Event) {
	if e.Kind == Refused {
		v.told = true
	}
	if v.name == "fixed" {
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

// fresh starts a channel's counters anew if they belong to an earlier reassignment.
func (v *interval) fresh(f *Facts) {
	if f.Epoch == v.epoch {
		return
	}
	f.Epoch, f.Subs, f.Succ, f.Anchor = v.epoch, 0, 0, 0
	if f.Updated > 0 {
		f.Anchor = uint16(min(max(v.since-f.Updated, 0), math.MaxUint16))
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
	return float64(last-v.since+Tick(f.Anchor)) / float64(f.Succ)
}

// reassign gives the groups new intervals. A group without updates keeps its own.
func (v *interval) reassign(now Tick) {
	t := v.Intervals()
	dt := float64(now - v.since)
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
	v.checkPriorities(t)
	v.begin(now)
	v.t = t
}

// begin has all counts start anew; channels that were submitted before go by the intervals of then.
func (v *interval) begin(now Tick) {
	v.past = slices.Insert(v.past, 0, regime{v.since, v.t})
	v.past = v.past[:min(len(v.past), regimesKept)]
	v.since = now
	v.epoch++
	if v.epoch == waitEpoch {
		v.epoch = 1
	}
	clear(v.n)
}

// byInterval: the new interval is the mean gap between updates in the group; pooled over its channels, dt*n/sum(hSuc), or the mean of the
// channels' own means (channels without an update have none).
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

// byCapacity: T0 = dt * sum(n_i/m_i) / sum(hSuc), equation (4); T_i = T0*m_i, m_i the ratio of initial intervals to the fastest.
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

func (v *interval) AppendState(b []byte) []byte {
	b = appendInts(b, int64(v.epoch), int64(v.since))
	b = appendFloats(b, v.t)
	b = appendFloats(b, v.last)
	b = appendInts(b, int64(len(v.past)))
	for _, r := range v.past {
		b = appendInts(b, int64(r.since))
		b = appendFloats(b, r.t)
	}
	return b
}

func (v *interval) Restore(b []byte) error {
	r := reader{b: b}
	epoch, since := r.int(), r.int()
	t, last := r.floats(), r.floats()
	all := [][]float64{t}
	var past []regime
	if len(r.b) > 0 { // states from before intervals were held over end here
		for n := r.int(); n > 0 && len(past) < regimesKept; n-- {
			past = append(past, regime{Tick(r.int()), r.floats()})
			all = append(all, past[len(past)-1].t)
		}
	}
	if err := r.end(); err != nil {
		return err
	}
	for _, t := range all {
		for _, x := range t {
			if !(x > 0) {
				return fmt.Errorf("%w: an interval of %v", ErrState, x)
			}
		}
	}
	v.epoch, v.since, v.t, v.last, v.past = uint16(epoch), Tick(since), t, last, past
	return nil
}
