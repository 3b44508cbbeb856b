package main

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shoal/channel/badgerdb"
)

// TestBadInput has every mistake answered by one message that says what happened and what to do, and by a status that is not zero.
func TestBadInput(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, port, _ := net.SplitHostPort(taken.Addr().String())

	// A pond that is there already, and one whose folder is in use.
	pond := filepath.Join(dir, "pond")
	must(t, "up", "--for", "1s", "--seed", "7", "--hosts", "3", "--pages", "3", "--peers", "1", "--data", pond, "--page", "")
	kept, err := os.ReadFile(filepath.Join(pond, "up-pond", "pond.json"))
	if err != nil {
		t.Fatal(err)
	}
	locked := filepath.Join(dir, "locked")
	db, err := badgerdb.Open(t.Context(), badgerdb.Default(filepath.Join(locked, "up-pond", "channels")))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()

	fresh := filepath.Join(dir, "fresh")
	web := []string{"up", "--contact", "mailto:us@example.org", "--data", fresh, "--page", ""}
	for _, c := range []struct {
		args string
		more []string
		code int
		says []string
	}{
		{"up --frobnicate", nil, 2, []string{"--frobnicate", "shoal up --help"}},
		{"manager --add", []string{"", "--data", fresh}, 2, []string{"--add", "empty"}},
		{"manager --add a.example,,b.example --data", []string{fresh}, 2, []string{"--add", "empty"}},
		{"manager --unjudged --contact mailto:us@example.org --data", []string{fresh}, 1, []string{"--unjudged", "--pond"}},
		{"manager --unasked --contact mailto:us@example.org --data", []string{fresh}, 1, []string{"--unasked", "--pond"}},
		{"fly", nil, 2, []string{"fly", "shoal --help"}},
		{"up --peers -1", nil, 1, []string{"--peers -1", "1 to 500"}},
		{"up --peers many", nil, 2, []string{"--peers", "whole number", "many"}},
		{"up --for -3s", nil, 1, []string{"--for -3s", "60s"}},
		{"up --for soon", nil, 2, []string{"--for", "soon", "60s"}},
		{"up --strategy best", nil, 1, []string{`"best"`, "icr", "iir"}},
		{"up --hosts 10 --pages 5 --data", []string{fresh}, 1, []string{"pages 5", "at least"}},
		{"up https://example.org --data", []string{fresh}, 1, []string{"--contact"}},
		{"up https://example.org --contact us --data", []string{fresh}, 1, []string{"us", "mailto:"}},
		{"up https://example.org --contact mailto:a@b.org --seed 2 --data", []string{fresh}, 1, []string{"--seed", "leave"}},
		{"", append(web, "http://[::bad"), 1, []string{"http://[::bad", "https://example.org/news/"}},
		{"", append(web, "ftp://example.org/"), 1, []string{"ftp://", "http"}},
		{"up --for 1s --page= --data", []string{file}, 1, []string{file, "--data"}},
		{"up --for 1s --page= --data", []string{locked}, 1, []string{"in use", "stop", "--data"}},
		{"up --for 1s --page= --seed 8 --data", []string{pond}, 1, []string{"seed 7", "--data", "--seed"}},
		{"up --for 1s --page= --hosts 4 --data", []string{pond}, 1, []string{"3 hosts", "--data", "--hosts"}},
		{"up --for 1s --data " + fresh + " --page", []string{taken.Addr().String()}, 1, []string{taken.Addr().String(), "in use", "--page"}},
		{"up --for 1s --data " + fresh + " --page", []string{"bogus"}, 1, []string{"bogus", "--page"}},
		{"manager --contact mailto:a@b.org --page= --data " + fresh + " --listen", []string{"/ip4/127.0.0.1/tcp/" + port}, 1, []string{"tcp/" + port, "port is taken", "another port", "--listen"}},
		{"manager --contact mailto:a@b.org --page= --data " + fresh + " --listen", []string{"here"}, 1, []string{"here", "/ip4/"}},
		{"manager --page= --data", []string{fresh}, 1, []string{"--contact"}},
		{"manager --page= --pond 127.0.0.1:" + port + "x --data", []string{fresh}, 1, []string{"--pond", "shoal pond"}},
		{"pond --listen", []string{taken.Addr().String()}, 1, []string{"in use"}},
		{"pond --bad 3=nice", nil, 1, []string{"nice"}},
		{"", []string{"up", "--for", "1s", "--page", "", "--data", ""}, 2, []string{"--data", "empty"}},
		{"up --for 1s --page= --discover-most -1 --data", []string{fresh}, 1, []string{"--discover-most -1", "0 or more"}},
		{"", []string{"manager", "--contact", "mailto:a@b.org", "--page=", "--data", fresh, "--page-host", "a b"}, 1, []string{`"a b"`, "shoal.example.org"}},
		{"channel list -n -1 --data", []string{pond}, 1, []string{"-n -1", "1 or more"}},
		{"channel list --from -1 --data", []string{pond}, 1, []string{"--from -1", "0 or more"}},
		{"channel import " + dir + " --data", []string{pond}, 1, []string{dir, "folder"}},
		{"channel show 0 --data", []string{pond}, 1, []string{"begin with 1", "channel list"}},
		{"", []string{"channel", "show", "", "--data", pond}, 1, []string{"empty word", "channel list"}},
		{"channel add https://ok.example/ --weight NaN --data", []string{pond}, 1, []string{"--weight NaN", "want"}},
		{"channel add https://ok.example/ --pages -3 --data", []string{pond}, 1, []string{"nothing was added", "https://ok.example/", "-3 pages"}},
		{"channel edit 1 --weight -2 --data", []string{pond}, 1, []string{"--weight -2", "0 (as all) to 1000000"}},
		{"host block 99 --data", []string{pond}, 1, []string{`"99" is a number`, "example.org"}},
		{"host unblock nothing.example --data", []string{pond}, 1, []string{"nothing.example is not blocked", "--blocked"}},
		{"peer invite --uses 0 --data", []string{pond}, 1, []string{"--uses 0", "100000"}},
		{"strategy set icr delta=x --data", []string{pond}, 1, []string{"delta", "number"}},
		{"strategy set icr delta=0 --data", []string{pond}, 1, []string{"delta", "default"}},
		{"strategy set icr delta=.4 Delta=.5 --data", []string{pond}, 1, []string{"delta", "twice"}},
		{"strategy set foo --data", []string{pond}, 1, []string{`"foo"`, "icr"}},
		{"strategy try foo --data", []string{filepath.Join(dir, "none")}, 1, []string{`"foo"`, "icr"}},
		{"strategy set --cap 1 --cap 2 --data", []string{pond}, 2, []string{"--cap is there twice", "shoal strategy set --help"}},
		{"channel edit 1 --weight 1 --pages 3 --weight 2 --data", []string{pond}, 2, []string{"--weight is there twice"}},
		{"channel list --data " + dir + " --data", []string{pond}, 2, []string{"--data is there twice"}},
		{"strategy set --cap nan --data", []string{pond}, 1, []string{"--cap", "NaN"}},
		{"trust set --suspend-at NaN --data", []string{pond}, 1, []string{"--suspend-at NaN", "trust show"}},
		{"trust set --newcomers inf --data", []string{pond}, 1, []string{"--newcomers +Inf", "want a number"}},
		{"trust set --audits-of-newcomer many --data", []string{pond}, 2, []string{"--audits-of-newcomer", "whole number"}},
		{"trust set --data", []string{pond}, 1, []string{"nothing to change", "--enforce"}},
		{"feed --limit -1 --data", []string{pond}, 1, []string{"--limit -1"}},
		{"export --limit -1 --data", []string{pond}, 1, []string{"--limit -1"}},
		{"plan --tick -1s --data", []string{pond}, 1, []string{"tick of -1s"}},
		{"get nonsense --data", []string{pond}, 1, []string{"nonsense", "https://"}},
		{"key show --data", []string{filepath.Join(dir, "none")}, 1, []string{"no network", "--data"}},
		{"key restore " + file + " --data", []string{filepath.Join(dir, "none")}, 1, []string{"backup"}},
	} {
		args := append(strings.Fields(c.args), c.more...)
		code, out, said := call(t, args...)
		if code != c.code {
			t.Errorf("shoal %s: status %d, want %d: %s", strings.Join(args, " "), code, c.code, said)
		}
		for _, s := range c.says {
			if !strings.Contains(said, s) {
				t.Errorf("shoal %s says %q, want %q in it", strings.Join(args, " "), said, s)
			}
		}
		if n := strings.Count(strings.TrimSpace(said), "\n"); n > 1 || out != "" || strings.Contains(said, "goroutine") || strings.Contains(said, "badgerdb:") {
			t.Errorf("shoal %s does not say it in one plain message: %s%s", strings.Join(args, " "), said, out)
		}
	}
	if now, err := os.ReadFile(filepath.Join(pond, "up-pond", "pond.json")); err != nil || string(now) != string(kept) {
		t.Errorf("the pond was changed by a refused start: %s %v", now, err)
	}
}

// TestKeys takes a network's keys from one disk to another, as their owner would.
func TestKeys(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data := filepath.Join(dir, "up-pond")
	must(t, "up", "--for", "1s", "--hosts", "3", "--pages", "3", "--peers", "1", "--data", dir, "--page", "")
	field := func(out, name string) string {
		for l := range strings.Lines(out) {
			if rest, ok := strings.CutPrefix(strings.TrimSpace(l), name); ok {
				return strings.TrimSpace(rest)
			}
		}
		t.Fatalf("no %q in %s", name, out)
		return ""
	}
	show, _ := must(t, "key", "show", "--data", data)
	network, serial := field(show, "network"), field(show, "serial")

	backup := filepath.Join(dir, "backup")
	if _, said := must(t, "key", "backup", "--data", data, "--out", backup); !strings.Contains(said, "keep it off this machine") {
		t.Error(said)
	}
	if st, err := os.Stat(backup); err != nil || st.Mode().Perm()&0o077 != 0 {
		t.Errorf("the backup can be read by others: %v %v", st.Mode(), err)
	}
	if code, _, said := call(t, "key", "backup", "--data", data, "--out", backup); code != 1 || !strings.Contains(said, "never overwritten") {
		t.Errorf("%d %s", code, said)
	}
	printed, _ := must(t, "key", "backup", "--data", data)
	if b, err := os.ReadFile(backup); err != nil || string(b) != printed {
		t.Errorf("the file and what is printed differ: %v", err)
	}

	other := filepath.Join(dir, "other")
	if out, _ := must(t, "key", "restore", backup, "--data", other); !strings.Contains(out, network) {
		t.Error(out)
	}
	if got, _ := must(t, "key", "show", "--data", other); field(got, "network") != network {
		t.Errorf("another network: %s", got)
	}
	foreign := filepath.Join(dir, "foreign")
	must(t, "up", "--for", "1s", "--hosts", "3", "--pages", "3", "--peers", "1", "--data", foreign, "--page", "")
	if code, _, said := call(t, "key", "restore", backup, "--data", filepath.Join(foreign, "up-pond")); code != 1 || said == "" {
		t.Errorf("restored over another network's keys: %d %s", code, said)
	}
	for args, want := range map[string]string{"key show": "working_key", "key backup": "backup", "key rotate": "serial"} {
		var got map[string]any
		out, _ := must(t, append(strings.Fields(args), "--data", other, "--json")...)
		if err := json.Unmarshal([]byte(out), &got); err != nil || got["network"] != network || got[want] == nil {
			t.Errorf("%s --json: %s, %v", args, out, err)
		}
	}
	if out, _ := must(t, "key", "rotate", "--data", other); !strings.Contains(out, "serial") {
		t.Error(out)
	}
	if got, _ := must(t, "key", "show", "--data", other); field(got, "serial") == serial || field(got, "network") != network {
		t.Errorf("after rotating, serial %s before: %s", serial, got)
	}
	if out, _ := must(t, "version"); !strings.HasPrefix(out, "shoal ") {
		t.Error(out)
	}
}
