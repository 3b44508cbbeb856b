package wire

import (
	"context"
	"sync"
)

// life counts what runs on a node, and ends it with the node. The zero value is alive.
type life struct {
	mu      sync.Mutex // guards all below
	ended   bool
	running map[*context.CancelFunc]struct{}
	idle    chan struct{} // closed when nothing runs any more; nil: there is no waiter
}

// enter counts something in. Its context ends with the node, or with parent; leave must be called when it is over. ok is false once the
// node ends: then nothing may begin.
func (l *life) enter(parent context.Context) (ctx context.Context, leave func(), ok bool) {
	ctx, cancel := context.WithCancel(parent)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		cancel()
		return ctx, func() {}, false
	}
	if l.running == nil {
		l.running = map[*context.CancelFunc]struct{}{}
	}
	l.running[&cancel] = struct{}{}
	return ctx, func() { l.leave(&cancel) }, true
}

func (l *life) leave(cancel *context.CancelFunc) {
	(*cancel)()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.running, cancel)
	if len(l.running) == 0 && l.idle != nil {
		close(l.idle)
		l.idle = nil
	}
}

// spawn runs f on a goroutine of its own, unless the node ends. It tells whether it does.
func (l *life) spawn(f func(context.Context)) bool {
	ctx, leave, ok := l.enter(context.Background())
	if !ok {
		return false
	}
	go func() {
		defer leave()
		f(ctx)
	}()
	return true
}

// over reports whether the node ends.
func (l *life) over() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended
}

// end lets nothing begin any more, and tells all that runs to end.
func (l *life) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	for cancel := range l.running {
		(*cancel)()
	}
}

// wait returns when nothing runs any more. Call it after end.
func (l *life) wait() {
	l.mu.Lock()
	if len(l.running) == 0 {
		l.mu.Unlock()
		return
	}
	if l.idle == nil {
		l.idle = make(chan struct{})
	}
	idle := l.idle
	l.mu.Unlock()
	<-idle
}
