package release

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Bounds of what is kept of peers.
const (
	MaxPeers   = 200_000            // of which reports are kept; beyond that the oldest go
	MaxFalls   = 4                  // of one peer, the newest ones
	MaxWhy     = 120                // bytes of the reason of one
	reportLife = 7 * 24 * time.Hour // after which a peer that reports no more counts no more
)

// A roll-out stops when more than StopPercent of the peers that took the version fell back, and of their accounts, and of their networks, once
// StopParties of them have neither account nor network in common: one party alone cannot stop a good release.
const (
	StopPercent = 2
	StopParties = 3
)

// Fall is a version that a peer fell back from.
type Fall struct {
	Version string `json:"version"`
	Why     string `json:"why,omitempty"`
}

// Report is what a peer tells of its program.
type Report struct {
	Peer    string    `json:"peer"`
	Account string    `json:"account,omitempty"`
	Prefix  string    `json:"prefix,omitempty"` // network of its address; empty: not known
	Version string    `json:"version"`
	System  string    `json:"system,omitempty"` // and architecture: linux-amd64
	Trial   bool      `json:"trial,omitempty"`  // the version is on probation
	Setting string    `json:"setting,omitempty"`
	Falls   []Fall    `json:"falls,omitempty"`
	At      time.Time `json:"at"`

	FellAt []time.Time `json:"fell_at,omitempty"` // when a manager first heard of each of Falls
}

// Rollout is which version is given to how many. The zero value gives none.
type Rollout struct {
	Version string    `json:"version,omitempty"`
	Share   int       `json:"share,omitempty"` // of Whole
	Since   time.Time `json:"since,omitzero"`
	Stopped string    `json:"stopped,omitempty"` // why; empty: it goes on
	Again   time.Time `json:"again,omitzero"`    // since when it goes on all the same: who fell back before stops it no more
}

// Book is what a manager knows of its peers' programs, and the roll-out that follows. It is owned by one goroutine.
type Book struct {
	Rollout Rollout
	peers   map[string]Report
	marks   map[string]mark // by peer
	last    uint64          // of the marks
}

// NewBook makes a book of what an earlier one told.
func NewBook(r Rollout, reports []Report) *Book {
	b := &Book{Rollout: r, peers: map[string]Report{}, marks: map[string]mark{}}
	for _, x := range reports {
		b.put(x)
		b.note(x, true)
	}
	return b
}

// Roll begins a roll-out, or widens or narrows it. One that has stopped goes on only if again says so.
func (b *Book) Roll(now time.Time, version string, share int, again bool) error {
	if _, err := Parse(version); err != nil {
		return err
	}
	if share < 0 || share > Whole {
		return fmt.Errorf("release: a share of %d, there are 0 to %d", share, Whole)
	}
	if b.Rollout.Version == version && b.Rollout.Stopped != "" && !again {
		return fmt.Errorf("release: the roll-out of %s has stopped: %s; sign a mended release, or say that it is to go on all the same", version, b.Rollout.Stopped)
	}
	if b.Rollout.Version != version {
		b.Rollout = Rollout{Version: version, Since: now}
	}
	b.Rollout.Share, b.Rollout.Stopped = share, ""
	if again {
		b.Rollout.Again = now
		return nil
	}
	b.judge()
	if b.Rollout.Stopped != "" {
		return fmt.Errorf("release: the roll-out of %s stops at once: %s", version, b.Rollout.Stopped)
	}
	return nil
}

// Stop ends a roll-out.
func (b *Book) Stop(why string) {
	if b.Rollout.Version != "" && b.Rollout.Stopped == "" {
		b.Rollout.Stopped = why
	}
}

// Told takes in a report, and stops the roll-out where too many fall back. It returns whether the roll-out changed, and whether the report says anything but
// what the same peer said before.
func (b *Book) Told(r Report) (changed, news bool) {
	r = clipped(r)
	before := b.peers[r.Peer]
	news = !same(r, before)
	b.put(r)
	b.note(r, news)
	if slices.Equal(r.Falls, before.Falls) { // who fell back from nothing new stops nothing; to look at all peers for each of them would take long
		return false, news
	}
	was := b.Rollout.Stopped
	b.judge()
	return b.Rollout.Stopped != was, true
}

// clipped bounds a report's texts.
func clipped(r Report) Report {
	r.Falls = slices.Clone(r.Falls[:min(len(r.Falls), MaxFalls)])
	r.FellAt = r.FellAt[:min(len(r.FellAt), len(r.Falls))]
	for i := range r.Falls {
		f := &r.Falls[i]
		f.Version, f.Why = clip(f.Version, MaxVersion), clip(f.Why, MaxWhy)
	}
	r.Version, r.System, r.Setting = clip(r.Version, 2*MaxVersion), clip(r.System, MaxVersion), clip(r.Setting, MaxVersion)
	return r
}

// same reports whether two reports of a peer say the same, whenever they came.
func same(r, before Report) bool {
	if !slices.Equal(r.Falls, before.Falls) {
		return false
	}
	r.Falls, before.Falls, before.At = nil, nil, r.At
	r.FellAt, before.FellAt = nil, nil // each manager's own
	return reflect.DeepEqual(r, before)
}

func clip(s string, n int) string { return strings.ToValidUTF8(s[:min(len(s), n)], "") }

// fellAt is when a manager first heard of each fall of a report, as this one tells it or an other one of the same peer.
func fellAt(r, other Report) []time.Time {
	if len(r.Falls) == 0 {
		return nil
	}
	out := make([]time.Time, len(r.Falls))
	for i, f := range r.Falls {
		if out[i] = r.At; i < len(r.FellAt) && !r.FellAt[i].IsZero() {
			out[i] = r.FellAt[i]
		}
		for k, g := range other.Falls {
			if g.Version == f.Version && k < len(other.FellAt) && !other.FellAt[k].IsZero() && other.FellAt[k].Before(out[i]) {
				out[i] = other.FellAt[k]
			}
		}
	}
	return out
}

func (b *Book) put(r Report) {
	r.FellAt = fellAt(r, b.peers[r.Peer])
	b.peers[r.Peer] = r
	if len(b.peers) <= MaxPeers {
		return
	}
	all := b.Reports()
	slices.SortFunc(all, func(x, y Report) int { return cmp.Or(x.At.Compare(y.At), strings.Compare(x.Peer, y.Peer)) })
	for _, old := range all[:len(all)-MaxPeers+MaxPeers/100] { // some more, so that this is rare
		delete(b.peers, old.Peer)
		delete(b.marks, old.Peer)
	}
}

// Reports are those of all peers, by peer.
func (b *Book) Reports() []Report {
	out := make([]Report, 0, len(b.peers))
	for _, id := range slices.Sorted(maps.Keys(b.peers)) {
		out = append(out, b.peers[id])
	}
	return out
}

// parties are those whose programs did the same: peers, their accounts, the networks of their addresses.
type parties struct {
	peers              int
	accounts, networks map[string]bool
	links              map[string]map[string]bool // networks by account
}

func newParties() parties {
	return parties{accounts: map[string]bool{}, networks: map[string]bool{}, links: map[string]map[string]bool{}}
}

func (p *parties) add(r Report) {
	a := cmp.Or(r.Account, r.Peer)
	p.peers++
	p.accounts[a], p.networks[r.Prefix] = true, true
	if p.links[a] == nil {
		p.links[a] = map[string]bool{}
	}
	p.links[a][r.Prefix] = true
}

// apart is how many of them have neither account nor network in common, at most StopParties: a matching of accounts with networks.
func (p *parties) apart() int {
	n := 0
	holder := map[string]string{} // account by network
	var place func(account string, tried map[string]bool) bool
	place = func(account string, tried map[string]bool) bool {
		for _, net := range slices.Sorted(maps.Keys(p.links[account])) {
			if tried[net] {
				continue
			}
			tried[net] = true
			if other, taken := holder[net]; !taken || place(other, tried) {
				holder[net] = account
				return true
			}
		}
		return false
	}
	for _, a := range slices.Sorted(maps.Keys(p.links)) {
		if place(a, map[string]bool{}) {
			n++
		}
		if n == StopParties {
			break
		}
	}
	return n
}

// cohort finds those that took the version of the roll-out, and those of them that fell back. Who fell back until a time is left out.
func (b *Book) cohort(until time.Time) (took, fell parties) {
	took, fell = newParties(), newParties()
	for _, r := range b.peers {
		i := slices.IndexFunc(r.Falls, func(f Fall) bool { return f.Version == b.Rollout.Version })
		if i >= 0 && !until.IsZero() && (i >= len(r.FellAt) || !r.FellAt[i].After(until)) {
			continue
		}
		if i >= 0 || r.Version == b.Rollout.Version {
			took.add(r)
		}
		if i >= 0 {
			fell.add(r)
		}
	}
	return took, fell
}

// judge stops the roll-out where too many fall back. Where an operator had it go on all the same, only those count that fell back since.
func (b *Book) judge() {
	if b.Rollout.Version == "" || b.Rollout.Stopped != "" {
		return
	}
	took, fell := b.cohort(b.Rollout.Again)
	over := func(part, all int) bool { return part*100 > all*StopPercent }
	if over(fell.peers, took.peers) && over(len(fell.accounts), len(took.accounts)) && over(len(fell.networks), len(took.networks)) && fell.apart() >= StopParties {
		since := ""
		if !b.Rollout.Again.IsZero() {
			since = " since it went on all the same"
		}
		b.Rollout.Stopped = fmt.Sprintf("%d of %d peers that took it fell back%s, more than %d%%", fell.peers, took.peers, since, StopPercent)
	}
}

// Run is how many peers run a version.
type Run struct {
	Version string `json:"version"`
	Peers   int    `json:"peers"`
	Trial   int    `json:"on_probation"`
	Fell    int    `json:"fell_back"` // from it, to the one before
}

// Summary is what a book has to tell.
type Summary struct {
	Rollout
	Peers  int            `json:"peers"`       // that have reported of late
	Cohort int            `json:"cohort"`      // of them, that the roll-out is for
	Took   int            `json:"took"`        // of them, that run or ran it
	Fell   int            `json:"fell_back"`   // of those
	Hand   int            `json:"not_by_self"` // that take no updates by themselves
	Runs   []Run          `json:"versions"`    // the newest first
	Why    map[string]int `json:"why"`         // they fell back, by reason
}

// MaxShown bounds the versions and reasons of a summary: peers may report any.
const MaxShown = 50

// Summary counts the reports of the last week.
func (b *Book) Summary(now time.Time) Summary {
	s := Summary{Rollout: b.Rollout, Runs: []Run{}, Why: map[string]int{}}
	runs := map[string]*Run{}
	run := func(v string) *Run {
		if runs[v] == nil {
			runs[v] = &Run{Version: v}
		}
		return runs[v]
	}
	for _, r := range b.Reports() {
		if now.Sub(r.At) > reportLife {
			continue
		}
		s.Peers++
		if In(s.Version, r.Peer, s.Share) && s.Version != "" {
			s.Cohort++
		}
		if r.Setting != "auto" {
			s.Hand++
		}
		x := run(r.Version)
		x.Peers++
		if r.Trial {
			x.Trial++
		}
		for _, f := range r.Falls {
			run(f.Version).Fell++
			if f.Version == s.Version && (len(s.Why) < MaxShown || s.Why[f.Why] > 0) {
				s.Why[f.Why]++
			}
		}
	}
	if s.Version != "" {
		took, fell := b.cohort(time.Time{})
		s.Took, s.Fell = took.peers, fell.peers
	}
	for _, v := range slices.Sorted(maps.Keys(runs)) {
		s.Runs = append(s.Runs, *runs[v])
	}
	slices.SortStableFunc(s.Runs, func(x, y Run) int {
		v, err := Parse(x.Version)
		w, err2 := Parse(y.Version)
		if err != nil || err2 != nil {
			return cmp.Compare(y.Peers, x.Peers)
		}
		return w.Compare(v)
	})
	s.Runs = s.Runs[:min(len(s.Runs), MaxShown)]
	return s
}
