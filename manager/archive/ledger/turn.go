package ledger

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"shoal/manager/archive/schema"
)

// Work that moves or drops records is done by one program at a time, and beside all others. Two records in the ledger see to that:
//
//   - Turn names the program whose turn it is. It is taken and given back on the condition that it is as it was read. Who takes it from a program
//     that is gone has that one shut out first.
//   - Wait has a random value. When a program reads a new one, it waits until the chunks that it was making are stored, and answers. What it makes
//     afterwards it makes of a ledger that has all entries before the wait.
var (
	turnKey = []byte{schema.State, 't'}
	waitKey = []byte{schema.State, 'w'}
)

const (
	turnPoll = 200 * time.Millisecond
	waitPoll = 50 * time.Millisecond
	waitMost = 2 * time.Minute // for all others to answer; who is gone does not count

	giveBack = 10 // tries to give a turn back, a second apart
)

// ErrWaited says that other programs did not answer.
var ErrWaited = errors.New("archive: another manager does not answer, so that nothing could be removed beside it: try again, or stop it")

// Turn waits until no other program does work that moves or drops records, and keeps others from it until release is called.
func (o *Others) Turn(ctx context.Context) (release func(), err error) {
	if !o.Shared() {
		return func() {}, nil
	}
	own := append([]byte{schema.ValueV1}, o.follower.Name()...)
	for {
		if err := o.follower.Sync(ctx); err != nil {
			return nil, err
		}
		has, err := o.read(turnKey)
		if err != nil {
			return nil, err
		}
		if bytes.Equal(has, own) { // it could not be given back
			break
		}
		free := has == nil
		if !free {
			if free, err = o.Gone(ctx, string(has[1:])); err != nil {
				return nil, err
			}
		}
		if free {
			err := changeIf(o.ledger, Change{turnKey, has}, Change{turnKey, own})
			if err == nil {
				break
			}
			if !errors.Is(err, ErrConflict) {
				return nil, err
			}
		}
		if err := sleep(ctx, turnPoll); err != nil {
			return nil, err
		}
	}
	return func() { o.giveBack(own) }, nil
}

// giveBack ends a turn. If that fails for long, others wait until this program has its next turn, or ends.
func (o *Others) giveBack(own []byte) {
	for range giveBack {
		err := changeIf(o.ledger, Change{turnKey, own}, Change{turnKey, nil})
		if err == nil || errors.Is(err, ErrConflict) || errors.Is(err, ErrReplaced) || errors.Is(err, ErrClosed) {
			return
		}
		_ = sleep(context.Background(), time.Second)
	}
}

// WaitForAll returns when all programs have read what is in the ledger now, and have stored what they were making before: what they make from then on, they
// make of that. All of it is known here then. It is called in a turn.
func (o *Others) WaitForAll(ctx context.Context) error {
	o.quiesce()
	if !o.Shared() {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, waitMost, ErrWaited)
	defer cancel()
	wait := make([]byte, 9)
	rand.Read(wait)
	wait[0] = schema.ValueV1
	if err := o.ledger.Change(Change{waitKey, wait}); err != nil {
		return err
	}
	for {
		n, err := o.follower.Behind(ctx, wait)
		if err == nil && n == 0 {
			return o.follower.Sync(ctx)
		}
		if err := errors.Join(err, sleep(ctx, waitPoll)); err != nil {
			return err
		}
	}
}

// Unwaited is the condition that no program has called WaitForAll since a snapshot. There is none where no other program writes.
func (o *Others) Unwaited(snap Snapshot) (Change, error) {
	if !o.Shared() {
		return Change{}, nil
	}
	return As(snap, waitKey)
}

// As is the condition that a record is as it is in a snapshot.
func As(snap Snapshot, key []byte) (Change, error) {
	c := Change{Key: key}
	_, err := snap.Get(key, func(v []byte) error {
		c.Value = bytes.Clone(v)
		return nil
	})
	return c, err
}

// answer tells that this program has read the last wait, once nothing is being made that was begun before. An earlier wait is never told after a later one.
func (o *Others) answer(ctx context.Context) error {
	o.answering.Lock()
	defer o.answering.Unlock()
	wait, err := o.read(waitKey)
	if err != nil || wait == nil {
		return err
	}
	o.quiesce()
	return o.follower.Pass(ctx, wait)
}

// answerSoon tells it as soon as the database answers. After waitMost the program that waits has given up.
func (o *Others) answerSoon() {
	ctx, cancel := context.WithTimeout(context.Background(), waitMost)
	defer cancel()
	go func() {
		defer cancel()
		select {
		case <-o.closing:
		case <-ctx.Done():
		}
	}()
	for o.answer(ctx) != nil && sleep(ctx, time.Second) == nil {
	}
}

func (o *Others) read(key []byte) (value []byte, err error) {
	err = o.ledger.store.View(func(s Snapshot) error {
		_, err := s.Get(key, func(v []byte) error {
			value = bytes.Clone(v)
			return nil
		})
		return err
	})
	if err == nil && value != nil && len(value) < 2 {
		err = fmt.Errorf("%w: %d bytes", schema.ErrValue, len(value))
	}
	return value, err
}

// Idle reports whether this program may go on with what a program left that is gone: it is the one that all have chosen, and no other has its turn.
func (o *Others) Idle(ctx context.Context) (bool, error) {
	if !o.Shared() {
		return false, nil
	}
	if chosen, err := o.follower.First(ctx); err != nil || !chosen {
		return false, err
	}
	has, err := o.read(turnKey)
	if err != nil || has == nil {
		return err == nil, err
	}
	return o.Gone(ctx, string(has[1:]))
}

// Name is this program's among those that write to the ledger; empty: no other does.
func (o *Others) Name() string {
	if !o.Shared() {
		return ""
	}
	return o.follower.Name()
}

// Gone reports whether a program writes no more, by its name.
func (o *Others) Gone(ctx context.Context, name string) (bool, error) {
	writes, err := o.follower.Writes(ctx, name)
	return err == nil && !writes, err
}

// Chosen reports whether this program does what one of all need do, such as forgetting by a timer.
func (o *Others) Chosen(ctx context.Context) (bool, error) {
	if !o.Shared() {
		return true, nil
	}
	return o.follower.First(ctx)
}

// Making has o know how to wait until the chunks that are being made are stored. It is called once, before the ledger is used.
func (o *Others) Making(quiesce func()) { o.making.Store(&quiesce) }

func (o *Others) quiesce() {
	if wait := o.making.Load(); wait != nil {
		(*wait)()
	}
}

// sleep returns early with the reason for which ctx ended.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
