package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"shoal/internal/lab/netlab"
)

// TestOffice runs a real peer in a network whose admin's policy names a proxy. The peer must read the policy, and
// must crawl and send through the proxy alone.
func TestOffice(t *testing.T) {
	drivesPrograms(t)
	n := netlab.Open(t, "an office's network is")
	l := &lab{t: t, net: n, seen: map[string][]netip.Addr{}}
	boss, gate, home := l.site("m", "11.0.9.1/24"), l.site("g", "11.0.3.1/24"), l.site("p", "11.0.2.1/24")
	web := &place{where: l.site("a", "11.0.1.1/24")}
	for i, a := range []*netlab.Host{boss, gate, home, web.where} {
		for _, b := range []*netlab.Host{boss, gate, home, web.where}[i+1:] {
			n.Distance(a, b, 10*time.Millisecond, 0)
		}
	}
	site := l.serve(web, webPort)
	l.start(boss, []string{site})
	o := &office{host: gate}
	policy, roots := o.serve(t)
	in := func(program string, args ...string) *process {
		cmd := home.Command(bin+"/"+program, args...)
		cmd.Env = append(os.Environ(), "SSL_CERT_FILE="+roots)
		return launch(t, program, cmd)
	}

	var mu sync.Mutex
	type flow struct {
		protocol byte
		theirs   netip.AddrPort
		ours     uint16
	}
	invited := map[flow]bool{}         // opened from outside; a real office would block them, but this network has no firewall
	around := map[netip.AddrPort]int{} // packets that did not go to the office's gate
	n.Tap(func(from *netlab.Host, b []byte) {
		head := int(b[0]&15) * 4
		if b[0]>>4 != 4 || len(b) < head+4 {
			return
		}
		source, target := netip.AddrFrom4([4]byte(b[12:16])), netip.AddrFrom4([4]byte(b[16:20]))
		fromPort, toPort := binary.BigEndian.Uint16(b[head:]), binary.BigEndian.Uint16(b[head+2:])
		mu.Lock()
		defer mu.Unlock()
		switch {
		case from != home && target == home.Addr:
			f := flow{b[9], netip.AddrPortFrom(source, fromPort), toPort}
			if around[f.theirs] == 0 {
				invited[f] = true
			}
		case from == home && target != gate.Addr && !invited[flow{b[9], netip.AddrPortFrom(target, toPort), fromPort}]:
			around[netip.AddrPortFrom(target, toPort)]++
		}
	})
	dir := t.TempDir()
	j := in("shoal-peer", "join", "--yes", l.mgr.word("shoal-peer join "), "--data", dir, "--policy-url", policy)
	if <-j.done; j.cmd.ProcessState.ExitCode() != 0 {
		t.Fatalf("join: %s", j.said())
	}
	p := in("shoal-peer", "run", "--data", dir, "--policy-url", policy, "--no-low-priority", "--log-level", "warn")
	p.until("is known to the manager", func() bool { return l.page.overview().Peers == 1 })
	l.crawl(l.channels()[site])
	l.mgr.until("has the site", func() bool { return l.updated([]string{site}, 1) })

	mu.Lock()
	defer mu.Unlock()
	if len(around) > 0 {
		t.Errorf("packets around the proxy: %v", around)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.asked[fmt.Sprintf("11.0.1.1:%d", webPort)] == 0 || o.asked["11.0.9.1:7785"] == 0 || len(o.asked) != 2 {
		t.Errorf("the proxy was asked for %v", o.asked)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if who := l.seen[site]; len(who) == 0 || who[0] != gate.Addr {
		t.Errorf("the site was visited from %v", who)
	}
}

// office is a proxy and the server of the policy.
type office struct {
	host  *netlab.Host
	mu    sync.Mutex
	asked map[string]int
}

// serve starts both. It returns the address of the policy, and the file of the certificate to trust.
func (o *office) serve(t *testing.T) (policy, roots string) {
	o.asked = map[string]int{}
	at := fmt.Sprintf("%s:3128", o.host.Addr)
	ln, err := o.host.Listen("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{ReadHeaderTimeout: time.Minute, Handler: o}
	done := make(chan struct{})
	go func() { defer close(done); s.Serve(ln) }()
	t.Cleanup(func() { s.Close(); <-done })
	at = fmt.Sprintf("%s:3129", o.host.Addr)
	own, err := o.host.Listen("tcp", at) // the other server may not have read its variable yet
	if err != nil {
		t.Fatal(err)
	}
	secure := httptest.NewUnstartedServer(o)
	secure.Listener.Close()
	cert, roots := certificateFor(t, o.host.Addr)
	secure.Listener, secure.TLS = own, &tls.Config{Certificates: []tls.Certificate{cert}}
	secure.StartTLS()
	t.Cleanup(secure.Close)
	return "https://" + at + "/policy.toml", roots
}

// certificateFor returns a certificate for an address, and the file of the certificate for a program that is to trust it.
func certificateFor(t *testing.T, at netip.Addr) (cert tls.Certificate, file string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{at.AsSlice()}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "office.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, file
}

func (o *office) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodConnect {
		fmt.Fprintf(w, "proxy = \"http://%s:3128\"\n", o.host.Addr)
		return
	}
	o.mu.Lock()
	o.asked[r.Host]++
	o.mu.Unlock()
	there, err := o.host.DialContext(r.Context(), "tcp", r.Host)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer there.Close()
	here, rw, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	defer here.Close()
	io.WriteString(here, "HTTP/1.1 200 OK\r\n\r\n")
	done := make(chan struct{})
	go func() {
		defer close(done)
		io.Copy(there, rw)
		there.(*net.TCPConn).CloseWrite()
	}()
	io.Copy(here, there)
	here.(*net.TCPConn).CloseWrite()
	<-done
}
