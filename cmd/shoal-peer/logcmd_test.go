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
	if text := v.ok("log", "--since", "2h"); strings.Count(text, "http://a.example/") != 3 {
		t.Errorf("since two hours:\n%s", text)
	}
}
