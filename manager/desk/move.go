package desk

import (
	"context"
	"fmt"
)

// States of a migration.
const (
	MoveCopies = "copying" // the manager runs meanwhile
	MovePauses = "pausing" // it does not, until all is moved
	MoveDone   = "done"
	MoveFailed = "failed" // the manager runs; what had moved before stays at the new place
)

// Move is how far a migration is, or what came of the last one.
type Move struct {
	State       string  `json:"state"` // empty: there was none since the manager started
	Says        string  `json:"says,omitempty"`
	Error       string  `json:"error,omitempty"`
	Pause       float64 `json:"pause_s,omitempty"`
	Channels    int     `json:"channels"`
	Items       int     `json:"items"` // channels, hosts, candidates, cursors, counters, states
	To          string  `json:"to,omitempty"`
	Kept        string  `json:"kept,omitempty"` // what is left of the channel database before
	Files       int     `json:"files"`
	Records     int     `json:"records"`
	Captures    int     `json:"captures"`
	Bytes       int64   `json:"bytes"`
	ArchiveKept string  `json:"archive_kept,omitempty"` // what is left of the archive before; empty: it stays where it is
}

// MoveAsk says where the data goes.
type MoveAsk struct {
	To     string `json:"to"`               // URL of a PostgreSQL server, or folder
	Bucket string `json:"bucket,omitempty"` // URL of a bucket; without one the archive stays where it is
}

// Migrator moves a manager's data.
type Migrator interface {
	Begin(ctx context.Context, to, bucket string) error
	State() Move
}

// Migrate begins to move all data to another place.
func Migrate(ctx context.Context, d *Desk, ask MoveAsk) error {
	if err := canMove(d); err != nil {
		return err
	}
	if ask.To == "" {
		return fmt.Errorf("%w: to: want postgres://user:password@host:5432/database, or folder", ErrAsk)
	}
	return d.cfg.Migrator.Begin(ctx, ask.To, ask.Bucket)
}

// Migration tells how far that is.
func Migration(d *Desk) (Move, error) {
	if err := d.Live(); err != nil || d.cfg.Migrator == nil {
		return Move{}, err
	}
	return d.cfg.Migrator.State(), nil
}

func canMove(d *Desk) error {
	if err := d.Live(); err != nil {
		return err
	}
	if d.cfg.Migrator == nil {
		return fmt.Errorf("%w: this manager cannot move its data while it runs, since others share it or another program runs it: stop all, then migrate", ErrAsk)
	}
	return nil
}
