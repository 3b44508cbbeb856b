package manager

import (
	"context"
	"errors"
	"time"

	"shoal/channel"
)

// unheard are notes of other managers that are to be done, in their order. One that fails, as while the database is away, is tried again in the next turn, and what came after it
// waits: done before it, it would be undone by it.
type unheard struct {
	notes []channel.Note
	since time.Time // the first of them has failed; zero: it has not been tried
}

const unheardFor = 2 * time.Minute // after which a note that fails makes room for those behind it

// errNote is wrapped by errors of notes that no later try could do.
var errNote = errors.New("manager: a note of another manager cannot be read")

func (u *unheard) add(notes []channel.Note) { u.notes = append(u.notes, notes...) }

// hear does them.
func (u *unheard) hear(ctx context.Context, t *tenancy) {
	for len(u.notes) > 0 {
		n, now := u.notes[0], t.cfg.Now()
		err := t.hear(ctx, n)
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return
		case errors.Is(err, errNote), !u.since.IsZero() && now.Sub(u.since).Abs() >= unheardFor:
			t.log.Warn("what another manager told is not taken in", "what", n.What, "err", err)
		default:
			if u.since.IsZero() {
				u.since = now
				t.log.Warn("what another manager told is not taken in, will try again", "what", n.What, "err", err)
			}
			return
		}
		u.notes, u.since = u.notes[1:], time.Time{}
	}
	u.notes = nil
}
