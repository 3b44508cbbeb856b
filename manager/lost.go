package manager

import (
	"context"
	"sync"
	"time"

	"shoal/channel"
)

// lost has the archive end those tasks of before this manager's start that no peer can have: a manager that was killed had written their generations, and not left
// their bodies at the archive. Else their channels would wait until the latest start, which may be a day away. Owned by the loop.
type lost struct {
	*core
	tasks   []awaited // whose claims are awaited, and that are to be looked at
	looking bool
	again   time.Time // not before
}

// awaited is a task that no peer has claimed, as far as the database knows.
type awaited struct {
	id  channel.ID
	gen channel.Gen
}

const (
	lostLooks = 16          // tasks that are looked at at a time: those that are lost share a durable write
	lostAgain = time.Minute // until the archive is asked again when it could not say
)

// look looks at all tasks that wait for that, beside the loop. The archive's feed says which were lost.
func (l *lost) look(ctx context.Context, now time.Time) {
	if len(l.tasks) == 0 || l.looking || now.Before(l.again) {
		return
	}
	tasks := l.tasks
	l.tasks, l.looking = nil, true
	l.beside.Go(func() {
		left, err := l.end(ctx, tasks)
		_ = l.do(ctx, func(now time.Time) { // fails only when the manager ends
			if l.looking = false; err != nil {
				l.log.Warn("tasks that were lost when a manager ended are looked for again", "tasks", len(left), "err", err)
				l.tasks, l.again = append(l.tasks, left...), now.Add(lostAgain)
			}
		})
	})
}

// end has the archive end those that are lost. It returns those that it could not look at, and why.
func (l *lost) end(ctx context.Context, tasks []awaited) (left []awaited, err error) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	next := make(chan awaited)
	for range min(lostLooks, len(tasks)) {
		wg.Go(func() {
			for t := range next {
				if failed := l.cfg.Archive.Lost(ctx, t.id, t.gen); failed != nil {
					mu.Lock()
					left, err = append(left, t), failed
					mu.Unlock()
				}
			}
		})
	}
	for _, t := range tasks {
		next <- t
	}
	close(next)
	wg.Wait()
	return left, err
}
