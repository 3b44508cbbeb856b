package manager

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"shoal/channel"
	"shoal/manager/dispatch"
	"shoal/manager/share"
)

// Manager runs one network's recrawls. It is made of parts that each own their state, on a common core; all of it belongs to the loop, which
// Run runs. What the parts export is the manager's too.
type Manager struct {
	*core
	*status
	*tuning
	*roster
	*auditor

	keep    *keeper
	near    *nearness
	pace    *pace
	learner *learner
	hand    *handout
	placers *placers
	find    *discovery
	disk    diskWatch
	errands *errands
}

// New makes a manager of what its database holds. Run runs it.
func New(ctx context.Context, cfg Config) (*Manager, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	choice, err := firstChoice(ctx, &cfg)
	if err != nil {
		return nil, err
	}
	strategy, err := choice.strategy(&cfg)
	if err != nil {
		return nil, err
	}
	limits, err := keptLimits(ctx, cfg.Store, cfg.limits(), cfg.Tick)
	if err != nil {
		return nil, err
	}
	cfg.Options.Cap, cfg.Options.MinTicks = limits.Cap, limits.ticks(cfg.Tick)
	if err := cfg.Options.Validate(); err != nil {
		return nil, fmt.Errorf("the limits in the database: %w", err)
	}
	now := cfg.Now()
	m, err := assemble(cfg, now)
	if err != nil {
		return nil, err
	}
	m.tuning.choice, m.tuning.limits = choice, limits
	before := debug.SetGCPercent(tightGC)
	err = m.restore(ctx, now, strategy)
	if m.table.Len() < tightChannels || before < tightGC || os.Getenv("GOGC") != "" {
		debug.SetGCPercent(before)
	}
	if err != nil {
		return nil, err
	}
	if m.table.Len() >= manyChannels {
		debug.FreeOSMemory() // what growing tables have left behind
	}
	m.sampleHistory(now)
	o := m.overview(now)
	m.shown.Store(&o)
	return m, nil
}

// assemble makes the parts and joins them; scheduler and machine come with restore.
func assemble(cfg Config, now time.Time) (*Manager, error) {
	c := &core{inbox: newInbox(cfg.Now), cfg: cfg, log: cfg.Log, beside: new(sync.WaitGroup), table: dispatch.NewTable(), tally: newTally(now), events: newEvents(), history: history{kept: now}, members: newMembers(cfg.Terms.Term), whole: newWholes(stateWhole), asked: newWholes(stateAsked)}
	keep, pace := newKeeper(c), &pace{core: c}
	c.inbox.now = keep.now
	near, err := newNearness(c, keep, pace)
	if err != nil {
		return nil, err
	}
	tune := &tuning{core: c, keep: keep, near: near}
	roster := &roster{core: c, keep: keep, tune: tune, near: near, lost: &lost{core: c}}
	errands := &errands{core: c, first: errandID, budget: errandFirst}
	auditor := newAuditor(c, keep, errands)
	near.errands, near.auditor, near.asks = errands, auditor, newAskedOf(auditor)
	learner := &learner{core: c, keep: keep, near: near, tune: tune, pace: pace, errands: errands, auditor: auditor, accused: accused{}, parties: parties{}}
	jobs := make(chan job, jobQueue)
	hand := &handout{core: c, keep: keep, near: near, learner: learner, errands: errands, auditor: auditor, jobs: jobs}
	find := &discovery{core: c, roster: roster}
	c.inbox.after = hand.carryOut
	if cfg.Several != nil {
		c.tenancy = &tenancy{core: c, Several: cfg.Several, keep: keep, roster: roster, errands: errands, needs: map[channel.Epoch]share.Need{}}
	}
	m := &Manager{
		core: c, status: &status{core: c, near: near, auditor: auditor, find: find}, tuning: tune, roster: roster,
		keep: keep, near: near, pace: pace, learner: learner, hand: hand, placers: &placers{core: c, jobs: jobs, hand: hand, audited: auditedHosts{}}, find: find, disk: diskWatch{core: c},
		errands: errands, auditor: auditor,
	}
	if c.tenancy != nil {
		c.tenancy.hear = m.hearNote
		c.tenancy.inherit = func(ctx context.Context) error { return errors.Join(m.auditor.inherit(ctx), m.inheritWhole(ctx)) }
		h := heir{m.auditor}
		c.tenancy.settle, c.tenancy.leaves, c.tenancy.left, c.tenancy.audits = h.inheritSites, h.handOver, h.judgeLeft, h.takeAudits
	}
	return m, nil
}

// Settle waits until all that the archive has told is taken in, or the time is over.
func (m *Manager) Settle(atMost time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), atMost)
	defer cancel()
	for ctx.Err() == nil {
		quiet := false
		err := m.do(ctx, func(now time.Time) {
			m.hand.stopped = true
			quiet = m.keep.pending == nil && m.machine.Leased() == 0
			m.published = time.Time{} // who looks after the end sees the last of it
			m.publish(now)
		})
		if err != nil || quiet {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(m.beat() / 4):
		}
	}
}

const (
	// manyChannels is from how many on the manager gives memory back after its start.
	manyChannels = 100_000
	// While it starts, and with so many channels always, garbage may be tightGC percent of what lives, unless GOGC says otherwise: the
	// collector's usual 100 would double tables in which it has nothing to look for, as they hold no pointers.
	tightChannels = 1_000_000
	tightGC       = 25
)
