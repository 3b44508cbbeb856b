package manager_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"shoal/channel"
	"shoal/channel/badgerdb"
	"shoal/channel/lease"
	"shoal/internal/lab/standstill"
	"shoal/internal/member"
	"shoal/manager"
	"shoal/manager/archive"
	"shoal/manager/desk"
	"shoal/recrawl"
)

// bench is a manager with a real database and a real archive in a folder.
type bench struct {
	dir   string
	keys  *member.Keys
	swarm *swarm
	m     *manager.Manager
	d     *desk.Desk
	db    *badgerdb.DB
	a     *archive.Archive
	stop  func()
	over  chan error // what ended the manager
}

func open(t *testing.T, dir string, edit func(*manager.Config, *swarm), instead ...manager.Swarm) *bench {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	keys, err := member.LoadOrCreate(dir+"/keys", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	db, err := badgerdb.Open(ctx, badgerdb.Default(dir+"/db"))
	if err != nil {
		t.Fatal(err)
	}
	cfg := manager.Default()
	cfg.Tick = 20 * time.Millisecond
	cfg.Options.MinTicks, cfg.Options.Prior = 2, recrawl.Prior(20, .5)
	cfg.Terms = lease.Terms{Term: time.Minute, Slack: 20 * time.Millisecond, Backoff: 20 * time.Millisecond, MaxBackoff: 50 * time.Millisecond, Handouts: 3}
	s := &swarm{t: t, rng: rand.New(rand.NewPCG(1, 2)), holds: 20, placed: map[channel.ID]int{}, running: map[string]int{}}
	if edit != nil {
		edit(&cfg, s)
	}
	v := member.NewVerifier(keys.Network)
	a, err := archive.Open(ctx, archive.Config{Dir: dir + "/archive", Terms: cfg.Terms, Verify: v.VerifyTask, AccountOf: s.accountOf})
	if err != nil {
		t.Fatal(err)
	}
	s.archive = a
	cfg.Store, cfg.Archive, cfg.Evidence, cfg.Swarm, cfg.Sign, cfg.Network, cfg.ArchiveID = db, a, a.Evidence, s, keys.Authority.SignHeader, keys.Network, "archive"
	if s.store != nil {
		cfg.Store = s.store(db)
	}
	for _, other := range instead {
		cfg.Swarm = other
	}
	m, err := manager.New(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	d, err := desk.Open(ctx, desk.Config{Store: db, Running: m, Archive: a, Members: s.members})
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{dir: dir, keys: keys, swarm: s, m: m, d: d, db: db, a: a, over: make(chan error, 1)}
	var runs, stores sync.WaitGroup
	start := make(chan struct{})
	actx, stopArchive := context.WithCancel(t.Context())
	runs.Go(func() { <-start; b.over <- m.Run(ctx) })
	stores.Go(func() { _ = a.Run(actx) })
	var once sync.Once
	b.stop = func() {
		once.Do(func() {
			cancel()
			runs.Wait()
			s.crawls.Wait() // they work with the archive
			stopArchive()
			stores.Wait()
			if err := errors.Join(a.Close(), db.Close()); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(b.stop)
	t.Cleanup(func() {
		if t.Failed() {
			b.tell(t)
		}
	})
	close(start)
	return b
}

// tell says how the manager of a test that has failed stands.
func (b *bench) tell(t *testing.T) {
	t.Helper()
	ctx := context.Background()
	i, err := b.m.Strategy(ctx)
	t.Logf("notices: %q; strategy: %+v, %v", b.m.Overview().Notices, i, err)
	chs, err := b.db.List(ctx, 0, 4)
	if err != nil {
		t.Log(err)
	}
	for _, ch := range chs {
		row, events, _ := b.row(ch.ID)
		t.Logf("channel %d: %+v\nnow %+v\n%+v", ch.ID, ch, row, events)
	}
}

// row is what the desk shows of a channel; false: there is none.
func (b *bench) row(id channel.ID) (desk.Row, []desk.Event, bool) {
	r, events, err := b.d.Row(context.Background(), id)
	return r, events, err == nil
}

// add adds channels, and returns when the overview counts them: one of before would show that none is left to be crawled.
func (b *bench) add(t *testing.T, hosts ...string) []channel.ID {
	t.Helper()
	before := b.m.Overview().Channels
	var chs []channel.Channel
	for i, h := range hosts {
		dir := fmt.Sprintf("/d%d/", i)
		chs = append(chs, channel.Channel{State: channel.Active, Added: time.Now(), Seeds: []string{h + dir},
			Scope: channel.Scope{Kind: channel.Directory, Host: h, Dirs: []string{dir}}})
	}
	ids, refused, err := b.m.AddChannels(t.Context(), chs)
	if err != nil || len(refused) > 0 {
		t.Fatal(err, refused)
	}
	until(t, "be counted", func() bool { return b.m.Overview().Channels >= before+len(hosts) })
	return ids
}

// waitsLong has tasks wait for their start for half an hour and more, in ticks of 20 ms. Else it is two seconds, which is too short where a busy machine must not
// have a task handed out twice.
func waitsLong(c *manager.Config) {
	c.Options.Initial, c.Options.Prior, c.Options.Relearn = []float64{100_000, 200_000}, recrawl.Prior(200_000, .5), 0
}

// until waits for a condition, and fails the test where it does not come.
func until(t *testing.T, what string, f func() bool) {
	t.Helper()
	w := standstill.Of(os.Getpid())
	for end := time.Now().Add(60 * time.Second); time.Now().Before(end) || w.For() < 60*time.Second; time.Sleep(5 * time.Millisecond) {
		if f() {
			return
		}
	}
	t.Fatalf("never came: %s", what)
}

// settled waits until no task is out and none waits to be handed out again. It asks the loop: what the overview shows may be from before the
// caller's last step, and leaves out what waits.
func (b *bench) settled(t *testing.T) {
	t.Helper()
	until(t, "tasks to end", func() bool {
		i, err := b.m.Strategy(t.Context())
		return err == nil && i.Sequencers.Sites == 0 && i.Sequencers.NowWaits == 0
	})
}

func TestEveryChannelIsRecrawled(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), nil)
	var hosts []string
	for i := range 20 {
		hosts = append(hosts, fmt.Sprintf("https://h%d.example", i/2)) // two channels a host
	}
	ids := b.add(t, hosts...)
	until(t, "an update of every channel", func() bool { return b.m.Overview().Never == 0 && b.m.Overview().Updates >= 20 })
	b.swarm.mu.Lock()
	if b.swarm.overlap > 0 {
		t.Errorf("%d times two tasks ran on one host at once", b.swarm.overlap)
	}
	b.swarm.mu.Unlock()
	row, events, ok := b.row(ids[3])
	if !ok || row.Visits == 0 || len(events) < 2 {
		t.Errorf("channel %d: %+v, %d events", ids[3], row, len(events))
	}
	o := b.m.Overview()
	if o.Errors["timeout"] == 0 || o.RTTRandomMS <= o.RTTChosenMS || o.Lookups == 0 || o.BytesDown == 0 {
		t.Errorf("the overview tells %+v", o)
	}
}

func TestGoesOnAfterARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := open(t, dir, nil)
	ids := b.add(t, "https://a.example", "https://b.example")
	until(t, "two updates", func() bool { return b.m.Overview().Updates >= 2 && b.m.Overview().Never == 0 })
	b.stop()
	before := 0
	{
		db, err := badgerdb.Open(t.Context(), badgerdb.Default(dir+"/db"))
		if err != nil {
			t.Fatal(err)
		}
		ch, err := db.Channel(t.Context(), ids[0])
		if err != nil {
			t.Fatal(err)
		}
		before = ch.Learnt.Visits
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	b = open(t, dir, nil)
	if o := b.m.Overview(); o.Channels != 2 || o.Never != 0 {
		t.Errorf("after the restart: %d channels, %d never crawled", o.Channels, o.Never)
	}
	until(t, "another update", func() bool { r, _, _ := b.row(ids[0]); return r.Visits > before })
}

func TestRefusalsPushBackAndLoseNothing(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), func(c *manager.Config, s *swarm) { s.refuse = true })
	b.add(t, "https://a.example", "https://b.example", "https://c.example")
	until(t, "refusals", func() bool { return b.m.Overview().Refused >= 5 })
	b.swarm.mu.Lock()
	b.swarm.refuse = false
	b.swarm.mu.Unlock()
	until(t, "an update of every channel", func() bool { return b.m.Overview().Never == 0 })
}

func TestVanishedPeersTasksAreHandedOutAgainAndThenGivenUp(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), func(c *manager.Config, s *swarm) { c.Terms.Term, s.brief, s.vanish = 300*time.Millisecond, true, true })
	ids := b.add(t, "https://a.example")
	until(t, "the channel is given up", func() bool { r, _, ok := b.row(ids[0]); return ok && r.State == "given up" })
	b.swarm.mu.Lock()
	if n := b.swarm.placed[ids[0]]; n < 3 || n > 12 { // two accounts may have the same of the bits that tell them apart
		t.Errorf("handed out %d times, wanted about 3", n)
	}
	b.swarm.vanish = false
	b.swarm.mu.Unlock()
	if err := b.m.CrawlNow(t.Context(), ids[0]); err != nil {
		t.Fatal(err)
	}
	until(t, "an update after an operator asked", func() bool { return b.m.Overview().Updates > 0 })
	if r, _, _ := b.row(ids[0]); r.State != "active" {
		t.Errorf("after an update it is %s (%s)", r.State, r.Reason)
	}
}

// A task that a peer took and never claimed is handed out again when its latest start has passed, by a manager that was started anew meanwhile
// too, and not before: the peer might still begin.
func TestUnclaimedTasksAreHandedOutAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := open(t, dir, func(c *manager.Config, s *swarm) { c.Terms.Handouts, s.ignore = 100, true })
	ids := b.add(t, "https://a.example")
	until(t, "the task is placed", func() bool { return b.m.Overview().Accepted >= 1 })
	b.stop()
	was := leaseOf(t, dir, ids[0])
	for tries := 1; !was.Out() && tries < 10; tries++ { // stopped between two generations: on a busy machine the first may be over
		b = open(t, dir, func(c *manager.Config, s *swarm) { c.Terms.Handouts, s.ignore = 100, true })
		before := b.m.Overview().Accepted // by the managers before
		until(t, "the task is placed", func() bool { return b.m.Overview().Accepted > before })
		b.stop()
		was = leaseOf(t, dir, ids[0])
	}
	if !was.Out() || was.Deadline().IsZero() {
		t.Fatalf("after the stop it is %v, generation %d, until %v", was.Phase, was.Gen, was.Deadline())
	}
	b = open(t, dir, func(c *manager.Config, _ *swarm) { c.Terms.Handouts = 100 })
	until(t, "an update", func() bool { return b.m.Overview().Updates > 0 })
	b.stop()
	changes, _, err := reopened(t, dir).Feed(t.Context(), "", archive.MaxFeed)
	if err != nil || len(changes) == 0 {
		t.Fatalf("feed: %v", err)
	}
	if e := changes[0]; e.Event.Kind != lease.Claimed || e.Gen <= was.Gen || e.When.Before(was.Deadline()) {
		t.Errorf("first %v of generation %d at %v; generation %d might have been claimed until %v", e.Event.Kind, e.Gen, e.When, was.Gen, was.Deadline())
	}
}

// A task of which no peer has said that it took it is taken back, and handed out again before its latest start.
func TestUnsureTasksAreTakenBack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := open(t, dir, func(c *manager.Config, s *swarm) { c.Tick, s.silent = time.Second, true })
	b.add(t, "https://a.example")
	until(t, "an update", func() bool { return b.m.Overview().Updates > 0 })
	b.stop()
	changes, _, err := reopened(t, dir).Feed(t.Context(), "", archive.MaxFeed)
	if err != nil || len(changes) < 2 {
		t.Fatalf("feed: %v, %v", changes, err)
	}
	if back, next := changes[0], changes[1]; back.Event.Kind != lease.Released || back.Peer != "" || next.Event.Kind != lease.Claimed || next.Gen <= back.Gen {
		t.Errorf("%v of generation %d, then %v of generation %d", back.Event.Kind, back.Gen, next.Event.Kind, next.Gen)
	}
}

// The overlay is told of tasks that were taken and never claimed, and of those that brought pages.
func TestTheOverlayIsToldOfSwallowers(t *testing.T) {
	t.Parallel()
	var s *swarm
	b := open(t, t.TempDir(), func(_ *manager.Config, w *swarm) { s, w.ignore = w, true })
	b.add(t, "https://a.example")
	until(t, "a task was swallowed", func() bool { _, wasted := s.told(); return wasted > 0 })
	if delivered, _ := s.told(); delivered > 0 {
		t.Errorf("%d deliveries by a peer that claimed nothing", delivered)
	}
	s.mu.Lock()
	s.ignore = false
	s.mu.Unlock()
	until(t, "a delivery", func() bool { delivered, _ := s.told(); return delivered > 0 })
}

// The overlay is told of peers that gave a task back, so that it does not offer them the task again before they have told of their queue.
func TestTheOverlayIsToldOfLeavers(t *testing.T) {
	t.Parallel()
	var s *swarm
	b := open(t, t.TempDir(), func(_ *manager.Config, w *swarm) { s, w.leaves = w, true })
	b.add(t, "https://a.example")
	until(t, "a task was given back and crawled", func() bool {
		delivered, _ := s.told()
		s.mu.Lock()
		defer s.mu.Unlock()
		return delivered > 0 && s.gaveBack == 1
	})
}

// A host is left alone after a task was given back or its lease has ended, as after a report: the next peer does not know when the one before it sent
// its last request.
func TestHostRestsBetweenTwoPeers(t *testing.T) {
	t.Parallel()
	const gap = 700 * time.Millisecond
	for name, edit := range map[string]func(*manager.Config, *swarm){
		"released": func(_ *manager.Config, s *swarm) { s.leaves = true },
		"lapsed":   func(c *manager.Config, s *swarm) { c.Terms.Term, s.brief, s.vanish = 300*time.Millisecond, true, true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := open(t, t.TempDir(), func(c *manager.Config, s *swarm) { edit(c, s); c.Gap = gap })
			ids := b.add(t, "https://a.example")
			var ended, claimed time.Time
			until(t, "another peer claims", func() bool { // on a busy machine that may be some generations later
				_, events, _ := b.row(ids[0])
				ended = time.Time{}
				for _, e := range slices.Backward(events) { // the latest is the first
					switch {
					case e.What == name && ended.IsZero():
						ended = e.At
					case e.What == "claimed" && !ended.IsZero():
						claimed = e.At
						return true
					}
				}
				return false
			})
			if d := claimed.Sub(ended); d < gap-10*time.Millisecond {
				t.Errorf("another peer claimed it %v after it was %s, and the host wants %v", d, name, gap)
			}
		})
	}
}

// leaseOf is what a stopped manager's database has of a channel's lease.
func leaseOf(t *testing.T, dir string, id channel.ID) lease.Issue {
	t.Helper()
	db, err := badgerdb.Open(t.Context(), badgerdb.Default(dir+"/db"))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := db.Lease(t.Context(), id)
	if err = errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	i, err := lease.ParseIssue(raw)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// reopened is a stopped manager's archive.
func reopened(t *testing.T, dir string) *archive.Archive {
	t.Helper()
	a, err := archive.Open(t.Context(), archive.Config{Dir: dir + "/archive", Verify: func(time.Time, channel.Signed) (channel.Header, error) {
		return channel.Header{}, errors.New("takes no tasks")
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	return a
}

// The archive is told how far its feed was taken in, so that it may forget that, and what it forgets is what the manager has.
func TestFeedIsForgottenWhenTakenIn(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), nil)
	b.add(t, "https://a.example", "https://b.example")
	until(t, "updates", func() bool { return b.m.Overview().Updates >= 4 })
	entries, _, err := b.a.Feed(t.Context(), "", 1)
	if err != nil || len(entries) == 0 {
		t.Fatalf("nothing in the feed: %v", err)
	}
	until(t, "the first entry of the feed is forgotten", func() bool {
		if _, err := b.a.Retain(t.Context(), archive.Retention{Feed: time.Nanosecond}); err != nil {
			t.Fatal(err)
		}
		_, _, err := b.a.Feed(t.Context(), entries[0].Cursor, 1)
		return errors.Is(err, archive.ErrTrimmed)
	})
	n := b.m.Overview().Updates
	until(t, "further updates", func() bool { return b.m.Overview().Updates > n+2 })
}

func TestPauseAndStrategy(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), nil)
	ids := b.add(t, "https://a.example")
	until(t, "an update", func() bool { return b.m.Overview().Updates > 0 })
	if err := b.m.Pause(t.Context(), ids[0], true); err != nil {
		t.Fatal(err)
	}
	until(t, "the pause shows", func() bool { r, _, _ := b.row(ids[0]); return r.State == "paused" && !r.Out })
	placed := func() int { b.swarm.mu.Lock(); defer b.swarm.mu.Unlock(); return b.swarm.placed[ids[0]] }
	b.settled(t)
	n := placed()
	if _, err := b.d.SetStrategy(t.Context(), desk.StrategyAsk{Name: "iir"}); err != nil {
		t.Fatal(err)
	}
	until(t, "the strategy shows", func() bool { return b.m.Overview().Strategy == "iir" })
	looks(t, b)
	if now := placed(); now != n {
		t.Errorf("a paused channel was handed out: %d, then %d", n, now)
	}
	if _, err := b.d.SetStrategy(t.Context(), desk.StrategyAsk{Name: "nonsense"}); err == nil {
		t.Error("an unknown strategy is taken")
	}
	if err := b.m.CrawlNow(t.Context(), 999); !errors.Is(err, channel.ErrUnknown) {
		t.Errorf("crawl now of an unknown channel: %v", err)
	}
}
