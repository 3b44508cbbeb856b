package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"shoal/internal/member"
	"shoal/internal/wire"
	"shoal/peer/limit"
)

// manager starts a network that consists of its manager alone.
func manager(t *testing.T) (join string) {
	t.Helper()
	keys, err := member.LoadOrCreate(t.TempDir(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	issuer, err := member.NewIssuer(keys.Authority, member.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	node, err := wire.New(t.Context(), wire.Config{Key: keys.Node, Network: keys.Network, Role: member.Manager, Listen: []string{"/ip4/127.0.0.1/tcp/0"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { node.Close() })
	sealed, serial := keys.Delegations(time.Now())
	doc, err := keys.Authority.SignDocument(member.Document{Network: keys.Network, Delegations: sealed, MinSerial: serial,
		Managers: []member.Server{{Peer: node.ID().String(), Addrs: []string{node.Host().Addrs()[0].String()}}}, Name: "Example Search", Contact: "http://contact.test/",
		MinProtocol: 1, Issued: time.Now(), NotAfter: time.Now().Add(time.Hour), Lease: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if err := node.SetIssuer(issuer, doc); err != nil {
		t.Fatal(err)
	}
	node.ServeStanding(holding())
	return member.JoinString{Network: keys.Network, Addrs: node.Addrs()}.String()
}

type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// volunteer is a computer with its own folders.
type volunteer struct {
	t   *testing.T
	dir string
	env []string
	in  io.Reader
}

func newVolunteer(t *testing.T) *volunteer {
	dir := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(dir, "config"))
	t.Setenv("HOME", dir)
	return &volunteer{t: t, dir: dir, env: []string{"SHOAL_PEER_DATA=" + filepath.Join(dir, "data"), "PATH=/bin"}}
}

const patience = 3 * time.Minute // for what takes a second on a quiet machine

func (v *volunteer) do(args ...string) (code int, out string) {
	v.t.Helper()
	var b buffer
	ctx, cancel := context.WithTimeout(v.t.Context(), 2*time.Minute)
	defer cancel()
	code = run(ctx, args, streams{&b, &b, v.env, v.in})
	return code, b.String()
}

func (v *volunteer) ok(args ...string) string {
	v.t.Helper()
	code, out := v.do(args...)
	if code != 0 {
		v.t.Fatalf("shoal-peer %s: status %d\n%s", strings.Join(args, " "), code, out)
	}
	return out
}

func TestVolunteer(t *testing.T) {
	join := manager(t)
	v := newVolunteer(t)
	if out := v.ok("join", join, "--yes", "--no-limits", "--account", "ada"); !strings.Contains(out, "is now member") {
		t.Error(out)
	}
	code := make(chan int, 1)
	var out buffer
	go func() {
		code <- run(t.Context(), []string{"run", "--port", "0", "--listen", "127.0.0.1", "--no-quic", "--no-dht", "--up-kib-per-s", "500", "--deny", "example.org", "--no-low-priority",
			"--control", "127.0.0.1:0"}, streams{&out, &out, v.env, nil})
	}()
	var st status
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		c, text := v.do("status", "--json")
		if c == 0 {
			if err := json.Unmarshal([]byte(text), &st); err != nil {
				t.Fatal(err)
			}
			if st.Peer != "" {
				break
			}
		}
		if time.Now().After(end) {
			t.Fatalf("never runs: %s %s", text, out.String())
		}
	}
	if st.Account != "ada" || st.Mode != "open" || st.Limits.UpKiBPerS.Value != 500 || !st.Limits.DSCPLE || st.Threads != 5 {
		t.Errorf("status %+v", st)
	}
	if c, text := v.do("run"); c == 0 || !strings.Contains(text, "another peer runs") {
		t.Errorf("a second run in one folder: %d %s", c, text)
	}
	v.ok("pause", "2h")
	if text := v.ok("status"); !strings.HasPrefix(text, "Paused because you said so, until ") {
		t.Error(text)
	}
	v.ok("resume")
	v.ok("finish")
	if text := v.ok("status"); !strings.HasPrefix(text, "Finishing, because you said so: no site being fetched") {
		t.Error(text)
	}
	v.ok("drain")
	v.ok("resume")
	if text := v.ok("limit", "--down", "100"); !strings.Contains(text, "100 KiB/s  (shoal-peer limit)") || !strings.Contains(text, "500 KiB/s  (your settings, --up-kib-per-s)") {
		t.Error(text)
	}
	if text := v.ok("limit"); !strings.Contains(text, "denied    example.org  (your settings, --deny)") {
		t.Error(text)
	}
	if c, text := v.do("pause", "soon"); c == 0 || !strings.Contains(text, `shoal-peer: a pause of "soon"; say 30m or 2h`) {
		t.Errorf("pause soon: %d %s", c, text)
	}
	for _, args := range [][]string{{"log"}, {"log", "--sites"}, {"log", "--since", "2h", "-n", "3"}} {
		if text := v.ok(args...); !strings.Contains(text, "Nothing that fits") {
			t.Errorf("%v of nothing: %q", args, text)
		}
	}
	if text := v.ok("leave"); !strings.Contains(text, "has left") {
		t.Error(text)
	}
	if c := <-code; c != 0 {
		t.Errorf("run ended with %d: %s", c, out.String())
	}
	left, err := os.ReadDir(filepath.Join(v.dir, "data"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range left {
		if n := f.Name(); n == "membership" || n == "members.json" || n == "control.json" {
			t.Errorf("%s is left behind", n)
		}
		if inside, _ := os.ReadDir(filepath.Join(v.dir, "data", f.Name())); f.Name() != "log" && len(inside) > 0 {
			t.Errorf("%s holds %d files", f.Name(), len(inside))
		}
	}
	if c, text := v.do("status"); c != 1 || !strings.Contains(text, "no peer runs") {
		t.Errorf("status after leaving: %d %s", c, text)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var after buffer
	go func() {
		code <- run(ctx, []string{"run", "--control", "127.0.0.1:0"}, streams{&after, &after, v.env, nil})
	}()
	for end := time.Now().Add(patience); !strings.Contains(after.String(), "has joined no network yet"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("run after leaving: %s", after.String())
		}
	}
	cancel()
	if c := <-code; c != 0 {
		t.Errorf("run after leaving ended with %d: %s", c, after.String())
	}
}

func TestBadCommandLines(t *testing.T) {
	v := newVolunteer(t)
	conf := filepath.Join(v.dir, "bad.toml")
	if err := os.WriteFile(conf, []byte("down_kib = 3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	types := filepath.Join(v.dir, "types.toml")
	if err := os.WriteFile(types, []byte("threads = \"two\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		env  string
		code int
		says string
	}{
		{[]string{"fly"}, "", 2, "unexpected"},
		{[]string{"run", "--fast"}, "", 2, "--fast"},
		{[]string{"run", "--threads", "0"}, "", 1, "threads"},
		{[]string{"run", "--threads", "5000"}, "", 1, "--threads: threads is 5000; want 1 to 64"},
		{[]string{"run", "--min-gap-ms", "10"}, "", 1, "min_gap_ms is 10; want at least 200"},
		{[]string{"run", "--config", conf}, "", 1, `did you mean "down_kib_per_s"?`},
		{[]string{"run", "--config", conf + ".none"}, "", 1, "no such file"},
		{[]string{"run"}, "SHOAL_PEER_THREAD=3", 1, `did you mean "threads"?`},
		{[]string{"run"}, "SHOAL_PEER_THREADS=many", 1, `THREADS: want a whole number, not "many"`},
		{[]string{"run"}, "SHOAL_PEER_QUIC=perhaps", 1, `QUIC: want true or false, not "perhaps"`},
		{[]string{"run", "--control", "0.0.0.0:7781"}, "", 1, "loopback"},
		{[]string{"run", "--day-mib", "8796093022208"}, "", 1, "day_mib is 8796093022208; want 0 (no limit) to 2147483647"},
		{[]string{"run"}, "SHOAL_PEER_DOWN_KIB_PER_S=18014398509481985", 1, "down_kib_per_s is 18014398509481985; want 0 (no limit) to 2147483647"},
		{[]string{"run", "--grace-s", "9999999999999"}, "", 1, "grace_s is 9999999999999; want 0 to 2147483647"},
		{[]string{"run", "--checkpoint-min", "153722868"}, "", 1, "checkpoint_min is 153722868; want 1 to 525600"},
		{[]string{"run", "--min-gap-ms", "2147483648"}, "", 1, "min_gap_ms is 2147483648; want 200 to 2147483647"},
		{[]string{"run", "--deny", "."}, "", 1, "deny[1] is \".\"; want a domain such as example.org"},
		{[]string{"run"}, "SHOAL_PEER_DENY=a.example,*", 1, "deny[2] is \"*\"; want a domain such as example.org"},
		{[]string{"log", "--sites", "-f"}, "", 1, "--sites shows totals"},
		{[]string{"log", "--site", "no site"}, "", 1, "want a host such as example.org"},
		{[]string{"run", "--control", "7781"}, "", 1, "loopback"},
		{[]string{"run", "--unpaced"}, "", 1, "--pond"},
		{[]string{"run", "--on-battery", "sleep"}, "", 1, "want pause or run"},
		{[]string{"run", "--min-free-mib", "-1"}, "", 1, "min_free_mib"},
		{[]string{"run", "--policy-url", "gopher://x"}, "", 1, "https://host/path"},
		{[]string{"run", "--policy-url", "http://intranet.example/p.toml"}, "", 1, "--policy-url: policy_url is \"http://intranet.example/p.toml\"; want https://"},
		{[]string{"run", "--config", types}, "", 1, `types.toml, line 1: threads is "two"; want a whole number`},
		{[]string{"join", "nonsense", "--yes"}, "", 1, "malformed"},
		{[]string{"join", "nonsense"}, "", 1, "is not a join string"},
		{[]string{"join", "nonsense", "--threads", "3"}, "", 2, "--threads"},
		{[]string{"run", "--listen", "localhost"}, "", 1, "want an IP address"},
		{[]string{"run", "--announce", "192.0.2.7:7785"}, "", 1, `announce[1] is "192.0.2.7:7785"; want a multiaddr with a TCP port, such as /ip4/192.0.2.7/tcp/7785`},
		{[]string{"run", "--announce", "/ip4/192.0.2.7/udp/7785"}, "", 1, "want a multiaddr with a TCP port"},
		{[]string{"run", "--pond", "192.0.2.7:80"}, "", 1, "loopback"},
		{[]string{"run", "--pond", "nonsense"}, "", 1, "loopback"},
		{[]string{"log", "-n", "0"}, "", 1, "want 1 or more"},
		{[]string{"status"}, "", 1, "no peer runs in " + filepath.Join(v.dir, "data") + "; start one"},
		{[]string{"leave", "--data", filepath.Join(v.dir, "nowhere")}, "", 1, "no peer ran there"},
		{[]string{"leave", "--data", v.dir}, "", 0, "so there was none to leave"},
		{[]string{"pause", "abc"}, "", 1, "a pause of \"abc\"; say 30m or 2h"},
		{[]string{"pause", "-5m"}, "", 1, "a pause of \"-5m\"; say 30m or 2h"},
		{[]string{"pause", "-5m", "--json"}, "", 1, "a pause of \"-5m\"; say 30m or 2h"},
		{[]string{"status", "-5"}, "", 2, "-5"},
		{[]string{"object", "zz", "it", "was", "so"}, "", 1, "is no number of a case"},
		{[]string{"log", "--data", filepath.Join(v.dir, "nowhere")}, "", 1, "no peer ran there"},
		{[]string{"log", "--sites", "--data", filepath.Join(v.dir, "nowhere")}, "", 1, "no peer ran there"},
		{[]string{"completion", "tcsh"}, "", 2, "bash"},
	} {
		env := v.env
		if c.env != "" {
			env = append(env[:len(env):len(env)], c.env)
		}
		var b buffer
		if code := run(t.Context(), c.args, streams{&b, &b, env, nil}); code != c.code || !strings.Contains(b.String(), c.says) {
			t.Errorf("%v %s: status %d, want %d; says %q, want %q", c.args, c.env, code, c.code, b.String(), c.says)
		}
	}
}

func TestLayers(t *testing.T) {
	v := newVolunteer(t)
	conf := filepath.Join(v.dir, "peer.toml")
	text := "threads = 2\nqueue = 3\nday_mib = 100\n[[windows]]\ndays = \"mon-fri\"\nfrom = \"08:00\"\nto = \"18:00\"\npause = true\n"
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := load(conf, []string{"SHOAL_PEER_QUEUE=4", "SHOAL_PEER_DENY=a.test,b.test"}, map[string]any{"day_mib": 50})
	if err != nil {
		t.Fatal(err)
	}
	if s.Threads != 2 || s.Queue != 4 || s.DayMiB != 50 || s.MinGapMs != 1000 || len(s.Deny) != 2 || len(s.Windows) != 1 || !s.Windows[0].Pause || s.OnBattery != "pause" {
		t.Errorf("%+v", s)
	}
	l := limit.New(s.Settings, "your settings", nil)
	l.SetSources(s.from)
	l.SetSession(7, -1)
	f := l.At(time.Date(2026, 11, 22, 12, 0, 0, 0, time.Local)) // a Sunday
	if f.DayMiB.Source != "your settings, --day-mib" || f.DSCPSource != "your settings" || f.DownKiBPerS.Source != "shoal-peer limit" || s.from["queue"] != "your settings, SHOAL_PEER_QUEUE in the environment" ||
		s.from["threads"] != "your settings in "+conf {
		t.Errorf("%+v %v", f, s.from)
	}
	if err := os.WriteFile(conf, []byte("[[windows]]\ndays = \"caturday\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := load(conf, nil, nil); !errors.Is(err, limit.ErrSettings) {
		t.Error(err)
	}
}

// TestTakenPort starts a peer while its default port is in use, as by a manager on the same machine.
func TestTakenPort(t *testing.T) {
	l, err := net.Listen("tcp", net.JoinHostPort("", strconv.Itoa(wire.DefaultPort)))
	if err == nil {
		defer l.Close()
	}
	held := err == nil // else another program has it, which may let go of it at any moment
	p := program{set: defaults(), log: slog.New(slog.DiscardHandler)}
	if port, err := p.portFor(0); err != nil || held && port == wire.DefaultPort || port == 0 {
		t.Errorf("port %d, %v", port, err)
	}
	p.set.Port = 1 // named: it stays
	if port, err := p.portFor(0); err != nil || port != 1 {
		t.Errorf("port %d, %v", port, err)
	}
	p.set.Port = 0
	if port, err := p.portFor(3); err != nil || port != 0 {
		t.Errorf("port %d, %v", port, err)
	}
}
