package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// serveAttacker starts the attacker's name server and Web hosts.
func (v *village) serveAttacker() {
	v.names = &names{asked: map[string]int{}, other: dnsAnswer{addrs: []string{attackerSix, attackerFour}}, known: map[string][]dnsAnswer{
		"ipv4only.arpa": {{addrs: []string{netip.MustParsePrefix(learntNAT64).Addr().String() + "c000:aa"}}},
	}}
	for name, list := range rebound() {
		v.names.known[name] = list
	}
	for i, to := range named {
		v.names.known[fmt.Sprintf("named-%d%s", i, evilDomain)] = []dnsAnswer{{addrs: []string{to}}}
	}
	v.names.known["covered"+evilDomain] = []dnsAnswer{{addrs: []string{storeFour}}}
	v.names.serve(v.t, v.web, netip.AddrPortFrom(netip.MustParseAddr(attackerFour), 53))
	cert := v.certificate("covering"+evilDomain, "covered"+evilDomain)
	for _, port := range []int{80, 443, 8000} {
		ln, err := v.web.Listen("tcp", fmt.Sprintf(":%d", port))
		v.must(err)
		if port != 443 {
			v.serveOn(ln, v, func() {})
			continue
		}
		s := &http.Server{ReadHeaderTimeout: time.Minute, Handler: v, ErrorLog: quiet(), TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}}}
		done := make(chan struct{})
		go func() { defer close(done); s.ServeTLS(ln, "", "") }()
		v.t.Cleanup(func() { s.Close(); <-done })
	}
}

// certificate makes a certificate for names of the attacker, which the peer trusts.
func (v *village) certificate(names ...string) tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	v.must(err)
	of := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: names, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, of, of, key.Public(), key)
	v.must(err)
	v.roots = filepath.Join(v.t.TempDir(), "roots.pem")
	v.must(os.WriteFile(v.roots, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// Names of the attacker's hosts: route-N shows all spellings by route N, or a part of them; robots-N redirects
// robots.txt to spelling N.
const perHost = 12 // spellings that a host tries which shows each at a path of its own

// ServeHTTP is every host of the attacker.
func (v *village) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	host, _, _ := strings.Cut(strings.ToLower(r.Host), ":")
	v.mu.Lock()
	v.fetched[host+r.URL.Path]++
	v.mu.Unlock()
	for name, value := range pointing {
		w.Header()[name] = []string{value}
	}
	kind, rest, _ := strings.Cut(strings.TrimSuffix(host, evilDomain), "-")
	numbers := strings.Split(rest, "-")
	number := func(i int) int {
		if i >= len(numbers) {
			return -1
		}
		n, err := strconv.Atoi(numbers[i])
		if err != nil {
			return -1
		}
		return n
	}
	all, _ := spelled()
	switch n := number(0); {
	case kind == "robots" && r.URL.Path == "/robots.txt" && n >= 0 && n < len(all):
		redirect(w, []int{301, 302, 303, 307, 308}[n%5], plainURL(all[n]))
	case kind == "ports" && r.URL.Path == "/robots.txt" && n >= 0:
		redirect(w, 302, fmt.Sprintf("http://open%s:%d/robots.txt", evilDomain, n))
	case kind == "codes" && strings.HasPrefix(r.URL.Path, "/to/"):
		code, _ := strconv.Atoi(r.URL.Path[len("/to/"):])
		redirect(w, code, plainURL(storeFour))
	case kind == "codes":
		w.Header().Set("Content-Type", "text/html")
		for _, code := range redirectCodes {
			fmt.Fprintf(w, "<a href=\"/to/%d\">x</a>", code)
		}
	case kind == "covering":
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, "<a href=\"https://covered%s/inside\">x</a><a href=\"/next\">y</a>", evilDomain)
	case kind == "route" && n >= 0 && n < len(routes):
		v.serveRoute(w, r, routes[n], number(1), all)
	case r.URL.Path == "/robots.txt":
		http.NotFound(w, r)
	default:
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Connection", "close") // so that the name is asked for again
		fmt.Fprint(w, `<a href="/1">1</a><a href="/2">2</a><a href="/3">3</a><a href="/4">4</a>`)
	}
}

var redirectCodes = []int{300, 301, 302, 303, 304, 305, 306, 307, 308, 201, 202}

// redirect sends a Location as it is.
func redirect(w http.ResponseWriter, code int, to string) {
	w.Header()["Location"] = []string{strings.NewReplacer("\t", "%09").Replace(to)}
	w.WriteHeader(code)
}

// serveRoute shows spellings in the way of one route.
func (v *village) serveRoute(w http.ResponseWriter, r *http.Request, by route, part int, all []string) {
	typed := func(kind, before, after string) {
		w.Header().Set("Content-Type", kind)
		fmt.Fprint(w, before)
		for _, a := range all {
			fmt.Fprint(w, by.how(a))
		}
		fmt.Fprint(w, after)
	}
	switch path := r.URL.Path; {
	case path == "/robots.txt" && by.name == "Sitemap in robots.txt":
		typed("text/plain", "User-agent: *\nAllow: /\n", "")
	case path == "/robots.txt" && strings.HasPrefix(by.name, "sitemap"):
		fmt.Fprintf(w, "User-agent: *\nAllow: /\nSitemap: http://%s/map.xml\n", r.Host)
	case path == "/robots.txt" && by.name == "feed entry":
		fmt.Fprintf(w, "User-agent: *\nAllow: /\nSitemap: http://%s/map.xml\n", r.Host)
	case path == "/robots.txt":
		http.NotFound(w, r)
	case path == "/map.xml" && by.name == "sitemap entry":
		typed("text/xml", "<urlset>", "</urlset>")
	case path == "/map.xml" && by.name == "sitemap index":
		typed("text/xml", "<sitemapindex>", "</sitemapindex>")
	case path == "/map.xml" && by.name == "feed entry":
		typed("application/rss+xml", "<rss><channel>", "</channel></rss>")
	case strings.HasPrefix(path, "/to/"):
		k, err := strconv.Atoi(path[len("/to/"):])
		if err != nil || k < 0 || k >= len(all) {
			http.NotFound(w, r)
			return
		}
		if strings.HasPrefix(by.name, "redirect") {
			redirect(w, []int{301, 302, 307, 308}[k%4], by.how(all[k]))
			return
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, by.how(all[k]))
	case !by.list && part >= 0:
		w.Header().Set("Content-Type", "text/html")
		for k := part * perHost; k < min((part+1)*perHost, len(all)); k++ {
			fmt.Fprintf(w, "<a href=\"/to/%d\">x</a>", k)
		}
	default:
		typed("text/html; charset=utf-8", "<html>", "")
	}
}
