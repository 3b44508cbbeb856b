package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"shoal/internal/plain"
	"shoal/internal/release"
	"shoal/internal/release/programs"
	"shoal/internal/service"
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
	args   []string                   // command line of a version that runs beside this program
	answer func(context.Context) bool // whether the network's servers answer, whatever a version on trial says
	needs  []string                   // addresses that a peer with these settings must be able to listen at
	tried  int                        // versions that this process has started
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
		if st.Current == nil && st.Trial == nil {
			return nil, false
		}
		if st.Trial == nil && l.crashing() {
			why := fmt.Sprintf("crashed %d times in a row", release.MaxKeptCrashes)
			l.log.Error("the version that was kept crashes; the installed program runs", "version", st.Current.Version, "why", why)
			if err := l.change(func(st *programs.State) { st.Leave(l.own, why, time.Now()) }); err != nil {
				l.log.Warn("the record of updates cannot be written", "err", err)
			}
			forget(l.data) // the crashes were another program's
			return nil, false
		}
		begin := func(st *programs.State) {
			p = st.Start(l.own, bootID(), time.Now())
			trial = st.Trial != nil
		}
		if err := l.change(begin); err != nil {
			begin(&st)
			if trial { // without a record a crash would not count
				l.log.Warn("the new version is not tried while the record of updates cannot be written; this one runs", "err", err)
				return nil, false
			}
			l.log.Warn("the record of updates cannot be written", "err", err)
		}
		if p == nil {
			return nil, false
		}
		bad := l.folder.Verify(p)
		if bad == nil {
			return p, trial
		}
		l.log.Error("an updated program cannot be run", "version", p.Version, "err", bad)
		err = l.change(func(st *programs.State) {
			if trial {
				st.Fall("is damaged on the disk", time.Now())
			} else {
				st.Current = nil
			}
		})
		if err != nil {
			l.log.Warn("the record of updates cannot be written; the installed program runs", "err", err)
			return nil, false
		}
	}
}

// crashing reports whether the program that runs here as a service has crashed soon after each of its last starts, while this one could run.
func (l *launcher) crashing() bool {
	past, err := service.LoadStarts(starts(l.data))
	if err != nil {
		return false
	}
	now, _ := past.Next(time.Now())
	return now.Crashes >= release.MaxKeptCrashes && l.trouble() == ""
}

// child runs another version as a process of its own, and watches it while it is on probation. again tells that another version is to run now.
func (l *launcher) child(ctx context.Context, p *programs.Program, trial bool) (again bool, err error) {
	if err := l.folder.Silence(); err != nil {
		return l.noStart(trial, err)
	}
	cmd := exec.Command(l.folder.Path(p), l.args...)
	cmd.Env = append(without(l.s.env, envTrial), envInstalled+"="+installedPath(), envLeash+"=1")
	if trial {
		cmd.Env = append(cmd.Env, envTrial+"="+p.Version)
	}
	cmd.Stdout, cmd.Stderr = l.s.out, l.s.err
	leash, err := cmd.StdinPipe()
	if err != nil {
		return l.noStart(trial, err)
	}
	ended := make(chan error, 1)
	if err = cmd.Start(); err != nil {
		if trial && noProgram(err) {
			return l.fall("cannot be started: " + plain.Error(err))
		}
		return l.noStart(trial, err)
	}
	l.tried++
	if trial {
		if err := l.change(func(st *programs.State) { st.Started() }); err != nil {
			l.log.Warn("the record of updates cannot be written", "err", err)
		}
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
	w := &watch{l: l, p: p}
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

// noStart notes that another version cannot be started now. One on trial is tried again at the next start, or when the updater says so.
func (l *launcher) noStart(trial bool, why error) (again bool, err error) {
	if trial {
		why = errors.Join(why, l.change(func(st *programs.State) { st.NoStart(plain.Error(why)) }))
	}
	return false, fmt.Errorf("%w: %w", errNoStart, why)
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
	if why := l.trouble(); why != "" { // this program could not run either
		l.log.Warn("the new version could not start, for a reason that is not its own; it is tried again", "version", p.Version, "why", why, "err", err)
		if err := l.change(func(st *programs.State) { st.Ended() }); err != nil {
			return false, err
		}
		return true, pause(ctx, min(10*lookEvery(l.minute)<<min(l.tried, 10), 5*l.minute))
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
	return l.folder.Change(func(st *programs.State) error { f(st); return nil })
}
