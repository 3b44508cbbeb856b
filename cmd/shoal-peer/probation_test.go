//go:build unix

package main

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"shoal/internal/member"
	"shoal/internal/wire"
	"shoal/peer/limit"
)

// askerFor returns an asker under a policy with that proxy; none if it is empty.
func askerFor(t *testing.T, proxy string) *asker {
	t.Helper()
	set := defaults()
	set.Data = t.TempDir()
	a := &asker{set: set, p: &program{set: set, log: slog.New(slog.DiscardHandler), limits: limit.New(set.Settings, "your settings", nil), meter: limit.NewMeter(nil)}}
	a.admin = newPolicies(a.p)
	a.p.limits.SetPolicy("test", &limit.Policy{Proxy: proxy})
	a.cfg = set.config()
	a.p.members(&a.cfg, a.p.meter)
	return a
}

// TestAsksAsThePeerDoes asks a server that answers by TCP only, one that answers by QUIC only, and one that only the admin's proxy reaches.
func TestAsksAsThePeerDoes(t *testing.T) {
	ask := func(a *asker, addr string) error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		return a.one(ctx, addr)
	}
	free := askerFor(t, "")
	keys, err := member.LoadOrCreate(t.TempDir(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	h, err := wire.New(t.Context(), wire.Config{Key: keys.Node, Network: keys.Network, Role: member.Manager, QUIC: true, Listen: []string{"/ip4/127.0.0.1/tcp/0"}})
	if err != nil {
		t.Fatal(err)
	}
	addrs := h.Addrs()
	if !strings.Contains(strings.Join(addrs, " "), "/quic-v1") || !strings.Contains(strings.Join(addrs, " "), "/tcp/") {
		t.Errorf("the server has %v", addrs)
	}
	for _, addr := range addrs {
		if err := ask(free, addr); err != nil {
			t.Errorf("%s does not answer: %v", addr, err)
		}
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	for _, addr := range addrs {
		if err := ask(free, addr); err == nil {
			t.Errorf("%s answers although nobody listens", addr)
		}
	}

	var asked []string
	var mu sync.Mutex
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked = append(asked, r.Method+" "+r.Host)
		mu.Unlock()
		if r.Host != "192.0.2.1:7785" {
			w.WriteHeader(http.StatusBadGateway)
		}
	}))
	defer proxy.Close()
	behind := askerFor(t, proxy.URL)
	if err := ask(behind, "/ip4/192.0.2.1/tcp/7785"); err != nil || len(asked) != 1 {
		t.Errorf("through the proxy: %v, it was asked %q", err, asked)
	}
	if err := ask(behind, "/ip4/192.0.2.2/tcp/7785"); err == nil {
		t.Error("what the proxy does not reach answers")
	}
	if err := ask(behind, "/ip4/192.0.2.1/udp/7785/quic-v1"); err == nil || !strings.Contains(err.Error(), "does not use") {
		t.Errorf("around the proxy: %v", err)
	}
}

// TestPassingTrouble has new versions that cannot run for a reason that is not their own: their port is taken, the file cannot be started. None is
// refused for that.
func TestPassingTrouble(t *testing.T) {
	data := t.TempDir()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	out, in := io.Pipe()
	l := installed(t, data, "#!/bin/sh\necho started\nexit 3\n", 0o700, false)
	l.s.out, l.needs = in, []string{taken.Addr().String()}
	go func() {
		s := bufio.NewScanner(out)
		for n := 1; s.Scan(); n++ {
			if st, err := l.folder.Load(); err != nil || st.Trial == nil || st.Trial.Seen.Crashes != 0 {
				t.Errorf("start %d: %+v %v", n, st, err)
			}
			if n == 5 { // more often than a version may crash
				taken.Close()
				_, _ = io.Copy(io.Discard, out)
			}
		}
	}()
	here := 0
	err = launched(t.Context(), l, func(context.Context) error { here++; return nil })
	in.Close()
	if st, bad := l.folder.Load(); err != nil || bad != nil || here != 1 || len(st.Falls()) != 1 || st.Falls()[0].Why != "crashed 3 times" {
		t.Errorf("it has run %d times, %v: %+v", here, err, st)
	}

	l = installed(t, t.TempDir(), "#!/bin/sh\nexit 3\n", 0o600, false) // may not be started, as where a disk's programs may not be
	here = 0
	err = launched(t.Context(), l, func(context.Context) error { here++; return nil })
	if st, bad := l.folder.Load(); err != nil || bad != nil || here != 1 || len(st.Refused) != 0 || st.Trial == nil || st.Trial.Running || st.Trial.Seen.Crashes != 0 {
		t.Errorf("the installed program ran %d times, %v: %+v", here, err, st)
	}
	if st, _ := l.folder.Load(); begun(&st) != nil || st.Trial == nil {
		t.Error("it is not tried again")
	}

	l = installed(t, t.TempDir(), "\x7fELF no program at all", 0o700, false)
	err = launched(t.Context(), l, func(context.Context) error { return nil })
	if st, bad := l.folder.Load(); err != nil || bad != nil || len(st.Falls()) != 1 || !strings.Contains(st.Falls()[0].Why, "cannot be started") {
		t.Errorf("what is no program: %v %+v", err, st)
	}

	l = &launcher{data: t.TempDir(), log: l.log}
	if why := l.trouble(); why != "" {
		t.Error(why)
	}
	l.data += "/none"
	if why := l.trouble(); why == "" {
		t.Error("a folder that cannot be written is no trouble")
	}
	set := defaults()
	if got := needed(&set); len(got) != 0 {
		t.Errorf("without settings %q", got)
	}
	set.Port, set.Listen, set.Control = 1234, "127.0.0.1", "127.0.0.1:7781"
	if got := strings.Join(needed(&set), " "); got != "127.0.0.1:1234 127.0.0.1:7781" {
		t.Error(got)
	}
}
