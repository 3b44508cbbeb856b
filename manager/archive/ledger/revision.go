package ledger

import (
	"errors"
	"slices"

	"shoal/channel"
	"shoal/manager/archive/keylock"
)

// Revision is a change of the pages of a channel, or of two, by something else than a chunk: a verdict, a suspension, a purge, a move. What it writes it makes of
// what it has read, and so does who stores a chunk. In one program the lock of the host keeps them apart. Where several write, Commit has the condition that the
// channels' records are as they were, and changes them: so does every chunk. Of two that have read the same, the later one is refused, and begins anew.
type Revision struct {
	ledger *Ledger
	held   []revised // in the order of their ids; none: no other program writes
}

// revised is a channel that a Revision holds.
type revised struct {
	id channel.ID
	*keylock.Held[channelState]
}

// Revise begins one, before anything of the channel's pages is read. Release must be called.
func (l *Ledger) Revise(id channel.ID) (*Revision, error) {
	if !l.Others.Shared() {
		return &Revision{ledger: l}, nil
	}
	return revise(l, id)
}

// ReviseBoth is Revise of two channels, of which nothing is claimed or stored until Release. Commit leaves no room for conditions of the job's own.
func (l *Ledger) ReviseBoth(a, b channel.ID) (*Revision, error) { return revise(l, a, b) }

func revise(l *Ledger, ids ...channel.ID) (*Revision, error) {
	r := &Revision{ledger: l}
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) {
		c, err := l.lock(id)
		if err != nil {
			r.Release()
			return nil, err
		}
		r.held = append(r.held, revised{id, c})
	}
	return r, nil
}

// maxRevised bounds how often a revision is begun anew, since another program has stored something of the channel meanwhile.
const maxRevised = 20

// Revised does something that makes a Revision until no other program was quicker.
func Revised(do func() error) (err error) {
	for range maxRevised {
		if err = do(); !errors.Is(err, ErrConflict) {
			return err
		}
	}
	return err
}

// Commit makes a job durable. ErrConflict says that another program has changed something of a channel since Revise, and that nothing is done.
func (r *Revision) Commit(j *Job) error {
	if !r.ledger.Others.Shared() {
		return r.ledger.Commit(j)
	}
	next := make([]channelState, len(r.held))
	for i, h := range r.held {
		n := h.Value
		was := Change{channelKey(h.id), n.stored}
		n.revised++ // also where there is no record yet, as of a channel that has only taken pages over from another
		v, err := n.value()
		if err != nil {
			return err
		}
		n.stored = v
		next[i], j.fenced[i] = n, Change{was.Key, v}
		if i == 0 {
			j.condition = was
		} else {
			j.Still[1] = was
		}
	}
	err := r.ledger.Commit(j)
	for i, h := range r.held {
		switch {
		case err == nil:
			h.Value = next[i]
		case errors.Is(err, ErrConflict): // what is in memory is old
			h.Value = channelState{}
		}
	}
	return err
}

// Release ends it.
func (r *Revision) Release() {
	for _, h := range slices.Backward(r.held) {
		r.ledger.unlock(h.id, h.Held)
	}
	r.held = nil
}
