package e2e

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"

	"shoal/internal/lab/chaos"
)

// chaosNamed is how many hosts of the pond have a name of their own beside the pond's, which a name server has to tell, at a public address.
const chaosNamed = 3

// chaosLater is how many more such hosts there are, which an operator imports meanwhile.
const chaosLater = 2

// chaosNames is how their names end.
const chaosNames = ".chaos-names.net"

// How name servers lie.
const (
	lieInside  = "inside"  // addresses inside the volunteer's network, of which no connection may come
	lieOther   = "other"   // the address of another host
	lieNone    = "none"    // there is no such name
	lieNothing = "nothing" // the name has no address
	lieFailing = "failing" // an error of the server
	lieHanging = "hanging" // no answer
)

var chaosLies = []string{lieInside, lieOther, lieNone, lieNothing, lieFailing, lieHanging}

// insideAddresses are those that a lying name server gives.
var insideAddresses = []string{"127.0.0.1", "10.0.0.1", "169.254.169.254", "192.168.77.1"}

// namedWeb are hosts with names of their own: their servers, and the name server that tells where they are.
type namedWeb struct {
	t     *testing.T
	hosts []string
	addrs []netip.Addr
	ports []string // on 127.0.0.1, where the servers are in truth

	mu     sync.Mutex
	lie    string // empty: the name server tells the truth
	asked  map[string]int
	before int            // questions that were answered by this lie when it began
	wrong  int            // requests that came to another host's server
	failed int            // requests that did not come through to the pond
	first  map[string]int // of both, those for the first page of a host
}

// openNamedWeb gives hosts of the pond names of their own.
func openNamedWeb(t *testing.T, pond string, twins []string) *namedWeb {
	n := &namedWeb{t: t, asked: map[string]int{}, first: map[string]int{}}
	for i, twin := range twins {
		n.hosts = append(n.hosts, fmt.Sprintf("www-%d%s", i+1, chaosNames))
		n.addrs = append(n.addrs, netip.AddrFrom4([4]byte{11, 1, 0, byte(i + 1)}))
		n.front(i, pond, twin)
	}
	c, err := net.ListenPacket("udp", "127.0.0.1:53")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); n.serve(c) }()
	t.Cleanup(func() { c.Close(); <-done })
	file := filepath.Join(t.TempDir(), "resolv.conf")
	if err := os.WriteFile(file, []byte("nameserver 127.0.0.1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(file, "/etc/resolv.conf", "", unix.MS_BIND, ""); err != nil {
		t.Fatalf("a name server of its own: %v", err)
	}
	return n
}

// front serves a host of the pond by its other name, and no other.
func (n *namedWeb) front(i int, pond, twin string) {
	n.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		n.t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		n.t.Fatal(err)
	}
	n.ports = append(n.ports, port)
	unseen := func(host, path string, count *int) {
		n.mu.Lock()
		defer n.mu.Unlock()
		*count++
		if path == "/" {
			n.first[host]++
		}
	}
	proxy := &httputil.ReverseProxy{ErrorLog: quiet(), Transport: &http.Transport{DisableCompression: true, DisableKeepAlives: true}, Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = "http", pond, twin
	}, ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
		if r.Context().Err() == nil { // else its peer has hung up
			unseen(n.hosts[i], r.URL.Path, &n.failed)
		}
		http.Error(w, err.Error(), http.StatusBadGateway)
	}}
	s := &http.Server{ErrorLog: quiet(), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host != n.hosts[i] {
			unseen(r.Host, r.URL.Path, &n.wrong)
			http.Error(w, "this is "+n.hosts[i], http.StatusMisdirectedRequest)
			return
		}
		proxy.ServeHTTP(w, r)
	})}
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }() // until it is closed
	n.t.Cleanup(func() { s.Close(); <-done })
}

// reach has the public addresses lead to the servers, and counts connections to the inside, on ports of the Web and those of the pond's redirects.
func (n *namedWeb) reach(w *wires) {
	w.ip("tuntap", "add", "dev", "world", "mode", "tun")
	w.ip("addr", "add", "192.168.77.2/24", "dev", "world")
	w.ip("link", "set", "world", "up")
	w.ip("route", "add", "default", "via", "192.168.77.1")
	rules := `table ip names {
	counter inside { }
	chain to { type nat hook output priority -100; `
	for i, a := range n.addrs {
		rules += fmt.Sprintf("\n\t\tip daddr %v tcp dport 80 dnat to 127.0.0.1:%s", a, n.ports[i])
	}
	rules += `
	}
	chain in { type filter hook output priority -200;
		ip daddr { 127.0.0.1, 10.0.0.0/8, 169.254.0.0/16, 192.168.0.0/16 } tcp dport { 22, 80, 443 } tcp flags syn counter name inside
	}
}
`
	w.nft(rules)
}

// inside tells how many connections went to where none may go.
func (n *namedWeb) inside() string {
	n.t.Helper()
	out, err := exec.Command("nft", "list", "counter", "ip", "names", "inside").CombinedOutput()
	_, count, ok := strings.Cut(string(out), "packets ")
	if err != nil || !ok {
		n.t.Fatalf("nft: %v: %s", err, out)
	}
	return strings.Fields(count)[0]
}

// lies has the name server lie in a way, or not any more, and tells how many questions it has answered since the last such order.
func (n *namedWeb) lies(how string) (answered int) {
	n.t.Helper()
	if how != "" && !slices.Contains(chaosLies, how) {
		n.t.Fatalf("a name server that lies by %q: there are %v", how, chaosLies)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	answered = n.asked[n.lie] - n.before
	n.lie, n.before = how, n.asked[how]
	return answered
}

// astray is how often a request for a host's first page did not come to its server.
func (n *namedWeb) astray(host string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.first[host]
}

// counts are how many questions were answered by which lie, and how many requests came to a wrong server.
func (n *namedWeb) counts() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return fmt.Sprintf("questions answered by each lie (without a name: by the truth): %v; %d requests came to another host's server, and %d not through to the pond", n.asked, n.wrong, n.failed)
}

func (n *namedWeb) serve(c net.PacketConn) {
	b := make([]byte, 4096)
	for {
		k, from, err := c.ReadFrom(b)
		if err != nil {
			return
		}
		if out, err := n.reply(b[:k]); err == nil && out != nil {
			_, _ = c.WriteTo(out, from) // a lost answer is asked for again
		}
	}
}

// reply is the answer to one question; nil: none.
func (n *namedWeb) reply(question []byte) ([]byte, error) {
	head, q, err := asked(question)
	if err != nil {
		return nil, err
	}
	code, addrs := n.answer(strings.ToLower(strings.TrimSuffix(q.Name.String(), ".")))
	if code == hang {
		return nil, nil
	}
	b, err := answers(head, q, code)
	if err != nil {
		return nil, err
	}
	for _, a := range addrs {
		if q.Type == dnsmessage.TypeA {
			if err := b.AResource(dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 1}, dnsmessage.AResource{A: a.As4()}); err != nil {
				return nil, err
			}
		}
	}
	return b.Finish()
}

const hang dnsmessage.RCode = 0xfff // no answer at all

func (n *namedWeb) answer(name string) (dnsmessage.RCode, []netip.Addr) {
	n.mu.Lock()
	defer n.mu.Unlock()
	i := slices.Index(n.hosts, name)
	if i < 0 {
		return dnsmessage.RCodeNameError, nil
	}
	n.asked[n.lie]++
	switch n.lie {
	case lieInside:
		var addrs []netip.Addr
		for _, a := range insideAddresses {
			addrs = append(addrs, netip.MustParseAddr(a))
		}
		return dnsmessage.RCodeSuccess, addrs
	case lieOther:
		return dnsmessage.RCodeSuccess, []netip.Addr{n.addrs[(i+1)%len(n.addrs)]}
	case lieNone:
		return dnsmessage.RCodeNameError, nil
	case lieNothing:
		return dnsmessage.RCodeSuccess, nil
	case lieFailing:
		return dnsmessage.RCodeServerFailure, nil
	case lieHanging:
		return hang, nil
	}
	return dnsmessage.RCodeSuccess, []netip.Addr{n.addrs[i]}
}

// TestLiesThatNobodyHeard: a name server that nobody asks while it lies has told no lie, and the fault came to nothing.
func TestLiesThatNobodyHeard(t *testing.T) {
	t.Parallel()
	n := &namedWeb{t: t, hosts: []string{"www-1" + chaosNames}, addrs: []netip.Addr{netip.AddrFrom4([4]byte{11, 1, 0, 1})}, asked: map[string]int{}}
	c := &chaosRun{t: t, named: n, cast: chaos.Cast{Peers: 1, Hosts: 1}, spared: map[time.Duration]bool{}, began: map[chaos.Kind]int{}, failed: map[chaos.Kind]int{}}
	for i, questions := range []int{0, 2, 0} { // by the same lie
		n.answer(n.hosts[0]) // by the truth
		f := chaos.Fault{At: time.Duration(i) * time.Second, Kind: chaos.LieNames, Name: lieNone, For: time.Second}
		c.begin(f)
		for range questions {
			n.answer(n.hosts[0])
		}
		c.end(f)
	}
	if got := c.injected()[chaos.LieNames]; got != 1 {
		t.Errorf("%d of three lies count, of which one was heard", got)
	}
}

// TestWhatThePondDoesNotSee counts requests for first pages that come to another host's server, and those that do not come through to the pond.
func TestWhatThePondDoesNotSee(t *testing.T) {
	t.Parallel()
	n := &namedWeb{t: t, hosts: []string{"www-1" + chaosNames}, asked: map[string]int{}, first: map[string]int{}}
	n.front(0, "127.0.0.1:1", "host-1.pond.test") // where nothing listens
	get := func(host, path string) int {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:"+n.ports[0]+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return res.StatusCode
	}
	for _, c := range []struct {
		host, path string
		want       int
	}{{n.hosts[0], "/", http.StatusBadGateway}, {n.hosts[0], "/page", http.StatusBadGateway}, {"www-2" + chaosNames, "/", http.StatusMisdirectedRequest}} {
		if got := get(c.host, c.path); got != c.want {
			t.Errorf("%s%s: %d, want %d", c.host, c.path, got, c.want)
		}
	}
	if n.astray(n.hosts[0]) != 1 || n.astray("www-2"+chaosNames) != 1 || n.failed != 2 || n.wrong != 1 {
		t.Errorf("%v, %s", n.first, n.counts())
	}
}
