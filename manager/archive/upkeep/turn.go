package upkeep

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Work is what of all upkeep that runs alone goes on now.
type Work struct {
	What    string    `json:"what"`
	Since   time.Time `json:"since"`
	Step    string    `json:"step,omitempty"`
	Done    int64     `json:"done,omitempty"` // bytes of that step, where it counts them
	All     int64     `json:"all,omitempty"`
	Waiting []string  `json:"waiting,omitempty"` // for its end, in the order in which they go
}

// String is a sentence without its full stop.
func (w *Work) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s since %s", w.What, w.Since.UTC().Format("15:04:05 UTC"))
	if w.Step != "" {
		fmt.Fprintf(&b, ", %s", w.Step)
	}
	if w.All > 0 {
		fmt.Fprintf(&b, " (%.1f of %.1f MB)", float64(w.Done)/1e6, float64(w.All)/1e6)
	}
	if len(w.Waiting) > 0 {
		fmt.Fprintf(&b, "; waiting for its turn: %s", strings.Join(w.Waiting, ", "))
	}
	return b.String()
}

// Kinds of work, as people read them.
const (
	forgetting   = "forgetting of old versions"
	compaction   = "compaction"
	afterForget  = "compaction after old versions were forgotten"
	afterPurge   = "compaction after a takedown"
	verification = "verification"
	repairing    = "repair"
	backingUp    = "backup"
	takedown     = "takedown"
	takingBack   = "purge of what peers delivered"
	reaping      = "removal of objects that nothing refers to"
)

// turns has one piece of work run at a time, and knows which. Those that wait have their turns in the order in which they asked, but takedowns first, which
// long work lets go between two files: see yield.
type turns struct {
	others func(context.Context) (release func(), err error) // waits for other managers' work

	mu      sync.Mutex
	now     Work // What is empty: none
	waiting []*waiter
}

// waiter waits for its turn.
type waiter struct {
	work   Work
	urgent bool
	within bool // it has its turn in the middle of other work, which waits for other managers' no more
	ready  chan struct{}
}

func newTurns(others func(context.Context) (func(), error)) *turns { return &turns{others: others} }

// turn waits until nothing else that moves, forgets or copies segments runs, here or at another manager, and keeps it so until release is called.
func (t *turns) turn(ctx context.Context, what string) (release func(), err error) {
	w := t.ask(what)
	select {
	case <-w.ready:
	case <-ctx.Done():
		t.forsake(w)
		return nil, fmt.Errorf("wait for the archive's other work: %w", ctx.Err())
	}
	if w.within {
		return t.giveBack, nil
	}
	t.step("waiting for another manager's work", 0)
	others, err := t.others(ctx)
	if err != nil {
		t.giveBack()
		return nil, fmt.Errorf("wait for the archive's other work: %w", err)
	}
	t.step("", 0)
	return func() {
		others()
		t.giveBack()
	}, nil
}

// ask has work wait for its turn, which comes at once if nothing runs.
func (t *turns) ask(what string) *waiter {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := &waiter{work: Work{What: what}, urgent: what == takedown, ready: make(chan struct{})}
	t.enqueue(w)
	if t.now.What == "" {
		t.next(false)
	}
	return w
}

// enqueue puts a waiter behind the others, and an urgent one behind the urgent ones.
func (t *turns) enqueue(w *waiter) {
	i := len(t.waiting)
	if w.urgent {
		i = t.urgent()
	}
	t.waiting = slices.Insert(t.waiting, i, w)
}

// urgent is how many urgent ones wait. They are the first.
func (t *turns) urgent() int {
	if i := slices.IndexFunc(t.waiting, func(w *waiter) bool { return !w.urgent }); i >= 0 {
		return i
	}
	return len(t.waiting)
}

// next gives the turn to the first that waits.
func (t *turns) next(within bool) {
	t.now = Work{}
	if len(t.waiting) == 0 {
		return
	}
	w := t.waiting[0]
	t.waiting = slices.Delete(t.waiting, 0, 1)
	if w.work.Since.IsZero() {
		w.work.Since = time.Now()
	}
	t.now, w.within = w.work, within && w.urgent
	close(w.ready)
}

// forsake is called by one that waits no more.
func (t *turns) forsake(w *waiter) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(t.waiting, w); i >= 0 {
		t.waiting = slices.Delete(t.waiting, i, i+1)
		return
	}
	t.next(w.within) // its turn has come meanwhile
}

func (t *turns) giveBack() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.next(t.yielded())
}

// yielded reports whether work waits to go on that has let takedowns go first.
func (t *turns) yielded() bool {
	return slices.ContainsFunc(t.waiting, func(w *waiter) bool { return !w.work.Since.IsZero() })
}

// yield is called in a turn, where it does no harm if a host is taken down: captures and contents go, segments and what is in them stay. It lets the takedowns
// go first that wait, comes back when they are done, and reports whether there were any. No other work goes between.
func (t *turns) yield() bool {
	t.mu.Lock()
	n := t.urgent()
	if n == 0 {
		t.mu.Unlock()
		return false
	}
	w := &waiter{work: t.now, ready: make(chan struct{})}
	t.waiting = slices.Insert(t.waiting, n, w)
	t.next(true)
	t.mu.Unlock()
	<-w.ready
	return true
}

// step says what the work is about now. all bytes of it are counted by did; 0: none are.
func (t *turns) step(what string, all int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.now.Step, t.now.Done, t.now.All = what, 0, all
}

func (t *turns) did(bytes int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.now.Done += bytes
}

// Work tells what goes on of the work of which one piece runs at a time: what verifies, moves, forgets or copies segments. Nil: nothing does.
func (u *Upkeep) Work() *Work {
	t := u.turns
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.now.What == "" {
		return nil
	}
	now := t.now
	for _, w := range t.waiting {
		now.Waiting = append(now.Waiting, w.work.What)
	}
	return &now
}
