package ledger

import (
	"errors"

	"shoal/channel"
	"shoal/manager/archive/keylock"
)

// Revision is a change of a channel's pages by something else than a chunk of it: a verdict, a suspension, a purge. What it writes it makes of what it has read,
// and so does who stores a chunk. In one program the lock of the host keeps them apart. Where several write, Commit has the condition that the channel's record is
// as it was, and changes it: so does every chunk. Of two that have read the same, the later one is refused, and begins anew.
type Revision struct {
	ledger *Ledger
	id     channel.ID
	held   *keylock.Held[channelState] // nil: no other program writes
}

// Revise begins one, before anything of the channel's pages is read. Release must be called.
func (l *Ledger) Revise(id channel.ID) (r *Revision, err error) {
	r = &Revision{ledger: l, id: id}
	if l.Others.Shared() {
		r.held, err = l.lock(id)
	}
	return r, err
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

// Commit makes a job durable. ErrConflict says that another program has changed something of the channel since Revise, and that nothing is done.
func (r *Revision) Commit(j *Job) error {
	if r.held == nil {
		return r.ledger.Commit(j)
	}
	c := &r.held.Value
	n := *c
	j.condition = Change{channelKey(r.id), c.stored}
	n.revised++ // also where there is no record yet, as of a channel that has only taken pages over from another
	v, err := n.value()
	if err != nil {
		return err
	}
	n.stored = v
	j.fenced[0] = Change{j.condition.Key, v}
	err = r.ledger.Commit(j)
	switch {
	case err == nil:
		*c = n
	case errors.Is(err, ErrConflict): // what is in memory is old
		*c = channelState{}
	}
	return err
}

// Release ends it.
func (r *Revision) Release() {
	if r.held != nil {
		r.ledger.unlock(r.id, r.held)
		r.held = nil
	}
}
