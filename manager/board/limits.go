package board

import (
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"
)

// What one address may ask: some at once, and then so many a second. A page takes two requests.
const (
	burst        = 60
	perSecond    = 5
	maxAddresses = 8192
)

// limits counts requests by address.
type limits struct {
	now func() time.Time

	mu   sync.Mutex
	full map[netip.Addr]time.Time // when an address has all its requests again
}

func newLimits(now func() time.Time) *limits {
	return &limits{now: now, full: map[netip.Addr]time.Time{}}
}

// take tells whether a request is within what its address may ask.
func (l *limits) take(r *http.Request) bool {
	from, now := addressOf(r), l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	at, known := l.full[from]
	if !known && len(l.full) >= maxAddresses {
		for a, t := range l.full {
			if !t.After(now) {
				delete(l.full, a)
			}
		}
		if len(l.full) >= maxAddresses { // from everywhere at once: no address is to blame more than another
			clear(l.full)
		}
	}
	if at.Before(now) {
		at = now
	}
	if at = at.Add(time.Second / perSecond); at.Sub(now) > burst*time.Second/perSecond {
		return false
	}
	l.full[from] = at
	return true
}

// addressOf is what counts as one address: of IPv6 a /64. What comes from this machine comes from its proxy, which names the client last.
func addressOf(r *http.Request) netip.Addr {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	a := at.Addr().Unmap().WithZone("")
	if all := r.Header.Values("X-Forwarded-For"); a.IsLoopback() && len(all) > 0 {
		last := all[len(all)-1]
		if c, err := netip.ParseAddr(strings.TrimSpace(last[strings.LastIndex(last, ",")+1:])); err == nil {
			a = c.Unmap().WithZone("")
		}
	}
	if a.Is6() {
		if p, err := a.Prefix(64); err == nil {
			return p.Addr()
		}
	}
	return a
}
