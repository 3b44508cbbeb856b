// Package queue implements a volunteer's bounded queue and its threads as a state machine. The queue says when a task
// could start, takes only tasks that it expects to start in time, says which task to start, and gives back what it
// cannot run.
//
// The package is pure: times come in, actions go out. It neither crawls nor talks to the overlay. The agent (package
// peer) and the simulator run this same code, each with a payload of its own (T), which the queue never looks at.
//
// Invariants: at most Threads tasks run and at most Queue tasks wait; tasks start in the order in which they were
// taken; a task is taken only if its estimated start is not after its latest start; every task that was taken leaves
// exactly once, by Done, as a Drop or HandOver action, or through Handover.
//
// The estimate is the paper's task time (section 4.1 of Xu, Zhang, Zhang, Fang, NPC 2010): pages times the politeness
// wait plus the remaining cost of a page, which the queue learns.
package queue

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Bounds of a queue's settings.
const (
	MaxThreads = 64
	MaxQueue   = 4096
)

// MostPage is what a page counts for at most, beside its politeness wait. In a task that took longer for each the computer slept, or had no network.
const MostPage = 30 * time.Second

// Errors of Take.
var (
	ErrFull      = errors.New("queue: full")
	ErrLate      = errors.New("queue: cannot start before the task's latest start")
	ErrDuplicate = errors.New("queue: task is already here")
	ErrClosed    = errors.New("queue: takes no tasks now")
)

// Config sets a queue up.
type Config struct {
	Threads int           // tasks that run at the same time; 0: nothing ever starts
	Queue   int           // tasks that wait for a thread; 0: only what can start at once is taken
	Service time.Duration // cost of a page beside its politeness wait, until the queue has learnt it
	MaxRun  time.Duration // a task that runs longer is stopped; 0: no limit
}

// Default is the product's setting: five threads, five waiting.
func Default() Config {
	return Config{Threads: 5, Queue: 5, Service: 300 * time.Millisecond, MaxRun: 24 * time.Hour}
}

// Validate reports what is wrong with c.
func (c Config) Validate() error {
	switch {
	case c.Threads < 0 || c.Threads > MaxThreads:
		return fmt.Errorf("queue: %d threads; want 0 to %d", c.Threads, MaxThreads)
	case c.Queue < 0 || c.Queue > MaxQueue:
		return fmt.Errorf("queue: %d waiting tasks; want 0 to %d", c.Queue, MaxQueue)
	case c.Service < 0:
		return fmt.Errorf("queue: service time %v is negative", c.Service)
	case c.MaxRun < 0:
		return fmt.Errorf("queue: run limit %v is negative", c.MaxRun)
	}
	return nil
}

// Item is one task as the queue sees it.
type Item[T any] struct {
	Value  T
	Key    uint64        // unique among the tasks that are here
	Pages  int           // pages expected; for a running task the pages left at its last Progress
	Gap    time.Duration // politeness wait before each page
	Latest time.Time     // latest start; zero: any time
}

// Mode says how a queue treats new and waiting tasks.
type Mode uint8

// The modes. Only Drain affects running tasks.
const (
	Open   Mode = iota // takes and starts
	Paused             // takes nothing, starts nothing; what cannot wait for the end is handed over
	Finish             // takes nothing, hands over what waits, lets run what runs
	Drain              // takes nothing, hands over what waits, stops what runs
)

// String names the mode as the command line does.
func (m Mode) String() string {
	return [...]string{"open", "paused", "finish", "drain"}[m&3]
}

// Kind is what an action asks for.
type Kind uint8

// The kinds of action.
const (
	Start    Kind = iota + 1 // run it, then call Done
	Drop                     // its latest start has passed; it has left the queue
	Stop                     // the task runs too long, or the queue drains: stop it at its next checkpoint, then call Done
	HandOver                 // find another peer for it; it has left the queue
)

// String names the kind.
func (k Kind) String() string {
	return [...]string{"none", "start", "drop", "stop", "hand over"}[k%5]
}

// Action is one step that the caller must do.
type Action[T any] struct {
	Kind Kind
	Item Item[T]
}

type run[T any] struct {
	Seen    time.Duration // time of the last Progress, in the queue's time; Item.Pages holds from then on
	Item    Item[T]
	Started time.Time
	Stopped bool // a Stop action went out
}

// Queue is the state machine. Only one goroutine may call it.
type Queue[T any] struct { // what every quote needs comes first: two lines of memory
	// The sum of a wait stays valid until a running task outruns its estimate; until then the threads become free as
	// predicted.
	sure time.Duration // soon and free are valid before this time; unsure: the queue has changed since
	soon time.Duration // when a task that comes has a thread

	begun   time.Time // the first time seen; times that are stored as Durations count from it
	mode    Mode
	cfg     Config
	running []run[T]
	waiting []Item[T]       // in the order of starting
	free    []time.Duration // when each thread is free of all that runs and waits

	// The learnt service time: decayed sums over finished tasks. They start as if weigh pages had shown the
	// configured time.
	cost  float64 // ns beside the politeness wait
	pages float64

	until  time.Time // end of a timed pause; zero: until told
	paused time.Time // when Tick first saw the pause; zero: not yet
}

const unsure = time.Duration(math.MinInt64)

const (
	usual = 16  // waiting tasks that there is room for from the start
	prior = 20  // pages that the configured service time counts for
	decay = .95 // what earlier tasks keep of their weight with each new one
	heavy = 500 // pages that one task counts for at most
)

// New returns an empty, open queue. cfg must be valid.
func New[T any](cfg Config) *Queue[T] {
	return &Queue[T]{cfg: cfg, running: make([]run[T], 0, cfg.Threads), waiting: make([]Item[T], 0, min(cfg.Queue, usual)), free: make([]time.Duration, 0, cfg.Threads), sure: unsure,
		cost: prior * float64(cfg.Service), pages: prior}
}

// Service returns the learnt cost of a page beside its politeness wait.
func (q *Queue[T]) Service() time.Duration { return time.Duration(q.cost / q.pages) }

// Estimate returns how long a task of that many pages is expected to run.
func (q *Queue[T]) Estimate(pages int, gap time.Duration) time.Duration {
	return time.Duration(pages+1) * (gap + q.Service()) // one more for robots.txt
}

// Running returns the number of running tasks.
func (q *Queue[T]) Running() int { return len(q.running) }

// Waiting returns the number of tasks that have not started.
func (q *Queue[T]) Waiting() int { return len(q.waiting) }

// Next returns the key of the task that will start next.
func (q *Queue[T]) Next() (key uint64, ok bool) {
	if len(q.waiting) == 0 {
		return 0, false
	}
	return q.waiting[0].Key, true
}

// Each calls f for every task: the running ones first, then the waiting ones in order.
func (q *Queue[T]) Each(f func(it Item[T], started time.Time)) {
	for i := range q.running {
		f(q.running[i].Item, q.running[i].Started)
	}
	for i := range q.waiting {
		f(q.waiting[i], time.Time{})
	}
}

// Quote returns when a task could start, and whether the queue would take it. It changes and allocates nothing.
func (q *Queue[T]) Quote(now time.Time, latest time.Time) (start time.Time, ok bool) {
	start = now.Add(q.wait(now))
	if q.mode == Paused && q.until.After(start) {
		start = q.until
	}
	return start, q.refusal(start, latest) == nil
}

func (q *Queue[T]) refusal(start, latest time.Time) error {
	switch {
	case q.mode != Open || q.cfg.Threads == 0:
		return ErrClosed
	case len(q.running)+len(q.waiting) >= q.cfg.Threads+q.cfg.Queue,
		len(q.running) >= q.cfg.Threads && len(q.waiting) >= q.cfg.Queue:
		return ErrFull
	case !latest.IsZero() && start.After(latest):
		return ErrLate
	}
	return nil
}

// wait estimates the time until a task that arrives now has a thread: each task before it, in order, takes the thread
// that is free first.
func (q *Queue[T]) wait(now time.Time) time.Duration {
	if q.cfg.Threads == 0 {
		return far
	}
	if len(q.running)+len(q.waiting) < q.cfg.Threads {
		return 0
	}
	at := q.since(now)
	if at < q.sure {
		return q.soon - at
	}
	threads := max(q.cfg.Threads, len(q.running)) // more may run than allowed right after the limit was lowered
	service := q.Service()
	soonest := time.Duration(math.MaxInt64)
	free := q.free[:0]
	for i := range q.running {
		ends := q.ends(&q.running[i], service)
		free = append(free, q.left(now, at, &q.running[i], ends))
		soonest = min(soonest, ends)
	}
	for len(free) < threads {
		free = append(free, at)
	}
	// Threads above the limit never take another task. They are the ones that end last.
	for surplus := threads - q.cfg.Threads; surplus > 0; surplus-- {
		last := 0
		for i := 1; i < threads; i++ {
			if free[i] > free[last] {
				last = i
			}
		}
		threads--
		free[last] = free[threads]
	}
	q.free = free[:threads]
	for i := range q.waiting {
		q.book(&q.waiting[i], service)
	}
	q.soon, q.sure = q.free[first(q.free)], unsure
	if soonest > at && len(q.running) >= q.cfg.Threads { // else it holds for this moment only
		q.sure = soonest
	}
	return q.soon - at
}

// since converts a time to a Duration, which is faster to compute with.
func (q *Queue[T]) since(now time.Time) time.Duration {
	if q.begun.IsZero() {
		q.begun = now
	}
	return now.Sub(q.begun)
}

// book puts a waiting task on the thread that is free first.
func (q *Queue[T]) book(it *Item[T], service time.Duration) {
	q.free[first(q.free)] += time.Duration(it.Pages+1) * (it.Gap + service)
}

const far = 24 * 365 * time.Hour

func first(free []time.Duration) int {
	j, least := 0, free[0]
	for i, d := range free {
		if d < least {
			j, least = i, d
		}
	}
	return j
}

// ends returns when a running task ends by its estimate.
func (q *Queue[T]) ends(r *run[T], service time.Duration) time.Duration {
	return r.Seen + time.Duration(r.Item.Pages+1)*(r.Item.Gap+service)
}

// left estimates when a running task ends. If the task has outrun its estimate, it gets an eighth of its age more.
func (q *Queue[T]) left(now time.Time, at time.Duration, r *run[T], ends time.Duration) time.Duration {
	if ends <= at {
		return at + max(now.Sub(r.Started)/8, time.Second)
	}
	return ends
}

// Backlog returns the time until a task that arrives now could start. The overlay gossips it as the peer's load.
func (q *Queue[T]) Backlog(now time.Time) time.Duration { return q.wait(now) }

// Take accepts a task or returns why not. Call Tick afterwards, since the task may start at once.
func (q *Queue[T]) Take(now time.Time, it Item[T]) error {
	if q.Has(it.Key) {
		return ErrDuplicate
	}
	if err := q.refusal(now.Add(q.wait(now)), it.Latest); err != nil {
		return err
	}
	q.waiting = append(q.waiting, it)
	if q.sure != unsure { // which wait has just seen to
		q.book(&it, q.Service())
		q.soon = q.free[first(q.free)]
	}
	return nil
}

// Force accepts a task whatever the estimate says, if there is room. It serves tasks that resume from a spool after a
// restart.
func (q *Queue[T]) Force(it Item[T]) error {
	switch {
	case q.Has(it.Key):
		return ErrDuplicate
	case len(q.running)+len(q.waiting) >= q.cfg.Threads+q.cfg.Queue:
		return ErrFull
	}
	q.sure = unsure
	q.waiting = append(q.waiting, it)
	return nil
}

// Has reports whether a task is here, running or waiting.
func (q *Queue[T]) Has(key uint64) bool {
	for i := range q.running {
		if q.running[i].Item.Key == key {
			return true
		}
	}
	for i := range q.waiting {
		if q.waiting[i].Key == key {
			return true
		}
	}
	return false
}

// Progress sets the number of pages that a running task still expects.
func (q *Queue[T]) Progress(now time.Time, key uint64, left int) {
	for i := range q.running {
		if r := &q.running[i]; r.Item.Key == key {
			r.Item.Pages, r.Seen = max(left, 0), q.since(now)
			q.sure = unsure
			return
		}
	}
}

// Done frees the thread of a task that ended after it fetched so many pages. The queue learns from the task unless it
// fetched none. Done returns the task as it was started, with the pages that were still expected.
func (q *Queue[T]) Done(now time.Time, key uint64, pages int) (it Item[T], ok bool) {
	for i := range q.running {
		r := &q.running[i]
		if r.Item.Key != key {
			continue
		}
		it = r.Item
		if pages > 0 {
			n := float64(pages + 1)
			cost := min(max(float64(now.Sub(r.Started))/n-float64(it.Gap), 0), float64(MostPage))
			n = min(n, heavy)
			q.cost = q.cost*decay + cost*n
			q.pages = q.pages*decay + n
		}
		q.sure = unsure
		last := len(q.running) - 1
		copy(q.running[i:], q.running[i+1:])
		q.running[last] = run[T]{}
		q.running = q.running[:last]
		return it, true
	}
	return it, false
}

// Handover removes all waiting tasks and appends them to to. Any peer may run them, since they are not claimed.
func (q *Queue[T]) Handover(to []Item[T]) []Item[T] {
	q.sure = unsure
	to = append(to, q.waiting...)
	clear(q.waiting)
	q.waiting = q.waiting[:0]
	return to
}

// Remove removes one waiting task.
func (q *Queue[T]) Remove(key uint64) (it Item[T], ok bool) {
	for i := range q.waiting {
		if q.waiting[i].Key == key {
			it = q.waiting[i]
			q.cut(i)
			return it, true
		}
	}
	return it, false
}

func (q *Queue[T]) cut(i int) {
	q.sure = unsure
	last := len(q.waiting) - 1
	copy(q.waiting[i:], q.waiting[i+1:])
	q.waiting[last] = Item[T]{}
	q.waiting = q.waiting[:last]
}

// SetMode changes the mode. A pause may have an end; zero means none. Call Tick afterwards.
func (q *Queue[T]) SetMode(m Mode, until time.Time) {
	if m != Paused {
		q.paused = time.Time{}
	}
	q.mode, q.until = m, time.Time{}
	if m == Paused {
		q.until = until
	}
}

// Mode returns the mode and the end of a timed pause.
func (q *Queue[T]) Mode() (Mode, time.Time) { return q.mode, q.until }

// SetLimits changes the numbers of threads and places. Tasks beyond them stay.
func (q *Queue[T]) SetLimits(threads, queue int) error {
	cfg := q.cfg
	cfg.Threads, cfg.Queue = threads, queue
	if err := cfg.Validate(); err != nil {
		return err
	}
	q.cfg, q.sure = cfg, unsure
	return nil
}

// Tick appends the actions that are due to acts and returns the result.
func (q *Queue[T]) Tick(now time.Time, acts []Action[T]) []Action[T] {
	if q.mode == Paused && !q.until.IsZero() && !now.Before(q.until) {
		q.SetMode(Open, time.Time{})
	}
	if q.mode == Paused && q.paused.IsZero() {
		q.paused = now
	}
	if q.mode == Finish || q.mode == Drain {
		q.sure = unsure
		for i := range q.waiting {
			acts = append(acts, Action[T]{HandOver, q.waiting[i]})
		}
		clear(q.waiting)
		q.waiting = q.waiting[:0]
	}
	if q.mode == Drain || q.cfg.MaxRun > 0 {
		for i := range q.running {
			r := &q.running[i]
			if !r.Stopped && (q.mode == Drain || now.Sub(r.Started) >= q.cfg.MaxRun) {
				r.Stopped = true
				acts = append(acts, Action[T]{Stop, r.Item})
			}
		}
	}
	for i := 0; i < len(q.waiting); {
		if l := q.waiting[i].Latest; !l.IsZero() && now.After(l) {
			acts = append(acts, Action[T]{Drop, q.waiting[i]})
			q.cut(i)
			continue
		}
		if g := q.given(&q.waiting[i]); !g.IsZero() && !now.Before(g) {
			acts = append(acts, Action[T]{HandOver, q.waiting[i]})
			q.cut(i)
			continue
		}
		i++
	}
	for q.mode == Open && len(q.waiting) > 0 && len(q.running) < q.cfg.Threads {
		it := q.waiting[0]
		q.cut(0)
		q.running = append(q.running, run[T]{Item: it, Started: now, Seen: q.since(now)})
		acts = append(acts, Action[T]{Start, it})
	}
	return acts
}

// given returns when a waiting task is handed over in a pause. If the pause is known to last beyond the task's latest
// start, that is now. If its end is unknown, it is when half of the remaining time is gone, so that another peer has
// the other half. Zero: the task waits.
func (q *Queue[T]) given(it *Item[T]) time.Time {
	switch {
	case q.mode != Paused || it.Latest.IsZero() || q.paused.IsZero():
		return time.Time{}
	case q.until.IsZero():
		return q.paused.Add(it.Latest.Sub(q.paused) / 2)
	case q.until.After(it.Latest):
		return q.paused
	}
	return time.Time{}
}

// Deadline returns when Tick next has something to do. Zero means not before another call.
func (q *Queue[T]) Deadline() time.Time {
	var d, latest time.Time
	earlier := func(d *time.Time, t time.Time) {
		if !t.IsZero() && (d.IsZero() || t.Before(*d)) {
			*d = t
		}
	}
	if q.mode == Paused {
		earlier(&d, q.until)
	}
	for i := range q.waiting {
		earlier(&latest, q.waiting[i].Latest)
		if q.mode == Paused {
			earlier(&d, q.given(&q.waiting[i]))
		}
	}
	if !latest.IsZero() {
		earlier(&d, latest.Add(1)) // a start at the latest time itself is in time
	}
	if q.cfg.MaxRun > 0 {
		for i := range q.running {
			if !q.running[i].Stopped {
				earlier(&d, q.running[i].Started.Add(q.cfg.MaxRun))
			}
		}
	}
	return d
}
