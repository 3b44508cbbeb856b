package peer

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"shoal/channel"
	"shoal/internal/again"
	"shoal/internal/wire"
	"shoal/internal/wire/uplink"
	"shoal/peer/crawl"
	"shoal/peer/limit"
	"shoal/peer/queue"
)

// Waits of a job.
const (
	claimSlack  = 30 * time.Second // how long after its latest start a claim is still tried: the archive's clock decides
	lapsedLooks = 4                // answers that the lease has lapsed, seconds apart, after which the task is given up
	outage      = 24 * time.Hour   // an archive that is away for longer loses what was fetched: it has become old
)

// retries is the pace at which an archive is asked again that did not answer.
var retries = again.Bounds{First: time.Second, Last: time.Minute}

// errLost ends a crawl whose task is not ours any more.
var errLost = errors.New("peer: the task is another peer's now")

// errUnasked ends a task that is told to stop before its archive has answered its claim: it may be started yet, after a restart.
var errUnasked = errors.New("peer: told to stop before the archive answered")

// errLapsed ends a task whose lease has lapsed. What was fetched is sent; the manager hands the rest out anew, perhaps to this very peer.
var errLapsed = errors.New("peer: the lease has lapsed")

// job is one running task.
type job struct {
	key   uint64
	task  task
	began time.Time
	stop  chan struct{} // closed: end at the next checkpoint
	once  sync.Once
	away  atomic.Bool   // the archive did not answer when it was last asked
	done  chan struct{} // closed: nothing of it runs any more

	mu    sync.Mutex
	visit crawl.Visit // the last
	quit  func()      // ends it at once; nil: it has not begun
}

func (a *Agent) newJob(it queue.Item[task]) *job {
	j := &job{key: it.Key, task: it.Value, began: time.Now(), stop: make(chan struct{}), done: make(chan struct{})}
	a.mu.Lock()
	a.running[j.key] = j
	a.mu.Unlock()
	return j
}

// stop ends a running task at its next checkpoint.
func (a *Agent) stop(key uint64) {
	a.mu.Lock()
	j := a.running[key]
	a.mu.Unlock()
	if j != nil {
		j.once.Do(func() { close(j.stop) })
	}
}

// run claims and crawls one task. ctx ends when there is no time left even for leaving.
func (a *Agent) run(ctx context.Context, j *job) {
	log := a.log.With("host", j.task.Header.Host, "channel", uint64(j.task.Header.Channel), "gen", uint64(j.task.Header.Gen))
	defer close(j.done)
	own, quit := context.WithCancel(ctx)
	defer quit()
	j.mu.Lock()
	j.quit = quit
	j.mu.Unlock()
	report, err := a.crawl(own, j)
	if err != nil && own.Err() != nil && ctx.Err() == nil {
		err = errLost
	}
	kept := err != nil && (ctx.Err() != nil || errors.Is(err, errUnasked)) // killed, as it were: its files stay for the next run
	if kept {
		log.Info("task stays for the next start", "why", err)
	} else if err != nil {
		log.Info("task not finished", "err", err)
	} else {
		log.Info("task finished", "outcome", int(report.Outcome), "reason", report.Reason, "pages", report.Pages)
	}
	a.mu.Lock()
	delete(a.running, j.key)
	a.mu.Unlock()
	if !kept {
		crawl.RemoveSpool(a.spool(), j.task.Header) // of a claim that was refused
		a.tasks.forget(j.key)
	}
	if err := a.cost.keep(time.Now(), a.tasks.done(a.wire.Now(), j.key, report.Pages)); err != nil {
		log.Info("what a page costs is not kept for the next start", "err", err)
	}
	if !kept {
		a.stats.task(report, err) // last: what is counted is over in every respect
	}
}

func (a *Agent) crawl(ctx context.Context, j *job) (report channel.Report, err error) {
	h := j.task.Header
	up, err := a.uplink(h.Archive)
	if err != nil {
		return report, err
	}
	holder := newHold(a.clock)
	claimed, err := a.claim(ctx, up, j, holder)
	if err != nil {
		return report, err
	}
	a.tasks.claimed(j.key)
	if err := a.overtake(ctx, j); err != nil {
		return report, err
	}
	if claimed.Left <= 0 && !a.spooled(h) { // it has lapsed, and there is nothing to bring
		return report, errLapsed
	}
	s := &sender{up: up, header: h, hold: holder, seq: claimed.Seq, head: claimed.Head, away: &j.away, homecoming: a.homecoming, log: a.log}
	if report, err = a.work(ctx, j, s, &claimed); err != nil {
		return report, err
	}
	if report.Outcome == channel.Stopped {
		holder.stop()
		return report, a.release(ctx, up, j)
	}
	return report, nil
}

// overtake ends an earlier task of the same channel whose lease has lapsed, and which does not know it yet: both would use the same host and
// the same folder.
func (a *Agent) overtake(ctx context.Context, j *job) error {
	var old []*job
	a.mu.Lock()
	for _, o := range a.running {
		if o != j && o.task.Header.Channel == j.task.Header.Channel && o.task.Header.Gen < j.task.Header.Gen {
			old = append(old, o)
		}
	}
	a.mu.Unlock()
	for _, o := range old {
		o.mu.Lock()
		quit := o.quit
		o.mu.Unlock()
		if quit == nil {
			continue
		}
		quit()
		select {
		case <-o.done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// release gives a task back when all that was fetched for it is stored. It tries until the archive answers.
func (a *Agent) release(ctx context.Context, up *uplink.Client, j *job) error {
	h, first := j.task.Header, time.Now()
	for pace := again.Every(retries); ; {
		back := a.homecoming()
		_, err := up.Release(ctx, h.Channel, h.Gen)
		if err == nil {
			return nil
		}
		if errors.Is(err, wire.Malformed) || errors.Is(err, wire.Refused) || time.Since(first) > outage {
			return fmt.Errorf("release: %w", err)
		}
		j.away.Store(true)
		if err := pace.Wait(ctx, nil, back); err != nil {
			return err
		}
	}
}

// work crawls what a claim has brought.
func (a *Agent) work(ctx context.Context, j *job, s *sender, claimed *uplink.Claimed) (channel.Report, error) {
	h := j.task.Header
	end := func(o channel.Outcome, why string) (channel.Report, error) {
		now := time.Now()
		r := channel.Report{Channel: h.Channel, Gen: h.Gen, Peer: a.ID(), Outcome: o, Reason: why, Started: j.began, Ended: now}
		return r, s.Put(ctx, (&channel.ChunkBody{Report: &r}).Marshal(), true)
	}
	if sha256.Sum256(claimed.Body) != h.BodySHA256 {
		return end(channel.Failed, "the task's body does not match its signed header")
	}
	body, err := channel.ParseBody(claimed.Body)
	if err != nil {
		return end(channel.Failed, fmt.Sprintf("the task's body cannot be read: %v", err))
	}
	if a.cfg.Refuse != nil {
		if err := a.cfg.Refuse(h.Host); err != nil {
			return end(channel.Refused, err.Error())
		}
	}
	contact := body.Contact
	if contact == "" {
		if d, ok := a.wire.Document(); ok {
			contact = d.Contact
		}
	}
	if contact == "" && !strings.HasSuffix(h.Host, ".pond.test") {
		return end(channel.Refused, "the manager names no contact for Web hosts to turn to")
	}
	agent := "Shoal/" + a.cfg.Version
	if contact != "" {
		agent += " (+" + channel.PlainText(contact, channel.MaxText) + ")" // a line of every request
	}
	tuned := *a.tuned.Load()
	checkpoint := tuned.Checkpoint
	if checkpoint == 0 {
		checkpoint = crawl.Checkpoint
	}
	if third := claimed.Left / 3; third > 0 {
		checkpoint = min(checkpoint, third)
	}
	resume := claimed.Resume
	var after time.Time
	if claimed.Rested > 0 {
		after = time.Now().Add(-claimed.Rested)
	}
	claimed.Body, claimed.Resume = nil, channel.Resume{} // the crawl lets go of them when it can: they may be large
	report, err := crawl.Run(ctx, crawl.Config{
		Header: h, Body: body, Resume: resume, Dial: s.hold.dial(a.cfg.Dial), Sink: s, Spool: a.spool(), Disk: tuned.Disk / int64(a.tasks.threads()), UserAgent: agent, Peer: a.ID(),
		Roots: a.cfg.Roots, Robots: a.robots, Issuers: &a.issuers, Turns: a.cfg.Turns, Refuse: a.elsewhere(h.Host), Network: a.wire.Network().String(), MinGap: tuned.MinGap, Unpaced: a.cfg.Unpaced, After: after, Checkpoint: checkpoint, Stop: j.stop,
		Before: func(ctx context.Context) error { return a.before(ctx, j, s) },
		OnDisk: a.diskFails, Own: a.own.Load,
		OnVisit: func(v crawl.Visit) {
			j.mu.Lock()
			j.visit = v
			j.mu.Unlock()
			a.tasks.progress(a.wire.Now(), j.key, max(v.Left, 0))
			a.stats.visit(v)
			if a.cfg.OnVisit != nil {
				a.cfg.OnVisit(h.Host, v)
			}
		},
	})
	if errors.Is(err, crawl.ErrConfig) {
		return end(channel.Failed, err.Error())
	}
	return report, err
}

// elsewhere says of other origins than a task's why nothing is fetched there. The Web is never asked for hosts of a synthetic one, whatever a site says: the volunteer's rules
// take such a question for a sign that the network crawls one.
func (a *Agent) elsewhere(host string) func(origin string) error {
	inPond := func(origin string) bool {
		addr, err := hostPort(origin)
		if err != nil {
			return false
		}
		name, _, err := net.SplitHostPort(addr)
		return err == nil && limit.InPond(name)
	}
	return func(origin string) error {
		switch {
		case inPond(origin) && !inPond(host):
			return errors.New("there is no such host on the Web")
		case a.cfg.Refuse != nil:
			return a.cfg.Refuse(origin)
		}
		return nil
	}
}

// claim binds the task to this peer. It tries until the archive answers or there is no time left to start. A task that was claimed before
// a restart is not over when it is told to stop: the archive may lack what was fetched for it.
func (a *Agent) claim(ctx context.Context, up *uplink.Client, j *job, hold *hold) (uplink.Claimed, error) {
	h, first, stop := j.task.Header, time.Now(), j.stop
	if j.task.Claimed {
		stop = nil
	}
	for pace := again.Every(retries); ; {
		var held time.Duration // another peer's lease, which it waits for
		sent, back := hold.clock(), a.homecoming()
		c, err := up.Claim(ctx, j.task.Signed)
		switch {
		case err != nil && (errors.Is(err, wire.Malformed) || errors.Is(err, wire.Refused)):
			return c, fmt.Errorf("claim: %w", err)
		case err != nil:
			j.away.Store(true)
			a.log.Debug("claim not answered", "host", h.Host, "gen", h.Gen, "err", err)
		case c.Status == uplink.Granted:
			j.away.Store(false)
			hold.acked(sent, c.Left)
			a.log.Debug("claim granted", "host", h.Host, "gen", h.Gen)
			return c, nil
		case c.Status == uplink.Held:
			held = max(c.Left, retries.First)
		default:
			if c.Status == uplink.Fenced && !j.task.Claimed {
				a.runner.Fenced(j.task.Signed)
			}
			return c, fmt.Errorf("claim: the archive answers %v", c.Status)
		}
		if !j.task.Claimed && up.Time(time.Now()).After(h.Latest.Add(claimSlack)) {
			return c, fmt.Errorf("claim: not granted before the latest start, %v", h.Latest)
		}
		if time.Since(first) > outage {
			return c, fmt.Errorf("claim: the archive has been away for %v", outage)
		}
		if held > 0 {
			err = pace.WaitFor(ctx, held, stop, nil)
		} else {
			err = pace.Wait(ctx, stop, back)
		}
		if err != nil {
			return c, err
		}
		if closed(stop) {
			return c, errUnasked
		}
	}
}

// closed reports whether a channel is closed; nil never is.
func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// before is asked before each request: it waits while the agent is paused or the lease has run down.
func (a *Agent) before(ctx context.Context, j *job, s *sender) error {
	pace, lapsed := again.Every(retries), 0
	for {
		paused, until := a.tasks.paused()
		if !paused && s.hold.may() {
			return nil
		}
		if s.hold.stopped() {
			return errLost
		}
		wait := a.pauseLook(until)
		if paused && s.hold.endsBefore(until, a.wire.Now()) { // while there is a third of the term to send what was fetched
			a.log.Info("a pause lasts longer than the lease: the task goes back", "host", j.task.Header.Host)
			j.once.Do(func() { close(j.stop) })
		}
		back := a.homecoming()
		if !paused {
			over, err := s.renew(ctx, j.task.Signed)
			if err != nil {
				return err
			}
			if s.hold.may() {
				continue
			}
			if over {
				if lapsed++; lapsed == lapsedLooks || s.over.Load() { // archives of earlier versions let a lapsed lease run again when a chunk comes
					return errLapsed
				}
			}
			wait = pace.Next()
		}
		if err := a.rest(ctx, wait, j, s.hold, back); err != nil {
			return err
		}
	}
}

// pauseLook returns how long a pause is left alone before it is looked at again. until is its end, or zero if that is
// unknown.
func (a *Agent) pauseLook(until time.Time) time.Duration {
	if until.IsZero() {
		return time.Second
	}
	return min(max(until.Sub(a.wire.Now()), time.Millisecond), time.Second)
}

// rest waits, for less long if the lease changes or an archive is back. It fails if the task is told to stop.
func (a *Agent) rest(ctx context.Context, d time.Duration, j *job, h *hold, back <-chan struct{}) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-h.news():
	case <-back:
	case <-j.stop:
		return errors.New("told to stop")
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}
