package trust

import (
	"errors"
	"math/rand/v2"

	"shoal/channel"
)

// Kind is what the Machine wants done. The host does it in the order of the Acts.
type Kind uint8

// The kinds of Acts.
const (
	Audit        Kind = iota + 1 // have a peer that MayCheck fetch URL within Config.WithinAudit, and answer by Answered; N: audits asked for of this task
	Arbitrate                    // fetch URL by the arbiter (or, without one, two more checkers), and answer by Ruled with this Case
	Hold                         // Page.Hold for the pages that Peer delivered of Channel at At
	Accept                       // Page.Accept for the same
	Watch                        // the channel is on watch from now on: see Watched
	Suspect                      // the peer is a suspect: the operator may want to look
	LookBack                     // have N uncorroborated older pages that Peer delivered audited
	Suspend                      // the peer gets no more tasks, and those that it has are recalled
	Withdraw                     // Page.Withdraw for all pages of Peer; crawl those first for which it says so
	WouldSuspend                 // in shadow: this would have been a Suspend
	Charge                       // evidence to be kept: Amount was added, Score is what it came to
	Graduate                     // the peer is past its probation
	Restore                      // Page.Restore for all pages of Peer: it was pardoned
)

func (k Kind) String() string {
	names := [...]string{"none", "audit", "arbitrate", "hold", "accept", "watch", "suspect", "look back", "suspend", "withdraw", "would suspend", "charge", "graduate", "restore"}
	return names[min(int(k), len(names)-1)]
}

// Act is one thing to do.
type Act struct {
	Kind    Kind
	Peer    Peer // whom it is about
	Channel channel.ID
	URL     uint64 // channel.URLHash
	At      int64  // the delivery's time, which names it together with Channel and Peer
	N       int
	Apart   bool // of Audit: each page of the delivery is to be looked at by another checker
	Case    Case // of Audit and Arbitrate
	Reason  Reason
	Amount  float64
	Score   float64
}

// Machine is the rules with all that is known of peers and channels. Owned by one goroutine.
type Machine struct {
	cfg         Config
	rng         *rand.Rand
	peers       map[Peer]*peer
	sites       map[channel.ID]*site
	viewers     map[channel.ID]*viewers // of channels with pages that are held for a doubt; not kept over a restart
	convicted   map[Account]int         // suspended and banned peers of an account
	tags        map[uint16]int          // the same by tag, to leave them out among losers
	places      map[Prefix]*places      // what newcomers of a prefix are at work; not kept over a restart
	newcomers   int
	established int    // without the arbiter
	arbiter     Peer   // as whom it checks; 0: it was not told
	handed      uint32 // tasks lately, and those of newcomers
	handedNew   uint32
	tail        tail
	acts        []Act
	dirty       map[uint8]bool // shards of peers that have changed
	dirtySites  map[uint8]bool
	choice      []int // scratch of choose
}

// New makes a Machine that knows nobody. rng chooses the pages that are audited: no peer must be able to foresee it.
func New(cfg Config, rng *rand.Rand) (*Machine, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if rng == nil {
		return nil, errors.New("trust: a Machine needs chance")
	}
	return &Machine{cfg: cfg, rng: rng, peers: map[Peer]*peer{}, sites: map[channel.ID]*site{}, viewers: map[channel.ID]*viewers{}, convicted: map[Account]int{}, places: map[Prefix]*places{}, tags: map[uint16]int{},
		dirty: map[uint8]bool{}, dirtySites: map[uint8]bool{}}, nil
}

// Config returns the rules.
func (m *Machine) Config() Config { return m.cfg }

// SetConfig changes the rules from now on. Peers above a lower T are suspended at their next charge.
func (m *Machine) SetConfig(cfg Config) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	m.cfg = cfg
	return nil
}

func (m *Machine) do(a Act) { m.acts = append(m.acts, a) }

// take returns what is to be done. The slice is the caller's for good: what follows from an Act may be done long after the next call of a Machine's method.
func (m *Machine) take() []Act {
	acts := m.acts
	m.acts = nil
	return acts
}

// Uphold bans a suspended peer for good, by the operator's word.
func (m *Machine) Uphold(n Peer) bool {
	p := m.peers[n]
	if p == nil || p.standing != Suspended {
		return false
	}
	p.standing = Banned
	m.touch(n)
	return true
}

// Convict has a peer be suspended whose suspension was carried out, and of which this Machine does not know: its state is one of before. It reports whether that is so.
func (m *Machine) Convict(n Peer) bool {
	p := m.peers[n]
	if p == nil || p.standing >= Suspended {
		return false
	}
	m.stand(p, Suspended)
	m.touch(n)
	return true
}

// Pardon gives a suspended or banned peer everything back, by the operator's word: its scores begin at zero, it is established, and what was withdrawn is restored.
func (m *Machine) Pardon(n Peer) []Act {
	p := m.peers[n]
	if p == nil || p.standing != Suspended && p.standing != Banned {
		return nil
	}
	m.convicted[p.account]--
	m.tags[tag(n)]--
	p.standing, p.suspect = Established, false
	p.score, p.peak, p.looked, p.domains, p.charged = [scores]float32{}, 0, false, [domainsKept]sum{}, [tasksKept]sum{}
	p.pardons = min(p.pardons, 254) + 1
	m.established++
	m.vacate(p)
	m.touch(n)
	m.do(Act{Kind: Restore, Peer: n})
	return m.take()
}
