//go:build unix

package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"shoal/internal/release"
	"shoal/internal/release/programs"
	"shoal/internal/service"
	"shoal/peer"
)

// installed returns the launcher of an installed program in a folder with a version v1.1.0 of that text, kept or on trial.
func installed(t *testing.T, data, text string, mode os.FileMode, kept bool) *launcher {
	t.Helper()
	l := &launcher{own: "v1.0.0", folder: programs.At(data), data: data, minute: time.Millisecond, times: release.InMinutes(time.Millisecond), log: slog.New(slog.DiscardHandler), s: streams{os.Stdout, os.Stderr, os.Environ(), nil}}
	sum := sha256.Sum256([]byte(text))
	st := programs.State{Next: &programs.Program{Version: "v1.1.0", File: "shoal-peer-v1.1.0", Sum: hex.EncodeToString(sum[:])}}
	name := l.folder.Path(st.Next)
	st.Begin("v1.0.0", time.Now())
	if kept {
		st.Kept(time.Now())
	}
	if err := l.folder.Change(to(st)); err != nil {
		t.Fatal(err)
	}
	syscall.ForkLock.RLock() // see onTrial
	err := os.WriteFile(name, []byte(text), mode)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestKeptCannotStart runs the installed program where the kept one cannot be started any more, or the record cannot be read: else the service manager would
// start it in vain for ever.
func TestKeptCannotStart(t *testing.T) {
	l := installed(t, t.TempDir(), "#!/bin/sh\nexit 3\n", 0o600, true)
	unread := installed(t, t.TempDir(), "", 0o600, true)
	record := filepath.Join(unread.folder.Dir, "state")
	if err := errors.Join(os.Remove(record), os.Mkdir(record, 0o700)); err != nil {
		t.Fatal(err)
	}
	for _, l := range []*launcher{l, unread} {
		here := 0
		if err := launched(t.Context(), l, func(context.Context) error { here++; return nil }); err != nil || here != 1 {
			t.Errorf("the installed program ran %d times: %v", here, err)
		}
	}
	if st, err := l.folder.Load(); err != nil || st.Current == nil {
		t.Errorf("a program that may start another time is forgotten: %+v %v", st, err)
	}
}

// TestKeptCrashes: a version that was kept and then crashes soon after each start gives way to the installed program, and is never taken again; not where no
// version could run, and not after fewer crashes.
func TestKeptCrashes(t *testing.T) {
	for _, c := range []struct {
		what    string
		crashes int // before the start that went on when it crashed
		ran     time.Duration
		busy    bool
		leaves  bool
	}{
		{"it crashed six times", release.MaxKeptCrashes - 1, time.Second, false, true},
		{"it crashed five times", release.MaxKeptCrashes - 2, time.Second, false, false},
		{"the last run was a long one", release.MaxKeptCrashes - 1, time.Hour, false, false},
		{"another program has its port", release.MaxKeptCrashes - 1, time.Second, true, false},
	} {
		l := installed(t, t.TempDir(), "#!/bin/sh\nexit 3\n", 0o700, true)
		if c.busy {
			taken, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer taken.Close()
			l.needs = []string{taken.Addr().String()}
		}
		if err := service.SaveStarts(starts(l.data), service.Starts{Crashes: c.crashes, Began: time.Now().Add(-c.ran)}); err != nil {
			t.Fatal(err)
		}
		p, trial := l.choose()
		if trial || (p == nil) != c.leaves {
			t.Fatalf("%s: runs %+v, on trial %v", c.what, p, trial)
		}
		st, err := l.folder.Load()
		if err != nil {
			t.Fatal(err)
		}
		r, refused := st.Refuses("v1.1.0")
		if refused != c.leaves || c.leaves != (st.Current == nil) || c.leaves && (!r.Fell || !strings.Contains(st.Last, "back from version v1.1.0 to v1.0.0: it crashed 6 times")) {
			t.Errorf("%s: the record is %+v", c.what, st)
		}
		if past, err := service.LoadStarts(starts(l.data)); err != nil || c.leaves != (past == service.Starts{}) {
			t.Errorf("%s: crashes that are remembered: %+v, %v", c.what, past, err)
		}
	}
}

// TestTrialCannotStart: a version that the system does not let start leaves the installed one running, is no crash, and says why. It can be refused and taken,
// and makes room for a newer one.
func TestTrialCannotStart(t *testing.T) {
	data := t.TempDir()
	l := installed(t, data, "#!/bin/sh\nexit 3\n", 0o600, false)
	for range 2 {
		here := 0
		if err := launched(t.Context(), l, func(context.Context) error { here++; return nil }); err != nil || here != 1 {
			t.Errorf("the installed program ran %d times: %v", here, err)
		}
	}
	set := defaults()
	set.Data, set.from = data, map[string]string{}
	u := newUpdater(&station{set: set, log: slog.New(slog.DiscardHandler)}, time.Minute)
	u.own = "v1.0.0"
	got := u.told("en")
	if got.State != "stuck" || !got.Mine || !strings.Contains(got.Says, "version v1.1.0 cannot be started: ") || !strings.Contains(got.Says, "permission denied") {
		t.Errorf("%+v", got)
	}
	for _, c := range [][2]time.Duration{{0, 60}, {1, 60}, {2, 120}, {3, 240}, {6, 24 * 60}, {1e6, 24 * 60}} {
		if got := startAgain(int(c[0])); got != c[1] {
			t.Errorf("after %d starts in vain it waits %d minutes, want %d", c[0], got, c[1])
		}
	}
	if err := u.orderTake(""); err != nil || !u.take {
		t.Errorf("it cannot be tried at once: %v", err)
	}
	st, err := l.folder.Load()
	if err != nil || st.Trial == nil || st.Trial.Failed != 2 || st.Trial.Seen.Crashes != 0 {
		t.Fatalf("%v %+v", err, st.Trial)
	}
	if err := u.overtake(&st, "v1.0.5"); err != nil || st.Trial == nil {
		t.Errorf("an older version takes its place: %v", err)
	}
	u.offer.Version = "v1.2.0"
	if got := u.told("en"); got.State == "stuck" || !got.Mine {
		t.Errorf("the newer version is not offered: %+v", got)
	}
	u.offer.Version = ""
	if err := u.orderRefuse(""); err != nil {
		t.Errorf("it cannot be refused: %v", err)
	}
	if st, err := l.folder.Load(); err != nil || st.Trial != nil || len(st.Refused) != 1 || len(st.Falls()) != 0 {
		t.Errorf("%v %+v", err, st)
	}
	other := installed(t, t.TempDir(), "#!/bin/sh\nexit 3\n", 0o600, false)
	if err := launched(t.Context(), other, func(context.Context) error { return nil }); err != nil {
		t.Error(err)
	}
	u.folder = other.folder
	if st, err = other.folder.Load(); err != nil {
		t.Fatal(err)
	}
	if err := u.overtake(&st, "v1.2.0"); err != nil || st.Trial != nil {
		t.Errorf("a newer version does not take its place: %v %+v", err, st.Trial)
	}
}

// TestStoppedServiceIsNoCrash: stopping the service ends its programs, on Windows without a word to them. A version on probation has not crashed by that. One
// that a program still watches is left to it.
func TestStoppedServiceIsNoCrash(t *testing.T) {
	defer func(f func(streams, *cli) (service.Manager, error)) { serviceManager = f }(serviceManager)
	serviceManager = func(streams, *cli) (service.Manager, error) { return &manned{}, nil }
	v := newVolunteer(t)
	data := filepath.Join(v.dir, "data")
	l := installed(t, data, "#!/bin/sh\nexit 3\n", 0o700, false)
	for range release.MaxCrashes + 1 {
		if err := l.change(func(st *programs.State) { st.Start(l.own, bootID(), time.Now()) }); err != nil { // and is killed
			t.Fatal(err)
		}
		v.ok("service", "stop")
		if st, err := l.folder.Load(); err != nil || st.Trial == nil || st.Trial.Running || st.Trial.Seen.Crashes != 0 {
			t.Fatalf("stopping the service is a crash: %v %+v", err, st)
		}
	}
	if err := l.change(func(st *programs.State) { st.Start(l.own, bootID(), time.Now()) }); err != nil {
		t.Fatal(err)
	}
	unlock, err := peer.LockRun(data)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	v.ok("service", "stop")
	if st, err := l.folder.Load(); err != nil || !st.Trial.Running {
		t.Errorf("one that runs is said to have ended: %v", err)
	}
}

// TestSecondLauncher has a second program start while a version is on probation beside the first one. The version has not crashed by that.
func TestSecondLauncher(t *testing.T) {
	data := t.TempDir()
	l := installed(t, data, "#!/bin/sh\nexit 3\n", 0o700, false)
	st, err := l.folder.Load()
	if err != nil {
		t.Fatal(err)
	}
	st.Start(l.own, bootID(), time.Now()) // by the first one
	if err := l.folder.Change(to(st)); err != nil {
		t.Fatal(err)
	}
	unlock, err := peer.LockRun(data)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	err = launched(t.Context(), l, func(context.Context) error { t.Error("it runs"); return nil })
	if st, _ := l.folder.Load(); !errors.Is(err, peer.ErrLocked) || st.Trial == nil || st.Trial.Seen.Crashes != 0 || !st.Trial.Running {
		t.Errorf("%v: %+v", err, st)
	}
}

// TestKeptKeepsCommandLine has a kept version take a process's place. It needs the whole command line: where its log is, too.
func TestKeptKeepsCommandLine(t *testing.T) {
	const env = "TEST_KEPT_IN"
	if data := os.Getenv(env); data != "" {
		l := installed(t, data, "#!/bin/sh\necho with \"$@\"\n", 0o700, true)
		t.Fatal(launched(t.Context(), l, func(context.Context) error { return errors.New("the installed program ran") }))
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKeptKeepsCommandLine$", "--", "service", "run", "--log", "FILE")
	cmd.Env = append(os.Environ(), env+"="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "service run --log FILE\n") {
		t.Errorf("%v: %s", err, out)
	}
}

// TestRefusedMeanwhile keeps a volunteer's refusal that comes while the version is fetched, or while tasks end for it.
func TestRefusedMeanwhile(t *testing.T) {
	next := programs.Program{Version: "v1.1.0", File: "shoal-peer-v1.1.0"}
	var st programs.State
	if err := arrived(&st, &next); err != nil || st.Next == nil {
		t.Fatalf("%+v %v", st, err)
	}
	st.Refuse(next.Version, time.Now())
	if err := begun(&st); err == nil || st.Trial != nil {
		t.Errorf("refused while tasks ended: %+v %v", st, err)
	}
	if err := arrived(&st, &next); err == nil || st.Next != nil {
		t.Errorf("refused while it was fetched: %+v %v", st, err)
	}
}

// TestEndsWhileSwapping ends a program that is told to while it makes room for another version, whether it is the installed one or was kept.
func TestEndsWhileSwapping(t *testing.T) {
	const env = "TEST_SWAPS_IN"
	if data := os.Getenv(env); data != "" {
		ctx, end := context.WithCancel(t.Context())
		l := &launcher{own: "v1.0.0", folder: programs.At(data), data: data, log: slog.New(slog.DiscardHandler), s: streams{os.Stdout, os.Stderr, os.Environ(), nil}}
		if err := launched(ctx, l, func(context.Context) error { end(); return errSwap }); err != nil {
			t.Error(err)
		}
		return
	}
	for _, more := range []string{"", envInstalled + "=" + os.Args[0]} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestEndsWhileSwapping$")
		cmd.Env = append(os.Environ(), env+"="+t.TempDir(), more)
		out, err := cmd.CombinedOutput()
		cancel()
		if err != nil {
			t.Errorf("%q: %v: %s", more, err, out)
		}
	}
}
