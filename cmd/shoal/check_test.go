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

// A manager behind a router, of which only private addresses are known, printed join strings by which no volunteer elsewhere could join, and no check said so.
func TestCheckPrivateAddresses(t *testing.T) {
	const private, public = "/ip4/10.0.0.5/tcp/7785", "/ip4/192.88.0.1/tcp/7785"
	for _, c := range []struct {
		addrs []string
		peers int
		want  string // what it says; empty: nothing
	}{
		{nil, 0, "loopback only"},
		{[]string{"/ip4/127.0.0.1/tcp/7785", "/ip6/::1/tcp/7785"}, 3, "loopback only"},
		{[]string{"/ip4/127.0.0.1/tcp/7785", private, "/ip4/10.0.0.5/udp/7785/quic-v1", "/ip6/fd00::5/tcp/7785"}, 0, "(10.0.0.5, fd00::5)"},
		{[]string{private}, 1, ""}, // its peers may be in the same network
		{[]string{private, public}, 0, ""},
		{[]string{private, "/dns4/crawler.example.org/tcp/7785"}, 0, ""},
	} {
		f, cannot := unreached(c.addrs, c.peers)
		if cannot != (c.want != "") || !strings.Contains(f.What, c.want) || cannot && (f.Mend == "" || f.Level != desk.Warning) {
			t.Errorf("%q and %d peers: %v %+v, want %q", c.addrs, c.peers, cannot, f, c.want)
		}
	}
}

// TestCheckNewerKey has a manager run on with a working key after another one was made in its folder: the check tells the operator to start it again, and that
// a stolen key counts until then.
func TestCheckNewerKey(t *testing.T) {
	t.Parallel()
	for _, stolen := range []bool{false, true} {
		dir, now := filepath.Join(t.TempDir(), "keys"), time.Now()
		mine, err := member.LoadOrCreate(dir, now)
		if err != nil {
			t.Fatal(err)
		}
		if f, is := newerKey(mine, now); is {
			t.Errorf("with the key of the folder it says %+v", f)
		}
		if _, err := member.Rotate(dir, now, stolen); err != nil {
			t.Fatal(err)
		}
		f, is := newerKey(mine, now)
		if level := map[bool]string{false: desk.Warning, true: desk.Error}[stolen]; !is || f.Level != level || strings.Contains(f.What, "stolen") != stolen || !strings.Contains(f.Mend, "Start the manager again") {
			t.Errorf("stolen %v: it says %+v", stolen, f)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if _, is := newerKey(mine, now); is {
			t.Error("it tells of keys that are gone")
		}
		if _, err := os.Stat(dir); err == nil {
			t.Error("a check has made the keys of another network")
		}
	}
}
