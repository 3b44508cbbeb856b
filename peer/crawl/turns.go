package crawl

import (
	"context"
	"net/url"
	"strings"
	"sync"
	"time"

	"shoal/channel"
)

// Turns lets crawls on one computer take turns at each host, so that the host sees one polite visitor. A crawl waits while the request of another owner is under way,
// and for the wait after it. An owner is an origin of a network: to its manager, http and https of a host are two, as are its ports. Crawls of one origin in one network do
// not wait for each other here, since the manager sees to that. Turns is safe for concurrent use.
type Turns struct {
	mu    sync.Mutex
	hosts map[string]*turn
}

// turn is one host. Turns.mu guards it.
type turn struct {
	owner string          // whose request was the last, or is under way
	under int             // requests under way
	next  time.Time       // when the last owner would ask again
	ended time.Time       // the last request
	queue []chan struct{} // who waits, the first first; closed when it is their turn to look again
}

// manyTurns is how many hosts are remembered before those are dropped whose wait has passed.
const manyTurns = 256

// NewTurns returns Turns without a host.
func NewTurns() *Turns { return &Turns{hosts: map[string]*turn{}} }

// take waits until owner may send a request to a host, which it does not ask again before gap has passed since any request. It reports whether
// it waited. The caller must call give afterwards, unless take has returned an error.
func (t *Turns) take(ctx context.Context, stop <-chan struct{}, owner, host string, gap time.Duration) (waited bool, err error) {
	var mine chan struct{} // its place in the queue
	for {
		now := time.Now()
		t.mu.Lock()
		h := t.hosts[host]
		if h == nil {
			h = t.room(host, now)
		}
		wait, free := h.free(owner, gap, now, mine)
		if free {
			h.leave(mine)
			h.owner, h.under = owner, h.under+1
			t.mu.Unlock()
			return waited, nil
		}
		if mine == nil {
			mine = make(chan struct{}, 1)
			h.queue = append(h.queue, mine)
		}
		t.mu.Unlock()
		waited = true
		if err := pause(ctx, stop, mine, wait); err != nil {
			t.mu.Lock()
			h.leave(mine)
			h.wake()
			t.mu.Unlock()
			return waited, err
		}
	}
}

// free reports whether a request of owner may go now, and if not, after which wait to look again; 0: when it is woken.
func (h *turn) free(owner string, gap time.Duration, now time.Time, mine chan struct{}) (wait time.Duration, ok bool) {
	first := len(h.queue) == 0 || h.queue[0] == mine
	if !first || h.under > 0 && h.owner != owner {
		return 0, false
	}
	if h.owner == owner || h.ended.IsZero() {
		return 0, true
	}
	next := h.ended.Add(gap)
	if h.next.After(next) {
		next = h.next
	}
	wait = next.Sub(now)
	return wait, wait <= 0
}

// leave takes a place out of the queue.
func (h *turn) leave(mine chan struct{}) {
	for i, c := range h.queue {
		if c == mine {
			h.queue = append(h.queue[:i], h.queue[i+1:]...)
			break
		}
	}
}

// wake lets the first of the queue look again.
func (h *turn) wake() {
	if len(h.queue) > 0 {
		select {
		case h.queue[0] <- struct{}{}:
		default:
		}
	}
}

// give ends a request. next is when its owner would send another.
func (t *Turns) give(host string, now, next time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.hosts[host]
	h.under--
	h.ended = now
	if next.After(h.next) || h.under == 0 {
		h.next = next
	}
	h.wake()
}

// room makes a host. It drops hosts whose waits have passed if there are many.
func (t *Turns) room(host string, now time.Time) *turn {
	if len(t.hosts) >= manyTurns {
		for name, h := range t.hosts {
			if h.under == 0 && len(h.queue) == 0 && now.After(h.next) && now.After(h.ended.Add(MaxGap)) {
				delete(t.hosts, name)
			}
		}
	}
	h := &turn{}
	t.hosts[host] = h
	return h
}

// pause waits until it is woken or the wait has passed; 0: until it is woken.
func pause(ctx context.Context, stop <-chan struct{}, woken <-chan struct{}, wait time.Duration) error {
	var over <-chan time.Time
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-woken:
	case <-over:
	case <-stop:
		return errStop
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// hostOf is the host of an URL as Turns counts it: http and https, and all ports, are one.
func hostOf(u string) string {
	at, err := url.Parse(u)
	if err != nil {
		return u
	}
	return strings.ToLower(strings.TrimSuffix(at.Hostname(), "."))
}

// quickLook bounds the second question to Before, while this crawl has the host's turn.
const quickLook = time.Second

// turn makes ready and waits for the host's turn. It returns false if the request must not be sent.
func (f *fetcher) turn(ctx context.Context, r *response) bool {
	for {
		if !f.ready(ctx, r) || f.cfg.Turns == nil {
			return r.err == nil
		}
		host, gap := hostOf(r.it.url), f.pace.gap
		if f.pace.off {
			gap = 0
		}
		waited, err := f.cfg.Turns.take(ctx, f.cfg.Stop, f.cfg.Network+" "+f.cfg.Body.Scope.Host, host, gap)
		if err != nil {
			r.err, r.stopped = err, true
			return false
		}
		f.at = host
		if !waited {
			return true
		}
		if late := f.askBriefly(ctx, r); !late {
			return r.err == nil && f.reconnect(ctx, r)
		}
		f.giveTurn() // others need not wait for what keeps this one
	}
}

// askBriefly asks Before once more, since another crawl's request may have taken a while. It reports whether Before has not answered in time.
func (f *fetcher) askBriefly(ctx context.Context, r *response) (late bool) {
	if f.cfg.Before == nil {
		return false
	}
	brief, cancel := context.WithTimeout(ctx, quickLook)
	defer cancel()
	err := f.cfg.Before(brief)
	if err != nil && brief.Err() != nil && ctx.Err() == nil {
		return true
	}
	if err != nil {
		r.err, r.stopped = err, true
	}
	return false
}

// reconnect makes a new connection if the host has closed the one that there is.
func (f *fetcher) reconnect(ctx context.Context, r *response) bool {
	if f.line.alive() {
		return true
	}
	f.hangUp()
	if f.line, r.err = f.connect(ctx, channel.Origin(r.it.url)); r.err != nil {
		f.line = nil
		r.rtt = time.Since(r.at)
	}
	return r.err == nil
}

// giveTurn ends the turn that the fetcher has, if it has one.
func (f *fetcher) giveTurn() {
	if f.at == "" {
		return
	}
	now, next := time.Now(), f.pace.next
	if f.pace.off {
		next = now
	}
	f.cfg.Turns.give(f.at, now, next)
	f.at = ""
}
