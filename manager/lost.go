package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"shoal/channel"
	"shoal/manager/dispatch"
)

// lost has the archive end those tasks of before this manager's start that no peer can have: a manager that was killed had written their generations, and not left
// their bodies at the archive. Else their channels would wait until the latest start, which may be a day away. Of tasks that run, as far as the database knows, it has the archive say which have
// ended: a manager that removed a channel, and was killed before the database knew, heard of that end as of no channel's, and nothing else would tell of it. Owned by the loop.
type lost struct {
	*core
	tasks   []awaited // whose claims are awaited, and that are to be looked at
	over    []awaited // that run, and are to be looked at
	looking bool
	again   time.Time // not before
}

// awaited is a task of before.
type awaited struct {
	id  channel.ID
	gen channel.Gen
}

const (
	endsAtOnce = 16          // tasks that are ended at a time: they share a durable write
	lostAgain  = time.Minute // until the archive is asked again when it could not say
)

// look looks at all tasks that wait for that, beside the loop. The archive's feed says which were lost.
func (l *lost) look(ctx context.Context, now time.Time) {
	if len(l.tasks)+len(l.over) == 0 || l.looking || now.Before(l.again) {
		return
	}
	tasks, over := l.tasks, l.over
	l.tasks, l.over, l.looking = nil, nil, true
	l.beside.Go(func() {
		left, err := end(tasks, func(t awaited) error { return l.cfg.Archive.Lost(ctx, t.id, t.gen) })
		still, failed := end(over, func(t awaited) error { return l.cfg.Archive.Over(ctx, t.id, t.gen) })
		_ = l.do(ctx, func(now time.Time) { // fails only when the manager ends
			if l.looking = false; len(left)+len(still) > 0 {
				l.log.Warn("tasks that were lost when a manager ended are looked for again", "tasks", len(left)+len(still), "err", errors.Join(err, failed))
				l.tasks, l.over, l.again = append(l.tasks, left...), append(l.over, still...), now.Add(lostAgain)
			}
		})
	})
}

// TakeBackFrom has tasks handed out again that some members have and have not begun: they are members no more, and what they claim is refused. Members are named by
// their ids, and by their accounts. It does nothing for a manager that ends.
func (ro *roster) TakeBackFrom(ctx context.Context, members ...string) error {
	var tasks []awaited
	err := ro.onLoop(ctx, func(time.Time) {
		for s, gen := range dispatch.Unbegun(ro.machine, func(p dispatch.Peer) bool {
			return slices.Contains(members, string(p)) || slices.Contains(members, cmp.Or(ro.knownAccount(string(p)), string(p)))
		}) {
			if !isErrand(s) { // which wait for minutes
				tasks = append(tasks, awaited{ro.table.ID(s), gen})
			}
		}
	})
	if errors.Is(err, ErrStopped) {
		return nil
	}
	if err == nil {
		_, err = end(tasks, func(t awaited) error { return ro.cfg.Archive.TakeBack(ctx, t.id, t.gen) })
	}
	if err != nil {
		return fmt.Errorf("take back the tasks that it has not begun: %w", err)
	}
	return nil
}

// end ends tasks, several at a time. It returns those of which that failed, and why.
func end(tasks []awaited, how func(awaited) error) (left []awaited, err error) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	next := make(chan awaited)
	for range min(endsAtOnce, len(tasks)) {
		wg.Go(func() {
			for t := range next {
				if failed := how(t); failed != nil {
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
