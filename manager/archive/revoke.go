package archive

import (
	"context"

	"shoal/channel"
)

// Revoke ends all tasks of a channel, claimed or not: what their peers still send is refused, as that of an older generation is.
func (a *Archive) Revoke(_ context.Context, id channel.ID) error {
	s, err := a.lock(id)
	if err != nil {
		return err
	}
	defer a.unlock(id, s)
	n := s.v
	step := n.fence.Revoke()
	n.peer = ""
	return a.take(id, &s.v, n, step, &job{})
}
