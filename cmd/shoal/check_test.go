package main

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

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
