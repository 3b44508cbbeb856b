// Package conduct remembers what members did that brought the network nothing, for operators to see. It counts; it judges nobody by itself: what follows for
// a member's tasks is decided by package overlay, and whether a member is banned, by an operator.
//
// The package is pure. A Book holds members only from their first misdeed on, at most MaxMembers of them, and forgets each one forgetAfter its last
// misdeed. So honest members cost nothing, and nothing grows without end.
package conduct

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Deed is something that a member did with a task. The words are stored and shown: never change one.
type Deed string

// What every member does. These count only for a member that has a misdeed.
const (
	Took      Deed = "tasks_taken"
	Delivered Deed = "tasks_delivered" // with pages
	Pages     Deed = "pages"           // of them
)

// Misdeeds.
const (
	Unclaimed Deed = "unclaimed" // a task that was accepted and never claimed
	Lapsed    Deed = "lapsed"    // claimed, and without progress until the lease ended
	Empty     Deed = "empty"     // claimed, and given back without a page

	Budget     Deed = "over_budget" // a chunk refused: more pages than the task allows
	Pace       Deed = "too_fast"    // a chunk refused: faster than the task allows
	Unreadable Deed = "unreadable"  // a chunk refused: it cannot be read

	Foreign  Deed = "foreign_pages"    // outside the task's scope
	Spelling Deed = "odd_urls"         // URLs that are not canonical
	Digests  Deed = "false_digests"    // that are not those of the body
	Statuses Deed = "false_changes"    // that do not fit the status
	Numbers  Deed = "false_counts"     // of pages, bytes and errors
	Forged   Deed = "contradicted"     // versions of pages that two other accounts contradict
	Gone     Deed = "contradicted_404" // pages said to be gone that two other accounts have seen
)

// Fault is a kind of misconduct, in a word.
type Fault string

// The faults, worst first.
const (
	Contradicted Fault = "contradicts"
	Malformed    Fault = "malformed" // sends what no honest peer sends
	Swallows     Fault = "swallows"  // accepts tasks and never claims them
	Stalls       Fault = "stalls"    // claims tasks and brings nothing
	Attracts     Fault = "attracts"  // has had as many tasks as one member may have for a long time
)

// Faults are all of them, worst first.
func Faults() []Fault { return []Fault{Contradicted, Malformed, Swallows, Stalls, Attracts} }

// deeds are the misdeeds of a fault.
var deeds = map[Fault][]Deed{
	Contradicted: {Forged, Gone},
	Malformed:    {Budget, Pace, Unreadable, Foreign, Spelling, Digests, Statuses, Numbers},
	Swallows:     {Unclaimed},
	Stalls:       {Lapsed, Empty},
}

// Limits of a Book, and when a count is a fault. An honest peer loses a task now and then, meets pages that differ between visitors, and sends nothing malformed.
const (
	MaxMembers  = 2048
	forgetAfter = 7 * 24 * time.Hour
	halveAfter  = 14 * 24 * time.Hour // counts are halved, so that old misdeeds weigh less

	malformedLeast = 1
	wastedLeast    = 3  // tasks
	swallowedTimes = 2  // occasions: a peer that goes away wastes all its tasks at once
	stalledTimes   = 3  // likewise
	wastedShare    = 4  // one task of so many
	forgedLeast    = 5  // pages
	forgedShare    = 50 // one page of so many
)

// Member is what a Book holds of one peer, or of the peers of one account together.
type Member struct {
	Peer    string       `json:"peer,omitempty"`    // empty: it is several peers of an account
	Account string       `json:"account,omitempty"` // empty: not known
	Peers   int          `json:"peers,omitempty"`   // of the account with a misdeed; 0: it is one peer
	Since   time.Time    `json:"since"`             // of the counts
	Last    time.Time    `json:"last"`              // misdeed
	Full    time.Time    `json:"full_since"`        // since when it has as many tasks as one member may have; zero: it does not
	Counts  map[Deed]int `json:"counts"`
	Faults  []Fault      `json:"faults"`

	Times map[Fault]int       `json:"occasions,omitempty"` // on which tasks were wasted
	until map[Fault]time.Time // what was taken before belongs to the occasion that is counted; a restart begins another one
}

// Name is the peer, or the account where it is several peers.
func (m *Member) Name() string { return cmp.Or(m.Peer, m.Account) }

// Book is what is remembered of members. It is not safe for concurrent use.
type Book struct {
	attracts time.Duration // so long a member must be full to attract
	members  map[string]*Member
}

// New makes an empty book. A member that is full for attracts has that fault.
func New(attracts time.Duration) *Book {
	return &Book{attracts: attracts, members: map[string]*Member{}}
}

// Waste counts a task that came to nothing by the doing of the peer that took it. What was taken before the last one came to nothing belongs to the same
// occasion.
func (b *Book) Waste(now, took time.Time, peer, account string, d Deed) {
	b.Note(now, peer, account, d, 1)
	m := b.members[peer]
	f := Stalls
	if d == Unclaimed {
		f = Swallows
	}
	if m == nil || !took.After(m.until[f]) {
		return
	}
	if m.until == nil {
		m.until = map[Fault]time.Time{}
	}
	m.Times[f]++
	m.until[f] = now
}

// Note counts a deed n times. An empty account leaves the one that is known.
func (b *Book) Note(now time.Time, peer, account string, d Deed, n int) {
	if peer == "" || n <= 0 {
		return
	}
	m := b.members[peer]
	usual := d == Took || d == Delivered || d == Pages
	if m == nil || now.Sub(m.Last) > forgetAfter && m.Full.IsZero() {
		if usual {
			return
		}
		m = b.add(now, peer)
	}
	if account != "" {
		m.Account = account
	}
	if now.Sub(m.Since) > halveAfter {
		for k, v := range m.Counts {
			m.Counts[k] = v / 2
		}
		m.Since = now.Add(-halveAfter / 2)
	}
	const most = 1 << 30
	m.Counts[d] = min(m.Counts[d]+n, most)
	if !usual {
		m.Last = now
	}
}

func (b *Book) add(now time.Time, peer string) *Member {
	if _, known := b.members[peer]; !known && len(b.members) >= MaxMembers {
		b.drop(now)
	}
	m := &Member{Peer: peer, Since: now, Last: now, Counts: map[Deed]int{}, Times: map[Fault]int{}}
	b.members[peer] = m
	return m
}

// drop makes room: it forgets an eighth of the members, those without a fault first, and of those the ones whose last misdeed is oldest.
func (b *Book) drop(now time.Time) {
	type held struct {
		m   *Member
		bad int
	}
	var all []held
	for _, m := range b.members {
		all = append(all, held{m, min(len(b.faults(now, m)), 1)})
	}
	slices.SortFunc(all, func(x, y held) int {
		return cmp.Or(cmp.Compare(x.bad, y.bad), x.m.Last.Compare(y.m.Last), cmp.Compare(x.m.Peer, y.m.Peer))
	})
	for _, h := range all[:MaxMembers/8] {
		delete(b.members, h.m.Peer)
	}
}

// Full takes in which members have as many tasks as one member may have now. accounts are theirs.
func (b *Book) Full(now time.Time, accounts map[string]string) {
	for _, m := range b.members {
		if _, full := accounts[m.Peer]; !full {
			m.Full = time.Time{}
		}
	}
	for _, peer := range slices.Sorted(maps.Keys(accounts)) {
		m := b.members[peer]
		if m == nil {
			m = b.add(now, peer)
		}
		if m.Account = cmp.Or(accounts[peer], m.Account); m.Full.IsZero() {
			m.Full = now
		}
		m.Last = now
	}
}

// faults judges one member.
func (b *Book) faults(now time.Time, m *Member) (out []Fault) {
	if now.Sub(m.Last) > forgetAfter {
		return nil
	}
	for _, f := range Faults() {
		n := m.count(f)
		is := false
		switch f {
		case Contradicted:
			is = n >= forgedLeast && n*forgedShare >= m.Counts[Pages]
		case Malformed:
			is = n >= malformedLeast
		case Swallows, Stalls:
			times := swallowedTimes
			if f == Stalls {
				times = stalledTimes
			}
			is = n >= wastedLeast && m.Times[f] >= times && n*wastedShare >= max(m.Counts[Took], m.Counts[Delivered]+n)
		case Attracts:
			is = !m.Full.IsZero() && now.Sub(m.Full) >= b.attracts
		}
		if is {
			out = append(out, f)
		}
	}
	return out
}

// count is how many misdeeds of a fault are counted.
func (m *Member) count(f Fault) (n int) {
	for _, d := range deeds[f] {
		n += m.Counts[d]
	}
	return n
}

// Suspects are the members with a fault, the worst first, at most n; and how many there are. Peers of one account are one member where their misdeeds are not
// those of one or two of them.
func (b *Book) Suspects(now time.Time, n int) (out []Member, all int) {
	of := map[string][]*Member{}
	for _, m := range b.members {
		if now.Sub(m.Last) > forgetAfter {
			continue
		}
		key := "peer " + m.Peer
		if m.Account != "" && m.Account != m.Peer {
			key = "account " + m.Account
		}
		of[key] = append(of[key], m)
	}
	for _, group := range of {
		out = append(out, b.suspectsOf(now, group)...)
	}
	rank := func(m *Member) int { return slices.Index(Faults(), m.Faults[0]) }
	slices.SortFunc(out, func(x, y Member) int {
		return cmp.Or(cmp.Compare(rank(&x), rank(&y)), -cmp.Compare(x.count(x.Faults[0]), y.count(y.Faults[0])), cmp.Compare(x.Name(), y.Name()))
	})
	return out[:min(len(out), n)], len(out)
}

// few is how many peers of an account are named one by one if the misdeeds are theirs.
const few = 2

// suspectsOf are the suspects among the peers of one account.
func (b *Book) suspectsOf(now time.Time, group []*Member) (out []Member) {
	bad := 0
	for _, m := range group {
		if f := b.faults(now, m); len(f) > 0 {
			s := *m
			s.Counts, s.Times, s.Faults = maps.Clone(m.Counts), maps.Clone(m.Times), f
			out = append(out, s)
			bad += m.misdeeds()
		}
	}
	if len(group) == 1 {
		return out
	}
	all := pooled(group)
	if len(out) > 0 && len(out) <= few && 5*bad >= 4*all.misdeeds() {
		return out
	}
	if all.Faults = b.faults(now, &all); len(all.Faults) > 0 {
		return []Member{all}
	}
	return out
}

// pooled is what some peers of an account did together.
func pooled(group []*Member) Member {
	all := Member{Account: group[0].Account, Peers: len(group), Since: group[0].Since, Counts: map[Deed]int{}, Times: map[Fault]int{}}
	for _, m := range group {
		if m.Since.Before(all.Since) {
			all.Since = m.Since
		}
		if m.Last.After(all.Last) {
			all.Last = m.Last
		}
		if all.Full.IsZero() || !m.Full.IsZero() && m.Full.Before(all.Full) {
			all.Full = m.Full
		}
		for d, n := range m.Counts {
			all.Counts[d] += n
		}
		for f, n := range m.Times {
			all.Times[f] += n
		}
	}
	return all
}

// misdeeds is how many are counted in all.
func (m *Member) misdeeds() (n int) {
	for f := range deeds {
		n += m.count(f)
	}
	return n
}

// AppendState is the book as it is stored.
func (b *Book) AppendState(now time.Time) ([]byte, error) {
	all := []*Member{}
	for _, name := range slices.Sorted(maps.Keys(b.members)) {
		if m := b.members[name]; now.Sub(m.Last) <= forgetAfter {
			all = append(all, m)
		}
	}
	return json.Marshal(all)
}

// Restore takes in what AppendState has made. After an error the book is as it was.
func (b *Book) Restore(state []byte) error {
	var all []*Member
	if err := json.Unmarshal(state, &all); err != nil {
		return fmt.Errorf("conduct: %w", err)
	}
	for _, m := range all[:min(len(all), MaxMembers)] {
		if m == nil || m.Peer == "" {
			return fmt.Errorf("conduct: a member without a name")
		}
	}
	for _, m := range all[:min(len(all), MaxMembers)] {
		if m.Counts == nil {
			m.Counts = map[Deed]int{}
		}
		if m.Times == nil {
			m.Times = map[Fault]int{}
		}
		m.Full, m.Faults = time.Time{}, nil // nothing is out to it
		b.members[m.Peer] = m
	}
	return nil
}
