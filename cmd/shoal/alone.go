package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"shoal/internal/member"
	"shoal/manager"
)

// A manager that has a network for itself may go on after managers that had shared it. What their working keys have signed is still good, and so are invites that
// they made: volunteers of a closed network whose home was another manager would be shut out without that.

// keyGood is for how long what a working key has signed may be shown after its manager was seen last: a certificate can be renewed for a while after its end.
const keyGood = member.RenewalLife

// keysKept bounds the working keys that are kept in the database.
const keysKept = 64

// earlier is what a manager that has a network for itself knows of those that had shared it.
type earlier struct {
	keys   []keyUsed
	stolen uint64 // up to this serial working keys are in others' hands
}

// recallEarlier reads what managers left that had shared the network; nothing if there was one all the time.
func (st *station) recallEarlier(ctx context.Context) error {
	if st.others != nil {
		return nil
	}
	b, err := st.db.State(ctx, manager.StateKeys)
	if err == nil && b != nil {
		err = json.Unmarshal(b, &st.earlier.keys)
	}
	if err != nil {
		return fmt.Errorf("the working keys of managers that shared this network, in the database: %w", err)
	}
	if b, err = st.db.State(ctx, manager.StateInvites); err != nil || b == nil {
		return err
	}
	var s sharedInvites
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("how often invites were used, in the database: %w", err)
	}
	if len(s.Key) != 32 {
		return nil
	}
	st.issuer.TakeInvites([32]byte(s.Key), s.uses())
	return nil
}

// with adds the working keys that this manager had before: a volunteer that was off when the key was rotated, or its delegation renewed, is let in again, as
// after any other absence.
func (e earlier) with(own []member.Earlier, now time.Time) *earlier {
	e.keys = slices.Clone(e.keys)
	for _, k := range own {
		if k.Until.IsZero() {
			k.Until = now
		}
		e.keys = append(e.keys, keyUsed{k.Delegation, k.Until})
	}
	return &e
}

// addEarlier has a network document leave good what managers have signed that had shared the network, as it was among them.
func (e *earlier) addEarlier(d *member.Document, now time.Time) {
	for _, k := range e.keys {
		is, err := member.ReadDelegation(k.Delegation)
		if err != nil || is.Serial <= e.stolen || now.After(is.NotAfter) || now.Sub(k.Last) >= keyGood {
			continue
		}
		d.MinSerial = min(d.MinSerial, is.Serial)
		if now.Sub(k.Last) < keyKept && len(d.Delegations) < member.MaxDelegations && !slices.ContainsFunc(d.Delegations, func(have []byte) bool { return bytes.Equal(have, k.Delegation) }) {
			d.Delegations = append(d.Delegations, k.Delegation)
		}
	}
}

// uses are the invites that were used.
func (s *sharedInvites) uses() (out []member.InviteUse) {
	for id, x := range s.Used {
		if raw, err := hex.DecodeString(id); err == nil && len(raw) == 8 {
			out = append(out, member.InviteUse{ID: [8]byte(raw), Before: x.Used, NotAfter: x.NotAfter})
		}
	}
	return out
}

// addUses counts uses that a manager has granted which had the network for itself.
func (s *sharedInvites) addUses(uses []member.InviteUse) {
	for _, u := range uses {
		id := hex.EncodeToString(u.ID[:])
		if u.Before > s.Used[id].Used {
			s.Used[id] = inviteUse{u.Before, u.NotAfter}
		}
	}
}
