package manager

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/manager/dispatch"
	"shoal/recrawl"
)

// Manager runs one network's recrawls. All fields but cfg, log, jobs, inbox and shown are owned by the loop.
type Manager struct {
	cfg     Config
	log     *slog.Logger
	jobs    chan job
	inbox   chan func(now time.Time)
	shown   atomic.Pointer[Overview]
	running atomic.Bool
	before  sync.Mutex      // held by who works in the loop's stead until it runs
	life    context.Context // of Run; the loop sets it before anything uses it
	wg      sync.WaitGroup  // of measurements and plans

	clock  recrawl.Clock
	sched  *recrawl.Scheduler
	table  *dispatch.Table
	issues map[recrawl.Slot]lease.Issue // of idle channels: to be written, or read of late

	machine *dispatch.Machine

	epoch      channel.Epoch
	cursor     string
	pending    *effects
	dirty      map[recrawl.Slot]struct{}         // issues and facts to be written, not in a hurry
	records    map[channel.HostKey]*channel.Host // hosts to be written
	states     map[recrawl.Slot]stateWrite
	savedAt    time.Time
	tidied     time.Time
	strategyAt time.Time

	near     *nearness
	perPage  time.Duration // of late, waits included
	stopped  bool
	planning bool // a plan is being made
	adding   int  // links of the channel that is being added

	since, started, published, sampled   time.Time // since: of the network's first manager
	eventsAt                             time.Time
	earlier                              dispatch.Counts // of managers before this one
	updates, pages, unchanged, bytesDown int64
	visited, due                         int
	fresh                                float64
	errors                               map[string]int64
	choice                               StrategyChoice
	limits                               Limits
	sizes                                sizes
	admitting                            bool // beside the loop
	discovered                           int  // channels that discovery has added, ever
	admitAt, diskAt                      time.Time
	history                              []Point
	rates                                rates
	events                               events
	sites                                sites
	notices                              map[string]string
	rttN                                 int64
	hopsSum, rttChosen, rttRandom        float64
}

type stateWrite struct {
	state  channel.State
	reason string
}

// New makes a manager of what its database holds. Run runs it.
func New(ctx context.Context, cfg Config) (*Manager, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	choice := StrategyChoice{cfg.Strategy, cfg.Params, cfg.NewShare}
	if cfg.KeptStrategy {
		kept, ok, err := keptChoice(ctx, cfg.Store)
		if err != nil {
			return nil, err
		}
		if ok {
			choice = kept
			if cfg.NewShare > 0 {
				choice.NewShare = cfg.NewShare
			}
		}
	}
	strategy, err := choice.strategy(&cfg)
	if err != nil {
		return nil, err
	}
	limits, err := keptLimits(ctx, cfg.Store, cfg.limits())
	if err != nil {
		return nil, err
	}
	cfg.Options.Cap, cfg.Options.MinTicks = limits.Cap, limits.ticks(cfg.Tick)
	if err := cfg.Options.Validate(); err != nil {
		return nil, fmt.Errorf("the limits in the database: %w", err)
	}
	now := cfg.Now()
	m := &Manager{
		choice: choice, limits: limits, cfg: cfg, log: cfg.Log, jobs: make(chan job, jobQueue), inbox: make(chan func(time.Time), inboxBurst),
		table: dispatch.NewTable(), issues: map[recrawl.Slot]lease.Issue{},
		dirty:   map[recrawl.Slot]struct{}{},
		records: map[channel.HostKey]*channel.Host{}, states: map[recrawl.Slot]stateWrite{}, since: now, started: now, eventsAt: now, errors: map[string]int64{},
		events: newEvents(), notices: map[string]string{},
	}
	if m.near, err = newNearness(m); err != nil {
		return nil, err
	}
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

// stateEpoch and stateStrategy name what the database keeps for the scheduler.
const (
	stateEpoch    = "recrawl/epoch"
	stateStrategy = "recrawl/strategy"
)

// restore builds what the loop owns from the database.
func (m *Manager) restore(ctx context.Context, now time.Time, strategy recrawl.Strategy) error {
	st := m.cfg.Store
	var err error
	if m.epoch, err = st.Take(ctx); err != nil {
		return fmt.Errorf("take the channels over: %w", err)
	}
	epoch, err := st.State(ctx, stateEpoch)
	if err != nil {
		return fmt.Errorf("read the scheduler's epoch: %w", err)
	}
	m.clock = recrawl.Clock{Epoch: now, Step: m.cfg.Tick}
	if epoch != nil {
		if err := m.clock.Epoch.UnmarshalBinary(epoch); err != nil {
			return fmt.Errorf("the scheduler's epoch in the database is damaged: %w", err)
		}
	} else {
		b, err := now.MarshalBinary()
		if err != nil {
			return err
		}
		if err := st.PutState(ctx, m.epoch, stateEpoch, b); err != nil {
			return fmt.Errorf("write the scheduler's epoch: %w", err)
		}
	}
	if b, err := st.State(ctx, stateDiscovered); err != nil {
		return fmt.Errorf("read how many channels were discovered: %w", err)
	} else if b != nil {
		if m.discovered, err = strconv.Atoi(string(b)); err != nil {
			return fmt.Errorf("how many channels were discovered is damaged: %w", err)
		}
	}
	if m.cursor, err = st.Cursor(ctx, feedName); err != nil {
		return fmt.Errorf("read the feed's cursor: %w", err)
	}
	if m.sched, err = m.scheduler(ctx, now, strategy); err != nil {
		return err
	}
	m.machine = dispatch.New(now, dispatch.Config{
		Clock: m.clock, Terms: m.cfg.Terms, MaxOut: m.cfg.MaxOut, Batch: maxBatch, Queue: jobQueue, MinPeers: m.cfg.MinPeers, MinPeersWait: m.cfg.MinPeersWait,
		MinWait: minLatest, MaxWait: maxLatest, NewShare: m.choice.NewShare, Until: m.cfg.Until,
	}, m.sched, book{m}, m.near)
	if err := errors.Join(m.readSizes(ctx), m.recallShown(ctx)); err != nil {
		return err
	}
	if err := st.ScanHosts(ctx, func(h channel.Host) error {
		if h.Blocked != "" || h.NextVisit.After(now) {
			m.machine.Block(channel.KeyOf(h.Name), h.Blocked)
			m.machine.Leave(channel.KeyOf(h.Name), h.NextVisit)
		}
		return nil
	}); err != nil {
		return fmt.Errorf("read hosts: %w", err)
	}
	if err := st.Scan(ctx, 0, 0, func(r channel.Hot) error { return m.add(now, r) }); err != nil {
		return fmt.Errorf("read channels: %w", err)
	}
	return nil
}

// scheduler goes on with what groups and strategy had learnt, if it was this strategy that had learnt it.
func (m *Manager) scheduler(ctx context.Context, now time.Time, strategy recrawl.Strategy) (*recrawl.Scheduler, error) {
	m.cfg.Options.Pending = func(s recrawl.Slot) int {
		if !m.table.Used(s) { // it is being added
			return m.adding
		}
		return m.table.Links(s)
	}
	b, err := m.cfg.Store.State(ctx, stateStrategy)
	if err != nil {
		return nil, fmt.Errorf("read the strategy's state: %w", err)
	}
	if b == nil {
		return recrawl.NewScheduler(m.clock.At(now), strategy, m.cfg.Options), nil
	}
	if recrawl.StateOf(b) != strategy.Name() { // --strategy names another one than was in force
		if strategy, err = m.recovered(ctx, m.choice, strategy, b); err != nil {
			return nil, err
		}
	}
	s, err := recrawl.RestoreScheduler(m.clock.At(now), strategy, m.cfg.Options, b)
	if err != nil {
		m.log.Warn("the strategy begins anew", "strategy", strategy.Name(), "err", err)
		return recrawl.NewScheduler(m.clock.At(now), strategy, m.cfg.Options), nil
	}
	return s, nil
}

// add takes a channel of the database into the loop's state.
func (m *Manager) add(now time.Time, r channel.Hot) error {
	if r.State == channel.Removed {
		return nil
	}
	var f recrawl.Facts
	issue, err := parseIssue(r.Lease)
	if err != nil {
		return fmt.Errorf("channel %d: %w", r.ID, err)
	}
	if len(r.Facts) > 0 {
		if err := f.Restore(r.Facts); err != nil {
			return fmt.Errorf("channel %d: %w", r.ID, err)
		}
	}
	if f.Weight == 0 {
		f.Weight = r.Weight
	}
	if r.Group > 0 {
		f.Group, f.Flags = uint8(r.Group-1), f.Flags|recrawl.Pinned
	}
	if r.State != channel.Active {
		f.Flags |= recrawl.Paused
	}
	if issue.Out() || issue.Phase == lease.Pausing {
		f.Out = 1
	}
	if f.Updated > 0 {
		m.visited++
	}
	m.adding = r.Links
	s := m.sched.Add(f)
	if len(r.Facts) == 0 && m.limits.Weights == recrawl.RankWeights {
		m.weigh(s, f.Weighed(), 0)
	}
	m.table.Put(s, r.ID, r.Host)
	m.table.SetLinks(s, r.Links)
	m.machine.Restore(now, s, issue)
	return nil
}

// Settle waits until all that the archive has told is taken in, or the time is over.
func (m *Manager) Settle(atMost time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), atMost)
	defer cancel()
	for ctx.Err() == nil {
		quiet := false
		err := m.do(ctx, func(now time.Time) {
			m.stopped = true
			quiet = m.pending == nil && m.machine.Leased() == 0
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

// CrawlNow has a channel crawled as soon as there is room, whatever the strategy says. One that was given up is active again; one that is paused
// stays so.
func (m *Manager) CrawlNow(ctx context.Context, id channel.ID) error {
	ch, err := m.cfg.Store.Channel(ctx, id)
	if err != nil {
		return err
	}
	var answer error
	err = m.do(ctx, func(now time.Time) {
		s, ok := m.table.Find(id)
		if !ok {
			answer = fmt.Errorf("%w: %d", channel.ErrUnknown, id)
			return
		}
		if m.machine.IsOut(s) {
			answer = fmt.Errorf("%w: channel %d is being crawled already", ErrAsk, id)
			return
		}
		if why := m.machine.Blocked(m.table.Host(s)); why != "" {
			answer = fmt.Errorf("%w: the host of channel %d is blocked (%s): unblock it first, with shoal host unblock %s", ErrAsk, id, why, ch.Scope.Host)
			return
		}
		if answer = m.machine.CrawlNow(now, s); answer != nil {
			return
		}
		if m.stateOf(s, &ch) == channel.Marked {
			m.setState(s, channel.Active, "")
			m.sched.Edit(s, func(f *recrawl.Facts) { f.Flags &^= recrawl.Paused })
		}
		m.event(s, now, m.machine.Gen(s), "crawl now", "", "asked for by an operator")
	})
	return errors.Join(err, answer)
}

// stateOf is the state of a channel that was read from the database, where what is not written yet comes before what is.
func (m *Manager) stateOf(s recrawl.Slot, ch *channel.Channel) channel.State {
	if st, ok := m.states[s]; ok {
		return st.state
	}
	return ch.State
}

// Pause stops handing a channel out, or goes on with it. What is out runs to its end.
func (m *Manager) Pause(ctx context.Context, id channel.ID, paused bool) error {
	var answer error
	err := m.do(ctx, func(now time.Time) {
		s, ok := m.table.Find(id)
		if !ok {
			answer = fmt.Errorf("%w: %d", channel.ErrUnknown, id)
			return
		}
		if answer = m.machine.Unmark(s); answer != nil {
			return
		}
		state, word := channel.Active, "resumed"
		if paused {
			state, word = channel.Paused, "paused"
		}
		m.sched.Edit(s, func(f *recrawl.Facts) {
			f.Flags &^= recrawl.Paused
			if paused {
				f.Flags |= recrawl.Paused
			}
		})
		m.machine.NotBefore(s, time.Time{})
		m.setState(s, state, "")
		m.event(s, now, m.gen(s), word, "", "by an operator")
	})
	return errors.Join(err, answer)
}

const (
	// manyChannels is from how many on the manager gives memory back after its start.
	manyChannels = 100_000
	// While it starts, and with so many channels always, garbage may be tightGC percent of what lives, unless GOGC says otherwise: the
	// collector's usual 100 would double tables in which it has nothing to look for, as they hold no pointers.
	tightChannels = 1_000_000
	tightGC       = 25
)

// Keys of notices because of which nothing is handed out.
const (
	noticeStore = "store"
	noticeFeed  = "feed"
	noticeDisk  = "disk"
)

func (m *Manager) setNotice(key, text string) {
	if text == "" {
		delete(m.notices, key)
		return
	}
	m.notices[key] = text
}

const maxErrorKinds = 100 // kinds of errors counted apart; the rest is "other"

func (m *Manager) countError(kind string) { m.countErrors(kind, 1) }

func (m *Manager) countErrors(kind string, n int) {
	if _, ok := m.errors[kind]; !ok && len(m.errors) >= maxErrorKinds {
		kind = "other"
	}
	m.errors[kind] += int64(n)
}

// count takes a report into the totals.
func (m *Manager) count(r *channel.Report) {
	m.pages += int64(r.Pages)
	m.unchanged += int64(r.Unchanged + r.NearUnchanged)
	m.bytesDown += r.BytesDown
	for kind, n := range r.Errors {
		m.countErrors(kind, n)
	}
	switch r.Outcome {
	case channel.Updated:
	default:
		m.countError("task " + OutcomeWord(r.Outcome))
	}
}
