package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"shoal/internal/lab/netlab"
	"shoal/internal/wire"
)

// TestInside lets an attacker's Web hosts, name server and tasks point a real peer at the network of its volunteer. The
// peer runs in a home with a router, other computers, rented and global addresses and translators, and all of them have
// services that anyone may call. The kernel counts the TCP connections that leave the peer: none may go inside, to
// another member except for the members' protocol, or to a port that is not the Web's.
func TestInside(t *testing.T) {
	drivesPrograms(t)
	t.Parallel()
	n := netlab.Open(t, "a volunteer's network is")
	v := &village{lab: &lab{t: t, net: n, threads: 40, dirs: map[*netlab.Host]string{}, runs: map[*netlab.Host]*process{}}, fetched: map[string]int{}, calls: map[string]*atomic.Int64{}}
	v.build()
	v.serveInside()
	v.serveAttacker()
	v.countersCount()
	cases := v.cases()
	private, public := origins(cases)
	v.putPrivate(private)
	v.start()
	v.crawlAll(private, public)
	v.crawlUnshown(cases)
	v.judge(cases)
}

// village is the lab with a home in it.
type village struct {
	*lab
	boss, web, router, other, home *netlab.Host
	names                          *names
	roots                          string // file of the attacker's certificate

	fetched map[string]int           // by host and path; guarded by mu of lab
	calls   map[string]*atomic.Int64 // of services inside, by host and port; complete before the peer starts
}

func (v *village) must(err error) {
	v.t.Helper()
	if err != nil {
		v.t.Fatal(err)
	}
}

// build makes the manager, the attacker, another member, and a home with all kinds of addresses.
func (v *village) build() {
	v.boss, v.web, v.router, v.other = v.site("m", managerFour+"/24"), v.site("w", attackerFour+"/24"), v.site("r", routerFour+"/24"), v.site("o", memberFour+"/24")
	v.must(v.web.Also(attackerSix + "/64"))
	v.must(v.router.Also(routerSix + "/56"))
	var err error
	v.home, err = v.net.Home(v.router, "h", homeFour+"/24", netlab.SamePort)
	v.must(err)
	for _, prefix := range []string{homeRented + "/28", homeSix + "/64", homeULA + "/64", homeLink + "/64"} {
		v.must(v.home.Attach(prefix))
	}
	for _, prefix := range []string{gateSix + "/64", gateRented + "/28", gateLink + "/64", storeFour + "/24", storeSix + "/64", storeRented + "/28", storeULA + "/64"} {
		v.must(v.router.Neighbour(prefix))
	}
	v.must(v.home.Via(netip.MustParseAddr(gateSix)))
	v.must(v.router.Forward())
	v.vpn()
	// What the home has no network for, the router answers itself, so that a connection anywhere inside would succeed.
	for _, prefix := range []string{"10.0.0.0/8", "172.16.0.0/12", "169.254.0.0/16", "100.64.0.0/10", "198.18.0.0/15", "192.0.0.0/24", "168.63.129.16/32", "2a00:1450:1:a6::/64", "64:ff9b::/96", "64:ff9b:1::/48",
		learntNAT64, "2002::/16", "2001::/32", siteISATAP + ":/64", "fec0::/10", "fd00:ec2::/48", "2001:db8::/32"} {
		v.must(v.router.Answer(prefix))
	}
	remove, err := v.home.Resolve(netip.MustParseAddr(attackerFour))
	v.must(err)
	v.t.Cleanup(func() {
		if err := remove(); err != nil {
			v.t.Error(err)
		}
	})
	v.must(v.home.CountTCP())
}

// vpn gives the computer routes as VPNs and second routers bring them: into networks with public addresses, and all else in two halves, by which the
// peer reaches everything that it may reach in this test.
func (v *village) vpn() {
	gate, store := netip.MustParseAddr(gateFour), netip.MustParseAddr(storeFour)
	v.must(v.home.Route("0.0.0.0/1", gate, 0))
	v.must(v.home.Route("128.0.0.0/1", gate, 0))
	v.must(v.home.Route("12.34.56.0/24", store, 0))
	v.must(v.home.Route("12.34.57.0/24", store, 77))
	v.must(v.home.Route("12.34.58.0/24", gate, 0))
	v.must(v.home.Route("2a0c:77::/48", netip.MustParseAddr(storeSix), 0))
	for _, network := range []string{"12.34.56.0/22", "2a0c:77::/48"} {
		v.must(v.router.Answer(network))
	}
}

// insidePorts are those of the services in the home.
var insidePorts = []int{22, 80, 443, 2375, 6379, 8000, 8080, 9200}

// serveInside starts services on every computer of the home and on the other member.
func (v *village) serveInside() {
	for what, h := range map[string]*netlab.Host{"the volunteer's computer": v.home, "the home": v.router, "the other member": v.other, "the manager": v.boss} {
		for _, port := range insidePorts {
			ln, err := h.Listen("tcp", fmt.Sprintf(":%d", port))
			v.must(err)
			count := new(atomic.Int64)
			v.calls[fmt.Sprintf("%s, port %d", what, port)] = count
			v.serveOn(ln, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "<html>a secret of the home") }), func() { count.Add(1) })
		}
	}
}

func (v *village) serveOn(ln net.Listener, h http.Handler, opened func()) {
	s := &http.Server{ReadHeaderTimeout: time.Minute, Handler: h, ErrorLog: quiet(), ConnState: func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			opened()
		}
	}}
	done := make(chan struct{})
	go func() { defer close(done); s.Serve(ln) }()
	v.t.Cleanup(func() { s.Close(); <-done })
}

// quiet is the log of servers whose clients break off handshakes on purpose.
func quiet() *log.Logger { return log.New(io.Discard, "", 0) }

// countersCount proves that connections to the home succeed and are counted, before the peer comes.
func (v *village) countersCount() {
	ctx, cancel := context.WithTimeout(v.t.Context(), patience)
	defer cancel()
	to := []string{"127.0.0.1:80", "[::1]:8080", homeFour + ":6379", homeRented + ":22", "[" + homeSix + "]:80", "[" + homeULA + "]:443", gateFour + ":80", gateRented + ":443", "[" + gateSix + "]:8080",
		"[" + gateLink + "%eth0]:80", storeFour + ":9200", storeRented + ":2375", "[" + storeSix + "]:80", "[" + storeFar + "]:8000", "[" + storeULA + "]:80", "10.0.0.1:80", "169.254.169.254:80",
		"[64:ff9b::c0a8:71e]:80", "[2a00:9999::c0a8:71e]:80", "[2002:c0a8:71e::1]:80", "[" + siteISATAP + "0:5efe:c0a8:71e]:80", memberFour + ":8080", managerFour + ":80",
		vpnFour + ":80", vpnTable + ":80", vpnSame + ":80", "[" + vpnSix + "]:80",
		attackerFour + ":80", "[" + attackerSix + "]:443"}
	for _, at := range to {
		c, err := v.home.DialContext(ctx, "tcp", at)
		if err != nil {
			v.t.Fatalf("the test's own call to %s: %v", at, err)
		}
		c.Close()
	}
	tried := v.tried()
	for _, at := range to {
		ap := netip.MustParseAddrPort(at)
		if tried[netip.AddrPortFrom(ap.Addr().WithZone(""), ap.Port())] == 0 {
			v.t.Errorf("a connection to %s is not counted", at)
		}
	}
	for _, count := range v.calls {
		count.Store(0)
	}
	v.must(v.home.ForgetTried())
}

func (v *village) tried() map[netip.AddrPort]int {
	v.t.Helper()
	tried, err := v.home.Tried()
	v.must(err)
	return tried
}

// start starts the manager, the peer, and another member that takes no tasks.
func (v *village) start() {
	v.lab.start(v.boss, nil)
	join := v.mgr.word("shoal-peer join ")
	for i, h := range []*netlab.Host{v.home, v.other} {
		dir := v.t.TempDir()
		v.dirs[h] = dir
		j := v.in(h, "shoal-peer", "join", "--yes", join, "--data", dir)
		if <-j.done; j.cmd.ProcessState.ExitCode() != 0 {
			v.t.Fatalf("join: %s", j.said())
		}
		cmd := h.Command(bin+"/shoal-peer", "run", "--data", dir, "--port", fmt.Sprint(7801+i), "--no-low-priority", "--log-level", "warn", "--threads", fmt.Sprint(v.threads), "--queue", "200", "--min-gap-ms", "200")
		cmd.Env = append(os.Environ(), "SSL_CERT_FILE="+v.roots)
		for _, name := range proxies {
			cmd.Env = append(cmd.Env, name+"=http://"+storeFour+":8080")
		}
		v.runs[h] = launch(v.t, "shoal-peer", cmd)
		if h == v.other {
			v.mgr.until("knows the other member", func() bool { return v.page.overview().Peers == 2 })
			p := v.in(h, "shoal-peer", "pause", "--data", dir)
			if <-p.done; p.cmd.ProcessState.ExitCode() != 0 {
				v.t.Fatalf("pause: %s", p.said())
			}
		}
	}
	v.mgr.until("has a peer that knows its own address and the other member", func() bool {
		ask := v.in(v.home, "shoal-peer", "status", "--json", "--data", v.dirs[v.home])
		<-ask.done
		var st struct{ Reach wire.Reach }
		_ = json.Unmarshal(ask.out.Bytes(), &st) // it is asked again
		return strings.Contains(st.Reach.Seen, routerFour) && st.Reach.Direct == 2
	})
}
