package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// runningPeer starts a member of a network of its own, with a settings file, and returns it with its running peer's output.
func runningPeer(t *testing.T, text string, args ...string) (v *volunteer, file string, out *buffer) {
	t.Helper()
	v = newVolunteer(t)
	v.ok("join", manager(t), "--yes", "--no-limits")
	file = filepath.Join(v.dir, "config", "shoal", "peer.toml")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out = &buffer{}
	code := make(chan int, 1)
	go func() {
		code <- run(t.Context(), append([]string{"run", "--no-low-priority", "--control", "127.0.0.1:0"}, args...), streams{out, out, v.env, nil})
	}()
	t.Cleanup(func() {
		if c, text := v.do("leave"); c != 0 {
			t.Errorf("leave: %s", text)
		}
		if c := <-code; c != 0 {
			t.Errorf("run ended with %d: %s", c, out)
		}
	})
	for end := time.Now().Add(patience); !strings.Contains(out.String(), "is running"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never runs: %s", out)
		}
	}
	return v, file, out
}

func (v *volunteer) status() (st status) {
	v.t.Helper()
	if err := json.Unmarshal([]byte(v.ok("status", "--json")), &st); err != nil {
		v.t.Fatal(err)
	}
	return st
}

// TestSettingsTakeEffect changes settings of a running peer: what is right is in the file and in force, the rest of the file stays, and what is wrong
// is refused under its name, with nothing changed.
func TestSettingsTakeEffect(t *testing.T) {
	const port = "--up-kib-per-s=90"
	v, file, _ := runningPeer(t, "# mine\nport = 0 # any\nlisten = \"127.0.0.1\"\nquic = false\ndht = false\nthreads = 2 # old\n", port)
	read := func() string {
		t.Helper()
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if text := v.ok("settings"); !strings.Contains(text, "threads         2  (your settings in "+file+")") || !strings.Contains(text, "Download limit") {
		t.Error(text)
	}
	if text := v.ok("settings", "threads=4", "queue=7", "down-kib-per-s=300", "log_level=error", "deny=[\"b.example\"]", "grace_s=3"); !strings.Contains(text, "threads         4") {
		t.Error(text)
	}
	st := v.status()
	if st.Threads != 4 || st.Queue != 7 || st.Limits.DownKiBPerS.Value != 300 || st.Limits.DownKiBPerS.Source != "your settings in "+file || len(st.Denied) != 1 {
		t.Errorf("%d %d %+v %v", st.Threads, st.Queue, st.Limits.DownKiBPerS, st.Denied)
	}
	before := read()
	if !strings.HasPrefix(before, "# mine\nport = 0 # any\n") || !strings.Contains(before, "threads = 4 # old\n") {
		t.Error(before)
	}
	code, text := v.do("settings", "threads=400", "on_battery=sleep", "windows=[{days=\"caturday\"}]", "no_such=1")
	if code == 0 || !strings.Contains(text, "no_such is not a setting") {
		t.Error(text)
	}
	code, text = v.do("settings", "threads=400", "on_battery=sleep", "windows=[{days=\"caturday\"}]", "data=/tmp/x")
	for _, says := range []string{"threads is 400; want 1 to 64", `on_battery is "sleep"; want pause or run`, `windows[1].days is "caturday"; want mon-fri or sat,sun`, "data can only be set in the file"} {
		if code == 0 || !strings.Contains(text, says) {
			t.Errorf("it does not say %q: %s", says, text)
		}
	}
	if read() != before || v.status().Threads != 4 {
		t.Error("something has changed:\n" + read())
	}
	if text := v.ok("settings", "threads=9", "down_kib_per_s=50", "--dry-run"); !strings.Contains(text, "Nothing was changed") || !strings.Contains(text, "50  (your settings") || read() != before {
		t.Error(text)
	}
	if text := v.ok("settings", "up_kib_per_s=40"); !strings.Contains(text, "--up-kib-per-s holds until it is gone") || v.status().Limits.UpKiBPerS.Value != 90 {
		t.Error(text)
	}
	v.ok("settings", "down_kib_per_s=")
	if text := read(); strings.Contains(text, "down_kib") || v.status().Limits.DownKiBPerS.Value != 0 {
		t.Error(text)
	}
	if _, err := os.Stat("/proc/self"); err == nil { // a folder that even root cannot write to
		dir := filepath.Dir(file)
		if err := errors.Join(os.Rename(dir, dir+"2"), os.Symlink("/proc/self", dir)); err != nil {
			t.Fatal(err)
		}
		if code, text := v.do("settings", "threads=3"); code == 0 || !strings.Contains(text, "the settings cannot be written to "+file) || !strings.Contains(text, "make it writable") || v.status().Threads != 4 {
			t.Errorf("a file that cannot be written: %d %s", code, text)
		}
		if err := errors.Join(os.Remove(dir), os.Rename(dir+"2", dir)); err != nil {
			t.Fatal(err)
		}
	}
	began := v.status().Since
	if text := v.ok("settings", "dscp_le=false"); !strings.Contains(text, "comes back") {
		t.Error(text)
	}
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		if c, text := v.do("status", "--json"); c == 0 {
			var st status
			if err := json.Unmarshal([]byte(text), &st); err != nil {
				t.Fatal(err)
			}
			if st.State != stateStarting && st.Since.After(began) && !st.Limits.DSCPLE && st.Peer != "" {
				break
			}
		}
		if time.Now().After(end) {
			t.Fatal("it does not come back")
		}
	}
}

// TestPagesQuestions asks what the page asks of a running peer, as the commands do.
func TestPagesQuestions(t *testing.T) {
	v, file, _ := runningPeer(t, "port = 0\nlisten = \"127.0.0.1\"\nquic = false\ndht = false\n")
	if text := v.ok("deny", "https://www.Shop.example:8080/x"); !strings.Contains(text, "www.shop.example and everything below it is not fetched any more; 0 tasks given back") {
		t.Error(text)
	}
	for _, step := range [][2]string{{"a.www.shop.example", "but www.shop.example is, with everything below it"}, {"shop.example", "was not on your list"}, {"www.shop.example", "is not on your list any more"}, {"www.shop.example", "was not on your list"}} {
		if text := v.ok("deny", "--allow", step[0]); !strings.Contains(text, step[1]) {
			t.Error(text)
		}
	}
	for domain, many := range map[string]bool{"com": true, "CO.UK": true, "github.io": true, "shop.co.uk": false, "nas": false} {
		text := v.ok("deny", domain)
		if name := strings.ToLower(domain); strings.Contains(text, "every site away whose name ends in ."+name+". To take it back: shoal-peer deny --allow "+name) != many {
			t.Errorf("deny %s: %s", domain, text)
		}
		v.ok("deny", "--allow", domain)
	}
	for _, step := range [][2]string{{"*.Evil.example", "evil.example"}, {"bücher.example", "xn--bcher-kva.example"}} {
		if text := v.ok("deny", step[0]); !strings.Contains(text, step[1]+" and everything below it is not fetched any more") {
			t.Error(text)
		}
		if text := v.ok("deny", "--allow", step[0]); !strings.Contains(text, "is not on your list any more") {
			t.Error(text)
		}
	}
	for _, none := range []string{"no domain", "http://", "https://", "ads.*", "*", ".", "..", "*.*"} {
		if c, text := v.do("deny", none); c == 0 || !strings.Contains(text, "want one such as example.org") {
			t.Error(text)
		}
	}
	if text := v.ok("deny", "127.0.0.1"); strings.Contains(text, "below it") || strings.Contains(text, "name ends in") {
		t.Errorf("an address has names below it: %s", text)
	}
	v.ok("deny", "--allow", "127.0.0.1")
	if b, err := os.ReadFile(file); err != nil || strings.Contains(string(b), "deny") {
		t.Errorf("%s %v", b, err)
	}
	v.ok("pause", "tomorrow")
	if st := v.status(); time.Until(st.Until) < 6*time.Hour-time.Minute || time.Until(st.Until) > 31*time.Hour || st.Until.Local().Hour() != 6 {
		t.Errorf("till tomorrow is till %v", st.Until)
	}
	v.ok("resume")
	if text := v.ok("history", "month"); !strings.Contains(text, "down MiB") {
		t.Error(text)
	}
	list := filepath.Join(v.dir, "hosts")
	if err := os.WriteFile(list, []byte("0.0.0.0 ads.example\n0.0.0.0 more.example\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	v.ok("settings", "block_lists=[\""+list+"\", \""+list+"2\"]")
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		if st := v.status(); st.Blocked == 2 && strings.Contains(strings.Join(st.Notes, "\n"), "cannot be read, and blocks nothing yet: there is no such file") {
			break
		} else if time.Now().After(end) {
			t.Fatalf("%d names are blocked; %q", st.Blocked, st.Notes)
		}
	}
	report := v.ok("report")
	for _, private := range []string{v.dir, "shop.example", "127.0.0.1", v.status().Peer, v.status().Network, "http://"} {
		if strings.Contains(report, private) {
			t.Errorf("the report has %q:\n%s", private, report)
		}
	}
	if !strings.Contains(report, "shoal-peer ") || !strings.Contains(report, "block_lists is set") || !strings.Contains(report, "Connection") {
		t.Error(report)
	}
	if text := v.ok("picture", "--lang", "de"); !strings.Contains(text, "<svg") || !strings.Contains(text, "0 Seiten geholt") {
		t.Error(text)
	}
	if link := v.ok("open", "--print"); !strings.HasPrefix(link, "http://127.0.0.1:") || !strings.Contains(link, "/enter?once=") {
		t.Error(link)
	}
}

// TestClean takes everything private out of a text.
func TestClean(t *testing.T) {
	for text, want := range map[string]string{
		"cannot fetch https://a.example/x?y=1 now":                          "cannot fetch (URL) now",
		"dial 198.51.100.7:443 and [2001:db8::1]:80":                        "dial (address):443 and [(address)]:80",
		"peer 12D3KooWFmD6skWmBmHnDGHWX8vU6d1h25bC2zkN6FFWqan1PK9N is gone": "peer (key) is gone",
		"policy /home/ada/.config/shoal/peer.toml: no":                      "policy (folder): no",
		"the site shop.example does not answer":                             "the site (name) does not answer",
		"1.5 GiB are free in policy.toml":                                   "1.5 GiB are free in policy.toml",
		"shoal-join-abcdef and shoal-peer run":                              "(key) and shoal-peer run",
	} {
		if got := clean(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

// TestOrdersOutliveComingBack: who comes back with other settings does so with the orders and the rates of before, but for a rate that is another one now.
func TestOrdersOutliveComingBack(t *testing.T) {
	v, _, _ := runningPeer(t, "port = 0\nlisten = \"127.0.0.1\"\nquic = false\ndht = false\n")
	came := v.status().Since
	back := func() (st status) {
		t.Helper()
		st = v.statusOf(func(st *status) bool {
			return st.Peer != "" && len(st.Networks) == 1 && st.Since.After(came) && st.Networks[0].UpKiBPerS == 33 // which is shared out a moment later
		})
		came = st.Since
		return st
	}
	v.ok("finish")
	v.ok("limit", "--down", "77")
	v.ok("limit", "--network", v.status().Network, "--up", "33")
	v.ok("settings", `announce=["/ip4/192.0.2.7/tcp/7785"]`)
	if st := back(); st.Mode != "finish" || st.Limits.DownKiBPerS.Value != 77 || st.Limits.DownKiBPerS.Source != "shoal-peer limit" || st.Networks[0].UpKiBPerS != 33 {
		t.Errorf("%s, %+v, %+v", st.Mode, st.Limits.DownKiBPerS, st.Networks)
	}
	v.ok("drain")
	v.ok("settings", "announce=[]")
	if st := back(); st.Mode != "drain" || st.Limits.DownKiBPerS.Value != 77 {
		t.Errorf("%s, %+v", st.Mode, st.Limits.DownKiBPerS)
	}
	v.ok("resume")
	v.ok("settings", `announce=["/ip4/192.0.2.7/tcp/7785"]`, "down_kib_per_s=300")
	if st := back(); st.Mode != "open" || st.Limits.DownKiBPerS.Value != 300 || st.Networks[0].UpKiBPerS != 33 {
		t.Errorf("%s, %+v, %+v", st.Mode, st.Limits.DownKiBPerS, st.Networks)
	}
}
