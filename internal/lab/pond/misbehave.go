package pond

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Mode is a way in which a host misbehaves. The empty Mode is a host that behaves.
type Mode string

// The modes. Unless a comment says otherwise, robots.txt is served well.
const (
	SlowLoris         Mode = "slow-loris"          // bodies come a byte at a time
	Silent            Mode = "silent"              // takes the request and never answers
	HangUp            Mode = "hang-up"             // closes the connection instead of answering
	CutOff            Mode = "cut-off"             // closes the connection in the middle of a body
	CloseAlways       Mode = "close-always"        // good pages, but closes after each response
	EndlessRedirects  Mode = "endless-redirects"   // each redirect leads to another
	RedirectLoop      Mode = "redirect-loop"       // two pages redirect to each other
	PrivateRedirects  Mode = "private-redirects"   // redirects to private, loopback, link-local and metadata addresses
	ShortBody         Mode = "short-body"          // Content-Length promises more than comes
	LongBody          Mode = "long-body"           // more comes than Content-Length promises
	BrokenChunks      Mode = "broken-chunks"       // chunk sizes that are no numbers
	MalformedHeaders  Mode = "malformed-headers"   // header lines that are none
	HugeHeaders       Mode = "huge-headers"        // 1 MiB of header fields
	HugeBody          Mode = "huge-body"           // a page of 1 GiB
	GzipBomb          Mode = "gzip-bomb"           // 256 MiB of zeros in some kilobytes
	BrotliBomb        Mode = "brotli-bomb"         // the same
	ZstdBomb          Mode = "zstd-bomb"           // the same
	BrokenGzip        Mode = "broken-gzip"         // says gzip, is not
	Gzip              Mode = "gzip"                // good pages, in gzip whatever the client accepts
	Brotli            Mode = "brotli"              // good pages, in brotli
	Zstd              Mode = "zstd"                // good pages, in zstd
	ManyLinks         Mode = "many-links"          // 1,000,000 links on a page
	InvalidUTF8       Mode = "invalid-utf8"        // bytes that are no text, in links too
	Calendar          Mode = "calendar"            // each month links to the one before and the one after, and back to this
	Sessions          Mode = "sessions"            // each response links to itself under a new session id
	Deep              Mode = "deep"                // /a/a/a/a/..., for ever
	Always200         Mode = "always-200"          // any URL is a page
	Volatile          Mode = "volatile"            // good pages except for a number that differs each time
	TooMany           Mode = "429"                 // 429 with Retry-After to all but robots.txt
	Unavailable       Mode = "503"                 // 503 with Retry-After to all but robots.txt
	BusyAtFirst       Mode = "busy-at-first"       // 429 with Retry-After: 1 to every fourth request
	Forbidden         Mode = "403"                 // 403 to all but robots.txt
	Challenge         Mode = "challenge"           // an interstitial that wants JavaScript
	ChangingRobots    Mode = "changing-robots"     // robots.txt forbids all every second time
	RobotsError       Mode = "robots-5xx"          // robots.txt is a 500
	RobotsForbidden   Mode = "robots-403"          // robots.txt is a 403
	RobotsTooMany     Mode = "robots-429"          // robots.txt is a 429
	RobotsHuge        Mode = "robots-huge"         // 2 MiB of robots.txt; the rule beyond 500 KiB does not count
	RobotsRedirects   Mode = "robots-redirects"    // robots.txt redirects for ever
	RobotsGarbage     Mode = "robots-garbage"      // robots.txt is an HTML page
	RobotsDisallowAll Mode = "robots-disallow-all" // nothing may be fetched
	SitemapInside     Mode = "sitemap-inside"      // robots.txt names sitemaps at private addresses and other hosts
	EndlessChunks     Mode = "endless-chunks"      // chunks of one byte, or of nothing but an extension, without end
	HugeTrailers      Mode = "huge-trailers"       // 16 MiB of fields after the last chunk
	SlowHeaders       Mode = "slow-headers"        // header fields come a byte at a time
	Interim           Mode = "interim"             // interim responses without end
	TwoLengths        Mode = "two-lengths"         // Content-Length twice, and chunked too
	NestedBomb        Mode = "nested-bomb"         // brotli of 128 MiB of gzip that holds nothing
	CookieWall        Mode = "cookie-wall"         // redirects to the same page until a cookie comes back
	WrongCharset      Mode = "wrong-charset"       // names wrong encodings and encodings that do not exist
	RobotsDrip        Mode = "robots-drip"         // robots.txt comes a byte at a time
	RobotsRules       Mode = "robots-rules"        // robots.txt of 499 KiB of rules with wildcards, and 20,000 links on each page
	SitemapBomb       Mode = "sitemap-bomb"        // a sitemap that is a decompression bomb, and an index that names itself

	// Modes of TLS. These hosts are good except for their https, to which http leads.
	TLSExpired    Mode = "tls-expired"     // a certificate of long ago
	TLSNotYet     Mode = "tls-not-yet"     // one of the far future
	TLSWrongName  Mode = "tls-wrong-name"  // one for another name
	TLSUnknownCA  Mode = "tls-unknown-ca"  // a certificate of an unknown authority
	TLSSelfSigned Mode = "tls-self-signed" // a self-signed certificate
	TLSMalformed  Mode = "tls-malformed"   // half of one
	TLSChain      Mode = "tls-chain"       // 1,500 of them
	TLSWeakKey    Mode = "tls-weak-key"    // one with an RSA key of 512 bits
	TLSHugeKey    Mode = "tls-huge-key"    // one with an RSA key of 16,384 bits
	TLSClientCert Mode = "tls-client-cert" // wants a certificate of the client
	TLSStaple     Mode = "tls-staple"      // good, but with a stapled revocation answer that is nonsense
	TLSOld        Mode = "tls-old"         // TLS 1.0
	TLSWeakCipher Mode = "tls-weak-cipher" // chooses RC4, which the client did not offer
	TLSProtocol   Mode = "tls-protocol"    // chooses a protocol (ALPN) that the client did not offer
	TLSGarbage    Mode = "tls-garbage"     // answers with what is no TLS
	TLSAlert      Mode = "tls-alert"       // refuses every handshake
	TLSWarnings   Mode = "tls-warnings"    // warnings without end
	TLSStall      Mode = "tls-stall"       // never answers the handshake
	TLSDrip       Mode = "tls-drip"        // answers a byte at a time
	TLSCut        Mode = "tls-cut"         // closes the connection within its answer
	Renegotiate   Mode = "tls-renegotiate" // wants a new handshake instead of answering a request

	// Modes of HTTP/2, over good TLS.
	HTTP2          Mode = "h2"              // good pages over HTTP/2
	H2Reset        Mode = "h2-reset"        // resets the stream of each request
	H2ResetFlood   Mode = "h2-reset-flood"  // resets without end, also of streams that were never opened
	H2GoAway       Mode = "h2-goaway"       // GOAWAY instead of an answer
	H2NoStreams    Mode = "h2-no-streams"   // allows no stream, and no window
	H2Settings     Mode = "h2-settings"     // SETTINGS without end
	H2Pings        Mode = "h2-pings"        // PING without end
	H2Continuation Mode = "h2-continuation" // a header without end
	H2Headers      Mode = "h2-headers"      // 1 MiB of header fields
	H2HeaderBomb   Mode = "h2-header-bomb"  // 400 MB of header fields in 100 kB
	H2Trailers     Mode = "h2-trailers"     // trailers without end
	H2Interim      Mode = "h2-interim"      // interim responses without end
	H2LongData     Mode = "h2-long-data"    // more comes than content-length promises
	H2ShortData    Mode = "h2-short-data"   // content-length promises more than comes
	H2Overrun      Mode = "h2-overrun"      // DATA without end, whatever the window
	H2Empty        Mode = "h2-empty"        // DATA of nothing, or of padding, without end
	H2Drip         Mode = "h2-drip"         // a byte at a time
	H2Push         Mode = "h2-push"         // pushes unwanted streams
	H2HugeFrame    Mode = "h2-huge-frame"   // a frame of 16 MiB
	H2Unknown      Mode = "h2-unknown"      // frames of no known type, without end
	H2Cut          Mode = "h2-cut"          // closes the connection within a body
	H2Silent       Mode = "h2-silent"       // never answers
	H2HTTP1        Mode = "h2-http1"        // agrees on HTTP/2 and speaks HTTP/1.1
)

var modes = []Mode{SlowLoris, Silent, HangUp, CutOff, CloseAlways, EndlessRedirects, RedirectLoop, PrivateRedirects, ShortBody, LongBody,
	BrokenChunks, MalformedHeaders, HugeHeaders, HugeBody, GzipBomb, BrotliBomb, ZstdBomb, BrokenGzip, Gzip, Brotli, Zstd, ManyLinks,
	InvalidUTF8, Calendar, Sessions, Deep, Always200, Volatile, TooMany, Unavailable, BusyAtFirst, Forbidden, Challenge, ChangingRobots,
	RobotsError, RobotsForbidden, RobotsTooMany, RobotsHuge, RobotsRedirects, RobotsGarbage, RobotsDisallowAll, SitemapInside, EndlessChunks,
	HugeTrailers, SlowHeaders, Interim, TwoLengths, NestedBomb, CookieWall, WrongCharset, RobotsDrip, RobotsRules, SitemapBomb,
	TLSExpired, TLSNotYet, TLSWrongName, TLSUnknownCA, TLSSelfSigned, TLSMalformed, TLSChain, TLSWeakKey, TLSHugeKey, TLSClientCert, TLSStaple,
	TLSOld, TLSWeakCipher, TLSProtocol, TLSGarbage, TLSAlert, TLSWarnings, TLSStall, TLSDrip, TLSCut, Renegotiate,
	HTTP2, H2Reset, H2ResetFlood, H2GoAway, H2NoStreams, H2Settings, H2Pings, H2Continuation, H2Headers, H2HeaderBomb, H2Trailers, H2Interim,
	H2LongData, H2ShortData, H2Overrun, H2Empty, H2Drip, H2Push, H2HugeFrame, H2Unknown, H2Cut, H2Silent, H2HTTP1}

// Modes returns all modes.
func Modes() []Mode { return slices.Clone(modes) }

// Known reports whether the mode exists.
func (m Mode) Known() bool { return slices.Contains(modes, m) }

// Secure reports whether m is a mode of TLS or HTTP/2, whose hosts are reached by https.
func (m Mode) Secure() bool {
	return strings.HasPrefix(string(m), "tls-") || strings.HasPrefix(string(m), "h2")
}

// http2 reports whether the host of m speaks HTTP/2 written by hand.
func (m Mode) http2() bool { return strings.HasPrefix(string(m), "h2-") }

// ManyLinksCount is the number of links on a page of ManyLinks.
const ManyLinksCount = 1_000_000

// privateTargets are the targets of PrivateRedirects, by page number.
var privateTargets = [...]string{"http://127.0.0.1:22/", "http://[::1]/", "http://10.0.0.1/", "http://192.168.1.1/admin", "http://172.16.0.1/",
	"http://169.254.169.254/latest/meta-data/", "http://[fd00:ec2::254]/", "http://[::ffff:127.0.0.1]/", "http://2130706433/",
	"http://0177.0.0.1/", "http://0x7f.1/", "http://localhost/", "http://224.0.0.1/", "http://0.0.0.0/", "http://user:pw@127.0.0.1/",
	"file:///etc/passwd", "ftp://127.0.0.1/"}

// misbehave answers a request as the mode demands. It returns false if the mode serves the request well.
func (s *Server) misbehave(m Mode, rw http.ResponseWriter, r *http.Request, host int) bool {
	if m.Secure() {
		if r.TLS == nil {
			http.Redirect(rw, r, "https://"+s.w.hosts[host].Name+r.URL.RequestURI(), http.StatusMovedPermanently)
		}
		return r.TLS == nil
	}
	if r.URL.Path == "/robots.txt" {
		if m == RobotsDrip {
			s.drip(rw, r)
			return true
		}
		return s.badRobots(m, rw, host)
	}
	switch m {
	case CloseAlways:
		rw.Header().Set("Connection", "close")
		return false
	case EndlessRedirects:
		n, _ := strconv.Atoi(r.URL.Query().Get("hop"))
		http.Redirect(rw, r, fmt.Sprintf("/redirect?hop=%d", n+1), http.StatusFound)
	case RedirectLoop:
		to := "/left"
		if r.URL.Path == "/left" {
			to = "/right"
		}
		http.Redirect(rw, r, to, http.StatusMovedPermanently)
	case PrivateRedirects:
		if r.URL.Path == "/" {
			var b []byte
			for i := range privateTargets {
				b = fmt.Appendf(b, `<a href="/out-%d">%d</a> <a href="%s">direct</a>`, i, i, privateTargets[i])
			}
			send(rw, "text/html", b)
			break
		}
		i, _ := strconv.Atoi(r.URL.Path[strings.LastIndexByte(r.URL.Path, '-')+1:])
		rw.Header().Set("Location", privateTargets[uint(i)%uint(len(privateTargets))])
		rw.WriteHeader(http.StatusFound)
	case TooMany, Unavailable:
		rw.Header().Set("Retry-After", "5")
		code, _ := strconv.Atoi(string(m))
		http.Error(rw, "later", code)
	case BusyAtFirst:
		if s.requests.Load()%4 != 0 {
			return false
		}
		rw.Header().Set("Retry-After", "1")
		http.Error(rw, "later", http.StatusTooManyRequests)
	case Forbidden:
		http.Error(rw, "forbidden", http.StatusForbidden)
	case Challenge:
		rw.Header().Set("Server", "cloudflare")
		rw.Header().Set("Cf-Mitigated", "challenge")
		rw.Header().Set("Content-Type", "text/html; charset=utf-8")
		rw.WriteHeader(http.StatusForbidden)
		io.WriteString(rw, `<!DOCTYPE html><html><head><title>Just a moment...</title><meta http-equiv="refresh" content="30"></head><body>`+
			`<noscript>Enable JavaScript and cookies to continue</noscript><script src="/cdn-cgi/challenge-platform/h/b/orchestrate/chl_page/v1"></script></body></html>`)
	case Gzip, Brotli, Zstd:
		return s.encoded(m, rw, r, host)
	case Calendar, Sessions, Deep, Always200, Volatile, ManyLinks, InvalidUTF8:
		return s.trap(m, rw, r, host)
	case CookieWall, WrongCharset, SitemapBomb, RobotsRules:
		return s.odd(m, rw, r)
	case ChangingRobots, RobotsError, RobotsForbidden, RobotsTooMany, RobotsHuge, RobotsRedirects, RobotsGarbage, RobotsDisallowAll, SitemapInside, RobotsDrip:
		return false // only their robots.txt is bad
	default:
		s.rawly(m, rw, r, host)
	}
	return true
}

func (s *Server) badRobots(m Mode, rw http.ResponseWriter, host int) bool {
	st := &s.hosts[host]
	st.mu.Lock()
	st.robots++
	times := st.robots
	st.mu.Unlock()
	kind := "text/plain"
	const forbid = "User-agent: *\nDisallow: /\n"
	switch m {
	case ChangingRobots:
		if times%2 == 0 {
			send(rw, kind, []byte(forbid))
		} else {
			send(rw, kind, []byte("User-agent: *\nAllow: /\n"))
		}
	case RobotsDisallowAll:
		send(rw, kind, []byte(forbid))
	case RobotsError:
		http.Error(rw, "broken", http.StatusInternalServerError)
	case RobotsForbidden:
		http.Error(rw, "forbidden", http.StatusForbidden)
	case RobotsTooMany:
		rw.Header().Set("Retry-After", "60")
		http.Error(rw, "later", http.StatusTooManyRequests)
	case RobotsRedirects:
		rw.Header().Set("Location", "/robots.txt")
		rw.WriteHeader(http.StatusMovedPermanently)
	case RobotsGarbage:
		send(rw, "text/html", []byte("<!DOCTYPE html><html><head><title>Home</title></head><body>\nDisallow: nothing, dear robot\n</body></html>\n"))
	case RobotsHuge:
		b := []byte("User-agent: *\nDisallow: /private/\n")
		for len(b) < 2<<20 {
			b = append(b, "# nothing to see here, nothing at all, but there is very much of it\n"...)
		}
		send(rw, kind, append(b, "Disallow: /\n"...))
	case RobotsRules:
		b := []byte("User-agent: *\n")
		for i := 0; len(b) < 499<<10; i++ {
			b = fmt.Appendf(b, "Disallow: *%d$\n", ManyLinksCount+i)
		}
		send(rw, kind, b)
	case SitemapBomb:
		send(rw, kind, []byte("Sitemap: /bomb.xml.gz\nSitemap: /index.xml\n"))
	case SitemapInside:
		send(rw, kind, []byte("User-agent: *\nDisallow:\nSitemap: http://127.0.0.1:22/sitemap.xml\nSitemap: http://169.254.169.254/latest\n"+
			"Sitemap: http://localhost/sitemap.xml\nSitemap: file:///etc/passwd\nSitemap: /sitemap.xml\n"))
	default:
		return false
	}
	return true
}

// trap answers with an endless supply of pages that lead nowhere.
func (s *Server) trap(m Mode, rw http.ResponseWriter, r *http.Request, host int) bool {
	var b []byte
	switch m {
	case Volatile:
		page, ok := s.w.Lookup(host, r.URL.RequestURI())
		if !ok {
			return false
		}
		b = s.w.AppendPage(nil, host, page, Version{Since: s.w.cfg.Start})
		b = fmt.Appendf(b, "<!-- served in %d ms -->\n", time.Now().UnixNano()%1_000_000)
	case Calendar:
		at, err := time.Parse("/calendar/2006/01", r.URL.Path)
		if err != nil {
			at = s.w.cfg.Start
		}
		b = fmt.Appendf(nil, "<!DOCTYPE html><title>%s</title><h1>%s</h1>\n", at.Format("2006-01"), at.Format("January 2006"))
		for _, months := range []int{-12, -1, 0, 1, 12} {
			b = fmt.Appendf(b, `<a href="%s">%+d</a>`+"\n", at.AddDate(0, months, 1-at.Day()).Format("/calendar/2006/01"), months)
		}
	case Sessions:
		b = []byte("<!DOCTYPE html><title>shop</title>\n")
		for i := range 10 {
			b = fmt.Appendf(b, `<a href="%s?sid=%016x">item %d</a>`+"\n", r.URL.Path, mix(uint64(time.Now().UnixNano()+int64(i))), i)
		}
	case Deep:
		b = fmt.Appendf(nil, `<!DOCTYPE html><title>deep</title><a href="a/">deeper</a> <a href="b/">deeper</a> <a href="%sa/a/">again</a>`+"\n", r.URL.Path)
	case Always200:
		key := s.w.hash(saltBad, uint64(host), uint64(len(r.URL.Path)), mix(uint64(time.Now().UnixNano())))
		b = []byte("<!DOCTYPE html><title>found</title><p>Of course there is such a page.</p>\n")
		for i := range uint64(10) {
			b = fmt.Appendf(b, `<a href="/%012x">more</a>`+"\n", mix(key+i)>>16)
		}
	case ManyLinks:
		rw.Header().Set("Content-Type", "text/html")
		for i := 0; i < ManyLinksCount; {
			b = b[:0]
			for range 1000 {
				b = fmt.Appendf(b, "<a href=\"/many-%d\">%d</a>\n", i, i)
				i++
			}
			if _, err := rw.Write(b); err != nil {
				break
			}
		}
		return true
	case InvalidUTF8:
		b = []byte("<!DOCTYPE html><meta charset=utf-8><title>\xff\xfe\x80</title><p>\xc3\x28 \xed\xa0\x80 \xf8\x88</p><a href=\"/\xff\xfe.html\">\xe2\x82</a>" +
			"<a href=\"/%ff%fe\">x</a><a href='/\x00nul'>nul</a><a href=\"http://\xc3\x28.test/\">h</a><a href=\"/ok-1\">ok</a>\n")
	}
	send(rw, "text/html; charset=utf-8", b)
	return true
}
