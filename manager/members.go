package manager

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"shoal/manager/conduct"
	"shoal/overlay"
)

// members keeps book of what members did, for operators to see. The loop and the archive's goroutines write to it.
type members struct {
	mu    sync.Mutex
	book  *conduct.Book
	since time.Time // when was looked at who has as many tasks as it may have
}

const (
	stateConduct = "manager/conduct" // what the database keeps of the book. A crash undoes half a minute of it
	fullEvery    = 2 * time.Second
	mostSuspects = 200 // members that are shown
)

// newMembers makes an empty book. A member attracts too much if it has its full share for longer than a sixth of a lease.
func newMembers(term time.Duration) *members { return &members{book: conduct.New(term / 6)} }

// Deed notes what a member did. Any goroutine may call it.
func (m *members) Deed(now time.Time, peer, account string, d conduct.Deed, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.book.Note(now, peer, account, d, n)
}

// waste notes a task that came to nothing by the doing of the member that took it at some time.
func (m *members) waste(now, took time.Time, peer, account string, d conduct.Deed) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.book.Waste(now, took, peer, account, d)
}

// suspects are the members that an operator should look at, and how many there are.
func (m *members) suspects(now time.Time) ([]conduct.Member, int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.book.Suspects(now, mostSuspects)
}

// look takes in, now and then, which members have all the tasks that one member may have.
func (m *members) look(now time.Time, judge *overlay.Judge) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now.Sub(m.since) >= fullEvery {
		m.since = now
		m.book.Full(now, judge.AtShare())
	}
}

func (m *members) state(now time.Time) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.book.AppendState(now)
}

func (m *members) restore(state []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.book.Restore(state)
}

// Deed notes what the archive tells of a member.
func (c *core) Deed(peer, account string, d conduct.Deed, n int) {
	c.members.Deed(c.cfg.Now(), peer, account, d, n)
}

// noteDeed notes what a member did with a task.
func (c *core) noteDeed(now time.Time, peer string, d conduct.Deed, n int) {
	c.members.Deed(now, peer, c.knownAccount(peer), d, n)
}

// noteWaste notes a task that came to nothing by the doing of the member that took it at some time.
func (c *core) noteWaste(now, took time.Time, peer string, d conduct.Deed) {
	c.members.waste(now, took, peer, c.knownAccount(peer), d)
}

// knownAccount is the account of a member; empty: it is not known now.
func (c *core) knownAccount(peer string) string {
	if p := c.cfg.Swarm.View().Find(overlay.ID(peer)); p != nil {
		return p.Account
	}
	return ""
}

// recallMembers reads the book of a manager before this one. What cannot be read is begun anew: it is for people alone.
func (c *core) recallMembers(ctx context.Context) error {
	all, err := c.kept(ctx, stateConduct)
	if err != nil {
		return fmt.Errorf("read what members did: %w", err)
	}
	for _, b := range slices.Backward(all) { // of what several managers knew of a member, the last one's word counts
		if err := c.members.restore(b); err != nil {
			c.log.Warn("what members did is forgotten", "err", err)
		}
	}
	return nil
}

// keepMembers writes the book.
func (c *core) keepMembers(ctx context.Context, now time.Time) error {
	b, err := c.members.state(now)
	if err != nil {
		return err
	}
	return c.cfg.Store.PutState(ctx, c.epoch, stateConduct, b)
}
