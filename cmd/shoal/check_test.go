package main

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"shoal/internal/member"
	"shoal/manager/desk"
)

// TestCheckUnmoved has a migration that was broken off leave its part: the check says so, once there is one.
func TestCheckUnmoved(t *testing.T) {
	data := t.TempDir()
	told := func() (says string) {
		for _, f := range checkData(data, time.Now()) {
			if strings.Contains(f.What, "migration") {
				says += f.Level + ": " + f.What
			}
		}
		return says
	}
	if says := told(); says != "" {
		t.Errorf("without a migration it says %q", says)
	}
	for _, name := range []string{"archive.part", "migrate-7"} {
		if err := os.Mkdir(filepath.Join(data, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if says := told(); !strings.HasPrefix(says, desk.Warning) || !strings.Contains(says, "archive.part and migrate-7 in "+data) {
		t.Errorf("with a part it says %q", says)
	}
}

// TestCheckKeysNeverBackedUp has an operator warned who never backed the keys up, unless the network crawls a pond.
func TestCheckKeysNeverBackedUp(t *testing.T) {
	data := t.TempDir()
	if _, err := member.LoadOrCreate(filepath.Join(data, "keys"), time.Now()); err != nil {
		t.Fatal(err)
	}
	for mark, want := range map[string]bool{"": true, pondMark: false, backupStamp: false} {
		if mark != "" {
			if err := os.WriteFile(filepath.Join(data, mark), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		warned := false
		for _, f := range checkData(data, time.Now()) {
			warned = warned || strings.Contains(f.What, "never backed up")
		}
		if warned != want {
			t.Errorf("with %q: warned %v, want %v", mark, warned, want)
		}
		if mark != "" {
			os.Remove(filepath.Join(data, mark))
		}
	}
}

// TestRoomTwice looks for room several times at once, as the manager and a check do: none takes the other's probe for a failure.
func TestRoomTwice(t *testing.T) {
	room := roomOn(t.TempDir())
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 200 {
				if err := room(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}
