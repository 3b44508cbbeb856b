package desk

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"shoal/channel"
)

// MaxUses bounds the peers of one invite.
const MaxUses = 100_000

// Invite makes a join string for a number of peers.
func (d *Desk) Invite(uses uint32) (join string, err error) {
	if err := d.Live(); err != nil {
		return "", err
	}
	if uses < 1 || uses > MaxUses {
		return "", fmt.Errorf("%w: an invite for %d peers: want 1 to %d", ErrAsk, uses, MaxUses)
	}
	return d.cfg.Members.Invite(uses)
}

// Ban refuses a peer or an account from now on, or no longer.
func (d *Desk) Ban(peer string, banned bool) error {
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
	return d.cfg.Members.Ban(peer, banned)
}

// Banned are the peers and accounts that are refused.
func (d *Desk) Banned() ([]string, error) {
	if err := d.Live(); err != nil {
		return nil, err
	}
	return d.cfg.Members.Banned(), nil
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
