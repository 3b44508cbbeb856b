package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shoal/internal/wire"
)

// TestJoinAsks: joining says who asks and what will be used, proposes limits, and joins only with the volunteer's consent.
func TestJoinAsks(t *testing.T) {
	join := manager(t)
	for answer, want := range map[string]struct {
		joined, limits bool
		code           int
	}{"y\n": {true, true, 0}, "perhaps\nYES\n": {true, true, 0}, "w\n": {true, false, 0}, "n\n": {false, false, 0}, "": {false, false, 1}} {
		v := newVolunteer(t)
		v.in = strings.NewReader(answer)
		code, out := v.do("join", join)
		for _, says := range []string{"You lend this computer to Example Search (contact: http://contact.test/).", "at most 500 KiB a second (proposed)", "a month     at most 30000 MiB (proposed)", "Join with these limits?"} {
			if !strings.Contains(out, says) {
				t.Errorf("%q: it does not say %q:\n%s", answer, says, out)
			}
		}
		_, err := wire.LoadKept(filepath.Join(v.dir, "data"))
		if joined := err == nil; code != want.code || joined != want.joined || joined != strings.Contains(out, "is now member") {
			t.Errorf("%q: status %d, joined %v:\n%s", answer, code, joined, out)
		}
		text, _ := os.ReadFile(filepath.Join(v.dir, "config", "shoal", "peer.toml"))
		if limits := strings.Contains(string(text), "\ndown_kib_per_s = 500"); limits != want.limits {
			t.Errorf("%q: the settings are\n%s", answer, text)
		}
		if set, err := load("", nil, nil); err != nil || (set.MonthMiB == 30000) != want.limits {
			t.Errorf("%q: %v, month_mib %d", answer, err, set.MonthMiB)
		}
	}
}

// TestJoinInScripts: --yes joins without a question and keeps what the volunteer has set; settings that cannot be written are said before
// anything is fetched.
func TestJoinInScripts(t *testing.T) {
	join := manager(t)
	v := newVolunteer(t)
	if code, out := v.do("join", join); code != 1 || !strings.Contains(out, "add --yes") {
		t.Errorf("without consent: %d %s", code, out)
	}
	for _, bad := range []string{"bla", join[:len(join)/2]} { // said before anything is asked
		if code, out := v.do("join", bad); code != 1 || !strings.Contains(out, "join string") || strings.Contains(out, "consent") {
			t.Errorf("%q: %d %s", bad, code, out)
		}
	}
	file := filepath.Join(v.dir, "mine.toml")
	mine := "# mine\ndown_kib_per_s = 0 # as much as there is\ndeny = [\n  \"a.test\",\n]\n\n[[windows]]\ndays = \"mon-fri\"\npause = true"
	if err := os.WriteFile(file, []byte(mine), 0o600); err != nil {
		t.Fatal(err)
	}
	var told struct {
		Peer, Network, Contact string
		Name                   string           `json:"network_name"`
		Set                    []map[string]any `json:"limits_set"`
	}
	if err := json.Unmarshal([]byte(v.ok("join", join, "--yes", "--json", "--config", file)), &told); err != nil || told.Name != "Example Search" || len(told.Set) != 3 {
		t.Errorf("%+v, %v", told, err)
	}
	text, err := os.ReadFile(file)
	if err != nil || !strings.HasPrefix(string(text), mine[:strings.Index(mine, "\n[[")]) || !strings.HasSuffix(string(text), mine[strings.Index(mine, "[["):]) {
		t.Errorf("the settings of before are not kept: %v\n%s", err, text)
	}
	set, err := load(file, nil, nil)
	if err != nil || set.DownKiBPerS != 0 || set.UpKiBPerS != 100 || len(set.Windows) != 1 || len(set.Deny) != 1 {
		t.Errorf("%v: %+v\n%s", err, set, text)
	}
	if out := v.ok("join", join, "--yes", "--config", file); !strings.Contains(out, "is now member") { // again
		t.Error(out)
	}
	other := newVolunteer(t)
	if err := os.MkdirAll(filepath.Join(other.dir, "config"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("/proc/self"); err != nil {
		t.Skip("no folder here that even root cannot write to")
	}
	if err := os.Symlink("/proc/self", filepath.Join(other.dir, "config", "shoal")); err != nil {
		t.Fatal(err)
	}
	code, out := other.do("join", join, "--yes")
	if _, err := wire.LoadKept(filepath.Join(other.dir, "data")); code != 1 || err == nil || !strings.Contains(out, "limits cannot be written") || !strings.Contains(out, "--no-limits") {
		t.Errorf("%d %v %s", code, err, out)
	}
}

// TestLimitsOfJoining joins beside a program that runs and waits, as a service does: the limits that were agreed to hold at once.
func TestLimitsOfJoining(t *testing.T) {
	join := manager(t)
	v := newVolunteer(t)
	var out buffer
	ctx, end := context.WithCancel(t.Context())
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, []string{"run", "--port", "0", "--listen", "127.0.0.1", "--no-quic", "--no-dht", "--no-low-priority", "--control", "127.0.0.1:0"}, streams{&out, &out, v.env, nil})
	}()
	defer func() { end(); <-code }()
	v.statusOf(func(st *status) bool { return st.State == stateUnjoined })
	if text := v.ok("join", join, "--yes"); !strings.Contains(text, "The running peer begins with it now") || strings.Contains(text, "Start crawling with") {
		t.Errorf("beside a program that runs it says:\n%s", text)
	}
	st := v.statusOf(func(st *status) bool { return len(st.Networks) == 1 })
	if l := st.Limits; l.DownKiBPerS.Value != 500 || l.UpKiBPerS.Value != 100 || l.DayMiB.Value != 2000 || l.MonthMiB.Value != 30000 {
		t.Errorf("%+v", l)
	}
}
