package desk

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"shoal/channel"
	"shoal/manager"
	"shoal/manager/archive"
	"shoal/manager/conduct"
	"shoal/manager/trust"
	"shoal/overlay"
)

// MaxUses bounds the peers of one invite.
const MaxUses = 100_000

// Invite makes a join string for a number of peers, and says what they need beside it.
func (d *Desk) Invite(uses uint32) (join, needs string, err error) {
	if err := d.Live(); err != nil {
		return "", "", err
	}
	if uses < 1 || uses > MaxUses {
		return "", "", fmt.Errorf("%w: an invite for %d peers: want 1 to %d", ErrAsk, uses, MaxUses)
	}
	join, err = d.cfg.Members.Invite(uses)
	return join, Needs(d.cfg.Pond), err
}

// Needs is what a peer of a network must have beside its join string, whose synthetic Web is served at pond. Empty: nothing.
func Needs(pond string) string {
	if pond == "" {
		return ""
	}
	return "This network crawls the pond, a synthetic Web on this machine. A peer that joins it runs with: shoal-peer run --pond " + pond
}

// Ban refuses a peer or an account from now on, or no longer. Who is refused for what it delivered is not admitted again by that: it would get no tasks, and what it
// delivered would stay withdrawn. A pardon gives everything back.
func (d *Desk) Ban(ctx context.Context, peer string, banned bool) error {
	if err := d.Live(); err != nil {
		return err
	}
	if peer == "" {
		return fmt.Errorf("%w: no peer or account is named", ErrAsk)
	}
	if banned && channel.PlainText(peer, channel.MaxText) != peer { // an old ban may be lifted whatever its name
		return fmt.Errorf("%w: %q has characters that cannot be shown: no peer or account has such a name; copy it from shoal peer list", ErrAsk, peer)
	}
	if !banned && !slices.Contains(d.cfg.Members.Banned(), peer) {
		return fmt.Errorf("%w: %s is not banned; shoal peer list names who is", ErrAsk, peer)
	}
	if !banned {
		suspended, err := guilty(ctx, d.m)
		if err != nil {
			return err
		}
		if p, is := suspended[peer]; is {
			return asks("%s is %s for what %s delivered: look at it with shoal peer evidence %s; shoal peer pardon %s gives everything back", peer, p.Standing, p.Deliverer, p.Deliverer, p.Deliverer)
		}
	}
	return d.cfg.Members.Ban(peer, banned)
}

// KnownMember refuses the name of a peer or an account of which nothing is known: most likely it is misspelt, and the one that is meant would go on.
func (d *Desk) KnownMember(ctx context.Context, name string) error {
	if err := d.Live(); err != nil {
		return err
	}
	is := func(peer, account string) bool { return name != "" && (name == peer || name == account) }
	live, _ := d.m.Peers()
	if slices.ContainsFunc(live, func(p overlay.PeerRecord) bool { return is(string(p.ID), p.Account) }) ||
		slices.ContainsFunc(d.m.Overview().Suspects, func(m conduct.Member) bool { return is(m.Peer, m.Account) }) ||
		slices.Contains(bannedBy(d.cfg.Members), name) {
		return nil
	}
	judged, err := d.m.TrustPeers(ctx)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(judged, func(p manager.PeerTrust) bool { return is(p.ID, p.Account) }) {
		return nil
	}
	for _, p := range judged {
		if number := archive.DelivererName(uint64(p.Peer)); number == name {
			return asks("%s is a deliverer's number: ban the peer itself, %s, or its account", name, cmp.Or(p.ID, "whose id is not known any more"))
		}
	}
	short, cancel := context.WithTimeout(ctx, countFor)
	defer cancel()
	if _, err := d.PurgeCount(short, name); err == nil { // it has left, and what it delivered is here
		return nil
	}
	return asks("no peer or account %s is known: shoal peer list and shoal trust show --peers name them. If it is not misspelt, add --unknown to the command", name)
}

// Refused is a peer or an account that is no member.
type Refused struct {
	Name      string `json:"name"`
	Standing  string `json:"standing"`            // suspended, until you decide; or banned
	Deliverer string `json:"deliverer,omitempty"` // for whose deliveries it is; empty: an operator has banned it
}

// Refused are the peers and accounts that are refused.
func (d *Desk) Refused(ctx context.Context) ([]Refused, error) {
	if err := d.Live(); err != nil {
		return nil, err
	}
	suspended, err := guilty(ctx, d.m)
	out := []Refused{}
	for _, name := range bannedBy(d.cfg.Members) {
		r := Refused{Name: name, Standing: trust.Banned.String()}
		if p, is := suspended[name]; is {
			r.Standing, r.Deliverer = p.Standing, p.Deliverer
		}
		out = append(out, r)
	}
	return out, err
}

// guilty are the peers that get no tasks for what they delivered, by their ids and their accounts.
func guilty(ctx context.Context, m Running) (map[string]PeerTrust, error) {
	all, err := m.TrustPeers(ctx)
	out := map[string]PeerTrust{}
	for i := range all {
		p := &all[i]
		if p.Standing != trust.Suspended && p.Standing != trust.Banned {
			continue
		}
		for _, name := range []string{p.ID, p.Account} {
			if name != "" {
				out[name] = peerTrustOf(p)
			}
		}
	}
	return out, err
}

// Backup writes everything into a new folder on the manager's machine.
func (d *Desk) Backup(ctx context.Context, dir string) error {
	if err := d.Live(); err != nil {
		return err
	}
	if !filepath.IsAbs(dir) {
		return fmt.Errorf("%w: %q is no absolute path of a folder", ErrAsk, dir)
	}
	return d.cfg.Backup(ctx, filepath.Clean(dir))
}
