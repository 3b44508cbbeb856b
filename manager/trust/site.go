package trust

import (
	"cmp"
	"slices"
	"time"

	"shoal/channel"
)

const (
	losersKept = 3
	day        = 24 * time.Hour
)

// site is what is kept of a channel that had trouble: 16 bytes. A channel without an entry had none.
type site struct {
	losers [losersKept]uint16 // tags of peers that lost there
	days   [losersKept]uint16 // when, in days since 1970; 0: the place is free
	until  uint16             // the day on which the watch ends; 0: none
	valid  uint8              // audits of the delivery that is held
	packed uint8              // watches that began, at most 3, and four times the crawls that are left of viewing
}

// viewing is how many crawls of a channel go to one other peer after the other, once a delivery has been held for a doubt: its versions need three others to see
// them, and the nearest peer would come each time.
const viewing = 5

// times is how many watches began.
func (s *site) times() uint8 { return s.packed & 3 }

// views is how many of the next crawls are for others, to see pages that are held.
func (s *site) views() uint8 { return s.packed >> 2 }

func (s *site) setViews(n uint8) { s.packed = s.times() | n<<2 }

// tag names a peer among the losers of a channel. Two peers of one tag count as one, which is on the safe side.
func tag(n Peer) uint16 { return uint16(n ^ n>>16 ^ n>>32 ^ n>>48) }

func dayOf(now time.Time) uint16 {
	return uint16(min(max(now.Unix()/int64(day/time.Second), 1), 1<<16-1))
}

// Watched tells whether a channel is on watch: its peers are to be drawn uniformly, not near ones.
func (m *Machine) Watched(now time.Time, c channel.ID) bool {
	s := m.sites[c]
	return s != nil && s.until > dayOf(now)
}

// Viewed tells whether a channel has pages that are held for a doubt until others have seen them: its next crawls are for peers of which Sees holds, near or not.
// Where one peer is nearer than all others, none of these would come.
func (m *Machine) Viewed(c channel.ID) bool {
	s := m.sites[c]
	return s != nil && m.cfg.Enforce && s.views() > 0
}

// Sees tells whether a peer's crawl would show pages of a channel to one more account, whose word counts. Who came before a restart is forgotten, but for those that
// lost there.
func (m *Machine) Sees(now time.Time, n Peer, c channel.ID) bool {
	p := m.peers[n]
	if p == nil || !m.believed(p) || m.lostHere(now, c, n) {
		return false
	}
	v := m.viewers[c]
	return v == nil || !m.allied(p, v.held) && !m.allied(p, v.came)
}

// allied tells whether a peer is not apart from one of several others.
func (m *Machine) allied(p *peer, others []Peer) bool {
	return slices.ContainsFunc(others, func(n Peer) bool {
		q := m.peers[n]
		return q != nil && !apart(p, q)
	})
}

// lostHere tells whether a peer lost on a channel in the time of a watch.
func (m *Machine) lostHere(now time.Time, c channel.ID, n Peer) bool {
	s := m.sites[c]
	if s == nil {
		return false
	}
	for i, d := range s.days {
		if d != 0 && s.losers[i] == tag(n) && int(dayOf(now))-int(d) <= m.watchDays() {
			return true
		}
	}
	return false
}

// Doubt is what follows, for as long as it lasts, from the trouble that a channel had.
type Doubt struct {
	Channel channel.ID
	Until   time.Time // it is on watch until then; zero: it is not
	Views   int       // so many of its next crawls are for others, to see the pages that are held
}

// Doubt tells what follows from the trouble that a channel had; the zero Doubt: nothing any more, or scores run in shadow, where all that follows is that more pages are
// fetched again.
func (m *Machine) Doubt(now time.Time, c channel.ID) (d Doubt) {
	s := m.sites[c]
	if s == nil || !m.cfg.Enforce {
		return d
	}
	if d.Views = int(s.views()); s.until > dayOf(now) {
		d.Until = time.Unix(int64(s.until)*int64(day/time.Second), 0).UTC()
	}
	if d != (Doubt{}) {
		d.Channel = c
	}
	return d
}

// Doubts are those of all channels: those on watch first, and of these those first that stay so longest.
func (m *Machine) Doubts(now time.Time) (all []Doubt) {
	for c := range m.sites {
		if d := m.Doubt(now, c); d != (Doubt{}) {
			all = append(all, d)
		}
	}
	slices.SortFunc(all, func(a, b Doubt) int {
		return cmp.Or(b.Until.Compare(a.Until), cmp.Compare(a.Channel, b.Channel))
	})
	return all
}

// doubt has a delivery held, and others come to see its pages.
func (m *Machine) doubt(a Act) {
	m.do(a)
	m.view(a.Channel, a.Peer)
}

// view has others come to a channel, to see pages that a peer delivered and that are held for a doubt.
func (m *Machine) view(c channel.ID, by Peer) {
	s := m.sites[c]
	if s == nil {
		s = &site{}
		m.sites[c] = s
	}
	s.setViews(viewing)
	v := m.viewersOf(c)
	v.held = noted(v.held, by)
	m.touchSite(c)
}

// crawled takes in who came to a channel. A peer that lost there in the time of a watch is none of those that are to see its pages.
func (m *Machine) crawled(now time.Time, c channel.ID, p *peer) {
	s := m.sites[c]
	if s == nil {
		return
	}
	s.valid = 0
	if s.views() == 0 || !m.believed(p) || m.lostHere(now, c, p.number) {
		return
	}
	v := m.viewersOf(c)
	if slices.Contains(v.held, p.number) {
		return
	}
	v.came = noted(v.came, p.number)
	s.setViews(s.views() - 1)
	if m.touchSite(c); s.views() == 0 {
		delete(m.viewers, c)
	}
}

// viewers are peers that know pages of a channel which are held for a doubt.
type viewers struct {
	held []Peer // whose deliveries they are
	came []Peer // who has crawled the channel since
}

func (m *Machine) viewersOf(c channel.ID) *viewers {
	v := m.viewers[c]
	if v == nil {
		v = &viewers{}
		m.viewers[c] = v
	}
	return v
}

// noted adds a peer to a list, which stays short.
func noted(list []Peer, n Peer) []Peer {
	if len(list) < viewing && !slices.Contains(list, n) {
		list = append(list, n)
	}
	return list
}

// manyLost tells whether so many peers that are not convicted have lost on a channel that the channel is the likelier reason.
func (m *Machine) manyLost(now time.Time, c channel.ID) bool {
	s := m.sites[c]
	if s == nil {
		return false
	}
	n, today := 0, dayOf(now)
	for i, d := range s.days {
		if d != 0 && int(today)-int(d) <= m.watchDays() && m.tags[s.losers[i]] == 0 {
			n++
		}
	}
	return n >= m.cfg.ManyPeers
}

func (m *Machine) watchDays() int { return int(m.cfg.Watch / day) }

// loser notes that a peer lost on a channel. The second in the time of a watch, or a strong loss, puts the channel on watch.
func (m *Machine) loser(now time.Time, c channel.ID, n Peer, strong bool) {
	if m.cfg.Watch == 0 {
		return
	}
	s := m.sites[c]
	if s == nil {
		s = &site{}
		m.sites[c] = s
	}
	m.touchSite(c)
	today, t, others, oldest := dayOf(now), tag(n), 0, 0
	own, since := -1, int(today)-m.watchDays()
	if s.until > today { // on watch, where five times the audits find five times the trouble: two more are needed to prolong it
		since = int(s.until) - m.watchDays()<<(s.times()-min(s.times(), 1)) + 1
	}
	for i, d := range s.days {
		switch {
		case d != 0 && s.losers[i] == t:
			own = i
		case d != 0 && int(d) >= since:
			others++
		}
		if s.days[i] < s.days[oldest] {
			oldest = i
		}
	}
	if own < 0 {
		own = oldest
	}
	s.losers[own], s.days[own] = t, today
	if (others > 0 || strong) && m.cfg.Audits {
		if s.until <= today {
			m.do(Act{Kind: Watch, Channel: c, Peer: n})
			if s.times() < 3 {
				s.packed++
			}
		}
		s.until = uint16(min(int(today)+m.watchDays()<<(s.times()-min(s.times(), 1)), 1<<16-1)) // who is after one host comes back: each watch is twice as long as the one before
	}
}
