//go:build linux

package netlab

import (
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"
)

// maxQueue bounds the packets on their way from one site to another. Further packets are lost.
const maxQueue = 4096

// link is the path from one site to another.
type link struct {
	mu    sync.Mutex
	delay time.Duration // one way
	loss  float64
	cut   bool
	queue chan packet
	gone  bool
}

type packet struct {
	due time.Time
	b   []byte
}

func (k *link) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.gone {
		k.gone = true
		close(k.queue)
	}
}

// between returns the link from a to b. A new link has no delay. That of a closed lab takes nothing: a packet may have
// been read just before the lab was closed.
func (l *Lab) between(a, b *Host) *link {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return &link{gone: true}
	}
	k := l.links[[2]*Host{a, b}]
	if k == nil {
		k = &link{queue: make(chan packet, maxQueue)}
		l.links[[2]*Host{a, b}] = k
		l.wg.Go(func() {
			for p := range k.queue {
				time.Sleep(time.Until(p.due))
				_, _ = b.tun.Write(p.b) // what the other end does not take is lost, as on any link
			}
		})
	}
	return k
}

// Distance sets the round-trip time between two sites, and the share of packets lost each way.
func (l *Lab) Distance(a, b *Host, rtt time.Duration, loss float64) {
	for _, k := range []*link{l.between(a, b), l.between(b, a)} {
		k.mu.Lock()
		k.delay, k.loss = rtt/2, loss
		k.mu.Unlock()
	}
}

// Cut separates a site from all others, or joins it to them again.
func (l *Lab) Cut(h *Host, cut bool) {
	l.mu.Lock()
	sites := append([]*Host(nil), l.sites...)
	l.mu.Unlock()
	for _, o := range sites {
		if o == h {
			continue
		}
		for _, k := range []*link{l.between(h, o), l.between(o, h)} {
			k.mu.Lock()
			k.cut = cut
			k.mu.Unlock()
		}
	}
}

// relay forwards the packets of a site until the site's device closes.
func (l *Lab) relay(from *Host) {
	buf := make([]byte, 1<<16)
	for {
		n, err := from.tun.Read(buf)
		if err != nil {
			return
		}
		var at netip.Addr
		switch {
		case n >= 20 && buf[0]>>4 == 4:
			at = netip.AddrFrom4([4]byte(buf[16:20]))
		case n >= 40 && buf[0]>>4 == 6:
			at = netip.AddrFrom16([16]byte(buf[24:40]))
		default:
			continue
		}
		if tap := l.tapped(); tap != nil {
			tap(from, buf[:n])
		}
		if to := l.siteOf(at); to != nil && to != from {
			l.between(from, to).send(buf[:n])
		}
	}
}

func (l *Lab) tapped() func(*Host, []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tap
}

func (l *Lab) siteOf(a netip.Addr) *Host {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range l.sites {
		if h.net.Contains(a) || h.net6.IsValid() && h.net6.Contains(a) {
			return h
		}
	}
	return nil
}

func (k *link) send(b []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.gone || k.cut || k.loss > 0 && rand.Float64() < k.loss {
		return
	}
	select {
	case k.queue <- packet{time.Now().Add(k.delay), append([]byte(nil), b...)}:
	default:
	}
}
