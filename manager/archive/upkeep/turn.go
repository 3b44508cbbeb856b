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

// turns has one piece of work run at a time, and knows which.
type turns struct {
	one    chan struct{}                                     // full while one runs
	others func(context.Context) (release func(), err error) // waits for other managers' work

	mu      sync.Mutex
	now     Work // What is empty: none
	waiting []string
}

func newTurns(others func(context.Context) (func(), error)) *turns {
	return &turns{one: make(chan struct{}, 1), others: others}
}

// take waits for a turn. The one that waits longest has it next.
func (t *turns) take(ctx context.Context, what string) error {
	t.mu.Lock()
	t.waiting = append(t.waiting, what)
	t.mu.Unlock()
	var err error
	select {
	case t.one <- struct{}{}:
	case <-ctx.Done():
		err = ctx.Err()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.Index(t.waiting, what)
	t.waiting = slices.Delete(t.waiting, i, i+1)
	if err == nil {
		t.now = Work{What: what, Since: time.Now()}
	}
	return err
}

func (t *turns) giveBack() {
	t.mu.Lock()
	t.now = Work{}
	t.mu.Unlock()
	<-t.one
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

// work is nil if there is none.
func (t *turns) work() *Work {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.now.What == "" {
		return nil
	}
	w := t.now
	w.Waiting = slices.Clone(t.waiting)
	return &w
}

// Work tells what goes on of the work of which one piece runs at a time: what verifies, moves, forgets or copies segments. Nil: nothing does.
func (u *Upkeep) Work() *Work { return u.turns.work() }

// turn waits until nothing else that moves, forgets or copies segments runs, here or at another manager, and keeps it so until release is called.
func (t *turns) turn(ctx context.Context, what string) (release func(), err error) {
	if err := t.take(ctx, what); err != nil {
		return nil, fmt.Errorf("wait for the archive's other work: %w", err)
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
