package pond

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"time"

	"github.com/cespare/xxhash/v2"
)

// Trouble is what makes honest visitors see different things of one page. Each part is a share; the zero Trouble is none. The pond then keeps a
// hash of every body that it served, so that Showed can tell what was never on it.
type Trouble struct {
	Dynamic  float64 `json:"dynamic,omitempty"`  // of pages: they carry a line that differs at each fetch
	Captchas float64 `json:"captchas,omitempty"` // of the minutes of a visitor at a host: all pages are a captcha
	Walls    float64 `json:"walls,omitempty"`    // of hosts: visitors from one of the regions see a notice in place of each page
	Stale    float64 `json:"stale,omitempty"`    // of hosts: caches serve every third visitor copies that are up to StaleFor old
}

// StaleFor is how old a copy may be that a cache serves.
const StaleFor = 20 * time.Second

const (
	captchaFor = time.Minute
	maxShown   = 1 << 20 // bodies whose hashes are kept
)

func (t Trouble) validate() error {
	for _, s := range []float64{t.Dynamic, t.Captchas, t.Walls, t.Stale} {
		if !(s >= 0 && s <= 1) {
			return fmt.Errorf("%w: trouble %+v: shares must be 0 to 1", ErrConfig, t)
		}
	}
	return nil
}

// visitor is who asks, as a host sees it.
type visitor struct {
	region int
	name   uint64
}

// localOf is the loopback address from which the node that listens on a port visits hosts: it tells region and node. Where a system has no
// more than one loopback address, all visitors are one.
func (w *World) localOf(port int) net.Addr {
	if w.cfg.Trouble == (Trouble{}) || runtime.GOOS != "linux" {
		return nil
	}
	return &net.TCPAddr{IP: net.IPv4(127, byte(1+w.region(port)%250), byte(port>>8), byte(port))}
}

// region is the place that is nearest to a node.
func (w *World) region(port int) int {
	at, best := w.nodePos(port), 0
	for i, c := range w.clusters {
		if rtt(at, c) < rtt(at, w.clusters[best]) {
			best = i
		}
	}
	return best
}

func visitorOf(r *http.Request) visitor {
	ap, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return visitor{}
	}
	ip := ap.Addr().Unmap().As16()
	return visitor{int(ip[13]) - 1, uint64(ip[14])<<8 | uint64(ip[15])}
}

// Dynamic tells whether a page differs at each fetch.
func (w *World) Dynamic(host, page int) bool {
	return page > 0 && w.unit(saltTrouble, 0, uint64(host), uint64(page)) < w.cfg.Trouble.Dynamic
}

// walled is the region whose visitors a host shuts out; -1: none.
func (w *World) walled(host int) int {
	if w.unit(saltTrouble, 1, uint64(host)) >= w.cfg.Trouble.Walls {
		return -1
	}
	return int(w.hash(saltTrouble, 2, uint64(host)) % uint64(w.cfg.Clusters))
}

// captcha tells whether a visitor meets captchas at a host now.
func (w *World) captcha(host int, v visitor, now time.Time) bool {
	return w.unit(saltTrouble, 3, uint64(host), v.name, uint64(now.Unix())/uint64(captchaFor/time.Second)) < w.cfg.Trouble.Captchas
}

// copyOf is the moment of which a visitor sees a host: a cache may be behind.
func (w *World) copyOf(host int, v visitor, now time.Time) time.Time {
	if w.unit(saltTrouble, 4, uint64(host)) >= w.cfg.Trouble.Stale || w.hash(saltTrouble, 5, uint64(host), v.name)%3 != 0 {
		return now
	}
	span := int64(StaleFor / time.Second)
	return time.Unix(now.Unix()/span*span, 0)
}

// instead is what a visitor sees in place of a page; nil: the page.
func (w *World) instead(host int, v visitor, now time.Time) []byte {
	switch {
	case w.walled(host) == v.region:
		return fmt.Appendf(nil, "<!DOCTYPE html><html><head><title>Not available</title></head><body><p>%s is not available in your country.</p></body></html>\n", w.hosts[host].Name)
	case w.captcha(host, v, now):
		return []byte("<!DOCTYPE html><html><head><title>One moment</title></head><body><p>Please show that you are no robot.</p><form><input name=\"answer\"></form></body></html>\n")
	}
	return nil
}

// troubled serves a page of a pond with trouble.
func (s *Server) troubled(rw http.ResponseWriter, r *http.Request, host, page int, now time.Time) {
	by := visitorOf(r)
	body := s.w.instead(host, by, now)
	if body == nil {
		at := s.w.copyOf(host, by, now)
		v := s.w.Version(host, page, at)
		answer := Served{When: now, Host: host, Page: page, Version: v.ID, Text: v.Text, From: r.RemoteAddr}
		dynamic := s.w.Dynamic(host, page)
		if s.w.hosts[host].Validators && !dynamic {
			tag := fmt.Sprintf(`"%x-%x"`, page, v.Text)
			rw.Header().Set("ETag", tag)
			rw.Header().Set("Last-Modified", v.Since.UTC().Format(http.TimeFormat))
			if unmodified(r, tag, v.Since) {
				s.notModified.Add(1)
				answer.NotModified = true
				s.served.add(answer)
				rw.WriteHeader(http.StatusNotModified)
				return
			}
		}
		s.served.add(answer)
		body = s.w.AppendPage(nil, host, page, v)
		if dynamic {
			body = fmt.Appendf(body, "<p>You are visitor %d.</p>\n", mix(uint64(now.UnixNano()))%1_000_000)
		}
	}
	s.served.show(Target{host, page}, body)
	send(rw, "text/html; charset=utf-8", body)
}

// shown names a body of a page.
type shown struct {
	at   Target
	hash uint64
}

func (l *servedLog) show(at Target, body []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shown == nil {
		l.shown = map[shown]struct{}{}
	}
	if len(l.shown) < maxShown {
		l.shown[shown{at, xxhash.Sum64(body)}] = struct{}{}
	}
}

// Showed tells whether a page was ever served with a body. Only a pond with Trouble knows.
func (s *Server) Showed(host, page int, body []byte) bool {
	l := &s.served
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.shown[shown{Target{host, page}, xxhash.Sum64(body)}]
	return ok
}
