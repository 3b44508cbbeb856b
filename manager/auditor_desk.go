package manager

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"shoal/manager/archive"
	"shoal/manager/trust"
	"shoal/overlay"
)

// TrustInfo is how far peers are believed, and what that costs.
type TrustInfo struct {
	Rules     trust.Config
	Proposal  trust.Proposal
	Standings map[trust.Standing]int // peers
	Suspects  int
	Above     int // peers whose score is where one is suspended, and that work on: it came to that before the rules were as they are
	Counts    AuditCounts
	Errands   ErrandCounts
	Waiting   int // pages that are being looked at, or wait for it
	Watched   int // channels on watch
	Seen      int // channels whose next crawls are for others, to see pages that are held
	InDoubt   int // of both together
	// Doubts are those of both, as far as mostDoubts go: those first that stay on watch longest.
	Doubts []trust.Doubt
	Blind  []Blind // from where the arbiter sees nothing
	// Undone are decisions about peers that could not be carried out yet.
	Undone []Undone
	// Silent are the machines of managers that did not answer when they were asked for their part.
	Silent []string
}

// mostDoubts is how many channels in doubt a manager names.
const mostDoubts = 200

// PeerTrust is how far one peer is believed.
type PeerTrust struct {
	trust.Info
	ID      string // empty: it has not been heard of since the archive was rebuilt
	Account string `json:"account_name"` // empty: it is in none with others, or not known; managers tell each other Info.Account beside it
	// Others are the suspended and banned peers of its account, for whose sake it gets no tasks. Only what is told of one peer has them.
	Others []trust.Peer
	// Undone is what was decided about it and could not be carried out yet; likewise.
	Undone []Undone
	// MoreCases are those of it that are not listed. Only Evidence tells them.
	MoreCases int
}

// TrustChoice is what an operator sets of the rules; nil: as it is.
type TrustChoice struct {
	Enforce                         *bool
	T                               *float64
	Newcomers, Beside, SuspectShare *float64
	PerTask, PerNew                 *int
}

// Use returns the rules with what was chosen.
func (c *TrustChoice) Use(r trust.Config) trust.Config {
	set(&r.Enforce, c.Enforce)
	set(&r.T, c.T)
	set(&r.Newcomers, c.Newcomers)
	set(&r.Beside, c.Beside)
	set(&r.SuspectShare, c.SuspectShare)
	set(&r.PerTask, c.PerTask)
	set(&r.PerNew, c.PerNew)
	return r
}

func set[T any](field, value *T) {
	if value != nil {
		*field = *value
	}
}

// trustInfo sums up. Called on the loop.
func (au *auditor) info(now time.Time) TrustInfo {
	i := TrustInfo{Rules: au.trust.Config(), Proposal: au.trust.Propose(), Standings: map[trust.Standing]int{}, Counts: au.counts, Errands: au.errands.counts, Waiting: au.errands.waiting()}
	for _, p := range au.trust.Peers() {
		if p.Peer == au.arbiter {
			continue
		}
		i.Count(&p)
	}
	i.Doubts = slices.DeleteFunc(au.trust.Doubts(now), func(d trust.Doubt) bool { // of several managers, one tells that has the channel now
		_, mine := au.table.Find(d.Channel)
		return !mine && au.tenancy != nil
	})
	for _, d := range i.Doubts {
		if !d.Until.IsZero() {
			i.Watched++
		}
		if d.Views > 0 {
			i.Seen++
		}
	}
	i.Blind = au.sights.blind()
	i.Undone = au.sentences.undone(0)
	i.InDoubt = len(i.Doubts)
	i.Doubts = i.Doubts[:min(len(i.Doubts), mostDoubts)]
	return i
}

// Count adds a peer to the sums.
func (i *TrustInfo) Count(p *trust.Info) {
	i.Standings[p.Standing]++
	if p.Suspect {
		i.Suspects++
	}
	if p.Standing < trust.Suspended && slices.Max(p.Scores[:]) >= i.Rules.T {
		i.Above++
	}
}

// Trust sums up how far peers are believed.
func (au *auditor) Trust(ctx context.Context) (i TrustInfo, err error) {
	err = au.onLoop(ctx, func(now time.Time) { i = au.info(now) })
	return i, err
}

// SetTrust changes the rules, and keeps that.
func (au *auditor) SetTrust(ctx context.Context, c TrustChoice) (i TrustInfo, err error) {
	var failed error
	err = au.onLoop(ctx, func(now time.Time) {
		rules := c.Use(au.trust.Config())
		if failed = rules.Validate(); failed != nil {
			failed = fmt.Errorf("%w: %w", ErrAsk, failed)
			return
		}
		if failed = au.keepRules(ctx, rules); failed == nil {
			failed = au.trust.SetConfig(rules)
			au.ruled()
		}
		i = au.info(now)
	})
	if err = errors.Join(err, failed); err == nil {
		err = au.tell(ctx, noteTrust, noted{Trust: &c})
	}
	return i, err
}

// TrustPeers tells how far each peer is believed, those first of whom least good is known.
func (au *auditor) TrustPeers(ctx context.Context) (out []PeerTrust, err error) {
	if err = au.onLoop(ctx, func(time.Time) {
		for _, p := range au.trust.Peers() {
			if p.Peer != au.arbiter {
				out = append(out, au.peerTrust(p))
			}
		}
	}); err != nil {
		return nil, err
	}
	all := make([]*PeerTrust, len(out))
	for i := range out {
		all[i] = &out[i]
	}
	return out, au.identify(ctx, all...)
}

// peerTrust has of a peer's names what the overlay has told lately; see identify.
func (au *auditor) peerTrust(i trust.Info) PeerTrust {
	id := au.named[i.Peer]
	p := PeerTrust{Info: i, ID: string(id)}
	if a := au.met[id].account; a != p.ID {
		p.Account = a
	}
	return p
}

// identify names peers and accounts of which the overlay has told nothing lately, as the archive wrote them down when the peers claimed tasks: a peer that is refused
// is heard of no more, and its account is still to be named when it is pardoned. Called beside the loop.
func (c *core) identify(ctx context.Context, peers ...*PeerTrust) error {
	byNumber := map[trust.Peer]*PeerTrust{}
	for _, p := range peers {
		if p.ID == "" || p.Account == "" && trust.Account(c.number(p.ID)) != p.Info.Account {
			byNumber[p.Peer] = p
		}
	}
	name := "" // all
	switch len(byNumber) {
	case 0:
		return nil
	case 1:
		for n := range byNumber {
			name = archive.DelivererName(uint64(n))
		}
	}
	known, err := c.cfg.Archive.Deliverers(ctx, name)
	if err != nil {
		return fmt.Errorf("read who has delivered: %w", err)
	}
	for _, d := range known {
		p := byNumber[trust.Peer(d.Number)]
		if p == nil {
			continue
		}
		if p.ID = d.Peer; d.Account != d.Peer {
			p.Account = d.Account
		}
	}
	return nil
}

// find is the number of a peer that is named by its id or by its number (d-...). Called on the loop.
func (au *auditor) find(name string) (trust.Peer, error) {
	n := trust.Peer(archive.DelivererOf(name))
	if n == 0 {
		n = au.number(name)
	}
	if _, ok := au.trust.Peer(n); !ok || n == au.arbiter {
		return 0, fmt.Errorf("%w: no peer %q has had a task: shoal trust show --peers names those that have", ErrAsk, name)
	}
	return n, nil
}

// Evidence is what is held against a peer, and what it held against others: the cases, those opened last first.
func (au *auditor) Evidence(ctx context.Context, name string) (p PeerTrust, cases []archive.EvidenceCase, err error) {
	var failed error
	err = au.onLoop(ctx, func(time.Time) {
		var n trust.Peer
		if n, failed = au.find(name); failed == nil {
			p = au.one(n)
		}
	})
	if err = errors.Join(err, failed); err != nil {
		return p, nil, err
	}
	if err := au.identify(ctx, &p); err != nil {
		return p, nil, err
	}
	cases, p.MoreCases, err = au.cfg.Evidence.List(ctx, p.Peer)
	return p, cases, err
}

// Case reads a case with what was fetched.
func (au *auditor) Case(ctx context.Context, number uint64) (archive.EvidenceCase, error) {
	return au.cfg.Evidence.Read(ctx, number)
}

// decide has the operator decide about a peer.
func (au *auditor) decide(ctx context.Context, name string, do func(now time.Time, n trust.Peer) error) (p PeerTrust, err error) {
	var failed error
	err = au.onLoop(ctx, func(now time.Time) {
		var n trust.Peer
		if n, failed = au.find(name); failed != nil {
			return
		}
		if failed = do(now, n); failed != nil {
			return
		}
		p = au.one(n)
	})
	if err = errors.Join(err, failed); err != nil {
		return p, err
	}
	return p, au.identify(ctx, &p)
}

// one is what an operator is told who asks about one peer. Called on the loop.
func (au *auditor) one(n trust.Peer) PeerTrust {
	i, _ := au.trust.Peer(n)
	p := au.peerTrust(i)
	p.Others = slices.DeleteFunc(au.trust.Convicted(i.Account), func(o trust.Peer) bool { return o == n })
	p.Undone = au.sentences.undone(n)
	return p
}

// Uphold makes a suspension final.
func (au *auditor) Uphold(ctx context.Context, name string) (PeerTrust, error) {
	return au.decide(ctx, name, func(now time.Time, n trust.Peer) error {
		if !au.trust.Uphold(n) {
			return fmt.Errorf("%w: %s is not suspended, or is banned already: see shoal peer evidence %s", ErrAsk, name, name)
		}
		err := au.keepPeer(n)
		au.bar(now, n, true) // it may have been admitted again meanwhile
		return err
	})
}

// Pardon gives a suspended or banned peer everything back. Its account stays barred while this manager has suspended others of it, or another manager has, which
// others names.
func (au *auditor) Pardon(ctx context.Context, name string, others ...trust.Peer) (PeerTrust, error) {
	return au.decide(ctx, name, func(now time.Time, n trust.Peer) error {
		acts := au.trust.Pardon(n)
		if acts == nil {
			return fmt.Errorf("%w: %s is neither suspended nor banned for what it delivered: see shoal peer evidence %s", ErrAsk, name, name)
		}
		au.sentences.note(now, sentence{Peer: n, Pages: true}) // else a manager that starts after a kill would find it suspended in the archive, and not know why
		err := au.keepPeer(n)
		au.follow(now, acts, delivered{})
		au.bar(now, n, false, others...)
		return err
	})
}

// Vouch makes peers established by the operator's word. Those that had no task yet are so from now on too.
func (au *auditor) Vouch(ctx context.Context, ids ...string) error {
	var failed error
	err := au.onLoop(ctx, func(time.Time) {
		for _, id := range slices.Compact(ids) {
			n := au.meet(overlay.ID(id))
			au.trust.Vouch(n)
			failed = errors.Join(failed, au.keepPeer(n))
		}
	})
	return errors.Join(err, failed)
}
