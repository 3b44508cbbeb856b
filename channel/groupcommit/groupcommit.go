// Package groupcommit lets many callers share one durable write: the first caller writes for all that wait with it. Both databases of a
// manager commit through it. It is not for deciding what a write is: the owner hands in Do, so that a commit is tested without a disk.
//
// Invariants:
//
//   - At most Width batches are written at a time, one by default. They begin in the order in which their jobs were submitted.
//   - A batch is bounded, by count and by weight; its first job is always in it.
//   - After Do has failed, the disk may hold anything: every waiting job and every later one gets that error. Batches that are being written
//     learn from their own Do.
//   - Close waits for the jobs that were accepted.
package groupcommit

import (
	"context"
	"sync"
	"time"
)

// Config of a pipeline.
type Config[J any] struct {
	// Do makes a batch durable and notes in each job what became of it. An error means that anything may be durable or not; Do has then
	// told its jobs so, and is not called again.
	Do func(batch []J) error
	// MaxJobs bounds the jobs of a batch, and the calls of Submit that wait for one. No default.
	MaxJobs int
	// Weight and MaxWeight bound a batch by its size. Nil: all jobs weigh nothing.
	Weight    func(J) int64
	MaxWeight int64
	// Linger is how long the first job of a batch waits for others, unless the batch is full before; what it has waited for the batch before counts.
	// Where a write takes a while by itself, few large ones cost less
	// than many small ones. Jobs whose weight is 0 are not worth the wait: a batch of such alone is written at once. 0: no batch waits.
	Linger time.Duration
	// Width is how many batches may be written at a time. More than one suits a write that mostly waits; Do is then called by several goroutines
	// at once, and jobs of different batches may become durable in any order. 0: one.
	Width int
	// Closed is what Submit returns after Close. No default.
	Closed error
}

// Pipeline commits jobs in groups. Its methods may be called by several goroutines.
type Pipeline[J any] struct {
	cfg    Config[J]
	places chan struct{} // of calls that wait

	mu      sync.Mutex
	queue   []*ticket[J]
	leading bool // a ticket was told to lead, and has not taken its batch yet
	writing int  // batches that are being written
	closed  bool
	failed  error
	idle    sync.Cond     // a batch has ended
	full    chan struct{} // closed when the leader that lingers need not wait any longer; nil: none lingers
}

// ticket is a job on its way.
type ticket[J any] struct {
	job  J
	at   time.Time // when it was submitted; zero unless batches linger
	err  error
	turn chan struct{} // has room for one: something comes when the ticket's owner is to lead; closed when the job was committed or refused
}

// New makes a pipeline. It starts no goroutine.
func New[J any](cfg Config[J]) *Pipeline[J] {
	cfg.Width = max(cfg.Width, 1)
	p := &Pipeline[J]{cfg: cfg, places: make(chan struct{}, cfg.MaxJobs)}
	p.idle.L = &p.mu
	return p
}

// Submit returns when Do has dealt with the jobs, or with the reason why it never will. Jobs of one call are committed in their order, together
// or not. ctx ends only the wait for a place: an accepted job is finished, because its caller must learn what became of it.
func (p *Pipeline[J]) Submit(ctx context.Context, jobs ...J) error {
	select {
	case p.places <- struct{}{}:
		defer func() { <-p.places }()
	case <-ctx.Done():
		return ctx.Err()
	}
	tickets := make([]ticket[J], len(jobs))
	for n, job := range jobs {
		tickets[n] = ticket[J]{job: job, turn: make(chan struct{}, 1)}
		if p.cfg.Linger > 0 {
			tickets[n].at = time.Now()
		}
	}
	if err := p.enqueue(tickets); err != nil {
		return err
	}
	var first error
	for n := range tickets {
		t := &tickets[n]
		if _, lead := <-t.turn; lead { // the ticket is the first of the queue
			p.commit()
			<-t.turn
		}
		if first == nil {
			first = t.err
		}
	}
	return first
}

// enqueue has tickets wait for a batch. If one may be written, the first ticket is to lead.
func (p *Pipeline[J]) enqueue(tickets []ticket[J]) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.failed != nil:
		return p.failed
	case p.closed:
		return p.cfg.Closed
	case len(tickets) == 0:
		return nil
	}
	for n := range tickets {
		p.queue = append(p.queue, &tickets[n])
	}
	p.hurry()
	p.elect()
	return nil
}

// elect has the first ticket of the queue lead, if none does and a batch may be written.
func (p *Pipeline[J]) elect() {
	if p.leading || p.writing >= p.cfg.Width || len(p.queue) == 0 {
		return
	}
	p.leading = true
	p.queue[0].turn <- struct{}{}
}

// commit writes one batch. It hands the lead on before that, if another may be written beside it, else after it.
func (p *Pipeline[J]) commit() {
	p.linger()
	p.mu.Lock()
	defer p.mu.Unlock()
	batch := p.take()
	p.leading = false
	if p.failed != nil {
		finish(batch, p.failed)
	} else {
		p.writing++
		p.elect()
		jobs := make([]J, len(batch))
		for n, t := range batch {
			jobs[n] = t.job
		}
		p.mu.Unlock()
		err := p.cfg.Do(jobs)
		p.mu.Lock()
		p.writing--
		if err != nil && p.failed == nil {
			p.failed = err
			p.hurry()
		}
		finish(batch, nil) // each job knows what became of it
	}
	if p.failed != nil {
		finish(p.queue, p.failed)
		p.queue = nil
	}
	p.elect()
	p.idle.Broadcast()
}

// linger waits until the next batch is full, or old enough.
func (p *Pipeline[J]) linger() {
	if p.cfg.Linger <= 0 {
		return
	}
	p.mu.Lock()
	if len(p.queue) == 0 { // a batch beside this one has failed, and all that waited were told
		p.mu.Unlock()
		return
	}
	full := make(chan struct{})
	p.full = full
	p.hurry()
	wait := p.cfg.Linger - time.Since(p.queue[0].at)
	p.mu.Unlock()
	t := time.NewTimer(max(wait, 0))
	defer t.Stop()
	select {
	case <-full:
	case <-t.C:
		p.mu.Lock()
		defer p.mu.Unlock()
		p.full = nil
	}
}

// hurry ends the leader's waiting if it has no reason any more.
func (p *Pipeline[J]) hurry() {
	if p.full == nil {
		return
	}
	weight := int64(0)
	for _, t := range p.queue {
		weight += p.cfg.Weight(t.job)
	}
	if weight > 0 && weight < p.cfg.MaxWeight && len(p.queue) < p.cfg.MaxJobs && p.failed == nil && !p.closed {
		return
	}
	close(p.full)
	p.full = nil
}

// take takes the next batch off the queue.
func (p *Pipeline[J]) take() []*ticket[J] {
	n, weight := 0, int64(0)
	for n < min(len(p.queue), p.cfg.MaxJobs) {
		if p.cfg.Weight != nil {
			if weight += p.cfg.Weight(p.queue[n].job); n > 0 && weight > p.cfg.MaxWeight {
				break
			}
		}
		n++
	}
	batch := p.queue[:n:n]
	p.queue = p.queue[n:]
	return batch
}

func finish[J any](tickets []*ticket[J], err error) {
	for _, t := range tickets {
		t.err = err
		close(t.turn)
	}
}

// Fail refuses every later job with err: what the owner found out by other means forbids any more writes. The batch that is being written is
// finished.
func (p *Pipeline[J]) Fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed == nil {
		p.failed = err
	}
	p.hurry()
}

// Failed is why nothing more is committed; nil: jobs are taken.
func (p *Pipeline[J]) Failed() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed
}

// Close refuses later jobs and waits for those that were accepted.
func (p *Pipeline[J]) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.hurry()
	for p.leading || p.writing > 0 {
		p.idle.Wait()
	}
}
