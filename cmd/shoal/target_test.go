package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shoal/internal/lab/pond"
	"shoal/manager/archive/remote"
)

// TestClusterIsFound has a command find the managers that `shoal up --cluster` runs, without being told which: the first that answers, or the first.
func TestClusterIsFound(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	at := func(n string) string { return filepath.Join(home, upCluster, "manager-"+n) }
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	found := func(want string) {
		t.Helper()
		if got, err := dataOf(home); err != nil || got != want {
			t.Errorf("found %q, %v; want %q", got, err, want)
		}
	}
	if _, err := dataOf(home); err == nil {
		t.Error("something was found in an empty folder")
	}
	for _, n := range []string{"1", "2", "3"} {
		write(filepath.Join(at(n), remote.DatabaseFile), "postgres://u@h/x")
	}
	found(at("1"))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	write(filepath.Join(at("1"), addressFile), "http://127.0.0.1:1") // it was killed
	write(filepath.Join(at("2"), addressFile), "http://"+l.Addr().String()+"\n")
	found(at("2"))
	write(filepath.Join(home, upPond, remote.DatabaseFile), "postgres://u@h/x")
	found(at("2")) // the other network is stopped
	write(filepath.Join(home, upPond, addressFile), "http://127.0.0.1:1")
	if _, err := dataOf(home); err == nil || !strings.Contains(err.Error(), "several managers' data") {
		t.Errorf("of two networks that run one was taken: %v", err)
	}
	if says := starts(at("1")); says != "shoal up --cluster N --data "+home {
		t.Errorf("it is started with %q", says)
	}
}

// TestNamedFolderIsMeant has a folder hold a manager's data itself, and another network's beneath: who names it means the first. An empty word clears a list of patterns.
func TestNamedFolderIsMeant(t *testing.T) {
	home := t.TempDir()
	for _, at := range []string{home, filepath.Join(home, upPond)} {
		if err := os.MkdirAll(filepath.Join(at, channelsFolder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := dataOf(home); err != nil || got != home {
		t.Errorf("found %q, %v", got, err)
	}
	s := settings{Exclude: []string{""}, Filter: []string{"a", ""}}
	m, err := s.fields()
	if err != nil || len(m["exclude"].([]string)) != 0 || len(m["filters"].([]string)) != 2 {
		t.Errorf("the fields are %v, %v", m, err)
	}
}

// TestNetworksOfUp: a manager that is to crawl the Web does not go on with the network of a pond, and says of a folder of `shoal up` that its own network is another one.
func TestNetworksOfUp(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	lake := filepath.Join(home, upPond)
	if err := os.MkdirAll(filepath.Join(lake, "keys"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(lake, pondMark), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	again := "`shoal up --data " + home + "`"
	if note := besides(t.Context(), home); !strings.Contains(note, "new network") || !strings.Contains(note, again) {
		t.Errorf("beside the network of a pond it says %q", note)
	}
	if note := besides(t.Context(), lake); note != "" {
		t.Errorf("of its own network it says %q", note)
	}
	if note := besides(t.Context(), t.TempDir()); note != "" {
		t.Errorf("in an empty folder it says %q", note)
	}
	code, _, said := call(t, "manager", "--data", lake, "--contact", "mailto:us@example.org", "--page=")
	if code != 1 || !strings.Contains(said, "crawls a pond") || !strings.Contains(said, again) {
		t.Errorf("on a pond's folder: status %d, %q", code, said)
	}
	other := t.TempDir()
	if err := os.WriteFile(filepath.Join(other, pondMark), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, said := call(t, "manager", "--data", other, "--contact", "mailto:us@example.org", "--page="); code != 1 || !strings.Contains(said, "give --pond") {
		t.Errorf("on the folder of a manager that crawled a pond: status %d, %q", code, said)
	}
}

// TestNoPondForTheWeb: a network that crawls the Web gets no hosts of a pond by a slip.
func TestNoPondForTheWeb(t *testing.T) {
	t.Parallel()
	data := noChannels(t)
	must(t, "channel", "add", "https://example.org/", "--data", data)
	web := runPond(t, pond.Config{Seed: 1, Hosts: 3, Pages: 3})
	code, _, said := call(t, "manager", "--pond", web.server.Addr().String(), "--data", data, "--page=", "--listen", "/ip4/127.0.0.1/tcp/0")
	if code != 1 || !strings.Contains(said, "crawls the Web (https://example.org)") || !strings.Contains(said, "leave --pond out") {
		t.Errorf("status %d, %q", code, said)
	}
	if _, err := os.Stat(filepath.Join(data, pondMark)); err == nil {
		t.Error("the folder is marked as a pond's")
	}
}
