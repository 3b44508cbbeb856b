package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	ma "github.com/multiformats/go-multiaddr"

	"shoal/peer"
	"shoal/peer/limit"
)

// admin serves a policy.
type admin struct {
	mu     sync.Mutex
	status int
	text   string
}

func (a *admin) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w.WriteHeader(a.status)
	io.WriteString(w, a.text)
}

func (a *admin) say(status int, text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.status, a.text = status, text
}

// limited returns a program with some settings before it runs.
func limited(t *testing.T, set settings) *program {
	t.Helper()
	u, err := limit.OpenUsage(filepath.Join(t.TempDir(), "usage.json"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return &program{set: set, log: slog.New(slog.DiscardHandler), usage: u, limits: limit.New(set.Settings, "your settings", u), meter: limit.NewMeter(u)}
}

// TestPolicyFromElsewhere checks that a policy from a URL holds: the peer fetches nothing before it had the policy
// once, and keeps to the last version while the URL does not answer.
func TestPolicyFromElsewhere(t *testing.T) {
	a := &admin{status: http.StatusServiceUnavailable}
	srv := httptest.NewServer(a)
	defer srv.Close()
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1") // the peer must not ask this one
	set := defaults()
	set.PolicyURL = srv.URL
	p := limited(t, set)
	s := newPolicies(p)
	s.file = filepath.Join(t.TempDir(), "none.toml")
	now := time.Now()
	look := func(after time.Duration) limit.Force {
		now = now.Add(after)
		s.read(t.Context(), now)
		return p.limits.At(now)
	}
	if f := look(0); !strings.Contains(f.Paused, "cannot be read") || !strings.Contains(f.Paused, srv.URL) || len(p.notes.list()) != 1 {
		t.Errorf("never had: %q, %q", f.Paused, p.notes.list())
	}
	a.say(http.StatusOK, "down_kib_per_s = 90\n")
	if f := look(policyEvery); f.Paused != "" || f.DownKiBPerS.Value != 90 || len(p.notes.list()) != 0 {
		t.Errorf("had: %+v, %q", f, p.notes.list())
	}
	a.say(http.StatusBadGateway, "")
	if f := look(policyEvery); f.DownKiBPerS.Value != 90 || len(p.notes.list()) != 0 {
		t.Errorf("asked again too early: %q", p.notes.list())
	}
	if f := look(fetchEvery); f.Paused != "" || f.DownKiBPerS.Value != 90 || len(p.notes.list()) != 1 {
		t.Errorf("away: %+v, %q", f, p.notes.list())
	}
	a.say(http.StatusOK, "down_kib_per_s = 60\n")
	if f := look(policyEvery); f.DownKiBPerS.Value != 60 || len(p.notes.list()) != 0 {
		t.Errorf("back: %+v, %q", f, p.notes.list())
	}
	a.say(http.StatusOK, "down_kib = 60\n")
	if f := look(fetchEvery); f.Paused == "" {
		t.Error("a policy that makes no sense holds nobody")
	}
	a.say(http.StatusNotFound, "")
	if f := look(policyEvery); f.Paused != "" || f.DownKiBPerS.Value != 0 || !strings.Contains(strings.Join(p.notes.list(), ""), "taken away") {
		t.Errorf("taken away: %+v, %q", f, p.notes.list())
	}
	a.say(http.StatusBadGateway, "")
	if f := look(fetchEvery); f.Paused != "" || strings.Contains(strings.Join(p.notes.list(), ""), "stays in force") || !strings.Contains(strings.Join(p.notes.list(), ""), "nothing of it is in force") {
		t.Errorf("taken away, and not there now: %+v, %q", f, p.notes.list())
	}
	a.say(http.StatusOK, "down_kib_per_s = 50\n")
	if f := look(policyEvery); f.DownKiBPerS.Value != 50 || len(p.notes.list()) != 0 {
		t.Errorf("there again: %+v, %q", f, p.notes.list())
	}
}

// TestPolicyThatIsNotThere: a URL that has never had a policy, since it is misspelt or not yet served, does not mean that there is none. The
// peer fetches nothing and says why, until the policy comes.
func TestPolicyThatIsNotThere(t *testing.T) {
	for _, status := range []int{http.StatusNotFound, http.StatusGone} {
		a := &admin{status: status}
		s, p, srv := askedOf(t, a)
		now := time.Now()
		for range 3 {
			s.read(t.Context(), now)
			f, notes := p.limits.At(now), strings.Join(p.notes.list(), "\n")
			if !strings.Contains(f.Paused, "cannot be read") || !strings.Contains(notes, srv.URL) || !strings.Contains(notes, strconv.Itoa(status)) {
				t.Errorf("%d: %q, %q", status, f.Paused, notes)
			}
			now = now.Add(policyEvery)
		}
		a.say(http.StatusOK, "down_kib_per_s = 90\n")
		s.read(t.Context(), now)
		if f := p.limits.At(now); f.Paused != "" || f.DownKiBPerS.Value != 90 {
			t.Errorf("%d, then there: %+v", status, f)
		}
	}
}

// askedOf is a peer whose only policy is at an admin's URL.
func askedOf(t *testing.T, a http.Handler) (*policies, *program, *httptest.Server) {
	t.Helper()
	srv := httptest.NewServer(a)
	t.Cleanup(srv.Close)
	set := defaults()
	set.PolicyURL = srv.URL
	p := limited(t, set)
	s := newPolicies(p)
	s.file = filepath.Join(t.TempDir(), "none.toml")
	return s, p, srv
}

// TestPolicyThatMakesNoSenseStaysTold: a version of a policy that makes no sense holds the peer, and failures after it do not say that an earlier version is in
// force. An empty answer is no policy.
func TestPolicyThatMakesNoSenseStaysTold(t *testing.T) {
	for _, wrong := range []string{"down_kib = 60\n", "", " \n", "<!DOCTYPE html>", "\xff"} {
		a := &admin{status: http.StatusOK, text: "down_kib_per_s = 90\n"}
		s, p, srv := askedOf(t, a)
		now := time.Now()
		look := func(after time.Duration) (limit.Force, string) {
			now = now.Add(after)
			s.read(t.Context(), now)
			return p.limits.At(now), strings.Join(p.notes.list(), "\n")
		}
		if f, notes := look(0); f.Paused != "" || notes != "" {
			t.Fatalf("good: %q, %q", f.Paused, notes)
		}
		a.say(http.StatusOK, wrong)
		if f, notes := look(fetchEvery); f.Paused == "" || !strings.Contains(notes, "nothing is fetched until it can be read: "+srv.URL) {
			t.Errorf("%q: %q, %q", wrong, f.Paused, notes)
		}
		a.say(http.StatusInternalServerError, "")
		if f, notes := look(policyEvery); f.Paused == "" || !strings.Contains(notes, "nothing is fetched until it can be read: "+srv.URL) || strings.Contains(notes, "last version") {
			t.Errorf("%q, then 500: %q, %q", wrong, f.Paused, notes)
		}
		a.say(http.StatusOK, "down_kib_per_s = 80\n")
		if f, notes := look(policyEvery); f.DownKiBPerS.Value != 80 || f.Paused != "" || notes != "" {
			t.Errorf("%q, mended: %+v, %q", wrong, f, notes)
		}
		a.say(http.StatusInternalServerError, "")
		if f, notes := look(fetchEvery); f.DownKiBPerS.Value != 80 || !strings.Contains(notes, "last version stays in force") || !strings.Contains(notes, "500") {
			t.Errorf("away: %+v, %q", f, notes)
		}
	}
}

// TestPolicyBehindALinkThatLeadsNowhere: a link to a disk that is not there is no word of the admin's that nothing is limited.
func TestPolicyBehindALinkThatLeadsNowhere(t *testing.T) {
	dir := t.TempDir()
	file, folder := filepath.Join(dir, "policy.toml"), filepath.Join(dir, "shoal")
	for _, link := range []string{file, folder} {
		if err := os.Symlink(filepath.Join(dir, "gone"), link); err != nil {
			t.Skipf("symbolic links cannot be made here: %v", err)
		}
	}
	for _, at := range []string{file, filepath.Join(folder, "policy.toml")} {
		if p, err := limit.ReadPolicy(at); err == nil {
			t.Errorf("%s: %v", at, p)
		}
	}
	if p, err := limit.ReadPolicy(filepath.Join(dir, "none.toml")); p != nil || err != nil {
		t.Errorf("none: %v, %v", p, err)
	}
}

// TestPolicyComesOverTLS: a URL without TLS is for this computer alone, also behind a redirect.
func TestPolicyComesOverTLS(t *testing.T) {
	for at, good := range map[string]bool{"https://intranet.example/p.toml": true, "http://127.0.0.1:80/p": true, "http://[::1]/p": true, "http://localhost/p": true,
		"http://intranet.example/p.toml": false, "http://192.168.1.1/p.toml": false, "http://localhost.example/p": false, "http://10.0.0.1": false} {
		if err := limit.CheckPolicyURL(at); (err == nil) != good {
			t.Errorf("%s: %v", at, err)
		}
	}
	srv := httptest.NewServer(http.RedirectHandler("http://intranet.example/p.toml", http.StatusFound))
	defer srv.Close()
	if _, err := limit.FetchPolicy(t.Context(), srv.Client(), srv.URL); !errors.Is(err, limit.ErrSettings) || !strings.Contains(err.Error(), "want https://") {
		t.Errorf("a redirect to http: %v", err)
	}
}

// TestMachinesPolicy checks the machine's own policy file. If a user could have written it, or it is invalid, all
// fetching stops until it is mended. The file may name a further policy, which no user can remove.
func TestMachinesPolicy(t *testing.T) {
	a := &admin{status: http.StatusOK, text: "up_kib_per_s = 30\n"}
	srv := httptest.NewServer(a)
	defer srv.Close()
	p := limited(t, defaults())
	file := filepath.Join(t.TempDir(), "policy.toml")
	s := newPolicies(p)
	s.file = file
	now := time.Now()
	look := func(text string, mode os.FileMode) limit.Force {
		t.Helper()
		if text == "" {
			os.Remove(file)
		} else {
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(file, mode); err != nil {
				t.Fatal(err)
			}
		}
		now = now.Add(policyEvery)
		s.read(t.Context(), now)
		return p.limits.At(now)
	}
	if f := look("down_kib_per_s = 5\n", 0o666); !strings.Contains(f.Paused, file) || !strings.Contains(strings.Join(p.notes.list(), ""), "must belong to") {
		t.Errorf("anybody's: %q, %q", f.Paused, p.notes.list())
	}
	if f := look("", 0); f.Paused != "" || len(p.notes.list()) != 0 {
		t.Errorf("none: %+v, %q", f, p.notes.list())
	}
	if os.Getuid() != 0 {
		return // the rest is root's to set
	}
	if f := look("down_kib_per_s = 80\npolicy_url = \""+srv.URL+"\"\n", 0o644); f.Paused != "" || f.DownKiBPerS.Value != 80 || f.UpKiBPerS.Value != 30 ||
		f.UpKiBPerS.Source != "policy from "+srv.URL {
		t.Errorf("two policies: %+v", f)
	}
	if f := look("proxy = \"ftp://x\"\n", 0o644); f.Paused == "" || f.UpKiBPerS.Value != 30 {
		t.Errorf("nonsense: %+v", f)
	}
	if f := look("proxy = \"http://u:secret@proxy.test:3128\"\n", 0o644); f.Paused != "" || f.UpKiBPerS.Value != 0 || f.ProxyAt != "http://u:xxxxx@proxy.test:3128" || p.via() == nil {
		t.Errorf("a proxy: %+v", f)
	}
	if f := look("", 0); f.Proxy != "" || p.via() != nil {
		t.Errorf("no proxy any more: %+v", f)
	}
}

// TestNobodyLoosens tries every way in which a user could exceed the policy.
func TestNobodyLoosens(t *testing.T) {
	v := newVolunteer(t)
	conf := filepath.Join(v.dir, "peer.toml")
	if err := os.WriteFile(conf, []byte("down_kib_per_s = 9000\nup_kib_per_s = 0\nday_mib = 0\nmonth_mib = 90000\ndscp_le = false\npolicy_url = \"\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	policy := limit.Policy{DownKiBPerS: 200, UpKiBPerS: 50, DayMiB: 1, MonthMiB: 10, DSCPLE: true, DenyDomains: []string{"secret.test"},
		DenyNetworks: []string{"203.0.114.0/24"}, Proxy: "http://proxy.test:3128"}
	for name, from := range map[string]struct {
		file  string
		env   []string
		flags map[string]any
	}{
		"file":        {file: conf},
		"environment": {env: []string{"SHOAL_PEER_DOWN_KIB_PER_S=9000", "SHOAL_PEER_UP_KIB_PER_S=0", "SHOAL_PEER_DAY_MIB=0", "SHOAL_PEER_DSCP_LE=false", "SHOAL_PEER_DENY="}},
		"flags":       {flags: map[string]any{"down_kib_per_s": 9000, "up_kib_per_s": 0, "month_mib": 0, "dscp_le": false, "deny": []string{}}},
	} {
		set, err := load(from.file, from.env, from.flags)
		if err != nil {
			t.Fatal(name, err)
		}
		t.Setenv("HTTP_PROXY", "")
		p := limited(t, set)
		p.limits.SetPolicy("file", &policy)
		tight := func(when string) {
			t.Helper()
			f := p.limits.At(time.Now())
			if f.DownKiBPerS.Value != 200 || f.UpKiBPerS.Value != 50 || f.DayMiB.Value != 1 || f.MonthMiB.Value != 10 || !f.DSCPLE || f.Proxy == "" {
				t.Errorf("%s, %s: %+v", name, when, f)
			}
			if p.refuse("https://www.secret.test") == nil || p.limits.DeniesAddr("x", netip.MustParseAddr("203.0.114.9")) == nil {
				t.Errorf("%s, %s: what is denied may be fetched", name, when)
			}
		}
		tight("at the start")
		for _, args := range []map[string]string{{"down": "0", "up": "0"}, {"down": "100000"}, {"up": "100000"}} {
			if err := p.do("limit", args); err != nil {
				t.Fatal(err)
			}
			tight("after shoal-peer limit")
		}
		for _, args := range []map[string]string{{"down": "-1"}, {"up": "many"}} {
			if err := p.do("limit", args); !errors.Is(err, errSettings) {
				t.Errorf("%v: %v", args, err)
			}
			tight("after nonsense")
		}
	}
	// Used bytes stay counted, and the count never goes below zero.
	state := filepath.Join(v.dir, "usage.json")
	today := time.Now().Format(time.DateOnly)
	if err := os.WriteFile(state, []byte(`{"month_begins":1,"day":"`+today+`","day_bytes":-9000000000,"month":"`+time.Now().Format("2006-01")+`","month_bytes":-9000000000}`), 0o600); err != nil {
		t.Fatal(err)
	}
	u, err := limit.OpenUsage(state, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	if day, month := u.Used(time.Now()); day < 0 || month < 0 {
		t.Errorf("less than nothing was used: %d, %d", day, month)
	}
}

// far is a connection to some address.
type far struct {
	net.Conn
	to     string
	closed bool
}

func (f *far) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(f.to))
}

func (f *far) Close() error {
	f.closed = true
	return nil
}

// TestProxySetWhileRunning: when an admin's proxy comes, changes or goes, no connection goes on along the old way, and QUIC, which knows no
// proxies, is used to private addresses only.
func TestProxySetWhileRunning(t *testing.T) {
	p := limited(t, defaults())
	now := time.Now()
	f := p.limits.At(now)
	last := f.Proxy
	site, member, home := &far{to: "203.0.114.9:443"}, &far{to: "[2600:1::1]:7785"}, &far{to: "192.168.7.1:7785"}
	open := func() {
		for _, c := range []*far{site, member, home} {
			c.closed = false
			p.meter.Wrap(c)
		}
	}
	quic := map[string]bool{"/ip4/203.0.114.9/udp/7785/quic-v1": true, "/ip6/2600:1::1/udp/7785/quic-v1": true, "/ip4/192.168.7.1/udp/7785/quic-v1": false,
		"/ip4/127.0.0.1/udp/7785/quic-v1": false, "/ip4/203.0.114.9/tcp/7785": false}
	for i, proxy := range []string{"", "http://proxy.test:3128", "http://proxy.test:3128", "http://other.test:3128", ""} {
		open()
		p.limits.SetPolicy("admin", &limit.Policy{Proxy: proxy})
		f, changed := p.limits.At(now), p.limits.At(now).Proxy != last
		p.follow(&f, &last)
		if site.closed != changed || member.closed != changed || home.closed {
			t.Errorf("step %d, proxy %q: closed %v %v %v", i, proxy, site.closed, member.closed, home.closed)
		}
		for at, around := range quic {
			a, err := ma.NewMultiaddr(at)
			if err != nil {
				t.Fatal(err)
			}
			if got := p.aroundProxy(a); got != (around && proxy != "") {
				t.Errorf("step %d, proxy %q, %s: barred %v", i, proxy, at, got)
			}
		}
	}
}

// TestPolicyThatHangsHoldsNothingUp: while a URL does not answer, the limits are kept as ever. Before a policy was fetched once, nothing is
// fetched; one that was had holds meanwhile, and the answer counts when it comes.
func TestPolicyThatHangsHoldsNothingUp(t *testing.T) {
	asked, answer := make(chan struct{}), make(chan string)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case asked <- struct{}{}:
		case <-r.Context().Done():
			return
		}
		select {
		case text := <-answer:
			io.WriteString(w, text)
		case <-r.Context().Done():
		}
	}))
	defer srv.Close()
	set := defaults()
	set.PolicyURL, set.MinFreeMiB = srv.URL, 0
	p := limited(t, set)
	p.wake = make(chan struct{})
	var err error
	if p.history, err = limit.OpenHistory(historyFile(t.TempDir()), time.Now()); err != nil {
		t.Fatal(err)
	}
	if p.journal, err = peer.OpenJournal(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	defer p.journal.Close()
	s := newPolicies(p)
	s.file = filepath.Join(t.TempDir(), "none.toml")
	ctx, cancel := context.WithCancel(t.Context())
	var ended sync.WaitGroup
	defer ended.Wait()
	defer cancel()
	ended.Go(func() { p.govern(ctx, s) })
	rounds := func(when string) { // of the loop; each but the last is over
		t.Helper()
		for range 3 {
			select {
			case p.wake <- struct{}{}:
			case <-time.After(policyWait / 2):
				t.Fatalf("%s: the loop waits for the URL", when)
			}
		}
	}
	rounds("at first")
	<-asked
	rounds("never had")
	if f := p.limits.At(time.Now()); f.Paused == "" || !strings.Contains(strings.Join(p.notes.list(), ""), "it is being fetched") {
		t.Errorf("never had: %q, %q", f.Paused, p.notes.list())
	}
	answer <- "down_kib_per_s = 90\n"
	for end := time.Now().Add(time.Minute); p.limits.At(time.Now()).DownKiBPerS.Value != 90; {
		if time.Now().After(end) {
			t.Fatalf("the answer does not count: %q", p.notes.list())
		}
		rounds("the answer comes")
	}
	if f, notes := p.limits.At(time.Now()), strings.Join(p.notes.list(), "\n"); f.Paused != "" || strings.Contains(notes, "policy") {
		t.Errorf("had: %q, %q", f.Paused, notes)
	}
}

// TestPolicyAnswersInAnyOrder: an answer of a URL that nobody names any more counts for nothing, a URL is asked once at a time, and one that was
// had holds while it is asked again.
func TestPolicyAnswersInAnyOrder(t *testing.T) {
	a := &admin{status: http.StatusOK, text: "down_kib_per_s = 90\n"}
	s, p, _ := askedOf(t, a)
	var asking sync.WaitGroup
	now := time.Now()
	s.ask(t.Context(), &asking, now)
	s.ask(t.Context(), &asking, now)
	s.take(<-s.came)
	asking.Wait() // there was no second question
	now = now.Add(fetchEvery)
	s.ask(t.Context(), &asking, now)
	if f := p.limits.At(now); f.Paused != "" || f.DownKiBPerS.Value != 90 {
		t.Errorf("asked again: %+v", f)
	}
	other := p.set
	other.PolicyURL = ""
	p.live.Store(&other)
	s.due(now)
	s.take(<-s.came)
	if f := p.limits.At(now); f.Paused != "" || f.DownKiBPerS.Value != 0 || len(s.fetched) != 0 {
		t.Errorf("named no more: %+v, %v", f, s.fetched)
	}
}

// TestDeniedWhileItRuns: what an admin comes to deny is let go of at once: the tasks of domains are given back, and connections into networks end.
func TestDeniedWhileItRuns(t *testing.T) {
	p := limited(t, defaults())
	p.lists = make(chan struct{}, 1)
	n := &network{p: p, meter: p.meter.Part(p.usage)}
	p.nets.add(n)
	to := func(addr string) *openConn {
		c := &openConn{to: net.TCPAddrFromAddrPort(netip.MustParseAddrPort(addr))}
		n.meter.Wrap(c)
		return c
	}
	inside, outside := to("203.0.113.9:443"), to("198.51.100.7:443")
	denied := p.limits.Denied(nil, "")
	p.followDenied(&denied)
	if len(p.lists) != 0 {
		t.Error("tasks are looked through though nothing has changed")
	}
	p.limits.SetPolicy("p", &limit.Policy{DenyDomains: []string{"intranet.example"}, DenyNetworks: []string{"203.0.113.0/24"}})
	p.followDenied(&denied)
	if len(p.lists) != 1 || !inside.closed || outside.closed {
		t.Errorf("tasks looked through: %d times; the denied connection closed: %v, the other one: %v", len(p.lists), inside.closed, outside.closed)
	}
	<-p.lists
	p.followDenied(&denied)
	if len(p.lists) != 0 {
		t.Error("tasks are looked through again")
	}
}

// openConn is a connection of which only the other end is known.
type openConn struct {
	net.Conn
	to     net.Addr
	closed bool
}

func (c *openConn) RemoteAddr() net.Addr { return c.to }
func (c *openConn) Close() error         { c.closed = true; return nil }

// TestBlockListsGoThroughTheProxy: what a volunteer's settings name is read through the admin's proxy, but for addresses of the computer's own networks.
func TestBlockListsGoThroughTheProxy(t *testing.T) {
	asked := make(chan string, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Method + " " + r.RequestURI
		w.WriteHeader(http.StatusOK)
	}))
	defer srv.Close()
	p := limited(t, defaults())
	p.proxy.dial = (&net.Dialer{}).DialContext
	p.limits.SetPolicy("p", &limit.Policy{Proxy: srv.URL})
	c, err := p.outside(t.Context(), "tcp", "198.51.100.7:443")
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if got := <-asked; got != "CONNECT 198.51.100.7:443" {
		t.Errorf("the proxy was asked for %q", got)
	}
	if c, err = p.outside(t.Context(), "tcp", strings.TrimPrefix(srv.URL, "http://")); err != nil {
		t.Fatal(err)
	}
	c.Close()
	if len(asked) != 0 {
		t.Errorf("the proxy was asked for %q, on this computer", <-asked)
	}
}
