package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"shoal/channel"
	"shoal/internal/plain"
	"shoal/manager/archive/bucket"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/remote"
	"shoal/manager/desk"
)

// errMoving ends a station whose data moves: all but little is at the new place already, and the rest follows before it starts there.
var errMoving = errors.New("the data moves to another place")

// mover moves the data of a manager that runs. It outlives the stations between which it stands. Its methods may be called by several goroutines.
type mover struct {
	orders chan *migrateCmd

	mu    sync.Mutex
	now   desk.Move
	rest  *migrateCmd // what the pause is for; nil: there is none
	over  bool        // the rest has moved, or could not be
	began time.Time   // the pause
}

func newMover() *mover { return &mover{orders: make(chan *migrateCmd, 1)} }

// runAgain is what operators can do about a migration that failed.
const runAgain = "run the command again, what was copied is not copied again"

var _ desk.Migrator = (*mover)(nil)

// State implements desk.Migrator.
func (m *mover) State() desk.Move {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

func (m *mover) set(f func(*desk.Move)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f(&m.now)
}

// tell says what is done at the moment.
func (m *mover) tell(text string) { m.set(func(now *desk.Move) { now.Says = text }) }

// Begin implements desk.Migrator. From its return on State tells of this migration, and of none before.
func (m *mover) Begin(_ context.Context, to, bucketURL string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.now.State == desk.MoveCopies || m.now.State == desk.MovePauses {
		return fmt.Errorf("%w: a migration is under way already: wait for its end", desk.ErrAsk)
	}
	m.now = desk.Move{State: desk.MoveCopies, Says: "looking at both places"}
	m.orders <- &migrateCmd{To: to, Bucket: bucketURL} // has room: the one before is over
	return nil
}

// run waits for an order, copies what can be copied while the manager runs, and ends the station for the rest. What fails ends nothing.
func (m *mover) run(ctx context.Context, st *station) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case c := <-m.orders:
			err := c.copyAhead(ctx, st, m.tell)
			if err == nil {
				m.mu.Lock()
				m.rest, m.began = c, time.Now()
				m.now.State, m.now.Says = desk.MovePauses, "the manager pauses"
				m.mu.Unlock()
				return errMoving
			}
			if ctx.Err() != nil { // the next station, if there is one, tells it
				err = errors.New("the manager began anew before anything had moved: " + runAgain)
			}
			m.set(func(now *desk.Move) { now.State, now.Error = desk.MoveFailed, err.Error() })
		}
	}
}

// finish moves the rest while no station runs. The manager goes on where the data folder then says, whatever comes of it.
func (m *mover) finish(ctx context.Context, s streams, data string) {
	m.mu.Lock()
	c := m.rest
	m.mu.Unlock()
	c.Data = data
	done, err := c.moveAll(ctx, streams{io.Discard, s.err}, data)
	if err != nil {
		m.failed(s, err)
		return
	}
	m.set(func(now *desk.Move) {
		now.Channels, now.Items, now.To, now.Kept = done.Channels, done.Items, done.To, done.Kept
		if a := done.Archive; a != nil {
			now.Files, now.Records, now.Captures, now.Bytes, now.ArchiveKept = a.Segments, a.Records, a.Captures, a.Bytes, a.Kept
		}
		m.over = true
	})
}

// failed says, on the terminal and to the command that waits, that the rest could not be moved.
func (m *mover) failed(s streams, err error) {
	fmt.Fprintf(s.err, "The migration failed: %s. The manager goes on.\n", plain.Error(err))
	m.set(func(now *desk.Move) {
		now.Error, m.over = fmt.Sprintf("%v; the manager goes on: %s", err, runAgain), true
	})
}

// resumed says that a station runs again.
func (m *mover) resumed() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.rest == nil {
		return
	}
	if !m.over { // something else ended the station at that moment
		m.now.Error = "the manager began anew before the rest had moved: " + runAgain
	}
	m.rest, m.over, m.now.Pause, m.now.State, m.now.Says = nil, false, time.Since(m.began).Seconds(), desk.MoveDone, ""
	if m.now.Error != "" {
		m.now.State = desk.MoveFailed
	}
}

// copyAhead looks whether the migration can be done, and copies the pages that there are.
func (c *migrateCmd) copyAhead(ctx context.Context, st *station, tell func(string)) error {
	data, network := st.cfg.data, st.keys.Network
	url, err := databaseURL(data)
	if err != nil {
		return err
	}
	place, err := remote.Of(data)
	if err != nil {
		return err
	}
	if c.To == "folder" {
		switch {
		case c.Bucket != "":
			return errFolderBucket
		case url == "":
			return inFolderAlready(data)
		case st.cfg.db != "" || st.cfg.bucket != "":
			return fmt.Errorf("the manager was started with --db or --bucket (SHOAL_DB, SHOAL_BUCKET), and would look for its data there again: start it without them, as the folder remembers both, then migrate")
		case place == nil:
			c.ahead = &remote.Ahead{}
			return nil
		}
		place.Network = network
		c.ahead, err = remote.DownAhead(ctx, st.archive, data, *place, tell)
		return err
	}
	if url != "" && (c.Bucket == "" || c.To != url) {
		return onServerAlready(data)
	}
	if place != nil && c.Bucket != "" {
		return inBucketAlready(data)
	}
	if url == "" {
		if err := mayMoveTo(ctx, data, c.To, network); err != nil {
			return err
		}
	}
	if c.ahead = (&remote.Ahead{}); c.Bucket == "" {
		return nil
	}
	if err := bucket.Look(ctx, bucket.Config{URL: c.Bucket, Network: network}); err != nil {
		return err
	}
	c.ahead, err = remote.UpAhead(ctx, st.archive, ledger.ID(st.archive.Ledger), data, remote.Place{DB: c.To, Bucket: c.Bucket, Network: network}, tell)
	return err
}

// mayMoveTo refuses a server that holds channels which an earlier try of this migration has not left there.
func mayMoveTo(ctx context.Context, data, url string, network [32]byte) (err error) {
	scratch, err := os.MkdirTemp(data, "migrate-") // openDatabase notes the server in the folder that it is given
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	to, err := openDatabase(ctx, scratch, url, network, nil)
	if err != nil {
		return err
	}
	mark, err := markOf(data)
	if err == nil {
		if err = to.(server).MustBeEmpty(ctx); errors.Is(err, channel.ErrNotEmpty) && isOurs(ctx, to, mark) {
			err = nil
		}
	}
	return errors.Join(err, to.Close())
}
