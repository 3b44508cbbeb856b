package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	libp2ppeer "github.com/libp2p/go-libp2p/core/peer"

	"shoal/internal/release"
	"shoal/internal/release/carry"
	"shoal/internal/release/programs"
	"shoal/internal/release/trusted"
	"shoal/internal/service"
	"shoal/internal/version"
	"shoal/internal/wire"
	"shoal/peer"
	"shoal/peer/limit"
	"shoal/peer/queue"
)

// What a volunteer sets about updates, and what the program finds.
const (
	updateAuto  = "auto"
	updateAsk   = "ask"
	updateOff   = "off"
	updateBy    = "package" // a package manager keeps the program
	updateBuilt = "built"   // the program is no release
)

// Waits of updates, in minutes.
const (
	updateEvery  = 60      // between two questions for a newer version
	updateRetry  = 10      // after one that failed
	updateLatest = 24 * 60 // from when on a version that is here is taken although there is work
	listEvery    = 6 * 60  // between two looks at the signed list where nothing new is offered: it tells whether the server holds updates back
	finishLatest = 10      // within which running tasks may come to their end before the rest is handed over
)

// updater asks for newer versions, fetches them, and has the program make room for them. It runs beside the peer.
type updater struct {
	s      *station
	folder programs.Folder
	log    *slog.Logger
	minute time.Duration
	times  release.Times
	own    string        // this program's version
	trial  string        // the same, if it is on probation
	poke   chan struct{} // look at once
	begun  time.Time

	record sync.Mutex // one change of the record of updates at a time

	mu      sync.Mutex // guards what follows
	offer   carry.Offer
	in      bool // this computer is among those that the offer is for
	notes   string
	asked   time.Time // when the server last answered
	listed  time.Time // when the signed list was last found fresh
	failed  error     // why the last look came to nothing
	have    int64     // of the download
	length  int64
	take    bool   // the volunteer says so
	takes   string // of which version
	swapped bool
}

func newUpdater(s *station, minute time.Duration) *updater {
	return &updater{s: s, folder: programs.At(s.settings().Data), log: s.log, minute: minute, times: release.InMinutes(minute), own: version.String(), trial: os.Getenv(envTrial), poke: make(chan struct{}, 1), begun: time.Now()}
}

// errResting is returned while the network that brings the updates is not crawled for. Another network's word is not taken in its place: whose programs run
// here was chosen by joining that one first.
var errResting = errors.New("the network that brings the updates is not crawled for now")

// agent is the one whose network's releases are taken: that of the network which was joined first, until it is left. It is nil while none runs at all.
func (u *updater) agent() (*peer.Agent, error) {
	p := u.s.running()
	if p == nil {
		return nil, nil
	}
	list := p.nets.all()
	if len(list) == 0 {
		return nil, nil
	}
	data := u.s.settings().Data
	st, err := u.folder.Load()
	if err != nil {
		return nil, err
	}
	m, is, err := peer.Oldest(data, st.Network)
	if err != nil {
		return nil, fmt.Errorf("which network brings the updates cannot be told: %w", err)
	}
	if !is { // all are being left
		return nil, nil
	}
	if name := m.Network.String(); name != st.Network && (st.Network != "" || m.Dir != data) { // others may be joined and left: it stays this one
		if err := u.change(func(st *programs.State) error { st.Network = name; return nil }); err != nil {
			return nil, err
		}
	}
	if i := slices.IndexFunc(list, func(n *network) bool { return n.at.Dir == m.Dir }); i >= 0 {
		return list[i].agent, nil
	}
	return nil, errResting
}

// setting is what holds about updates.
func (u *updater) setting() string {
	if _, err := release.Parse(u.own); err != nil {
		return updateBuilt
	}
	if service.PackagedBy(cmp.Or(os.Getenv(envInstalled), installedPath())) != "" {
		return updateBy
	}
	return u.s.settings().Update
}

// run looks for newer versions until ctx ends. swap has the program make room.
func (u *updater) run(ctx context.Context, swap func()) {
	var wg sync.WaitGroup
	defer wg.Wait()
	if u.trial != "" {
		wg.Go(func() { u.tell(ctx) })
	}
	wait := u.minute
	var looked time.Time // when a version was found that waits to take over; zero: none waits
	for {
		t, poked := time.NewTimer(wait), false
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-u.poke:
			t.Stop()
			poked = true
		case <-t.C:
		}
		if !poked && !looked.IsZero() && time.Since(looked) < updateEvery*u.minute && !u.may() {
			continue // only the moment is waited for: the server was asked a while ago
		}
		ready, err := u.look(ctx)
		looked = time.Time{}
		u.mu.Lock()
		u.failed = err
		u.mu.Unlock()
		switch {
		case ctx.Err() != nil:
			return
		case ready && u.may():
			if err := u.swap(ctx); err == nil {
				swap()
				return
			} else if ctx.Err() == nil {
				u.log.Warn("the new version cannot be taken", "err", err)
			}
			wait = updateRetry * u.minute
		case ready:
			wait, looked = u.minute, time.Now()
		case err != nil:
			u.log.Warn("no update", "err", err)
			wait = updateRetry * u.minute
		default:
			wait = updateEvery * u.minute
		}
		wait += time.Duration(rand.Int64N(int64(wait/10 + 1))) // not all computers at once
	}
}

// tell tells the launcher how this version does, while it is on probation.
func (u *updater) tell(ctx context.Context) {
	t := time.NewTicker(lookEvery(u.minute))
	defer t.Stop()
	var last programs.Signs
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		st := u.s.status()
		now := programs.Signs{Version: u.trial, Sign: signOf(st, last.Taken)}
		if now == last {
			continue
		}
		if err := u.folder.Tell(now); err != nil {
			u.log.Debug("how the new version does is not told", "err", err)
			continue
		}
		if last = now; st.Counters.Updated > 0 {
			u.wake() // the manager learns that it runs
		}
	}
}

// signOf is what a status shows of a version on probation. taken tells that it had taken a task before.
func signOf(st *status, taken bool) release.Sign {
	c := &st.Counters
	s := release.Sign{
		Paused: resting(st),
		Member: connected(st), Taken: taken || c.Accepted > 0 || len(st.Running) > 0, Finished: c.Updated > 0, Ended: c.Updated + c.Failed}
	mislaid := c.Lost+c.Dropped > 0 && c.Updated+c.Failed+c.Stopped == 0 // all that it took came to nothing
	s.Idle = s.Taken && len(st.Running)+len(st.Waiting) == 0 && !mislaid
	return s
}

// resting reports whether no network is worked for, by an order or a limit. One that is worked for shows what there is to see of a version.
func resting(st *status) bool {
	rests := func(x *peer.Status) bool {
		return x.Mode == queue.Paused.String() || x.Mode == queue.Drain.String() || x.Hold != ""
	}
	for i := range st.Networks {
		if !rests(&st.Networks[i].Status) {
			return false
		}
	}
	return len(st.Networks) > 0 || rests(&st.Status)
}

// connected reports whether a network's server is. One company's server that is away says nothing of a version.
func connected(st *status) bool {
	return st.Home.At != "" || slices.ContainsFunc(st.Networks, func(x networkTold) bool { return x.Home.At != "" })
}

func (u *updater) wake() { wake(u.poke) }

// look asks for a newer version, and fetches it. ready tells that one is here.
func (u *updater) look(ctx context.Context) (ready bool, err error) {
	a, err := u.agent()
	if err != nil || a == nil || a.Wire() == nil {
		return false, err
	}
	node := a.Wire()
	st, err := u.folder.Load()
	if err != nil {
		return false, err
	}
	servers := updateServers(node)
	if len(servers) == 0 {
		return false, nil
	}
	setting := u.setting()
	onTrial := st.Trial != nil && st.Trial.Version == u.own
	report := release.Report{Version: u.own, System: runtime.GOOS + "-" + runtime.GOARCH, Setting: setting, Trial: onTrial, Falls: st.Falls()}
	var c carry.Client
	var o carry.Offer
	for _, id := range servers {
		c = carry.Client{Node: node, Manager: id}
		if o, err = c.Tell(ctx, report); err == nil || errors.Is(err, wire.NotFound) || ctx.Err() != nil {
			break
		}
	}
	if errors.Is(err, wire.NotFound) { // of a version that knows no updates
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("the company's server does not answer: %w", err)
	}
	in, take, stale := u.offered(o, node.ID().String())
	_, refused := st.Refuses(o.Version)
	if !refused && (take || in && setting == updateAuto) && st.Trial.Stuck() {
		if err := u.overtake(&st, o.Version); err != nil {
			return false, err
		}
	}
	none := st.Trial != nil || refused || !release.Newer(o.Version, u.own) || !in && !take
	switch {
	case setting == updateBuilt || setting == updateBy || setting == updateOff && !take:
		return false, nil
	case st.Trial != nil && !onTrial: // it could not be started; perhaps it can now
		return take || time.Since(u.begun) >= startAgain(st.Trial.Failed)*u.minute, nil
	case none && !stale:
		return false, nil
	case !none && st.Next != nil && st.Next.Version == o.Version:
		if err := u.folder.Verify(st.Next); err == nil {
			return true, nil
		} else if err := u.damaged(o.Version, err); err != nil {
			return false, err
		}
	}
	list, err := u.list(ctx, node, c)
	if none || err != nil || list == nil {
		return false, err
	}
	p, ok := list[release.Target(o.Version, runtime.GOOS, runtime.GOARCH)]
	if !ok {
		return false, fmt.Errorf("version %s is rolled out, and no program of it for %s-%s is signed", o.Version, runtime.GOOS, runtime.GOARCH)
	}
	u.mu.Lock()
	u.notes = p.Notes
	u.mu.Unlock()
	if setting == updateAsk && !take {
		return false, nil
	}
	held := func() bool { return a.Status().Hold != "" } // a limit, a battery, a link that is paid by volume
	return u.fetch(ctx, c, &p, held)
}

// offered notes what the company's server offers to the peer of a name. That a version is to be taken was said of that one: a newer one is another.
func (u *updater) offered(o carry.Offer, name string) (in, take, stale bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.offer, u.asked, u.in = o, time.Now(), release.In(o.Version, name, o.Share)
	if release.Newer(o.Version, u.takes) {
		u.take, u.takes = false, ""
	}
	return u.in, u.take, time.Since(u.listed) >= listEvery*u.minute
}

// startAgain is after how many minutes a version is tried again of which so many starts came to nothing: an hour at first, then longer and longer, a day at
// most. Each try ends what this program does.
func startAgain(failed int) time.Duration {
	return time.Duration(min(updateEvery<<min(max(failed-1, 0), 10), updateLatest))
}

// overtake has a newer version take the place of one that cannot be started.
func (u *updater) overtake(st *programs.State, offered string) error {
	stuck := *st.Trial
	if !release.Newer(offered, stuck.Version) {
		return nil
	}
	u.log.Warn("a version that cannot be started makes room for a newer one", "version", stuck.Version, "newer", offered, "why", stuck.Why)
	return u.change(func(now *programs.State) error {
		now.Overtake(offered)
		*st = *now
		return nil
	})
}

// updateServers are the servers to ask for updates, at most mostAsked: the one that is connected, then the network's managers. All of them serve the same list.
func updateServers(node *wire.Node) (ids []libp2ppeer.ID) {
	d, _ := node.Document()
	home, _ := node.Home()
	names := []string{home.At}
	for _, m := range d.Managers {
		names = append(names, m.Peer)
	}
	for _, name := range names {
		if id, err := libp2ppeer.Decode(name); err == nil && !slices.Contains(ids, id) && len(ids) < mostAsked {
			ids = append(ids, id)
		}
	}
	return ids
}

// mostAsked bounds how many servers are asked in one look.
const mostAsked = 3

// change changes the record of updates.
func (u *updater) change(f func(*programs.State) error) error {
	u.record.Lock()
	defer u.record.Unlock()
	return u.folder.Change(f)
}

// damaged forgets a version that was here and is not what was signed any more. It is fetched anew: to try it would be to refuse it for ever.
func (u *updater) damaged(which string, why error) error {
	u.log.Warn("the new version is fetched anew", "version", which, "err", why)
	return u.change(func(st *programs.State) error {
		if st.Next != nil && st.Next.Version == which {
			st.Next = nil
		}
		return nil
	})
}

// list returns the programs that offline keys have signed; nil where the network signs none.
func (u *updater) list(ctx context.Context, node *wire.Node, c carry.Client) (map[string]trusted.Program, error) {
	now := node.Now()
	if d, _ := node.Document(); d.Issued.After(now) { // a clock that is behind must not make old lists look new
		now = d.Issued
	}
	network := node.Network()
	r := trusted.Reader{Dir: filepath.Join(u.s.settings().Data, "updates", network.String()), Network: network, Damaged: func(name string) {
		u.log.Warn("a kept file of signed updates is not signed as it must be, perhaps by a fault of the disk; it is fetched anew", "file", name)
	}}
	list, err := r.Update(ctx, now, c.File)
	if errors.Is(err, trusted.ErrNone) {
		return nil, nil
	}
	if err == nil {
		u.mu.Lock()
		u.listed = time.Now()
		u.mu.Unlock()
	}
	return list, err
}

// errNoRoom is returned where the disk has no room for an update.
var errNoRoom = errors.New("no room for the update")

// fetch downloads a program, and checks it. held reports whether the agent that it comes by is on hold.
func (u *updater) fetch(ctx context.Context, c carry.Client, p *trusted.Program, held func() bool) (ready bool, err error) {
	if held() {
		return false, nil
	}
	set := u.s.settings()
	have := u.folder.Have(p)
	need := p.Length - have + p.Size + int64(set.MinFreeMiB)<<20
	if free, err := limit.FreeDisk(set.Data); err == nil && free < need {
		return false, fmt.Errorf("%w: it needs %d MiB beside the %d that you keep free, and %d are free; make room, or lower min_free_mib", errNoRoom, (p.Length-have+p.Size)>>20+1, set.MinFreeMiB, free>>20)
	}
	st, err := u.folder.Load()
	if err != nil {
		return false, err
	}
	u.folder.Tidy(&st, p)
	u.progress(have, p.Length)
	defer u.progress(0, 0)
	err = c.Download(ctx, p.Target, have, p.Length, func(b []byte) error {
		if held() {
			return errHeld
		}
		if err := u.folder.Put(p, have, b); err != nil {
			return err
		}
		have += int64(len(b))
		u.progress(have, p.Length)
		return nil
	})
	if errors.Is(err, errHeld) {
		return false, nil // it goes on from there
	}
	if err != nil {
		return false, err
	}
	next, err := u.folder.Finish(p, runtime.GOOS, runtime.GOARCH)
	if errors.Is(err, programs.ErrPlatform) {
		err = errors.Join(err, u.change(func(st *programs.State) error {
			st.Refuse(p.Version, time.Now())
			return nil
		}))
	}
	if err != nil {
		return false, err
	}
	if err := u.change(func(st *programs.State) error { return arrived(st, next) }); err != nil {
		return false, err
	}
	u.log.Info("a new version is here", "version", next.Version)
	return true, nil
}

// arrived notes that a version is here, unless its volunteer has refused it while it was fetched.
func arrived(st *programs.State, next *programs.Program) error {
	if _, refused := st.Refuses(next.Version); refused {
		return fmt.Errorf("version %s was refused while it was fetched", next.Version)
	}
	st.Next, st.Since = next, time.Now()
	return nil
}

// errHeld stops a download while the peer may fetch nothing.
var errHeld = errors.New("the peer is on hold")

func (u *updater) progress(have, length int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.have, u.length = have, length
}

// begun puts the new version on trial.
func begun(st *programs.State) error {
	if st.Trial != nil { // it could not be started the last time
		return nil
	}
	if st.Next == nil {
		return errors.New("there is no new version any more")
	}
	st.Begin(version.String(), time.Now())
	return nil
}

// done reports whether the program is to make room.
func (u *updater) done() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.swapped
}
