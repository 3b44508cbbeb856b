package trust

import (
	"cmp"
	"slices"
)

// Account is who answers for peers: a number that tells strangers nothing.
type Account uint64

// Prefix is where a peer's address lies, a /24 of IPv4 or a /48 of IPv6: a number that tells strangers nothing.
type Prefix uint64

// Score names one of a peer's three scores.
type Score uint8

// The scores.
const (
	Forging  Score = iota // content that was never there
	Laziness              // "unchanged" without a look
	Checking              // false content given in an audit
	scores
)

func (s Score) String() string {
	return [...]string{"forging", "laziness", "checking", "?"}[min(s, scores)]
}

// Standing is what a peer may do. The numbers are stored.
type Standing uint8

// The standings.
const (
	Unknown     Standing = iota
	Newcomer             // on probation: few tasks, each audited; neither checks nor corroborates
	Established          // past its probation
	Suspended            // no tasks; awaits the operator
	Banned               // the operator upheld the suspension
)

func (s Standing) String() string {
	return [...]string{"unknown", "newcomer", "established", "suspended", "banned"}[min(s, Banned)]
}

// Sizes of a peer's tables.
const (
	domainsKept = 10
	tasksKept   = 6
)

// sum is what one task or domain has added to a score since the score was zero.
type sum struct {
	key uint32
	by  float32
}

// peer is what is kept of a peer: at most 200 bytes in memory, and less as stored.
type peer struct {
	number   Peer
	account  Account
	prefix   Prefix
	score    [scores]float32
	peak     float32 // highest of the scores since they were all zero
	tasks    uint32
	checks   uint32 // valid
	lost     uint32 // before the arbiter
	domains  [domainsKept]sum
	charged  [tasksKept]sum
	standing Standing
	suspect  bool
	looked   bool // its older pages were looked at since its scores were all zero
	pardons  uint8
}

// highest is the highest of the scores.
func (p *peer) highest() float32 { return max(p.crawling(), p.score[Checking]) }

// crawling is the higher of the scores that are about what the peer delivers.
func (p *peer) crawling() float32 { return max(p.score[Forging], p.score[Laziness]) }

// added is the entry of a key in a table: its own, an empty one, or the least, which is forgotten.
func added(table []sum, key uint32) *sum {
	least := &table[0]
	for i := range table {
		if table[i].by > 0 && table[i].key == key {
			return &table[i]
		}
		if table[i].by < least.by {
			least = &table[i]
		}
	}
	*least = sum{key: key}
	return least
}

// Info is what an operator sees of a peer.
type Info struct {
	Peer     Peer
	Account  Account
	Prefix   Prefix
	Standing Standing
	Suspect  bool       // by its scores; who is suspended or banned is none
	Scores   [3]float64 // by Score
	Tasks    int
	Checks   int
	Lost     int
	Pardons  int
	Waits    bool // a newcomer that gets no tasks now, since others of its prefix have the places there
}

// Join tells the Machine of a peer, or of a new address or account of it. A peer that is new begins its probation. Who is suspended stays with the account
// whose tasks that has ended.
func (m *Machine) Join(n Peer, a Account, x Prefix) {
	p := m.peers[n]
	if p == nil {
		p = &peer{number: n, standing: Newcomer}
		m.peers[n] = p
		m.newcomers++
	}
	if p.standing >= Suspended {
		a = p.account
	}
	if p.account != a || p.prefix != x {
		p.account, p.prefix = a, x
		m.touch(n)
	}
}

// Forget forgets the newcomers of which nothing is known but that they joined, but for those that keep names, and the places that these had. An
// account may join under any number of names. Who is forgotten and joins again is the newcomer that it was.
func (m *Machine) Forget(keep func(Peer) bool) {
	for n, p := range m.peers {
		if p.blank() && !keep(n) {
			m.newcomers--
			m.touch(n)
			delete(m.peers, n)
		}
	}
	m.keepPlaces()
}

// blank tells whether nothing is known of a peer but that it joined.
func (p *peer) blank() bool {
	return p.standing == Newcomer && p.tasks == 0 && p.checks == 0 && p.lost == 0 && p.pardons == 0 && p.highest() == 0
}

// Convicted lists the suspended and banned peers of an account: none of its peers gets tasks while there are any.
func (m *Machine) Convicted(a Account) (all []Peer) {
	if m.convicted[a] == 0 {
		return nil
	}
	for n, p := range m.peers {
		if p.account == a && p.standing >= Suspended {
			all = append(all, n)
		}
	}
	slices.Sort(all)
	return all
}

// Vouch makes a peer established by the operator's word: the operator's own, and those that were there before the Machine.
func (m *Machine) Vouch(n Peer) {
	if p := m.peers[n]; p != nil && p.standing == Newcomer {
		m.establish(p)
	}
}

// JoinArbiter tells the Machine as whom the arbiter checks where no peer can, once all that was stored is restored. It is believed as an established peer is, and is
// not counted among them: where newcomers are alone they have all tasks, and what they deliver is shown.
func (m *Machine) JoinArbiter(n Peer) {
	m.Join(n, Account(n), Prefix(n))
	m.Vouch(n)
	if m.arbiter == 0 {
		m.arbiter = n
		m.established--
	}
}

func (m *Machine) establish(p *peer) {
	p.standing = Established
	m.vacate(p)
	m.newcomers--
	m.established++
	m.touch(p.number)
}

// Peer returns what is known of a peer.
func (m *Machine) Peer(n Peer) (Info, bool) {
	p := m.peers[n]
	if p == nil {
		return Info{}, false
	}
	i := Info{Peer: n, Account: p.account, Prefix: p.prefix, Standing: p.standing, Suspect: p.suspect && p.standing < Suspended, Tasks: int(p.tasks), Checks: int(p.checks), Lost: int(p.lost), Pardons: int(p.pardons), Waits: m.waits(p)}
	for s := range i.Scores {
		i.Scores[s] = float64(p.score[s])
	}
	return i, true
}

// Peers returns all peers in the order of their scores, the highest first.
func (m *Machine) Peers() []Info {
	all := make([]Info, 0, len(m.peers))
	for n := range m.peers {
		i, _ := m.Peer(n)
		all = append(all, i)
	}
	slices.SortFunc(all, func(a, b Info) int {
		return cmp.Or(cmp.Compare(slices.Max(b.Scores[:]), slices.Max(a.Scores[:])), cmp.Compare(a.Peer, b.Peer))
	})
	return all
}

// apart tells whether two peers are of different accounts and prefixes.
func apart(a, b *peer) bool { return a != b && a.account != b.account && a.prefix != b.prefix }

// Apart tells whether a peer may crawl a channel after another, as far as can be chosen: they are of different accounts and prefixes.
func (m *Machine) Apart(n, last Peer) bool {
	a, b := m.peers[n], m.peers[last]
	return b == nil || a != nil && apart(a, b)
}

// MayTake tells whether a peer may have a task of a channel now. What newcomers may have together, counts only while there are others.
func (m *Machine) MayTake(n Peer, watched bool) bool {
	p := m.peers[n]
	switch {
	case p == nil || p.standing == Suspended || p.standing == Banned || m.convicted[p.account] > 0:
		return false
	case !m.cfg.Enforce || p.standing == Established || m.established == 0:
		return true
	case !m.place(p):
		return false
	case watched: // its page-time is what someone is after
		return false
	}
	return float64(m.handedNew) < m.cfg.Newcomers*float64(m.handed)
}

// Handed tells the Machine that a peer got a task.
func (m *Machine) Handed(n Peer) {
	m.handed++
	if p := m.peers[n]; p != nil && p.standing == Newcomer {
		m.handedNew++
		if h := m.places[p.prefix].holder(p.account); h != nil {
			h.idle = 0
		}
	}
	if m.handed >= shareWindow { // old tasks count half
		m.handed, m.handedNew = m.handed/2, m.handedNew/2
	}
}

const shareWindow = 4096 // tasks after which the newcomers' share is of the later half

// MayCheck tells whether a peer may check what others delivered: established, no suspect, and apart from each of them.
func (m *Machine) MayCheck(n Peer, others ...Peer) bool {
	p := m.peers[n]
	if p == nil || !m.believed(p) {
		return false
	}
	for _, o := range others {
		if b := m.peers[o]; b != nil && !apart(p, b) {
			return false
		}
	}
	return true
}

// believed tells whether a peer's word may corroborate.
func (m *Machine) believed(p *peer) bool {
	return p.standing == Established && !p.suspect && m.convicted[p.account] == 0
}

// inDoubt tells whether what a peer delivers is held until it is corroborated.
func (m *Machine) inDoubt(p *peer) bool {
	return m.cfg.Enforce && m.established > 0 && (p.standing != Established || p.suspect)
}
