package manager

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"shoal/channel"
)

// What managers tell each other: what an operator asked one of them for, and another one has to do.
const (
	noteAdopt    = "adopt"     // channels were added
	noteEdited   = "edited"    // a channel was changed
	noteForget   = "forget"    // a channel was removed
	noteBlocked  = "blocked"   // of a host: why, or that it is not any more
	noteReset    = "reset"     // what was known of a host is forgotten
	noteStandOff = "stand off" // a task was called back
	noteCrawl    = "crawl now"
	notePause    = "pause"
	noteStrategy = "strategy"
	noteLimits   = "limits"
	noteTrust    = "trust"
	noteWatch    = "on watch" // a channel had trouble
	noteNeed     = "need"     // what a manager has of the swarm, and what more of it would be worth
	noteOther    = "other: "  // begins what is for others than the manager
)

// NoteEnds is told by a manager that was asked to end; its body is what Several.About makes.
const NoteEnds = "ends"

// noted is the body of a note. Which fields it has depends on what it tells.
type noted struct {
	ID          channel.ID `json:",omitempty"`
	First, Last channel.ID `json:",omitempty"`
	Host, Why   string     `json:",omitempty"`
	Paused      bool       `json:",omitempty"`
	Whole       bool       `json:",omitempty"`
	Before      []byte     `json:",omitempty"` // a channel
	After       []byte     `json:",omitempty"`
	Site        []byte     `json:",omitempty"` // trust.Machine's of a channel

	Strategy *StrategyChoice `json:",omitempty"`
	Limits   *Limits         `json:",omitempty"`
	Trust    *TrustChoice    `json:",omitempty"`
	Need     *need           `json:",omitempty"`
}

// tellWithin bounds how long managers are told of what is done.
const tellWithin = 30 * time.Second

// tell tells the other managers of what was done here, if there are any. They are told though who asked for it has hung up.
func (c *core) tell(ctx context.Context, what string, n noted) error {
	if c.tenancy == nil || heardOf(ctx) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tellWithin)
	defer cancel()
	return c.mention(ctx, what, n)
}

// mention is tell of what is told again before long.
func (c *core) mention(ctx context.Context, what string, n noted) error {
	b, err := json.Marshal(n)
	if err == nil {
		told := channel.Note{What: what, Body: b}
		if err = c.tenancy.Shared.Tell(ctx, told); err == nil {
			c.tenancy.delay(told)
		}
	}
	if err != nil {
		return fmt.Errorf("tell the other managers: %w", err)
	}
	return nil
}

// heardKey marks what follows from a note, of which no other manager is told again.
type heardKey struct{}

func heardOf(ctx context.Context) bool { return ctx.Value(heardKey{}) != nil }

// elsewhere reports whether another manager has a channel that this one does not have. There must be one.
func (ro *roster) elsewhere(ctx context.Context, id channel.ID) (bool, error) {
	if ro.tenancy == nil {
		return false, nil
	}
	known := false
	err := ro.onLoop(ctx, func(time.Time) { _, known = ro.table.Find(id) })
	return !known, err
}

// hearNote does what another manager told.
func (m *Manager) hearNote(ctx context.Context, n channel.Note) error {
	ctx = context.WithValue(ctx, heardKey{}, true)
	var t noted
	if err := json.Unmarshal(n.Body, &t); err != nil {
		return errors.Join(errNote, err)
	}
	switch what := n.What; {
	case what == noteAdopt:
		_, err := m.Adopt(ctx, t.First, t.Last, func() {})
		return err
	case what == noteBlocked:
		return m.SetBlocked(ctx, t.Host, t.Why)
	case what == noteReset:
		return m.ResetHost(ctx, t.Host)
	case what == noteStandOff:
		return m.StandOff(ctx, t.ID, t.Host)
	case what == noteStrategy && t.Strategy != nil:
		return m.UseStrategy(ctx, *t.Strategy)
	case what == noteNeed && t.Need != nil:
		m.tenancy.needs[t.Need.Tenancy] = t.Need.Need
		return nil
	case what == noteLimits && t.Limits != nil:
		return m.UseLimits(ctx, t.Limits.kept(m.cfg.Tick))
	case what == noteTrust && t.Trust != nil:
		_, err := m.SetTrust(ctx, *t.Trust)
		return err
	}
	return m.hearOfChannel(ctx, n.What, t)
}

// hearOfChannel does what concerns one channel, if it is this manager's.
func (m *Manager) hearOfChannel(ctx context.Context, what string, t noted) error {
	var before, after channel.Channel
	var err error
	if t.Before != nil {
		if before, err = channel.ParseChannel(t.Before); err != nil {
			return errors.Join(errNote, err)
		}
		t.ID = before.ID
	}
	if t.After != nil {
		if after, err = channel.ParseChannel(t.After); err != nil {
			return errors.Join(errNote, err)
		}
	}
	if away, err := m.roster.elsewhere(ctx, t.ID); err != nil || away {
		return err
	}
	switch what {
	case noteEdited:
		return m.Edited(ctx, &before, &after)
	case noteForget:
		return m.Forget(ctx, &before)
	case noteCrawl:
		return m.crawlNow(ctx, t.ID, t.Whole)
	case notePause:
		return m.Pause(ctx, t.ID, t.Paused)
	case noteWatch:
		return heir{m.auditor}.hearWatch(ctx, t.ID, t.Site)
	}
	return fmt.Errorf("%w: %q is not known to this version", errNote, what)
}

// TellOthers tells the other managers' Several.Heard something.
func (c *core) TellOthers(ctx context.Context, what string, body []byte) error {
	if c.tenancy == nil {
		return nil
	}
	return c.tenancy.Shared.Tell(ctx, channel.Note{What: noteOther + what, Body: body})
}
