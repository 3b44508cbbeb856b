package manager

import (
	"context"
	"sync"

	"shoal/channel"
)

// clerks do beside the loop what needs the archive: they read records, hand them to the loop, and write what came of them. Jobs of one channel are done one
// after the other, in their order. Any goroutine may add a job.
type clerks struct {
	mu     sync.Mutex
	queues [clerksMost][]clerkJob
	n      int
	wake   [clerksMost]chan struct{}
}

type clerkJob func(ctx context.Context)

const (
	clerksMost = 8
	clerkJobs  = 1 << 14 // that wait
)

func newClerks() *clerks {
	c := &clerks{}
	for i := range c.wake {
		c.wake[i] = make(chan struct{}, 1)
	}
	return c
}

// add has a job done, unless too many wait. It reports whether it will be.
func (c *clerks) add(id channel.ID, do clerkJob) bool {
	i := uint64(id) % clerksMost
	c.mu.Lock()
	if c.n >= clerkJobs {
		c.mu.Unlock()
		return false
	}
	c.n++
	c.queues[i] = append(c.queues[i], do)
	c.mu.Unlock()
	select {
	case c.wake[i] <- struct{}{}:
	default:
	}
	return true
}

// work does jobs until ctx ends, and returns when all goroutines have ended.
func (c *clerks) work(ctx context.Context) {
	var wg sync.WaitGroup
	for i := range c.queues {
		wg.Go(func() {
			for {
				for job := c.next(i); job != nil && ctx.Err() == nil; job = c.next(i) {
					job(ctx)
					c.mu.Lock()
					c.n--
					c.mu.Unlock()
				}
				select {
				case <-ctx.Done():
					return
				case <-c.wake[i]:
				}
			}
		})
	}
	wg.Wait()
}

func (c *clerks) next(i int) clerkJob {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.queues[i]
	if len(q) == 0 {
		c.queues[i] = nil
		return nil
	}
	job := q[0]
	q[0] = nil
	c.queues[i] = q[1:]
	return job
}
