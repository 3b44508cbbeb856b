package main

import (
	"strings"
	"testing"
	"time"

	"shoal/peer"
	"shoal/peer/crawl"
)

// TestLogOfSomeLines shows the newest lines that are asked for, also of those since a moment.
func TestLogOfSomeLines(t *testing.T) {
	v := newVolunteer(t)
	set, err := load("", v.env, nil)
	if err != nil {
		t.Fatal(err)
	}
	j, err := peer.OpenJournal(set.journal())
	if err != nil {
		t.Fatal(err)
	}
	for _, url := range []string{"http://a.example/1", "http://a.example/2", "http://a.example/3"} {
		j.For("network")("", crawl.Visit{At: time.Now(), URL: url, Status: 200})
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[int][]string{3: {"log"}, 1: {"log", "-n", "1"}, 2: {"log", "--since", "2h", "-n", "2"}} {
		if text := v.ok(args...); strings.Count(text, "http://a.example/") != want || !strings.Contains(text, "/3") {
			t.Errorf("%v shows:\n%s", args, text)
		}
	}
	for _, site := range []string{"http://A.example/2", "a.example.", "a.example"} {
		if text := v.ok("log", "--site", site); strings.Count(text, "http://a.example/") != 3 {
			t.Errorf("of the site %s:\n%s", site, text)
		}
	}
	if text := v.ok("log", "--since", "2h"); strings.Count(text, "http://a.example/") != 3 {
		t.Errorf("since two hours:\n%s", text)
	}
}

// TestLogOfOneNetwork names a network as its volunteer does: by its company, and one that was left by its own name. A misspelt name is none that was left.
func TestLogOfOneNetwork(t *testing.T) {
	v := newVolunteer(t)
	v.ok("join", manager(t), "--yes", "--no-limits")
	set, err := load("", v.env, nil)
	if err != nil {
		t.Fatal(err)
	}
	all, err := peer.Memberships(set.Data)
	if err != nil || len(all) != 1 {
		t.Fatalf("%v, %v", all, err)
	}
	j, err := peer.OpenJournal(set.journal())
	if err != nil {
		t.Fatal(err)
	}
	left := strings.Repeat("ab2cd3ef", 6)
	for network, url := range map[string]string{all[0].Network.String(): "http://here.example/", left: "http://left.example/"} {
		j.For(network)("", crawl.Visit{At: time.Now(), URL: url, Status: 200})
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"example search": "http://here.example/  for Example Search\n", left[:10]: "http://left.example/  for " + left[:shortName] + "\n"} {
		if text := v.ok("log", "--network", name); strings.Count(text, "http") != 1 || !strings.Contains(text, want) {
			t.Errorf("of %s:\n%s", name, text)
		}
	}
	if code, said := v.do("log", "--network", "examplesearch"); code == 0 || !strings.Contains(said, "no network is called") {
		t.Errorf("of a misspelt one: %d %s", code, said)
	}
}

// TestSiteOfALog names sites as people do. The record names them as hosts, with a port that is not the usual one.
func TestSiteOfALog(t *testing.T) {
	for named, want := range map[string]string{"": "", "A.example": "a.example", "https://a.example/x?y#z": "a.example", "a.example:8080": "a.example:8080", "http://a.example:80/": "a.example", "https://a.example:8443": "a.example:8443",
		"bücher.example": "xn--bcher-kva.example", "http://[2001:db8::1]/": "[2001:db8::1]", "[2001:db8::1]:81": "[2001:db8::1]:81"} {
		if got, err := siteOf(named); err != nil || got != want {
			t.Errorf("%q is %q, %v; want %q", named, got, err, want)
		}
	}
}
