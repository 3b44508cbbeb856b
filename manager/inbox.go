package manager

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// inbox hands functions to the manager's loop, which owns all state. Its methods may be called by any goroutine.
type inbox struct {
	requests chan func(now time.Time)
	running  atomic.Bool
	ended    chan struct{} // closed when the loop takes no more requests
	before   sync.Mutex    // held by the caller that works in the stead of the loop until that runs
	now      func() time.Time
	after    func(now time.Time) // does what follows from a request for what is handed out
}

const inboxBurst = 256 // requests taken before the calendar is looked at again

func newInbox(now func() time.Time) *inbox {
	return &inbox{requests: make(chan func(time.Time), inboxBurst), ended: make(chan struct{}), now: now, after: func(time.Time) {}}
}

// begin says that the loop runs from now on.
func (i *inbox) begin() {
	i.before.Lock()
	defer i.before.Unlock()
	i.running.Store(true)
}

// run runs f, and what follows from it. Called on the loop.
func (i *inbox) run(f func(now time.Time)) {
	now := i.now()
	f(now)
	i.after(now)
}

// drain runs the requests that wait. Called on the loop.
func (i *inbox) drain() {
	for range inboxBurst {
		select {
		case f := <-i.requests:
			i.run(f)
		default:
			return
		}
	}
}

// post hands f to the loop without waiting for it to run.
func (i *inbox) post(ctx context.Context, f func(now time.Time)) {
	select {
	case i.requests <- f:
	case <-ctx.Done():
	}
}

// do runs f on the loop and waits for it. After an error f has not run, and will not: the caller may use what f would have changed.
func (i *inbox) do(ctx context.Context, f func(now time.Time)) error {
	done := make(chan struct{})
	var begun atomic.Bool // or given up
	request := func(now time.Time) {
		if begun.CompareAndSwap(false, true) {
			f(now)
			close(done)
		}
	}
	var err error
	select {
	case i.requests <- request:
		select {
		case <-done:
			return nil
		case <-ctx.Done():
			err = ctx.Err()
		case <-i.ended:
			err = ErrStopped
		}
	case <-ctx.Done():
		err = ctx.Err()
	case <-i.ended:
		err = ErrStopped
	}
	if begun.CompareAndSwap(false, true) {
		return err
	}
	<-done // the loop is at it
	return nil
}

// onLoop runs f where the loop's state may be touched: on the loop, or here if the loop does not run yet.
func (i *inbox) onLoop(ctx context.Context, f func(now time.Time)) error {
	if !i.running.Load() {
		i.before.Lock()
		defer i.before.Unlock()
		if !i.running.Load() { // nor has it begun meanwhile: it waits for the lock
			i.run(f)
			return nil
		}
	}
	return i.do(ctx, f)
}

// surely is onLoop for what is done already elsewhere, as in the database: the loop learns of it even if the caller has gone meanwhile.
func (i *inbox) surely(f func(now time.Time)) error { return i.onLoop(context.Background(), f) }

// Running reports whether Run has begun.
func (i *inbox) Running() bool { return i.running.Load() }

// ErrStopped is returned for what only a running manager can do.
var ErrStopped = errors.New("manager: not running")

const aliveFor = 5 * time.Second // the loop must answer within

// Alive reports whether the loop answers.
func (i *inbox) Alive(ctx context.Context) error {
	if !i.running.Load() {
		return ErrStopped
	}
	ctx, cancel := context.WithTimeout(ctx, aliveFor)
	defer cancel()
	return i.do(ctx, func(time.Time) {})
}
