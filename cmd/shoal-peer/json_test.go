package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"shoal/internal/lab/jsonwords"
	"shoal/peer"
	"shoal/peer/crawl"
)

// TestJSONOfEveryCommand goes through the tree of commands: each has --json, but those that run, show an icon or print a script, and those of the service, which
// show what the system's service manager says. What they print is spelt as in all of Shoal.
func TestJSONOfEveryCommand(t *testing.T) {
	var c cli
	parser, err := kong.New(&c, meanings())
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, leaf := range parser.Model.Leaves(true) {
		if leaf.Name != "run" && leaf.Name != "completion" && leaf.Name != "tray" && (leaf.Parent == nil || leaf.Parent.Name != "service") {
			want = append(want, leaf.Name)
		}
	}
	v := newVolunteer(t)
	var done []string
	spelt := func(args ...string) {
		t.Helper()
		done = append(done, args[0])
		if code, text := v.do(append(args, "--json")...); code != 0 {
			t.Errorf("shoal-peer %s --json: status %d\n%s", strings.Join(args, " "), code, text)
		} else if wrong := jsonwords.Complaints(text, "errors", "messages", "refused"); len(wrong) > 0 {
			t.Errorf("shoal-peer %s --json: %s\n%s", strings.Join(args, " "), strings.Join(wrong, "\n"), text)
		}
	}
	spelt("version")
	spelt("join", manager(t), "--yes", "--account", "ada")
	set, err := load("", v.env, nil)
	if err != nil {
		t.Fatal(err)
	}
	j, err := peer.OpenJournal(set.journal())
	if err != nil {
		t.Fatal(err)
	}
	j.For("network")("", crawl.Visit{At: time.Now(), URL: "http://a.example/", Status: 200, Bytes: 7, Took: time.Second})
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	code := make(chan int, 1)
	var out buffer
	go func() {
		code <- run(t.Context(), []string{"run", "--port", "0", "--listen", "127.0.0.1", "--no-quic", "--no-dht", "--no-low-priority", "--control", "127.0.0.1:0"},
			streams{&out, &out, v.env, nil})
	}()
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if c, text := v.do("status"); c == 0 {
			break
		} else if time.Now().After(end) {
			t.Fatalf("never runs: %s %s", text, out.String())
		}
	}
	v.statusOf(func(st *status) bool { return st.Peer != "" }) // what follows asks the managers, by a node that begins a moment later
	for _, args := range []string{"deny b.example", "status", "pause 2h", "status", "resume", "limit --down 100", "limit", "log", "log --sites", "history", "settings", "settings threads=4", "settings threads=5 --dry-run", "open", "object ff it was so", "picture", "report", "update", "contribution", "profile --nickname Ali", "certificate", "finish", "drain", "leave"} {
		spelt(strings.Fields(args)...)
	}
	if c := <-code; c != 0 {
		t.Errorf("run ended with %d: %s", c, out.String())
	}
	for _, name := range want {
		if !slices.Contains(done, name) {
			t.Errorf("nothing is known of shoal-peer %s --json", name)
		}
	}
}
