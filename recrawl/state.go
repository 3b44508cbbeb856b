package recrawl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// ErrState says that stored state cannot be read.
var ErrState = errors.New("recrawl: bad state")

// The versions of what is stored. They lead every blob.
const (
	factsVersion = 1
	stateVersion = 1
)

// AppendState appends what a slot must keep over a restart. The manager knows which tasks are out.
func (f *Facts) AppendState(b []byte) []byte {
	b = append(b, factsVersion, f.Group, f.Bucket, f.Flags&(Known|Pinned|Paused|Denied), f.Subs, f.Succ, f.Est.changes, f.Est.prior)
	for _, v := range []uint16{f.Epoch, f.Anchor, uint16(f.Service), f.Est.variance} {
		b = binary.LittleEndian.AppendUint16(b, v)
	}
	for _, t := range []Tick{f.Submitted, f.Updated, f.Signalled} {
		b = binary.LittleEndian.AppendUint32(b, uint32(t))
	}
	for _, v := range []float32{f.Est.rate, f.Est.idle, f.Est.mean, f.Weight} {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}

const factsBytes = 8 + 4*2 + 3*4 + 4*4

// Restore reads what AppendState wrote.
func (f *Facts) Restore(b []byte) error {
	if len(b) != factsBytes || b[0] != factsVersion {
		return fmt.Errorf("%w: facts of %d bytes", ErrState, len(b))
	}
	*f = Facts{Group: b[1], Bucket: b[2], Flags: b[3] & (Known | Pinned | Paused | Denied), Subs: b[4], Succ: b[5]}
	f.Est.changes, f.Est.prior = b[6], b[7]
	var service uint16
	for i, v := range []*uint16{&f.Epoch, &f.Anchor, &service, &f.Est.variance} {
		*v = binary.LittleEndian.Uint16(b[8+2*i:])
	}
	f.Service = Half(service)
	for i, t := range []*Tick{&f.Submitted, &f.Updated, &f.Signalled} {
		*t = Tick(binary.LittleEndian.Uint32(b[16+4*i:]))
		if *t < 0 {
			return fmt.Errorf("%w: a tick before the beginning", ErrState)
		}
	}
	for i, v := range []*float32{&f.Est.rate, &f.Est.idle, &f.Est.mean, &f.Weight} {
		*v = math.Float32frombits(binary.LittleEndian.Uint32(b[28+4*i:]))
	}
	if s := f.Service.Float(); !(s >= 0 && f.Weight >= 0) || math.IsInf(float64(s+f.Weight), 0) || !f.Est.valid() {
		return fmt.Errorf("%w: no rate, weight or time", ErrState)
	}
	return nil
}

// StateOf is the name of the strategy whose state this is; empty if it is no scheduler's state.
func StateOf(state []byte) string {
	if len(state) < 2 || state[0] != stateVersion || len(state) < 2+int(state[1]) {
		return ""
	}
	return string(state[2 : 2+int(state[1])])
}

// Recover gives a new strategy what it had learnt when it was last in force. state is the scheduler's state of that time.
func Recover(strategy Strategy, state []byte) error {
	name := StateOf(state)
	if name != strategy.Name() {
		return fmt.Errorf("%w: of strategy %q, not %s", ErrState, name, strategy.Name())
	}
	r := reader{b: state[2+len(name):]}
	r.int()
	r.floats()
	if r.err != nil {
		return r.err
	}
	if err := strategy.Restore(r.b); err != nil {
		return fmt.Errorf("restore strategy %s: %w", name, err)
	}
	return nil
}

// AppendState appends the state of strategy and groups; facts are kept with the channels.
func (s *Scheduler) AppendState(b []byte) []byte {
	b = append(b, stateVersion, byte(len(s.strategy.Name())))
	b = append(b, s.strategy.Name()...)
	b = appendInts(b, int64(s.relearnt))
	b = appendFloats(b, s.groups.bound)
	return s.strategy.AppendState(b)
}

// RestoreScheduler makes a scheduler that goes on where AppendState was called, with the strategy given. If the state is another strategy's,
// it takes over the groups alone, and the counts in facts begin anew. The caller then adds the channels with their facts.
func RestoreScheduler(now Tick, strategy Strategy, opt Options, state []byte) (*Scheduler, error) {
	name := StateOf(state)
	if name == "" {
		return nil, fmt.Errorf("%w: scheduler state of %d bytes", ErrState, len(state))
	}
	r := reader{b: state[2+len(name):]}
	relearnt := Tick(r.int())
	bound := r.floats()
	if r.err != nil {
		return nil, r.err
	}
	for i, v := range bound {
		if !(v > 0) || i > 0 && v <= bound[i-1] {
			return nil, fmt.Errorf("%w: group borders %v", ErrState, bound)
		}
	}
	if name == strategy.Name() {
		if err := strategy.Restore(r.b); err != nil {
			return nil, fmt.Errorf("restore strategy %s: %w", name, err)
		}
	}
	s := NewScheduler(now, strategy, opt)
	s.foreign = name != strategy.Name()
	if s.groups.given == nil && len(bound) == len(s.groups.bound) {
		s.groups.bound = bound
		s.relearnt = min(relearnt, now)
	}
	return s, nil
}

func appendInts(b []byte, v ...int64) []byte {
	for _, x := range v {
		b = binary.LittleEndian.AppendUint64(b, uint64(x))
	}
	return b
}

func appendFloats(b []byte, v []float64) []byte {
	b = append(b, byte(len(v)))
	for _, x := range v {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
	}
	return b
}

// reader reads what appendInts and appendFloats wrote; the first error stays.
type reader struct {
	b   []byte
	err error
}

func (r *reader) int() int64 {
	if len(r.b) < 8 {
		r.err = fmt.Errorf("%w: too short", ErrState)
		r.b = nil
		return 0
	}
	v := int64(binary.LittleEndian.Uint64(r.b))
	r.b = r.b[8:]
	return v
}

func (r *reader) float() float64 {
	v := math.Float64frombits(uint64(r.int()))
	if r.err == nil && (math.IsNaN(v) || math.IsInf(v, 0)) {
		r.err = fmt.Errorf("%w: %v", ErrState, v)
	}
	return v
}

func (r *reader) floats() []float64 {
	if len(r.b) < 1 || int(r.b[0]) > MaxGroups {
		r.err = fmt.Errorf("%w: too short or too many groups", ErrState)
		r.b = nil
		return nil
	}
	n := int(r.b[0])
	r.b = r.b[1:]
	v := make([]float64, n)
	for i := range v {
		v[i] = r.float()
	}
	return v
}

func (r *reader) end() error {
	if r.err == nil && len(r.b) > 0 {
		r.err = fmt.Errorf("%w: %d bytes too many", ErrState, len(r.b))
	}
	return r.err
}
