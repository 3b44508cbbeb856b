package manager

import (
	"math/rand/v2"
	"time"

	"shoal/channel"
	"shoal/coords"
	"shoal/overlay"
	"shoal/recrawl"
)

// near is delay scheduling (Zaharia and others, "Delay Scheduling", EuroSys 2010): a task waits while all peers near its host are full,
// rather than go at once to a far one that happens to have room; that one is left to the tasks near it. Only a peer that still has room
// after every waiting task was looked at takes what is far from it, so that none stands idle while there is work. Owned by the loop.
type near struct {
	hosts   map[channel.HostKey]placeOfHost // fitted where a host is; dropped when it grows too large
	asked   map[recrawl.Slot]time.Time
	held    map[overlay.ID]int       // tasks that each peer has, or that are on their way to it
	carried int                      // their number
	spare   map[overlay.ID]bool      // had room left after the last look at all that was due
	looks   recrawl.Tick             // of that
	pick    overlay.ID               // the peer for which mayGo said yes; empty: any
	tried   map[channel.HostKey]bool // hosts that were, or are being, measured
	ahead   int                      // measurements under way
	peers   []overlay.PeerRecord
	at      time.Time // when peers was read

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
	nearShare    = .25 // of the peers count as near a host
	nearLeast    = 2   // peers, with which there is no choice worth waiting for
	nearFactor   = 1.3 // as far as they are no farther than so many times the nearest, and nearSlack
	nearSlack    = 10 * time.Millisecond
	patience     = 2               // ticks that a task waits for a near peer, and as many again for the nearer half
	aheadPerPeer = 14              // measurements that a peer is asked for at a time
	maxAhead     = 256             // hosts measured at a time
	maxPlaces    = 1 << 16         // hosts whose place is kept
	refit        = 5 * time.Minute // coordinates drift
	readsASecond = 4096            // of hosts and channels whose place is not known; far more than can be placed
	maxAsked     = 1 << 16         // tasks whose wait is counted
)

func newNear() near {
	return near{hosts: map[channel.HostKey]placeOfHost{}, asked: map[recrawl.Slot]time.Time{}, held: map[overlay.ID]int{}, spare: map[overlay.ID]bool{}, tried: map[channel.HostKey]bool{}}
}

// hold counts a task with its peer; drop counts it out.
func (n *near) hold(p overlay.ID) {
	n.held[p]++
	n.carried++
}

func (n *near) drop(p overlay.ID) {
	n.carried--
	if n.held[p]--; n.held[p] <= 0 {
		delete(n.held, p)
	}
}

// learn forgets where a host was thought to be: something new is known of it.
func (n *near) learn(host channel.HostKey) { delete(n.hosts, host) }

// mayLook tells whether where a channel's host is may be found out now: with a million channels due and all near peers full, the loop would else
// do nothing but read about hosts.
func (m *Manager) mayLook(now time.Time, s recrawl.Slot) bool {
	n := &m.near
	if now.Sub(n.at) > m.cfg.Tick/4 {
		n.peers, n.at = crawlers(m.cfg.Swarm.Peers()), now
	}
	if len(n.peers) <= nearLeast && m.cfg.Vantages == 0 || len(n.peers) == 0 {
		return true // nothing will be read
	}
	if h, ok := n.hosts[m.places.host(s)]; ok && now.Sub(h.fitted) < refit {
		return true
	}
	n.reads, n.readAt = min(max(n.reads+readsASecond*now.Sub(n.readAt).Seconds(), 0), readsASecond), now
	if n.reads < 1 {
		return false
	}
	n.reads--
	return true
}

// mayGo tells whether a task should be placed now: a peer near its host has room, or it has waited long enough.
func (m *Manager) mayGo(now time.Time, s recrawl.Slot) bool {
	n := &m.near
	if m.cfg.Vantages > 0 && len(n.peers) > 0 {
		if h := m.placeOf(now, s); !h.measuredOnce && m.measureSoon(h.name) {
			return false
		}
	}
	since, asked := n.asked[s]
	if !asked {
		since = now
	}
	// The longer it has waited, the farther it may go: a quarter of the peers, half of them, all.
	share := nearShare
	for waited := now.Sub(since); waited >= patience*m.cfg.Tick && share < 1; waited -= patience * m.cfg.Tick {
		share *= 2
	}
	n.pick = ""
	if len(n.peers) <= nearLeast || m.nearFree(now, s, share) {
		delete(n.asked, s)
		return true
	}
	if asked || len(n.asked) < maxAsked {
		n.asked[s] = since
	}
	return false
}

// looked notes, once a tick, which peers have room that nothing near them wanted.
func (n *near) looked(tick recrawl.Tick) {
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

// free tells whether a peer has room: its threads, and a fifth of its queue.
func (n *near) free(p *overlay.PeerRecord) bool { return n.held[p.ID] < holds(p) }

func holds(p *overlay.PeerRecord) int { return int(p.Load.Threads) + int(p.Load.Slots)/5 }

// measureSoon has a host measured that never was, once; its first task waits for that. It tells whether that is under way.
func (m *Manager) measureSoon(name string) bool {
	n, host := &m.near, channel.KeyOf(name)
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

// nearFree tells whether one of the nearest peers, as many as this share of all, has room for a task.
func (m *Manager) nearFree(now time.Time, s recrawl.Slot, share float64) bool {
	h := m.placeOf(now, s)
	if !h.known {
		return true
	}
	n := &m.near
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
		isNear := i == 0 || i < int(nearShare*float64(len(n.peers))) && float64(best[i]) <= nearFactor*float64(best[0])+float64(nearSlack)
		if n.free(p) && (isNear || share > nearShare && n.spare[p.ID]) {
			n.pick = p.ID
			return true
		}
	}
	return false
}

// placeOf fits where the host of a channel is, from what the database knows.
func (m *Manager) placeOf(now time.Time, s recrawl.Slot) placeOfHost {
	n, host := &m.near, m.places.host(s)
	if h, ok := n.hosts[host]; ok && now.Sub(h.fitted) < refit {
		return h
	}
	if len(n.hosts) >= maxPlaces {
		clear(n.hosts)
	}
	name, err := m.name(s)
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
