package manager

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"shoal/channel"
	"shoal/manager/archive"
	"shoal/manager/dispatch"
	"shoal/overlay"
)

// job is one handing-out on its way from the loop to a peer.
type job struct {
	dispatch.Order
	id   channel.ID
	near overlay.Named    // the peer that it is offered to first
	host *channel.Host    // its record, where it is not written yet; nil: read it
	ch   *channel.Channel // if it was read just now; nil: read it

	errand *errand     // nil: it is a crawl of a channel
	as     channel.Gen // the generation that the peer of an errand sees
	told   time.Time   // and the latest start
}

const (
	maxBatch  = 256             // generations made durable in one write
	jobQueue  = 4 * maxBatch    // issued and waiting for a placer
	minLatest = 2 * time.Second // a shorter wait limit would be over before an offer is answered
	maxLatest = 24 * time.Hour
)

var errLateStart = errors.New("manager: the peer that took it would begin too late")

// placers take jobs to peers, beside the loop: one goroutine makes generations durable in batches, others build, sign, deposit and offer. They
// read of the core only what never changes, and tell the loop what came of each job.
type placers struct {
	*core
	jobs chan job
	hand *handout // only on the loop

	audited auditedHosts // owned by the goroutine that makes generations durable
}

// work takes jobs until ctx ends, and returns when what was begun is over, or cut short by the end of whole. The loop must run until then.
func (p *placers) work(ctx, whole context.Context) {
	durable := make(chan job)
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(durable)
		p.makeDurable(ctx, whole, durable)
	})
	for range p.cfg.Placers {
		wg.Go(func() {
			for j := range durable {
				p.place(whole, j)
			}
		})
	}
	wg.Wait()
}

// tell has the loop do something, which runs until all placers have ended.
func (p *placers) tell(f func(now time.Time)) { p.post(context.Background(), f) }

// makeDurable makes generations durable, as many in one write as are waiting, before they go on. Those that are durable and with no placer when ctx ends
// are told to be unsent: else the next manager would have to wait for a peer to claim them.
func (p *placers) makeDurable(ctx, whole context.Context, out chan<- job) {
	for {
		batch := p.next(ctx)
		if batch == nil {
			return
		}
		refusals, err := p.issue(whole, batch)
		if err != nil {
			p.log.Error("generations not durable, nothing is handed out", "err", err)
			p.tell(func(now time.Time) { p.hand.notDurable(now, err, batch) })
			continue
		}
		for _, j := range batch {
			if k := slices.IndexFunc(refusals, func(r refusal) bool { return r.id == j.id }); k >= 0 {
				p.log.Error("generation refused", "channel", j.id, "gen", j.Gen, "err", refusals[k].Err)
				p.tell(func(now time.Time) { p.hand.unsent(now, "store", j) })
				continue
			}
			select {
			case out <- j:
			case <-ctx.Done():
				p.tell(func(now time.Time) { p.hand.machine.Unsent(now, j.Order, 0) })
			}
		}
	}
}

// refusal is a generation that the database has refused.
type refusal struct {
	id  channel.ID
	Err error
}

// issue writes the generations of a batch. Those of errands need not be durable: what is out of one when a manager ends is of no use any more, and the
// archive tells the next manager which generations are used up. Only at which hosts they are must be known to other managers.
func (p *placers) issue(ctx context.Context, batch []job) (refused []refusal, err error) {
	if err := p.noteAudits(ctx, batch); err != nil {
		return nil, err
	}
	issues := make([]channel.Issue, 0, len(batch))
	for _, j := range batch {
		if j.errand == nil {
			issues = append(issues, channel.Issue{ID: j.id, Gen: j.Gen, Lease: j.Issue.Append(nil), At: j.Issued})
		}
	}
	if len(issues) == 0 {
		return nil, nil
	}
	all, err := p.cfg.Store.Issue(ctx, p.epoch, issues)
	for _, r := range all {
		refused = append(refused, refusal{issues[r.N].ID, r.Err})
	}
	return refused, err
}

// next waits for jobs, and takes all that are there; nil: ctx has ended.
func (p *placers) next(ctx context.Context) (batch []job) {
	select {
	case <-ctx.Done():
		return nil
	case j := <-p.jobs:
		batch = append(batch, j)
	}
	for len(batch) < maxBatch {
		select {
		case j := <-p.jobs:
			batch = append(batch, j)
		default:
			return batch
		}
	}
	return batch
}

// place builds, signs, deposits and offers one task, and tells the loop how that went.
func (p *placers) place(ctx context.Context, j job) {
	t, built, err := p.deposit(ctx, j)
	if !built {
		p.log.Error("task not built", "channel", j.id, "gen", j.Gen, "err", err)
		p.tell(func(now time.Time) { p.hand.unsent(now, "building", j) })
		return
	}
	var fenced *archive.FencedError
	switch {
	case errors.As(err, &fenced) && fenced.Channel != j.id: // an errand, by its channel
		p.tell(func(now time.Time) { p.hand.errands.outran(now, j, fenced.Highest) })
		return
	case errors.As(err, &fenced):
		p.tell(func(now time.Time) { p.hand.outran(now, j, fenced.Highest) })
		return
	case err != nil:
		p.log.Warn("task not deposited", "channel", j.id, "gen", j.Gen, "err", err)
		p.tell(func(now time.Time) { p.hand.notDeposited(now, err, j) })
		return
	}
	placed, err := p.cfg.Swarm.Place(ctx, t.signed, t.header, t.record, j.near)
	switch {
	case err == nil && j.errand != nil && placed.Start.After(j.Latest): // it would come too late
		if back := p.cfg.Archive.TakeBack(ctx, j.id, j.Gen); back != nil { // the peer may still claim it
			p.log.Debug("an errand is not taken back: its claim is awaited until it is of no use", "host", j.errand.host, "err", back)
			p.tell(func(now time.Time) { p.hand.unsure(now, j, errLateStart) })
			return
		}
		p.tell(func(now time.Time) { p.hand.refused(now, j, errLateStart) })
	case err == nil:
		if p.cfg.OnPlaced != nil && j.errand == nil {
			p.cfg.OnPlaced(t.header.Host, placed)
		}
		p.tell(func(now time.Time) { p.hand.placed(now, j, t.header.Host, placed) })
	case errors.Is(err, overlay.ErrRefused):
		p.tell(func(now time.Time) { p.hand.refused(now, j, err) })
	default:
		if back := p.cfg.Archive.TakeBack(ctx, j.id, j.Gen); back != nil {
			p.log.Debug("task not taken back: its claim is awaited until its latest start", "channel", j.id, "gen", j.Gen, "err", back)
		}
		p.tell(func(now time.Time) { p.hand.unsure(now, j, err) })
	}
}
