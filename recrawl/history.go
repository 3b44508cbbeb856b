package recrawl

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"shoal/recrawl/allocate"
)

const (
	// MaxHistories bounds the slots whose visits strategy optimal remembers, 136 bytes each. Channels beyond follow the Poisson model of their
	// estimate.
	MaxHistories = 1 << 20
	visitsKept   = 64
	fitEvery     = 16 // visits between two choices of a model
	fitLeast     = 12
	fitMargin    = 4. // by which another model's AIC must be better than Poisson's

	instantMargin = 12. // the same, of the quasi-deterministic model
)

// A visit is stored in 16 bits: the gap since the one before in 1/256 of an octave of ticks, the lowest bit says whether the channel had changed.
func codeVisit(gap float64, changed bool) uint16 {
	code := uint16(min(max(math.Round(256*math.Log2(gap)), 0), 1<<14-1)) << 1
	if changed {
		code |= 1
	}
	return code
}

func visitOf(code uint16) allocate.Visit {
	return allocate.Visit{Gap: math.Exp2(float64(code>>1) / 256), Changed: code&1 == 1}
}

// AppendVisit adds a visit, gap ticks after the one before, to a channel's stored history, which keeps the last 64: 128 bytes.
func AppendVisit(history []byte, gap float64, changed bool) []byte {
	if !(gap > 0) || math.IsInf(gap, 0) {
		return history
	}
	if over := len(history) + 2 - 2*visitsKept; over > 0 {
		history = history[over:]
	}
	return binary.LittleEndian.AppendUint16(slices.Clone(history), codeVisit(gap, changed))
}

// visitsOf reads a stored history whose last visit was at tick last.
func visitsOf(history []byte, last Tick) (h allocate.History, ok bool) {
	n := len(history) / 2
	if n < fitLeast {
		return h, false
	}
	h.Start = float64(last)
	for i := range n {
		v := visitOf(binary.LittleEndian.Uint16(history[2*i:]))
		h.Start -= v.Gap
		h.Visits = append(h.Visits, v)
	}
	return h, true
}

// Chosen is the update model that a channel's history speaks for.
type Chosen struct {
	Model  allocate.Model
	Other  bool   // Model is not Poisson's: it is clearly likelier
	Reason string // for people; empty: too few visits to tell
}

// Choose says which update model a stored history speaks for; day is the length of what may repeat itself, in ticks.
func Choose(history []byte, f *Facts, day float64) Chosen {
	h, ok := visitsOf(history, f.Updated)
	if !ok {
		return Chosen{}
	}
	c, other, ok := fitHistory(h, day)
	if !ok {
		return Chosen{}
	}
	out := Chosen{Model: c.Model, Other: other, Reason: c.Reason}
	if !other && c.Model.Kind() != allocate.PoissonKind {
		out.Reason = notClearly(c.Reason)
	}
	return out
}

// LooksPoisson tells whether a history looks like a Poisson process at a first glance, or is too short to tell.
func LooksPoisson(history []byte, f *Facts, day float64) bool {
	h, ok := visitsOf(history, f.Updated)
	return !ok || !suspicious(h, day)
}

// ChooseFast is Choose for many channels: it does not fit histories that look like a Poisson process at a first glance, and has no reason
// for them.
func ChooseFast(history []byte, f *Facts, day float64) Chosen {
	if LooksPoisson(history, f, day) {
		return Chosen{}
	}
	return Choose(history, f, day)
}

func notClearly(reason string) string {
	return "Poisson, since no other model is clearly likelier (" + reason + ")"
}

// Span says a length of time, which is in ticks, in words: how long a tick is, this package does not know.
type Span func(ticks float64) string

// DescribeModel is Choose in words, whatever strategy is in force.
func DescribeModel(history []byte, f *Facts, day float64, span Span) string {
	if c := Choose(history, f, day); c.Reason != "" {
		return c.Reason
	}
	return tooFew(f, span)
}

func tooFew(f *Facts, span Span) string {
	return fmt.Sprintf("Poisson: one change in %s by estimate; too few visits to tell more", span(f.Est.Interval()))
}

// visitLog is a channel's last visits.
type visitLog struct {
	v     [visitsKept]uint16
	last  Tick
	n     uint8
	fresh uint8 // visits since the last fit
}

// histories are the visits of many slots and the models chosen from them. It is owned by the loop.
type histories struct {
	logs   []visitLog
	chosen map[Slot]allocate.Model
	day    float64
}

func (h *histories) add(now Tick, s Slot, gap float64, changed bool, day float64) {
	if s >= MaxHistories || !(gap > 0) {
		return
	}
	h.day = day
	for len(h.logs) <= int(s) {
		h.logs = append(h.logs, visitLog{})
	}
	l := &h.logs[s]
	if l.n == visitsKept {
		copy(l.v[:], l.v[1:])
		l.n--
	}
	l.v[l.n], l.last = codeVisit(gap, changed), now
	l.n++
	if l.fresh++; l.fresh >= fitEvery && l.n >= fitLeast {
		l.fresh = 0
		h.choose(s)
	}
}

func (h *histories) history(s Slot) (allocate.History, bool) {
	if int(s) >= len(h.logs) || h.logs[s].n < fitLeast {
		return allocate.History{}, false
	}
	l := &h.logs[s]
	out := allocate.History{Start: float64(l.last)}
	for _, code := range l.v[:l.n] {
		v := visitOf(code)
		out.Start -= v.Gap
		out.Visits = append(out.Visits, v)
	}
	return out, true
}

func (h *histories) fit(s Slot) (c allocate.Choice, other bool) {
	hist, ok := h.history(s)
	if !ok {
		return c, false
	}
	c, other, _ = fitHistory(hist, h.day)
	return c, other
}

// fitHistory chooses a model; other says that it is not Poisson's, and clearly likelier.
func fitHistory(hist allocate.History, day float64) (c allocate.Choice, other, ok bool) {
	c, err := allocate.Fit(hist, day)
	if err != nil {
		return allocate.Choice{}, false, false
	}
	poisson := math.Inf(1)
	for _, k := range c.Candidates {
		if k.Model.Kind() == allocate.PoissonKind {
			poisson = k.AIC
		}
	}
	margin := fitMargin
	if c.Model.Kind() == allocate.QuasiKind { // chosen among many instants, and dear if wrong: such a channel is crawled at them only
		margin = instantMargin
	}
	return c, len(c.Candidates) > 1 && c.Model.Kind() != allocate.PoissonKind && c.Candidates[0].AIC < poisson-margin, true
}

// suspicious is a quick test whether a history may be something else than a Poisson process, so that few are fitted in vain. It asks whether
// findings depend on their predecessors (bursts, or regular gaps) or on the time within the planning interval.
func suspicious(v allocate.History, day float64) bool {
	total, changes := 0., 0.
	for _, x := range v.Visits {
		total += x.Gap
		if x.Changed {
			changes++
		}
	}
	rate := changes / total
	for range 4 { // towards the likelihood's rate: expected findings as many as found ones
		expect := 0.
		for _, x := range v.Visits {
			expect += -math.Expm1(-rate * x.Gap)
		}
		rate *= changes / max(expect, 1e-9)
	}
	const bins = 6
	var off, spread [bins]float64
	serial, noise, before, beforeVar := 0., 0., 0., 0.
	t := v.Start
	for _, x := range v.Visits {
		t += x.Gap
		p := -math.Expm1(-rate * x.Gap)
		r, q := -p, p*(1-p)
		if x.Changed {
			r = 1 - p
		}
		serial += r * before
		noise += q * beforeVar
		before, beforeVar = r, q
		b := (int(math.Mod(t, day)/day*bins)%bins + bins) % bins
		off[b] += r
		spread[b] += q
	}
	chi := 0.
	for b := range off {
		if spread[b] > 0 {
			chi += off[b] * off[b] / spread[b]
		}
	}
	return serial*serial > suspectSerial*noise || chi > suspectPhase
}

// Bounds of suspicious: about one Poisson history in ten passes each.
const (
	suspectSerial = 2.7
	suspectPhase  = 9.2
)

func (h *histories) choose(s Slot) {
	if v, ok := h.history(s); !ok || !suspicious(v, h.day) {
		delete(h.chosen, s)
		return
	}
	c, other := h.fit(s)
	if !other {
		delete(h.chosen, s)
		return
	}
	if h.chosen == nil {
		h.chosen = map[Slot]allocate.Model{}
	}
	h.chosen[s] = c.Model
}

func (h *histories) explain(s Slot) string {
	c, _ := h.fit(s)
	if _, other := h.chosen[s]; c.Reason != "" && !other && c.Model.Kind() != allocate.PoissonKind {
		return notClearly(c.Reason)
	}
	return c.Reason
}

// recall takes a stored history, unless as many visits were seen since.
func (h *histories) recall(s Slot, f *Facts, history []byte, c Chosen) {
	n := min(len(history)/2, visitsKept)
	if s >= MaxHistories || n == 0 {
		return
	}
	for len(h.logs) <= int(s) {
		h.logs = append(h.logs, visitLog{})
	}
	l := &h.logs[s]
	if int(l.n) >= n {
		return
	}
	*l = visitLog{last: f.Updated, n: uint8(n)}
	for i := range n {
		l.v[i] = binary.LittleEndian.Uint16(history[len(history)-2*n+2*i:])
	}
	if c.Other {
		if h.chosen == nil {
			h.chosen = map[Slot]allocate.Model{}
		}
		h.chosen[s] = c.Model
	}
}

func (h *histories) forget(s Slot) {
	if int(s) < len(h.logs) {
		h.logs[s] = visitLog{}
		delete(h.chosen, s)
	}
}

// models copies the choices, for a planner off the loop.
func (h *histories) models() map[Slot]allocate.Model {
	m := make(map[Slot]allocate.Model, len(h.chosen))
	for s, k := range h.chosen {
		m[s] = k
	}
	return m
}
