package recrawl

import (
	"math"
)

// price is an index policy for a swarm of unknown capacity. Every channel has a value of being crawled now, which grows with its age. The
// swarm has a price phi. A channel that is worth more than the price is crawled, and results move the price. The strategy needs no count of
// crawlers.
//
// With freshIndex, the value is the marginal gain of time-average freshness over the cost of a task, which is the Whittle index of the
// problem (Azar et al., "Tractable near-optimal policies for crawling", PNAS 2018, give the optimal rates it leads to). The strategies
// uniform, proportional and lambda are the same machine with another index.
type price struct {
	Base
	costs
	name  string
	index index

	phi    float64
	window float64 // W: tasks that may be out
	share  float64 // of the swarm that the window is of; 0: not told since a start
	usual  float64 // wait of all tasks, ticks; 0: not known

	swept   float64 // phi when all slots were last ranked
	sweptAt Tick
	g       *Groups
	steep   bool    // no task has waited too long yet
	bound   bool    // the window held tasks back since it last changed
	at      Tick    // the last tick that was settled
	tuned   Tick    // when the window last changed
	waits   float64 // sum of waits since
	n       float64 // and their number
	last    float64 // value of the last task taken in this tick
	taken   int
	idle    Tick // ticks in which less than half of the window was out and nothing was taken
	filled  bool
	unsaid  bool // what was taken since says nothing of the price
	offered bool
}

// index gives the value of crawling a channel whose copy has age a, without its cost. The other way round it gives the age at which the
// channel has a value; if that age is not more than least, it may return any age up to least.
type index interface {
	value(f *Facts, age float64) float64
	age(f *Facts, value, least float64) float64
}

// The constants of price, in ticks (minutes in the manager).
const (
	windowLeast  = 2000   // tasks out at first: half of the channels, but at least so many
	windowMost   = 10_000 // and at most so many
	tuneEvery    = 10     // ticks between two changes of the window
	takeAbove    = .9     // share of phi that a value must reach
	lookAbove    = .8     // share at which the calendar looks again, since phi may fall meanwhile
	sweepBelow   = .7     // all slots are ranked again when phi has fallen to this share of what it was then
	sweepPerTick = 50_000 // slots ranked again in a tick, on average
	newFirst     = 1e4    // times its value is what a channel never crawled counts: nothing is known of it, least of all that it changes so fast as to be worth little
	negligible   = 1e-9   // a price below this is none
	oldest       = 16     // change intervals after which a channel is taken whatever it is worth, if none is out
	stalled      = 10     // ticks with room and nothing taken after which the price falls fast: it was found before costs were known
	learnWait    = .3     // weight of a task's wait in what is learnt of its channel's waits
)

func newPrice(name string, p Params, ix index) *price {
	share := 1. / 5
	if name == "price" {
		share = 1. / 7
	}
	p.CostBase, p.CostKnee, p.CostShare = or(p.CostBase, 2), or(p.CostKnee, 1.6), or(p.CostShare, share)
	return &price{costs: costs{p: p}, name: name, index: ix, steep: true}
}

func (v *price) Name() string { return v.name }

func (v *price) Start(now Tick, in Setting) {
	v.at, v.tuned, v.g = now, now, in.Groups
	v.sweptAt = min(v.sweptAt, now)
}

// corner is how dear a thread is near the channel, by how long its tasks wait compared with others. With one price for all, some peers
// would stand idle while tasks wait for other peers, since hosts are not spread as peers are.
func (v *price) corner(f *Facts) float64 {
	if f.Epoch != waitEpoch || v.usual <= 0 || v.p.NoCost || v.p.NoCorners {
		return 1
	}
	some := v.target() / 4 // waits as short as this are alike
	x := (float64(Half(f.Anchor).Float()) + some) / (v.usual + some)
	return x * math.Sqrt(x)
}

// waited learns how long a channel's task waited for its start.
func (v *price) waited(f *Facts, w float32) {
	if w < 0 {
		return
	}
	if f.Epoch == waitEpoch {
		old := Half(f.Anchor).Float()
		w = old + learnWait*(w-old)
	}
	f.Epoch, f.Anchor = waitEpoch, uint16(ToHalf(w))
	if v.usual == 0 {
		v.usual = float64(w)
	}
	v.usual += .001 * (float64(w) - v.usual)
}

func (v *price) Rank(now, least Tick, _ Slot, f *Facts) (float32, Tick) {
	if f.Out > 0 { // no second one before the first should have ended
		if end := f.Submitted + wholeTicks(v.target()+float64(f.Service.Float())); now < end {
			return 0, end
		}
	}
	cost := v.cost(f) * v.corner(f)
	var worth, age float64
	switch {
	case f.Updated == now: // worth nothing yet
	case f.Updated > 0:
		age = float64(now - f.Updated)
		worth = v.index.value(f, age)
	default:
		worth = v.index.value(f, 1e9)
	}
	if f.Signalled > 0 {
		worth += float64(f.Weighed()) * float64(now-f.Signalled)
	}
	if f.Out > 0 {
		worth = .1*worth + .9*v.index.value(f, float64(now-f.Submitted))
	}
	value := worth / cost
	if f.Updated == 0 && (f.Submitted == 0 || f.Flags&Denied != 0) {
		value *= newFirst
	}
	if value >= takeAbove*v.phi {
		return float32(value), now
	}
	limit := oldest / f.Est.Rate()
	if f.Out == 0 && f.Updated > 0 && age >= limit {
		return float32(v.phi), now
	}
	from, want := f.Updated, takeAbove*v.phi*cost
	if value < lookAbove*v.phi {
		want = lookAbove * v.phi * cost
	}
	if f.Out > 0 {
		from = f.Submitted
	}
	var again Tick
	if from > 0 {
		again = from + wholeTicks(min(v.index.age(f, want, float64(least-from)), limit))
	} else {
		again = now + wholeTicks(limit/oldest)
	}
	return float32(value), max(again, now+1)
}

func (v *price) Observe(_ Tick, _ Slot, f *Facts, e Event) {
	switch e.Kind {
	case Accepted:
		v.wait(e.Wait)
		v.waited(f, e.Wait)
		v.offered = true
	case Refused:
		v.offered = true
		v.waited(f, float32(2*v.target()))
		if f.Flags&Denied == 0 { // a second refusal in a row says that the peers near it are busy, not that all are
			v.wait(float32(2 * v.target()))
		}
	case Updated:
		if !v.offered { // peers do not tell waits when they accept
			v.wait(e.Wait)
			v.waited(f, e.Wait)
		}
		if s := float64(e.Service); s > 0 {
			v.served(f, s)
		}
	}
}

func (v *price) wait(w float32) {
	if w >= 0 {
		v.waits += float64(w)
		v.n++
	}
}

func (v *price) Quota(now Tick, l Load) Quota {
	v.life = float64(l.Life)
	v.part(l.Share)
	if now > v.at {
		v.settle(now)
	}
	if now-v.tuned >= tuneEvery {
		v.tune(now)
	}
	if float64(l.Out) >= v.window/2 {
		v.idle = 0
	}
	room := max(int(v.window)-l.Out, 0)
	v.bound = v.bound || v.binds(room, l)
	q := Quota{Max: room, Floor: float32(takeAbove * v.phi), Drift: true}
	if now-v.sweptAt >= v.sweepGap() && (v.phi < sweepBelow*v.swept || v.swept == 0 && v.phi > 0) {
		q.Rerank = true
		v.swept, v.sweptAt = v.phi, now
	}
	v.swept = max(v.swept, v.phi)
	return q
}

// part has the window be of a share of the swarm; 0: that is not known yet, or it is all of it. A window that was restored is of the share that
// it was learnt with, which is told again.
func (v *price) part(share float64) {
	switch {
	case v.window == 0:
		if !(share > 0) {
			share = 1
		}
		v.window = share * min(max(float64(v.channels())/2/share, windowLeast), windowMost)
	case !(share > 0):
		return
	case v.share > 0:
		v.window = min(max(v.window*share/v.share, 10), 1e7)
	}
	v.share = share
}

// Price implements Strategy.
func (v *price) Price() float64 { return v.phi }

// binds reports whether the window, and not the caller, holds tasks back.
func (v *price) binds(room int, l Load) bool {
	used := float64(l.Out) / v.window
	if l.Room < 0 {
		return used >= .9
	}
	return used >= .5 && room < l.Room
}

// sweepGap is how many ticks lie between two rankings of all slots: the more channels, the more ticks. A slot that waits too long meanwhile
// is late by a sixth of its interval, since values grow with the square of age at first.
func (v *price) sweepGap() Tick {
	return Tick(v.channels() / sweepPerTick)
}

func (v *price) channels() int {
	n := 0
	for i := range v.g.K() {
		n += v.g.Count(i)
	}
	return n
}

// settle moves the price by what was taken since the last tick.
func (v *price) settle(now Tick) {
	if v.idle += now - v.at; v.taken > 0 {
		v.idle = 0
	}
	switch {
	case v.filled:
		v.phi = .8*v.phi + .2*v.last
	case v.unsaid:
	default:
		fall := .98
		if v.idle >= stalled {
			fall = .8
		}
		v.phi *= math.Pow(fall, float64(min(now-v.at, 100)))
		if v.phi < negligible {
			v.phi = 0
		}
	}
	v.at, v.filled, v.unsaid, v.taken = now, false, false, 0
}

// target is how long tasks should wait on average: long enough that no thread idles. Where peers say when they will start, and refuse
// what they cannot start, waiting costs only the age of the decision. Where they cancel without a word, it costs tasks.
func (v *price) target() float64 {
	switch {
	case v.p.TargetWait > 0:
		return v.p.TargetWait
	case v.offered:
		return 100
	}
	return 60
}

// tune moves the window by how long tasks waited. Until tasks first wait too long the window grows quickly, because the size of the swarm
// is unknown.
func (v *price) tune(now Tick) {
	v.tuned = now
	if v.n == 0 {
		return
	}
	switch m := v.waits / v.n; {
	case m > 2*v.target():
		v.window *= .97
		v.steep = false
	case m > v.target():
		v.window *= .99
		v.steep = false
	case !v.bound: // the window held nothing back
	case v.steep:
		v.window *= 1.2
	default:
		v.window *= 1.01
	}
	v.bound = false
	v.window = min(max(v.window, 10), 1e7)
	v.waits, v.n = 0, 0
}

func (v *price) Taken(_ Tick, n int, last float32, short bool) {
	if n > 0 && last > 0 {
		v.last = float64(last)
		v.taken += n
	}
	v.unsaid = v.unsaid || n > 0 && last == 0
	v.filled = v.filled || short && v.taken > 0
}

func (v *price) AppendState(b []byte) []byte {
	steep := 0.
	if v.steep {
		steep = 1
	}
	return appendFloats(b, []float64{v.phi, v.window, v.mean, v.dear, v.swept, v.usual, steep})
}

func (v *price) Restore(b []byte) error {
	_, err := v.restoreWith(b, 0)
	return err
}

// restoreWith also reads extra numbers, none below 0, which a strategy built on price keeps behind its own state.
func (v *price) restoreWith(b []byte, extra int) (more []float64, err error) {
	r := reader{b: b}
	f := r.floats()
	if extra > 0 {
		more = r.floats()
	}
	if err := r.end(); err != nil {
		return nil, err
	}
	if len(f) == 5 { // an older state, without usual
		f = append(f, 0)
	}
	if len(f) == 6 { // an older state, without steep
		f = append(f, 1)
	}
	if len(f) != 7 || f[1] != 0 && f[1] < 1 || len(more) != extra {
		return nil, ErrState
	}
	for _, x := range append(f, more...) {
		if x < 0 {
			return nil, ErrState
		}
	}
	v.phi, v.window, v.mean, v.dear, v.swept, v.usual = f[0], f[1], f[2], f[3], f[4], f[5]
	v.steep = f[6] != 0
	return more, nil
}
