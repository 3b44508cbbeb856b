package joint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"shoal/manager"
	"shoal/manager/archive"
	"shoal/manager/trust"
)

type standingOf = trust.Standing

// held is what is held against a peer.
type held struct {
	Peer  manager.PeerTrust      `json:"peer"`
	Cases []archive.EvidenceCase `json:"cases"`
}

// What is asked about whom to believe.
var (
	rules = question[none, manager.TrustInfo]{"trust", func(ctx context.Context, c *Config, _ none) (manager.TrustInfo, error) { return c.Own.Trust(ctx) }}
	peers = question[peersAsked, []manager.PeerTrust]{"trust of peers", func(ctx context.Context, c *Config, of peersAsked) ([]manager.PeerTrust, error) {
		all, err := c.Own.TrustPeers(ctx)
		return of.part(all), err
	}}
	evidence = question[string, held]{"evidence", func(ctx context.Context, c *Config, peer string) (held, error) {
		p, cases, err := c.Own.Evidence(ctx, peer)
		return held{p, cases}, err
	}}
	uphold = question[string, manager.PeerTrust]{"uphold", func(ctx context.Context, c *Config, peer string) (manager.PeerTrust, error) {
		return c.Own.Uphold(ctx, peer)
	}}
	pardon = question[pardonAsked, manager.PeerTrust]{"pardon", func(ctx context.Context, c *Config, of pardonAsked) (manager.PeerTrust, error) {
		return c.Own.Pardon(ctx, of.Peer, of.Others...)
	}}
	vouch = question[[]string, none]{"vouch", func(ctx context.Context, c *Config, of []string) (none, error) {
		return none{}, c.Own.Vouch(ctx, of...)
	}}
)

// pardonAsked asks to pardon a peer.
type pardonAsked struct {
	Peer   string       `json:"peer"`
	Others []trust.Peer `json:"others,omitempty"` // of its account, that are suspended
}

// peersAsked asks for a part of the peers, by their numbers. A manager of before version 0.2 tells all, whatever it is asked, and asks for none of it: then all
// are told.
type peersAsked struct {
	After trust.Peer `json:"after,omitempty"`
	Most  int        `json:"most,omitempty"` // 0: any number
}

// mostPeers are asked for at a time. They fit an answer however long the names are.
const mostPeers = 4000

// part is what is told of all peers.
func (a peersAsked) part(all []manager.PeerTrust) []manager.PeerTrust {
	if a.Most <= 0 {
		return all
	}
	all = slices.DeleteFunc(slices.Clone(all), func(p manager.PeerTrust) bool { return p.Peer <= a.After })
	slices.SortFunc(all, func(x, y manager.PeerTrust) int { return cmp.Compare(x.Peer, y.Peer) })
	return all[:min(len(all), a.Most)]
}

// peersOf are all peers as another manager sees them, part by part. What it told before it stopped answering counts.
func peersOf(ctx context.Context, c *Config, other string) (out []manager.PeerTrust, err error) {
	of := peersAsked{Most: mostPeers}
	for {
		part, err := peers.ask(ctx, c, other, of)
		out = append(out, part...)
		if err != nil || len(part) != of.Most || part[len(part)-1].Peer <= of.After {
			return out, err
		}
		of.After = part[len(part)-1].Peer
	}
}

// Trust implements desk.Running: what all managers have judged, and the peers as those see them that know most of them.
func (r *Running) Trust(ctx context.Context) (manager.TrustInfo, error) {
	all := rules.all(ctx, &r.cfg, none{})
	out := all[0].value
	if all[0].err != nil {
		return out, all[0].err
	}
	out.Silent = silent(all)
	for _, x := range all[1:] {
		if x.err == nil {
			addTrust(&out, &x.value)
			out.Blind = blind(out.Blind, x.value.Blind, x.by.Machine)
			out.Undone = undone(out.Undone, x.value.Undone, x.by.Machine)
		}
	}
	known, err := r.TrustPeers(ctx)
	if err != nil {
		return out, err
	}
	out.Standings, out.Suspects, out.Above = map[trust.Standing]int{}, 0, 0
	for i := range known {
		out.Count(&known[i].Info)
	}
	return out, nil
}

// blind adds from where the arbiter of another manager sees nothing.
func blind(all, more []manager.Blind, machine string) []manager.Blind {
	all = slices.Clone(all)
	for _, b := range more {
		b.Machine = machine
		all = append(all, b)
	}
	return all
}

// undone adds decisions about peers that another manager could not carry out.
func undone(all, more []manager.Undone, machine string) []manager.Undone {
	all = slices.Clone(all)
	for _, u := range more {
		u.Machine = machine
		all = append(all, u)
	}
	return all
}

// SetTrust implements desk.Running. The rules are the same at all managers; what is told of them is of all, as Trust tells it.
func (r *Running) SetTrust(ctx context.Context, c manager.TrustChoice) (manager.TrustInfo, error) {
	if out, err := r.cfg.Own.SetTrust(ctx, c); err != nil {
		return out, err
	}
	return r.Trust(ctx)
}

func addTrust(o, x *manager.TrustInfo) {
	a, b := &o.Counts, &x.Counts
	a.Deliveries, a.Pages, a.Lost, a.Audits = a.Deliveries+b.Deliveries, a.Pages+b.Pages, a.Lost+b.Lost, a.Audits+b.Audits
	a.Arbitrations, a.Fetched, a.Charges = a.Arbitrations+b.Arbitrations, a.Fetched+b.Fetched, a.Charges+b.Charges
	a.Unseen += b.Unseen
	a.Suspended, a.WouldSuspend = a.Suspended+b.Suspended, a.WouldSuspend+b.WouldSuspend
	e, f := &o.Errands, &x.Errands
	e.Asked, e.Answered, e.Late, e.Dropped = e.Asked+f.Asked, e.Answered+f.Answered, e.Late+f.Late, e.Dropped+f.Dropped
	o.Waiting, o.Watched, o.Seen = o.Waiting+x.Waiting, o.Watched+x.Watched, o.Seen+x.Seen
	o.InDoubt, o.Doubts = o.InDoubt+x.InDoubt, append(o.Doubts, x.Doubts...)
	if x.Proposal.PeerYears > o.Proposal.PeerYears { // the one that has seen most
		o.Proposal = x.Proposal
	}
}

// TrustPeers implements desk.Running: each peer as the manager sees it that holds most against it, with what all have seen of it.
func (r *Running) TrustPeers(ctx context.Context) ([]manager.PeerTrust, error) {
	out, _, err := r.trustPeers(ctx)
	return out, err
}

// trustPeers tells also which managers did not answer.
func (r *Running) trustPeers(ctx context.Context) (out []manager.PeerTrust, missing []string, err error) {
	own, err := r.cfg.Own.TrustPeers(ctx)
	if err != nil {
		return nil, nil, err
	}
	others := r.cfg.Others()
	all := make([]said[[]manager.PeerTrust], 1+len(others))
	all[0].value = own
	var wg sync.WaitGroup
	for i, o := range others {
		wg.Go(func() {
			all[i+1].by = o
			all[i+1].value, all[i+1].err = peersOf(ctx, &r.cfg, o.Peer)
		})
	}
	wg.Wait()
	at := map[trust.Peer]int{}
	for _, seen := range all {
		for _, p := range seen.value {
			i, known := at[p.Peer]
			if !known {
				at[p.Peer] = len(out)
				out = append(out, p)
				continue
			}
			out[i] = both(out[i], p)
		}
	}
	slices.SortStableFunc(out, func(a, b manager.PeerTrust) int {
		return cmp.Compare(slices.Max(b.Scores[:]), slices.Max(a.Scores[:]))
	})
	return out, silent(all), nil
}

// both is a peer as two managers see it.
func both(a, b manager.PeerTrust) manager.PeerTrust {
	a.Standing = max(a.Standing, b.Standing)
	a.Suspect = (a.Suspect || b.Suspect) && a.Standing < trust.Suspended
	for i := range a.Scores {
		a.Scores[i] = max(a.Scores[i], b.Scores[i])
	}
	a.Tasks, a.Checks, a.Lost, a.Pardons = max(a.Tasks, b.Tasks), max(a.Checks, b.Checks), max(a.Lost, b.Lost), max(a.Pardons, b.Pardons)
	a.ID, a.Account = cmp.Or(a.ID, b.ID), cmp.Or(a.Account, b.Account)
	return a
}

// Evidence implements desk.Running. The cases are in the archive, which all managers share.
func (r *Running) Evidence(ctx context.Context, peer string) (manager.PeerTrust, []archive.EvidenceCase, error) {
	var out *held
	var failed error
	for _, x := range evidence.all(ctx, &r.cfg, peer) {
		switch {
		case x.err != nil:
			failed = cmp.Or(failed, x.err)
		case out == nil:
			out = &x.value
		default:
			undone := undone(out.Peer.Undone, x.value.Peer.Undone, x.by.Machine)
			out.Peer = both(out.Peer, x.value.Peer)
			out.Peer.Undone = undone
		}
	}
	if out == nil {
		return manager.PeerTrust{}, nil, failed
	}
	var err error
	out.Peer.Others, _, err = r.othersOf(ctx, peer)
	return out.Peer, out.Cases, err
}

// Uphold implements desk.Running: at each manager that has suspended the peer.
func (r *Running) Uphold(ctx context.Context, peer string) (manager.PeerTrust, error) {
	return decided(uphold.all(ctx, &r.cfg, peer))
}

// Pardon implements desk.Running, likewise. A manager that has suspended a peer need not know of another one of the account that another manager has suspended.
func (r *Running) Pardon(ctx context.Context, peer string, _ ...trust.Peer) (manager.PeerTrust, error) {
	others, missing, err := r.othersOf(ctx, peer)
	if err != nil {
		return manager.PeerTrust{}, err
	}
	if len(missing) > 0 { // the account would be admitted whatever they hold against it
		return manager.PeerTrust{}, fmt.Errorf("%w: nothing is done, as it is not known whether the manager on %s has suspended other peers of the account: ask again when that answers; shoal managers lists who is there", ErrPart, strings.Join(missing, ", "))
	}
	out, err := decided(pardon.all(ctx, &r.cfg, pardonAsked{peer, others}))
	out.Others = others
	return out, err
}

// othersOf are the suspended and banned peers of a peer's account at all managers that answer, without itself, and the machines of those that do not. The peer is
// named by its id or its number.
func (r *Running) othersOf(ctx context.Context, peer string) (others []trust.Peer, missing []string, err error) {
	all, missing, err := r.trustPeers(ctx)
	if err != nil {
		return nil, nil, err
	}
	at := slices.IndexFunc(all, func(p manager.PeerTrust) bool { return p.ID == peer || archive.DelivererName(uint64(p.Peer)) == peer })
	if at < 0 {
		return nil, missing, nil
	}
	for i, p := range all {
		if i != at && p.Info.Account == all[at].Info.Account && p.Standing >= trust.Suspended {
			others = append(others, p.Peer)
		}
	}
	slices.Sort(others)
	return others, missing, nil
}

// decided is what came of a decision about a peer. Managers that hold nothing against it refuse; one that did not answer must be asked again: those that have decided
// refuse then, so that only what is missing is done.
func decided(all []said[manager.PeerTrust]) (out manager.PeerTrust, err error) {
	done := false
	var refused error
	var away, why []string
	for _, x := range all {
		switch {
		case x.err == nil && done:
			out = both(out, x.value)
		case x.err == nil:
			out, done = x.value, true
		case errors.Is(x.err, errAway):
			away, why = append(away, cmp.Or(x.by.Machine, x.by.Peer)), append(why, x.err.Error())
		default:
			refused = cmp.Or(refused, x.err)
		}
	}
	switch machines := strings.Join(away, ", "); {
	case len(away) > 0 && done:
		return out, fmt.Errorf("%w: it is done at the other managers, but not on %s (%s): ask again when that answers, to have it done there too; if it says then that there is nothing to do, there is not", ErrPart, machines, strings.Join(why, "; "))
	case len(away) > 0:
		return out, fmt.Errorf("%w: nothing is done, as the managers that answer hold nothing against the peer, and it is not known what is held on %s (%s): ask again when that answers", ErrPart, machines, strings.Join(why, "; "))
	case done:
		return out, nil
	}
	return out, refused
}

// ErrPart says that not all managers of the network have done what was asked for.
var ErrPart = errors.New("joint: not every manager answers")

// Vouch implements desk.Running: at all managers.
func (r *Running) Vouch(ctx context.Context, ids ...string) error {
	var failed []error
	for _, x := range vouch.all(ctx, &r.cfg, ids) {
		if x.err != nil {
			failed = append(failed, fmt.Errorf("at the manager on %s: %w", cmp.Or(x.by.Machine, "this machine"), x.err))
		}
	}
	return errors.Join(failed...)
}
