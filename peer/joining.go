package peer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"shoal/internal/member"
	"shoal/internal/wire"
)

// Joined is what a computer has become a member of.
type Joined struct {
	Peer     string           `json:"peer"`
	Network  member.NetworkID `json:"-"`
	Name     string           `json:"network_name,omitempty"` // as the company calls it
	Contact  string           `json:"contact,omitempty"`      // of the company
	NotAfter time.Time        `json:"member_until"`           // renewed in time, while the peer runs
}

// Offer is a membership that its volunteer has not agreed to yet. Nothing of it is on the disk but this computer's key.
type Offer struct {
	Joined
	dir  string
	kept wire.Kept
	have bool // there was something to keep
}

// Look asks a network to take the folder of cfg, and keeps nothing. A folder that is a member already brings its membership up to date.
func Look(ctx context.Context, cfg Config) (o *Offer, err error) {
	a, err := New(cfg)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("peer: data folder: %w", err)
	}
	unlock, err := lock(filepath.Join(cfg.Dir, "lock"))
	if err != nil {
		return nil, err
	}
	defer unlock()
	o = &Offer{dir: cfg.Dir}
	a.keep = func(k wire.Kept) error {
		o.kept, o.have = k, true
		return nil
	}
	node, err := a.connect(ctx, ctx)
	if err != nil {
		return nil, err
	}
	o.Peer, o.Network = node.ID().String(), node.Network()
	if d, ok := node.Document(); ok {
		o.Name, o.Contact = d.Name, d.Contact
	}
	if c, err := member.ReadCertificate(node.Certificate()); err == nil {
		o.NotAfter = c.NotAfter
	}
	return o, node.Close()
}

// Accept keeps the membership: from now on the folder is the network's member.
func (o *Offer) Accept() error {
	if !o.have {
		return nil // it was a member, and nothing has changed
	}
	unlock, err := lock(filepath.Join(o.dir, "lock"))
	if err != nil {
		return err
	}
	defer unlock()
	_, before := wire.LoadKept(o.dir)
	if err := wire.SaveTo(o.dir)(o.kept); err != nil {
		return err
	}
	if errors.Is(before, wire.ErrNotJoined) {
		now := time.Now()
		_ = os.Chtimes(filepath.Join(o.dir, "node.key"), now, now) // Oldest goes by it; the key itself may be of a look long ago, or of a membership that was left
	}
	return nil
}

// LockRun keeps other programs from running a peer in a folder, also while it has joined no network. It returns how to end that.
func LockRun(dir string) (unlock func(), err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("peer: data folder: %w", err)
	}
	return lock(filepath.Join(dir, "run.lock"))
}
