package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"shoal/channel/badgerdb"
	"shoal/manager"
	"shoal/manager/archive"
)

// A manager whose write failed serves what it has while its folder cannot be written, and ends when it can be, to be started again.
func TestEndsWhenTheDiskIsMended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var broken, mended atomic.Bool
		ended := make(chan error, 1)
		go func() {
			ended <- watchWrites(ctx, func() bool { return broken.Load() }, func() error {
				return nil
			}, func() error {
				if !mended.Load() {
					return errors.New("read-only file system")
				}
				return nil
			})
		}()
		runs := func(what string) {
			time.Sleep(time.Hour)
			synctest.Wait()
			select {
			case err := <-ended:
				t.Fatalf("%s: ended: %v", what, err)
			default:
			}
		}
		runs("nothing is wrong")
		broken.Store(true)
		runs("while the folder cannot be written")
		mended.Store(true)
		time.Sleep(2 * writesEvery)
		synctest.Wait()
		select {
		case err := <-ended:
			if !errors.Is(err, errReopen) {
				t.Errorf("ended with %v", err)
			}
		default:
			t.Error("goes on with a database that nothing can be written to")
		}

		broken.Store(false)
		if err := watchWrites(ctx, broken.Load, func() error { return errors.New("shut out") }, func() error { return nil }); !errors.Is(err, manager.ErrEnded) {
			t.Errorf("who was shut out ended with %v, want %v", err, manager.ErrEnded)
		}
		cancel()
	})
}

// TestEndedBy tells a part that failed from an end that was asked for: a service starts again what has failed.
func TestEndedBy(t *testing.T) {
	t.Parallel()
	asked, end := context.WithCancel(t.Context())
	ctx, fail := context.WithCancelCause(asked)
	slow := fmt.Errorf("manager: read: %w", context.DeadlineExceeded)
	fail(slow)
	if err := endedBy(asked, ctx); !errors.Is(err, slow) {
		t.Errorf("a part failed: %v", err)
	}
	ctx, fail = context.WithCancelCause(asked)
	defer fail(nil)
	end()
	<-ctx.Done()
	if err := endedBy(asked, ctx); err != nil {
		t.Errorf("it was asked to end: %v", err)
	}
}

// TestStartsBesideACommand: a command that looks into the folder of a stopped manager does not stop it from starting, and one that stays does.
func TestStartsBesideACommand(t *testing.T) {
	for _, held := range []error{archive.ErrLocked, badgerdb.ErrLocked} {
		synctest.Test(t, func(t *testing.T) {
			for _, c := range []struct {
				leaves time.Duration
				want   error
			}{{0, nil}, {time.Second, nil}, {time.Minute, held}} {
				began := time.Now()
				_, err := onceFree(t.Context(), func() (int, error) {
					if time.Since(began) < c.leaves {
						return 0, fmt.Errorf("open x: %w", held)
					}
					return 1, nil
				})
				if !errors.Is(err, c.want) || time.Since(began) > lookTime+time.Second {
					t.Errorf("a command that leaves after %v: %v after %v", c.leaves, err, time.Since(began))
				}
			}
			other := errors.New("the disk is gone")
			if _, err := onceFree(t.Context(), func() (int, error) { return 0, other }); !errors.Is(err, other) {
				t.Error(err)
			}
		})
	}
}
