//go:build unix

package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"shoal/internal/release"
	"shoal/internal/release/programs"
	"shoal/internal/version"
)

// onTrial has a shell script take the place of the next version, and returns how the launcher went on: with the installed program's work, which ends at
// once, or by being told to end.
func onTrial(t *testing.T, script string, until func(programs.State) bool) (st programs.State, here int, out string) {
	t.Helper()
	data := t.TempDir()
	var said buffer
	l := &launcher{own: "v1.0.0", folder: programs.At(data), data: data, minute: time.Millisecond, times: release.InMinutes(time.Millisecond), log: slog.New(slog.DiscardHandler), s: streams{&said, &said, os.Environ(), nil}}
	p := programs.Program{Version: "v1.1.0", File: "shoal-peer-v1.1.0"}
	text := "#!/bin/sh\nsigns=" + filepath.Join(l.folder.Dir, "signs") + "\n" + script
	sum := sha256.Sum256([]byte(text))
	p.Sum = hex.EncodeToString(sum[:])
	st.Next = &p
	st.Begin("v1.0.0", time.Now())
	if err := l.folder.Change(to(st)); err != nil {
		t.Fatal(err)
	}
	// Another test may start a process at this moment, and hold the file open for writing until then.
	syscall.ForkLock.RLock()
	err := os.WriteFile(l.folder.Path(&p), []byte(text), 0o700)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if until != nil {
		go func() {
			for ctx.Err() == nil {
				if st, err := l.folder.Load(); err == nil && until(st) {
					cancel()
				}
				time.Sleep(5 * time.Millisecond)
			}
		}()
	}
	err = launched(ctx, l, func(context.Context) error { here++; return nil })
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		t.Fatalf("it never ends: %s", said.String())
	}
	if err != nil {
		t.Fatalf("%v: %s", err, said.String())
	}
	if st, err = l.folder.Load(); err != nil {
		t.Fatal(err)
	}
	return st, here, said.String()
}

// TestTrials runs new versions as real processes: one that crashes, one that starts and does nothing, one that cannot be started, one that does well, and one that is
// told to end while it is on probation.
func TestTrials(t *testing.T) {
	st, here, out := onTrial(t, "echo started\nexit 3\n", nil)
	if here != 1 || strings.Count(out, "started") != release.MaxCrashes || len(st.Falls()) != 1 || st.Falls()[0].Why != "crashed 3 times" || st.Trial != nil {
		t.Errorf("one that crashes: %+v, the old one ran %d times, %q", st, here, out)
	}
	st, here, out = onTrial(t, "echo started\nexit 0\n", nil)
	if here != 0 || len(st.Falls()) != 0 || st.Trial == nil || st.Trial.Running || strings.Count(out, "started") != 1 {
		t.Errorf("one that ends because the computer belongs to no network any more: %+v, the old one ran %d times, %q", st, here, out)
	}
	// That the network answers is for the probation's scenarios: here the program says itself that it is a member, took a task, and does nothing.
	idle := `echo '{"version":"v1.1.0","member":true,"taken":true}' > $signs.x; mv $signs.x $signs; cat > /dev/null; echo ended` + "\n"
	st, here, out = onTrial(t, idle, nil)
	if here != 1 || len(st.Falls()) != 1 || !strings.Contains(st.Falls()[0].Why, "finished no task") || !strings.Contains(out, "ended") {
		t.Errorf("one that does nothing: %+v, the old one ran %d times, %q", st, here, out)
	}
	good := `echo '{"version":"v1.1.0","member":true,"taken":true,"finished":true}' > $signs.x; mv $signs.x $signs; cat > /dev/null; echo ended` + "\n"
	st, here, out = onTrial(t, good, func(st programs.State) bool { return st.Trial == nil })
	if here != 0 || st.Current == nil || st.Current.Version != "v1.1.0" || len(st.Falls()) != 0 || !strings.Contains(out, "ended") {
		t.Errorf("a good one: %+v, the old one ran %d times, %q", st, here, out)
	}
	paused := `echo '{"version":"v1.1.0","member":true,"taken":true,"paused":true}' > $signs.x; mv $signs.x $signs; cat > /dev/null; echo ended` + "\n"
	looked := time.Now()
	st, here, _ = onTrial(t, paused, func(st programs.State) bool { return time.Since(looked) > 600*time.Millisecond && st.Trial.Running })
	if here != 0 || st.Trial == nil || st.Trial.Running || len(st.Falls()) != 0 {
		t.Errorf("one that is told to end: %+v, the old one ran %d times", st, here)
	}
}

// TestDamagedProgram runs the installed program where an updated one is not what was signed, on probation and after.
func TestDamagedProgram(t *testing.T) {
	for _, kept := range []bool{false, true} {
		data := t.TempDir()
		l := &launcher{own: "v1.0.0", folder: programs.At(data), data: data, minute: time.Millisecond, times: release.InMinutes(time.Millisecond), log: slog.New(slog.DiscardHandler), s: streams{os.Stdout, os.Stderr, nil, nil}}
		st := programs.State{Next: &programs.Program{Version: "v1.1.0", File: "shoal-peer-v1.1.0", Sum: strings.Repeat("0", 64)}}
		st.Begin("v1.0.0", time.Now())
		if kept {
			st.Kept(time.Now())
		}
		if err := l.folder.Change(to(st)); err != nil {
			t.Fatal(err)
		}
		here := 0
		if err := launched(t.Context(), l, func(context.Context) error { here++; return nil }); err != nil || here != 1 {
			t.Error(here, err)
		}
		if st, err := l.folder.Load(); err != nil || st.Current != nil || st.Trial != nil || kept == (len(st.Falls()) == 1) {
			t.Errorf("%+v %v", st, err)
		}
	}
}

// TestUpdateOrders refuses what cannot be done, with a sentence.
func TestUpdateOrders(t *testing.T) {
	set := defaults()
	set.Data = t.TempDir()
	u := newUpdater(&station{set: set, log: slog.New(slog.DiscardHandler)}, time.Minute)
	if got := u.told("en"); got.State != updateBuilt || got.Mine || !strings.Contains(got.Says, version.String()) {
		t.Errorf("%+v", got)
	}
	for _, what := range []string{"take", "refuse", "look"} {
		if err := u.order(map[string]string{"what": what}); err == nil || !strings.Contains(err.Error(), "no release") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := u.folder.Change(to(programs.State{Refused: []programs.Refusal{{Version: "v1.1.0", Why: "crashed 3 times", Fell: true}}})); err != nil {
		t.Fatal(err)
	}
	var out buffer
	got := u.told("de")
	if err := printUpdate(&out, &got); err != nil || !strings.Contains(out.String(), "v1.1.0: it crashed 3 times") {
		t.Errorf("%v %s", err, out.String())
	}
}

// to is a change to that record.
func to(s programs.State) func(*programs.State) error {
	return func(x *programs.State) error { *x = s; return nil }
}
