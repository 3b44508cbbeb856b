package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"shoal/internal/member"
	"shoal/internal/plain"
	"shoal/internal/release"
	"shoal/internal/release/programs"
	"shoal/internal/wire"
	"shoal/peer"
)

// This file has the program that was installed become the version that an update brought. docs/decisions/0037-updates.md says how.

// errSwap ends a peer that makes room for another version of its program.
var errSwap = errors.New("another version of the program takes over")

// swapStatus is the exit status of a program that makes room for another version.
const swapStatus = 75

// Variables by which the installed program tells another version of it how it runs.
const (
	envInstalled = "SHOAL_INSTALLED_PROGRAM" // path of the installed program
	envTrial     = "SHOAL_PROGRAM_ON_TRIAL"  // its version, while it is on probation
	envLeash     = "SHOAL_PROGRAM_LEASH"     // it ends when its standard input does
)

// How long a program may take to end before it is killed: handing tasks over takes grace_s, 10 s unless the settings say otherwise. One that did not do well
// gets no longer than that.
const (
	endWait  = 60 * time.Second
	fallWait = 12 * time.Second
)

// launcher runs the version that is to run: this program itself, or another one.
type launcher struct {
	own    string // version of this program
	folder programs.Folder
	data   string
	times  release.Times
	minute time.Duration
	log    *slog.Logger
	s      streams
	args   []string // command line of a version that runs beside this program
}

// launched runs here, or has another version take over. It is called once the settings are known.
func launched(ctx context.Context, l *launcher, here func(context.Context) error) error {
	if installed := os.Getenv(envInstalled); installed != "" {
		return l.within(ctx, installed, here)
	}
	if err := l.alone(); err != nil {
		return err
	}
	for {
		p, trial := l.choose()
		if p != nil && !trial {
			if err := become(l.folder.Path(p), os.Args[1:], append(slices.Clone(l.s.env), envInstalled+"="+installedPath())); err != nil {
				if !errors.Is(err, errors.ErrUnsupported) {
					l.log.Warn("the updated program cannot take this one's place; it runs beside it", "err", err)
				}
			}
		}
		if p != nil {
			again, err := l.child(ctx, p, trial)
			switch {
			case errors.Is(err, errNoStart):
				l.log.Error("the updated program does not run; the installed one does", "version", p.Version, "err", err)
			case again && ctx.Err() == nil:
				continue
			default:
				return err
			}
		}
		if err := here(ctx); !errors.Is(err, errSwap) {
			return err
		}
		if ctx.Err() != nil { // told to end at that moment; the new version runs at the next start
			return nil
		}
		_ = become(installedPath(), os.Args[1:], l.s.env) // with little memory, where the system can do that; else this process goes on
	}
}

// errNoStart is returned for a version that cannot be started now, such as one on a disk from which nothing may be run any more.
var errNoStart = errors.New("it cannot be started")

// alone refuses to begin beside another launcher whose version is on probation: its record would count that as crashes of the version.
func (l *launcher) alone() error {
	if st, err := l.folder.Load(); err != nil || st.Trial == nil {
		return nil //nolint:nilerr // choose says what is wrong with the record
	}
	unlock, err := peer.LockRun(l.data)
	if errors.Is(err, peer.ErrLocked) {
		return err
	}
	if err == nil {
		unlock()
	}
	return nil
}

func installedPath() string {
	exe, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return exe
}

// within runs a version that the installed program has started.
func (l *launcher) within(ctx context.Context, installed string, here func(context.Context) error) error {
	if os.Getenv(envLeash) == "" {
		err := here(ctx)
		if errors.Is(err, errSwap) && ctx.Err() != nil {
			return nil // as in launched
		}
		if errors.Is(err, errSwap) { // the installed program decides what comes next
			err = errors.Join(err, become(installed, os.Args[1:], without(l.s.env, envInstalled, envTrial)))
		}
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // until whoever started it ends, or asks it to end
		cancel()
	}()
	return here(ctx)
}

// without leaves variables out of an environment.
func without(env []string, names ...string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return slices.Contains(names, name)
	})
}

// choose says which version runs now; nil for this program itself. A version whose file is not what was signed does not run. Where the record of updates
// cannot be read or written, this program runs: no volunteer should have to mend it.
func (l *launcher) choose() (p *programs.Program, trial bool) {
	for {
		st, err := l.folder.Load()
		if errors.Is(err, fs.ErrPermission) { // the folder is another user's, as the installed program will say
			return nil, false
		}
		if err != nil {
			l.log.Warn("the record of updates cannot be read; the installed program runs", "err", err)
			return nil, false
		}
		had := st.Current != nil || st.Trial != nil
		p = st.Start(l.own, bootID(), time.Now())
		trial = st.Trial != nil
		if had {
			if err := l.folder.Save(st); err != nil {
				if !trial {
					l.log.Warn("the record of updates cannot be written", "err", err)
				} else { // without a record a crash would not count
					l.log.Warn("the new version is not tried while the record of updates cannot be written; this one runs", "err", err)
					return nil, false
				}
			}
		}
		if p == nil {
			return nil, false
		}
		bad := l.folder.Verify(p)
		if bad == nil {
			return p, trial
		}
		l.log.Error("an updated program cannot be run", "version", p.Version, "err", bad)
		if trial {
			st.Fall("is damaged on the disk", time.Now())
		} else {
			st.Current = nil
		}
		if err := l.folder.Save(st); err != nil {
			l.log.Warn("the record of updates cannot be written; the installed program runs", "err", err)
			return nil, false
		}
	}
}

// child runs another version as a process of its own, and watches it while it is on probation. again tells that another version is to run now.
func (l *launcher) child(ctx context.Context, p *programs.Program, trial bool) (again bool, err error) {
	if err := l.folder.Silence(); err != nil {
		return false, fmt.Errorf("%w: %w", errNoStart, err)
	}
	cmd := exec.Command(l.folder.Path(p), l.args...)
	cmd.Env = append(without(l.s.env, envTrial), envInstalled+"="+installedPath(), envLeash+"=1")
	if trial {
		cmd.Env = append(cmd.Env, envTrial+"="+p.Version)
	}
	cmd.Stdout, cmd.Stderr = l.s.out, l.s.err
	leash, err := cmd.StdinPipe()
	if err != nil {
		return false, err
	}
	ended := make(chan error, 1)
	if err = cmd.Start(); err != nil {
		if !trial {
			return false, fmt.Errorf("%w: %w", errNoStart, err)
		}
		return l.fall("cannot be started: " + plain.Error(err))
	}
	go func() { ended <- cmd.Wait() }()
	stop := func(wait time.Duration) error {
		leash.Close()
		select {
		case err := <-ended:
			return err
		case <-time.After(wait):
			_ = cmd.Process.Kill() // it has ended meanwhile, or ends now
			return <-ended
		}
	}
	w := &watch{l: l, p: p, last: time.Now()}
	tick := time.NewTicker(lookEvery(l.minute))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			err = stop(endWait)
			if trial {
				return false, errors.Join(err, l.change(func(st *programs.State) { st.Ended() }))
			}
			return false, err
		case err := <-ended:
			return l.ended(ctx, p, trial, cmd.ProcessState.ExitCode(), err)
		case <-tick.C:
			if !trial {
				continue
			}
			switch v, why := w.look(ctx, time.Now()); v {
			case release.Keep:
				trial = false
				l.log.Info("the new version runs well and is kept", "version", p.Version)
			case release.FallBack:
				_ = stop(fallWait) // how it ends does not matter any more
				return l.fall(why)
			}
		}
	}
}

// ended says what follows from the end of another version that nobody asked for.
func (l *launcher) ended(ctx context.Context, p *programs.Program, trial bool, status int, err error) (again bool, _ error) {
	switch {
	case ctx.Err() != nil: // it was told to end as well, by the system or from the terminal
		if trial {
			err = errors.Join(err, l.change(func(st *programs.State) { st.Ended() }))
		}
		return false, err
	case status == swapStatus:
		return true, l.change(func(st *programs.State) { st.Ended() })
	case !trial && err == nil:
		return false, nil // it left its network
	case !trial:
		return false, fmt.Errorf("version %s ended: %w", p.Version, err)
	case err == nil && !l.member():
		return false, l.change(func(st *programs.State) { st.Ended() }) // likewise
	}
	over := false
	if err := l.change(func(st *programs.State) { over = st.Crashed(time.Now()) }); err != nil {
		return false, err
	}
	l.log.Warn("the new version ended without being asked to", "version", p.Version, "err", err, "falls_back", over)
	if over {
		return true, nil
	}
	return true, pause(ctx, lookEvery(l.minute))
}

// member reports whether the computer still belongs to a network.
func (l *launcher) member() bool {
	is, err := peer.IsMember(l.data)
	return is || err != nil
}

// fall ends the trial. The version before runs again.
func (l *launcher) fall(why string) (again bool, err error) {
	l.log.Error("goes back to the version before", "why", "the new one "+why)
	return true, l.change(func(st *programs.State) { st.Fall(why, time.Now()) })
}

// change changes the record of updates.
func (l *launcher) change(f func(*programs.State)) error {
	st, err := l.folder.Load()
	if err != nil {
		return err
	}
	f(&st)
	return l.folder.Save(st)
}

// lookEvery is how often a version on probation is looked at.
func lookEvery(minute time.Duration) time.Duration {
	return min(max(minute/60, 20*time.Millisecond), time.Second)
}

// watch looks at a version on probation.
type watch struct {
	l      *launcher
	p      *programs.Program
	last   time.Time // look
	saved  time.Time // when the probation was
	asked  time.Time // when the network was, whether it answers
	online bool
}

// look takes in what is seen now.
func (w *watch) look(ctx context.Context, now time.Time) (release.Verdict, string) {
	st, err := w.l.folder.Load()
	if err != nil || st.Trial == nil || st.Trial.Version != w.p.Version {
		return release.GoOn, ""
	}
	s := w.l.folder.Told(w.p.Version).Sign
	if !s.Member && now.Sub(w.asked) >= w.l.minute {
		w.asked, w.online = now, answers(ctx, w.l.data)
	}
	s.Online = w.online
	if w.saved.IsZero() {
		w.saved = now
	}
	v, why := st.Trial.Seen.Look(w.l.times, now.Sub(w.saved), s)
	w.last = now
	if v == release.GoOn && now.Sub(w.saved) < w.l.times.Step/2 {
		return v, "" // what is not saved counts with the next look
	}
	w.saved = now
	if v == release.Keep {
		st.Kept(now)
		w.l.folder.Tidy(&st, nil)
	}
	if v != release.FallBack {
		if err := w.l.folder.Save(st); err != nil {
			w.l.log.Warn("the record of updates cannot be written", "err", err)
			return release.GoOn, "" // once more at the next look
		}
	}
	return v, why
}

// answers reports whether one of the networks' managers can be reached, whatever the program on trial says.
func answers(ctx context.Context, data string) bool {
	all, _ := peer.Memberships(data) // of one that cannot be read nothing is known
	var addrs []string
	for _, at := range all {
		k, err := wire.LoadKept(at.Dir)
		if err != nil {
			continue
		}
		if d, err := member.ReadDocument(k.Document); err == nil {
			for _, m := range d.Managers {
				addrs = append(addrs, m.Addrs...)
			}
		}
		if j, err := member.ParseJoinString(k.Join); err == nil {
			addrs = append(addrs, j.Addrs...)
		}
	}
	const most = 8
	for _, text := range addrs[:min(len(addrs), most)] {
		a, err := ma.NewMultiaddr(text)
		if err != nil {
			continue
		}
		network, addr, err := manet.DialArgs(a)
		if err != nil || !strings.HasPrefix(network, "tcp") {
			continue
		}
		c, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, network, addr)
		if err == nil {
			c.Close()
			return true
		}
	}
	return false
}

// bootID names the computer's start; empty: the system does not tell.
func bootID() string {
	b, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b))
}
