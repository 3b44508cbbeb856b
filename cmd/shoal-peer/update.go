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
	trial  string        // this program's version, if it is on probation
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
	take    bool // the volunteer says so
	swapped bool
}

func newUpdater(s *station, minute time.Duration) *updater {
	return &updater{s: s, folder: programs.At(s.settings().Data), log: s.log, minute: minute, times: release.InMinutes(minute), trial: os.Getenv(envTrial), poke: make(chan struct{}, 1), begun: time.Now()}
}

// agent is the one whose network's releases are taken: that of the network in the data folder itself, or the first of the others.
func (u *updater) agent() *peer.Agent {
	if p := u.s.running(); p != nil {
		if list := p.nets.all(); len(list) > 0 {
			return list[0].agent
		}
	}
	return nil
}

// setting is what holds about updates.
func (u *updater) setting() string {
	if _, err := release.Parse(version.String()); err != nil {
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
	for {
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-u.poke:
			t.Stop()
		case <-t.C:
		}
		ready, err := u.look(ctx)
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
			wait = u.minute
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
		now := programs.Signs{Version: u.trial, Sign: release.Sign{
			Paused: st.Mode == queue.Paused.String() || st.Mode == queue.Drain.String() || st.Hold != "",
			Member: st.Home.At != "", Taken: last.Taken || st.Counters.Accepted > 0 || len(st.Running) > 0, Finished: st.Counters.Updated > 0}}
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

func (u *updater) wake() { wake(u.poke) }

// look asks for a newer version, and fetches it. ready tells that one is here.
func (u *updater) look(ctx context.Context) (ready bool, err error) {
	a := u.agent()
	if a == nil || a.Wire() == nil {
		return false, nil
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
	onTrial := st.Trial != nil && st.Trial.Version == version.String()
	report := release.Report{Version: version.String(), System: runtime.GOOS + "-" + runtime.GOARCH, Setting: setting, Trial: onTrial, Falls: st.Falls()}
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
	u.mu.Lock()
	u.offer, u.asked, u.in = o, time.Now(), release.In(o.Version, node.ID().String(), o.Share)
	in, take, stale := u.in, u.take, time.Since(u.listed) >= listEvery*u.minute
	u.mu.Unlock()
	_, refused := st.Refuses(o.Version)
	none := st.Trial != nil || refused || !release.Newer(o.Version, version.String()) || !in && !take
	switch {
	case setting == updateBuilt || setting == updateBy || setting == updateOff && !take:
		return false, nil
	case st.Trial != nil && !onTrial: // it could not be started; perhaps it can now
		return time.Since(u.begun) >= updateEvery*u.minute, nil
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
	return u.fetch(ctx, c, &p)
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

// fetch downloads a program, and checks it.
func (u *updater) fetch(ctx context.Context, c carry.Client, p *trusted.Program) (ready bool, err error) {
	if u.s.status().Hold != "" {
		return false, nil // a limit, a battery, a link that is paid by volume
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
		if u.s.status().Hold != "" {
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

// may reports whether the version that is here may take over now: its volunteer says so, nothing is crawled, or it has waited for a day.
func (u *updater) may() bool {
	u.mu.Lock()
	take := u.take
	u.mu.Unlock()
	if take {
		return true
	}
	if u.setting() != updateAuto {
		return false
	}
	st := u.s.status()
	if st.Mode != queue.Open.String() { // a pause leaves the computer alone, and an order of its volunteer would end with the program
		return false
	}
	if len(st.Running)+len(st.Waiting) == 0 {
		return true
	}
	rec, err := u.folder.Load()
	return err == nil && time.Since(rec.Since) > updateLatest*u.minute
}

// swap lets running tasks come to their end, and notes that the new version runs next.
func (u *updater) swap(ctx context.Context) error {
	p := u.s.running()
	if p == nil {
		return errNotJoined
	}
	finish := u.s.status().Mode == queue.Open.String()
	if finish {
		if err := p.do("finish", nil); err != nil {
			return err
		}
		for end := time.Now().Add(finishLatest * u.minute); time.Now().Before(end) && len(u.s.status().Running) > 0; {
			if err := pause(ctx, lookEvery(u.minute)); err != nil {
				return err
			}
		}
	}
	if err := u.change(begun); err != nil { // the volunteer may have refused it meanwhile
		if finish {
			err = errors.Join(err, p.do("resume", nil))
		}
		return err
	}
	u.log.Info("makes room for a new version")
	u.mu.Lock()
	u.swapped = true
	u.mu.Unlock()
	return nil
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
