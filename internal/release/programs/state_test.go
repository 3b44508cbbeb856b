package programs

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"shoal/internal/release"
)

// TestStuck: a version that cannot be started has not crashed, and stands in nobody's way: it can be refused, and a newer one takes its place.
func TestStuck(t *testing.T) {
	now := time.Unix(1e9, 0)
	stuck := func() State {
		s := State{Next: &Program{Version: "v1.1.0", File: fileOf("v1.1.0")}}
		s.Begin("v1.0.0", now)
		for range 5 {
			if run := s.Start("v1.0.0", "b", now); run == nil {
				t.Fatalf("%+v", s)
			}
			s.NoStart("permission denied")
		}
		return s
	}
	s := stuck()
	if !s.Trial.Stuck() || s.Trial.Seen.Crashes != 0 || s.Trial.Failed != 5 || s.Trial.Why != "permission denied" {
		t.Errorf("%+v", s.Trial)
	}
	if s.Overtake("v1.1.0") || s.Overtake("v1.0.5") || s.Overtake("") || s.Trial == nil {
		t.Error("what is not newer takes its place")
	}
	if !s.Overtake("v1.2.0") || s.Trial != nil {
		t.Error("a newer version does not take its place")
	}
	s = stuck()
	s.Refuse("v1.1.0", now)
	if run := s.Start("v1.0.0", "b", now); run != nil || s.Trial != nil {
		t.Error("it is tried though its volunteer refused it")
	}
	s = stuck()
	s.Start("v1.0.0", "b", now)
	s.Started()
	if s.Trial.Stuck() || s.Overtake("v1.2.0") {
		t.Error("one that runs is overtaken")
	}
	s.Refuse("v1.1.0", now)
	if s.Trial == nil {
		t.Error("the record of one that runs is lost")
	}
}

// TestDamagedState runs the installed program where the record is damaged or names a file elsewhere.
func TestDamagedState(t *testing.T) {
	f := At(t.TempDir())
	if err := f.Change(to(State{})); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "{", "[]", `{"current":{"version":"v1.1.0","file":"../../bin/sh"}}`, `{"trial":{"version":"x"}}`, strings.Repeat(" ", maxState+1) + "{}"} {
		if err := os.WriteFile(f.path(stateFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if s, err := f.Load(); err != nil || s.Start("v1.0.0", "", time.Now()) != nil || s.Last == "" {
			t.Errorf("%.40q: %+v %v", text, s, err)
		}
	}
	s := State{Current: &Program{Version: "v1.1.0", File: fileOf("v1.1.0")}}
	for _, name := range []string{fileOf("v1.1.0"), fileOf("v1.0.0"), "v1.0.0-aa.part", "state.new", "mine"} {
		if err := os.WriteFile(filepath.Join(f.Dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f.Tidy(&s, nil)
	list, err := os.ReadDir(f.Dir)
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, e := range list {
		left = append(left, e.Name())
	}
	if want := []string{lockFile, "mine", fileOf("v1.1.0"), stateFile}; !slices.Equal(left, want) {
		t.Errorf("left %v, want %v", left, want)
	}
	if f.Told("v1.1.0").Member {
		t.Error("signs of nobody")
	}
	if err := errors.Join(f.Tell(Signs{"v1.1.0", release.Sign{Member: true}})); err != nil || !f.Told("v1.1.0").Member || f.Told("v1.2.0").Member {
		t.Error(err)
	}
	if err := errors.Join(f.Silence(), f.Silence()); err != nil || f.Told("v1.1.0").Member {
		t.Error(err)
	}
}
