package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"shoal/internal/lab/pond"
	"shoal/internal/lab/standstill"
	"shoal/internal/lab/waiting"
	"shoal/internal/member"
	"shoal/internal/ports"
	"shoal/internal/wire"
	"shoal/manager"
)

// request is a request to join.
func request(peer, invite string) member.Request {
	return member.Request{Peer: peer, Addr: netip.MustParseAddr("192.0.2.7"), Invite: invite}
}

// inviteOf is the invite in a join string.
func inviteOf(t *testing.T, st *station, uses uint32) string {
	t.Helper()
	text, err := st.invite(time.Now(), uses)
	if err != nil {
		t.Fatal(err)
	}
	j, err := member.ParseJoinString(text)
	if err != nil {
		t.Fatal(err)
	}
	return j.Invite
}

// An invite that is used up stays used up over a restart, to the last use.
func TestInvitesSurviveARestart(t *testing.T) {
	cfg := stationForTest(t)
	cfg.joining.Closed = true
	open := func() *station {
		t.Helper()
		st, err := openStation(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		return st
	}
	st := open()
	invite := inviteOf(t, st, 3)
	for i := range 2 {
		if _, err := st.issuer.Issue(time.Now(), request(fmt.Sprint("p", i), invite)); err != nil {
			t.Fatal(err)
		}
	}
	for want := range []int{0, 1} { // after the first restart one is left, after the second none
		if err := st.close(); err != nil {
			t.Fatal(err)
		}
		st = open()
		_, err := st.issuer.Issue(time.Now(), request("q", invite))
		if left := 1 - want; (err == nil) != (left == 1) {
			t.Errorf("%d uses left: %v", left, err)
		}
		if _, err := st.issuer.Issue(time.Now(), request("r", invite)); err == nil || !strings.Contains(err.Error(), "3 times") {
			t.Errorf("one too many: %v", err)
		}
	}
	if err := st.close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(cfg.data, ledgerName), []byte("rubbish"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openStation(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), ledgerName) {
		t.Errorf("a ledger that cannot be read: %v", err)
	}
}

// Bans survive a restart, those of version 0.1.0 too, and the network document names the young ones.
func TestBansSurviveARestart(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, bannedName), []byte(`["eve","mallory"]`), 0o600); err != nil {
		t.Fatal(err)
	}
	keys, err := member.LoadOrCreate(filepath.Join(dir, "keys"), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	open := func(now time.Time) (*members, *member.Issuer) {
		t.Helper()
		issuer, err := member.NewIssuer(keys.Authority, member.Policy{})
		if err != nil {
			t.Fatal(err)
		}
		m, err := openMembers(dir, issuer, now)
		if err != nil {
			t.Fatal(err)
		}
		return m, issuer
	}
	m, issuer := open(now)
	named := request("p", "")
	named.Label = "eve"
	if _, err := issuer.Issue(now, named); err == nil {
		t.Error("a ban of a name that was chosen is forgotten")
	}
	if err := m.set("eve", false, nil, now); err != nil {
		t.Fatal(err)
	}
	if err := m.set("bad", true, []string{"192.0.2.0/24"}, now); err != nil {
		t.Fatal(err)
	}
	m, issuer = open(now)
	if got := m.list(); len(got) != 2 || got[0] != "mallory" || got[1] != "bad" {
		t.Errorf("banned are %v", got)
	}
	if _, err := issuer.Issue(now, named); err == nil || !strings.Contains(err.Error(), "network address") {
		t.Errorf("from where a banned one was: %v", err)
	}
	if told := m.told(now); len(told) != 1 || told[0] != member.BanOf("bad") {
		t.Errorf("the document names %v", told)
	}
	if told := m.told(now.Add(banTold)); len(told) != 0 {
		t.Errorf("the document names bans for longer than any certificate lasts: %v", told)
	}
	_, issuer = open(now.Add(prefixHold))
	if _, err := issuer.Issue(now.Add(prefixHold), named); err != nil {
		t.Errorf("an hour later: %v", err)
	}
	if _, err := issuer.Issue(now, request("bad", "")); err == nil {
		t.Error("a banned one has joined")
	}
	if err := m.set("bad", false, nil, now); err != nil {
		t.Fatal(err)
	}
	if _, err := m.issuer.Issue(now, request("bad", "")); err != nil {
		t.Errorf("forgiven: %v", err)
	}
	var file bannedFile
	b, err := os.ReadFile(filepath.Join(dir, bannedName))
	if err == nil {
		err = json.Unmarshal(b, &file)
	}
	if err != nil || file.Version != 2 || len(file.Banned) != 1 {
		t.Errorf("kept %s, %v", b, err)
	}
}

// pondRun is a pond that is served until the test ends, and what runs beside it.
type pondRun struct {
	world  *pond.World
	server *pond.Server
	run    func(what string, f func(context.Context) error) // runs something until stop
	stop   func()                                           // ends all that runs; it may be called again
}

func runPond(t *testing.T, cfg pond.Config) pondRun {
	t.Helper()
	world, err := pond.NewWorld(cfg)
	if err != nil {
		t.Fatal(err)
	}
	server, err := pond.NewServer(world, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	p := pondRun{world: world, server: server, stop: func() { cancel(); wg.Wait() }}
	p.run = func(what string, f func(context.Context) error) {
		wg.Go(func() {
			if err := f(ctx); err != nil && ctx.Err() == nil {
				t.Errorf("%s: %v", what, err)
			}
		})
	}
	t.Cleanup(p.stop)
	p.run("pond", server.Run)
	return p
}

// A volunteer that crawls is banned: two seconds later it is gone, nothing of it is taken, and it holds nothing. Forgiven, it goes on.
func TestBanActsAtOnce(t *testing.T) {
	t.Parallel()
	web := runPond(t, pond.Config{Seed: 1, Hosts: 6, Pages: 6000, Bytes: 2000, Plain: true, Start: time.Now()})
	port, err := ports.Free()
	if err != nil {
		t.Fatal(err)
	}
	cfg := stationConfig{data: filepath.Join(t.TempDir(), "manager"), listen: []string{fmt.Sprintf("/ip4/127.0.0.1/tcp/%d", port)}, dialer: pondDialer(web.world, port),
		log: slog.New(slog.DiscardHandler), manager: pondManager(), reach: pondReach}
	st, err := openStation(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { web.stop(); st.close() })
	web.run("station", st.run)
	if _, err := st.desk.AddChannels(t.Context(), pondChannels(web.world)); err != nil {
		t.Fatal(err)
	}
	w := &swimmers{n: 1, dir: filepath.Join(t.TempDir(), "peers"), pond: web.server, log: slog.New(slog.DiscardHandler)}
	web.run("peer", func(ctx context.Context) error { return w.run(ctx, st.joinString()) })
	until := func(what string, holds func() bool) { t.Helper(); waiting.Until(t, what, holds) }
	until("the volunteer crawls, and some of it is stored", func() bool { s := st.archive.Stats(); return s.Chunks > 0 && s.Leases > 0 })

	volunteers := func() []wire.Connected {
		return st.node.Members(func(m wire.Member) bool { return m.Role == member.Peer })
	}
	of := volunteers()
	if len(of) == 0 {
		t.Fatal("no volunteer is connected")
	}
	desk := membersDesk{st: st}
	if err := desk.Ban(of[0].Account, true); err != nil {
		t.Fatal(err)
	}
	if s := st.archive.Stats(); s.Leases != 0 {
		t.Errorf("a banned volunteer holds %d leases", s.Leases)
	}
	still := standstill.Of(os.Getpid())
	until("the volunteer is gone", func() bool { return len(volunteers()) == 0 })
	if d := still.For(); d > 2*time.Second {
		t.Errorf("a ban took %v", d)
	}
	at, denied := st.archive.Stats(), st.node.Refused()["denied"]
	until("it comes back, and is refused, again and again", func() bool { return st.node.Refused()["denied"] >= denied+3 })
	if s := st.archive.Stats(); s.Chunks != at.Chunks || s.Pages != at.Pages || s.Unchanged != at.Unchanged {
		t.Errorf("%d pages in %d chunks were taken from a banned volunteer", s.Pages-at.Pages, s.Chunks-at.Chunks)
	}
	if n := len(volunteers()); n != 0 {
		t.Errorf("%d banned volunteers are connected", n)
	}
	if err := desk.Ban(of[0].Account, false); err != nil {
		t.Fatal(err)
	}
	until("the volunteer is forgiven and goes on", func() bool { return st.archive.Stats().Chunks > at.Chunks })
}

func pondManager() manager.Config {
	c := manager.Default()
	pondSettings(&c)
	return c
}

// A token that others on the machine can read is no secret: the manager does not start with it, and the commands do not use it.
func TestTokenThatOthersCanRead(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("files have no such modes")
	}
	cfg := stationForTest(t)
	st, err := openStation(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := st.close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(cfg.data, "operator.token")
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := openStation(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "chmod 600 "+path) {
		t.Errorf("the manager: %v", err)
	}
	if _, err := (&target{}).remote(cfg.data, "127.0.0.1:1"); err == nil || !strings.Contains(err.Error(), "chmod 600 "+path) {
		t.Errorf("a command: %v", err)
	}
}
