package manager

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"shoal/channel"
	"shoal/coords"
	"shoal/manager/dispatch"
	"shoal/overlay"
	"shoal/recrawl"
)

// near answers the dispatcher's question who near a host has room, from a list of all peers and from what the database knows of the host.
// Owned by the loop.
type near struct {
	m     *Manager
	hosts map[channel.HostKey]placeOfHost // fitted where a host is; dropped when it grows too large
	held  map[dispatch.Peer]int           // tasks that each peer has, or that are on their way to it
	spare map[overlay.ID]bool             // had room left after the last look at all that was due
	looks recrawl.Tick                    // of that
	tried map[channel.HostKey]bool        // hosts that were, or are being, measured
	ahead int                             // measurements under way
	peers []overlay.PeerRecord
	at    time.Time // when peers was read

	read map[recrawl.Slot]*channel.Channel // for their hosts' names, of the tasks that go now

	reads  float64 // that may be made of the database now
	readAt time.Time
}

type placeOfHost struct {
	name     string
	at       coords.Coord
	known    bool // else there is nothing to wait for
	measured map[string]time.Duration
	fitted   time.Time

	measuredOnce bool // or tried to
}

const (
	nearLeast    = 2   // peers, with which there is no choice worth waiting for
	nearFactor   = 1.3 // near are those that are no farther than so many times the nearest, and nearSlack
	nearSlack    = 10 * time.Millisecond
	aheadPerPeer = 14              // measurements that a peer is asked for at a time
	maxAhead     = 256             // hosts measured at a time
	maxPlaces    = 1 << 16         // hosts whose place is kept
	refit        = 5 * time.Minute // coordinates drift
	readsASecond = 4096            // of hosts and channels whose place is not known; far more than can be placed
)

func newNear(m *Manager) *near {
	return &near{m: m, hosts: map[channel.HostKey]placeOfHost{}, held: map[dispatch.Peer]int{}, spare: map[overlay.ID]bool{}, tried: map[channel.HostKey]bool{}, read: map[recrawl.Slot]*channel.Channel{}}
}

// learn forgets where a host was thought to be: something new is known of it.
func (n *near) learn(host channel.HostKey) { delete(n.hosts, host) }

// Held implements dispatch.Judge.
func (n *near) Held(p dispatch.Peer, k int) {
	if n.held[p] = k; k == 0 {
		delete(n.held, p)
	}
}

// Capacity implements dispatch.Judge.
func (n *near) Capacity(time.Time) dispatch.Capacity {
	var c dispatch.Capacity
	for _, p := range crawlers(n.m.cfg.Swarm.Peers()) {
		c.Peers++
		c.Holds += holds(&p)
		c.Held += n.held[dispatch.Peer(p.ID)]
	}
	return c
}

// Looked implements dispatch.Judge. Once a tick it notes which peers have room that nothing near them wanted.
func (n *near) Looked(now time.Time) {
	tick := n.m.clock.At(now)
	if tick == n.looks {
		return
	}
	n.looks = tick
	clear(n.spare)
	for i := range n.peers {
		if n.free(&n.peers[i]) {
			n.spare[n.peers[i].ID] = true
		}
	}
}

// Room implements dispatch.Judge.
func (n *near) Room(now time.Time, a dispatch.Ask) (dispatch.Peer, dispatch.Verdict) {
	if !n.mayLook(now, a.Host) {
		return "", dispatch.Enough
	}
	if n.m.cfg.Vantages > 0 && len(n.peers) > 0 {
		if h := n.placeOf(now, a.Slot); !h.measuredOnce && n.measureSoon(h.name) {
			return "", dispatch.Unknown
		}
	}
	if len(n.peers) <= nearLeast {
		return "", dispatch.Go
	}
	if p, ok := n.nearFree(now, a.Slot, a.Share); ok {
		return dispatch.Peer(p), dispatch.Go
	}
	return "", dispatch.Wait
}

// mayLook tells whether where a host is may be found out now: with a million channels due and all near peers full, the loop would else
// do nothing but read about hosts.
func (n *near) mayLook(now time.Time, host channel.HostKey) bool {
	if now.Sub(n.at) > n.m.cfg.Tick/4 {
		n.peers, n.at = crawlers(n.m.cfg.Swarm.Peers()), now
	}
	if len(n.peers) <= nearLeast && n.m.cfg.Vantages == 0 || len(n.peers) == 0 {
		return true // nothing will be read
	}
	if h, ok := n.hosts[host]; ok && now.Sub(h.fitted) < refit {
		return true
	}
	n.reads, n.readAt = min(max(n.reads+readsASecond*now.Sub(n.readAt).Seconds(), 0), readsASecond), now
	if n.reads < 1 {
		return false
	}
	n.reads--
	return true
}

// free tells whether a peer has room: its threads, and a fifth of its queue.
func (n *near) free(p *overlay.PeerRecord) bool { return n.held[dispatch.Peer(p.ID)] < holds(p) }

func holds(p *overlay.PeerRecord) int { return int(p.Load.Threads) + int(p.Load.Slots)/5 }

// measureSoon has a host measured that never was, once; its first task waits for that. It tells whether that is under way.
func (n *near) measureSoon(name string) bool {
	m, host := n.m, channel.KeyOf(name)
	if name == "" { // the database does not tell
		return false
	}
	if busy, tried := n.tried[host]; tried {
		return busy
	}
	if n.ahead >= min(max(len(n.peers)*aheadPerPeer/m.cfg.Vantages, 1), maxAhead) {
		return true // when there is room
	}
	n.ahead++
	if len(n.tried) >= maxPlaces {
		clear(n.tried)
	}
	n.tried[host] = true
	m.wg.Add(1)
	go func() {
		defer m.wg.Done()
		samples := m.measure(m.life, name)
		m.post(m.life, func(time.Time) {
			n.ahead--
			n.tried[host] = false
			n.learn(host)
			h, err := m.hostRecord(name)
			if err != nil {
				m.log.Error("measurements of a host not kept", "err", err)
				return
			}
			for _, s := range samples {
				h.Record.Add(s)
			}
		})
	}()
	return true
}

// nearFree is one of the nearest peers, as many as this share of all, that has room for a task; empty: any.
func (n *near) nearFree(now time.Time, s recrawl.Slot, share float64) (overlay.ID, bool) {
	h := n.placeOf(now, s)
	if !h.known {
		return "", true
	}
	// The k nearest, by insertion: k is mostly small.
	k := max(int(share*float64(len(n.peers))), 1)
	best := make([]time.Duration, 0, k)
	who := make([]*overlay.PeerRecord, 0, k)
	for i := range n.peers {
		p := &n.peers[i]
		d, seen := h.measured[string(p.ID)]
		if !seen {
			d = coords.Predict(p.Coord, h.at)
		}
		j := len(best)
		if j == k {
			if d >= best[k-1] {
				continue
			}
			j--
		} else {
			best, who = append(best, 0), append(who, nil)
		}
		for ; j > 0 && best[j-1] > d; j-- {
			best[j], who[j] = best[j-1], who[j-1]
		}
		best[j], who[j] = d, p
	}
	for i, p := range who {
		isNear := i == 0 || i < int(dispatch.NearShare*float64(len(n.peers))) && float64(best[i]) <= nearFactor*float64(best[0])+float64(nearSlack)
		if n.free(p) && (isNear || share > dispatch.NearShare && n.spare[p.ID]) {
			return p.ID, true
		}
	}
	return "", false
}

// placeOf fits where the host of a channel is, from what the database knows.
func (n *near) placeOf(now time.Time, s recrawl.Slot) placeOfHost {
	m, host := n.m, n.m.table.Host(s)
	if h, ok := n.hosts[host]; ok && now.Sub(h.fitted) < refit {
		return h
	}
	if len(n.hosts) >= maxPlaces {
		clear(n.hosts)
	}
	name, err := n.name(s)
	if err != nil {
		return placeOfHost{}
	}
	h := placeOfHost{name: name, fitted: now}
	if rec, err := m.readHost(name); err == nil && !rec.Record.Anycast && len(rec.Record.Samples) > 0 {
		at := make(map[string]coords.Coord, len(n.peers))
		for _, p := range n.peers {
			at[string(p.ID)] = p.Coord
		}
		moved := rec.Record.Moved(func(v string) (coords.Coord, bool) { c, ok := at[v]; return c, ok })
		// The same host is fitted the same way by whoever fits it.
		h.measuredOnce = true
		h.at, h.known = moved.Fit(rand.New(rand.NewPCG(uint64(host), 1)))
		h.measured = map[string]time.Duration{}
		for _, s := range rec.Record.Samples {
			if d, ok := h.measured[s.Vantage]; !ok || s.RTT < d {
				h.measured[s.Vantage] = s.RTT
			}
		}
	}
	n.hosts[host] = h
	return h
}

// name is the name of a channel's host.
func (n *near) name(s recrawl.Slot) (string, error) {
	if h, ok := n.hosts[n.m.table.Host(s)]; ok && h.name != "" {
		return h.name, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), saveTimeout)
	defer cancel()
	ch, err := n.m.cfg.Store.Channel(ctx, n.m.table.ID(s))
	if err != nil {
		return "", fmt.Errorf("read channel %d: %w", n.m.table.ID(s), err)
	}
	if len(n.read) < maxBatch {
		n.read[s] = &ch
	}
	return ch.Scope.Host, nil
}
