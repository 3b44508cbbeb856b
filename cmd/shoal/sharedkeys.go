package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"shoal/internal/member"
	"shoal/manager"
)

// What managers that share a network have in common beside bans: the key and the count of invites, and which working keys are in others' hands.

// sharedInvites is what the database keeps of invites.
type sharedInvites struct {
	Key  []byte               `json:"key"`
	Used map[string]inviteUse `json:"used"` // by the invite's number
}

// inviteUse is how often an invite was used.
type inviteUse struct {
	Used     uint32    `json:"used"`
	NotAfter time.Time `json:"not_after"`
}

const inviteCount = 5 * time.Second // for one write

// shareInvites has this manager make and count invites together with the others.
func (st *station) shareInvites(ctx context.Context) error {
	if st.others == nil {
		return nil
	}
	var s sharedInvites
	if err := st.changeInvites(ctx, func(kept *sharedInvites) error {
		if len(kept.Key) != 32 {
			kept.Key = make([]byte, 32)
			rand.Read(kept.Key)
		}
		kept.addUses(st.issuer.Uses(time.Now())) // of the time when it had the network for itself
		s = *kept
		return nil
	}); err != nil {
		return err
	}
	st.issuer.ShareInvites([32]byte(s.Key), st.countInvite)
	return nil
}

// changeInvites changes what the database keeps of invites.
func (st *station) changeInvites(ctx context.Context, do func(*sharedInvites) error) error {
	return st.others.shared.Change(ctx, manager.StateInvites, func(b []byte) ([]byte, error) {
		s := sharedInvites{}
		if b != nil {
			if err := json.Unmarshal(b, &s); err != nil {
				return nil, fmt.Errorf("how often invites were used, in the database: %w", err)
			}
		}
		if s.Used == nil {
			s.Used = map[string]inviteUse{}
		}
		if err := do(&s); err != nil {
			return nil, err
		}
		return json.Marshal(s)
	})
}

// countInvite counts one use of an invite at all managers.
func (st *station) countInvite(u member.InviteUse) (used uint32, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), inviteCount)
	defer cancel()
	err = st.changeInvites(ctx, func(s *sharedInvites) error {
		now := time.Now()
		for id, x := range s.Used {
			if now.After(x.NotAfter) {
				delete(s.Used, id)
			}
		}
		id := hex.EncodeToString(u.ID[:])
		used = max(s.Used[id].Used, u.Before)
		if used >= u.Uses {
			return member.ErrUsedUp
		}
		used++
		s.Used[id] = inviteUse{used, u.NotAfter}
		return nil
	})
	return used, err
}

// outdated names the machines of managers that still have a working key which is in others' hands; nil: none has. The caller holds station.publishing.
func (o *others) outdated() (machines []string) {
	if len(o.about) == 0 {
		return []string{hostName()} // it is not known yet who is here
	}
	for i := range o.about {
		newest := uint64(0)
		for _, sealed := range o.about[i].Delegations {
			if d, err := member.ReadDelegation(sealed); err == nil {
				newest = max(newest, d.Serial)
			}
		}
		if newest <= o.stolen {
			machines = append(machines, o.about[i].Name)
		}
	}
	return machines
}

// keptSerial reads a working key's serial from the database; 0: there is none.
func (st *station) keptSerial(ctx context.Context, state string) (uint64, error) {
	b, err := st.db.State(ctx, state)
	if err != nil || len(b) == 0 {
		return 0, err
	}
	n, err := strconv.ParseUint(string(b), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("which working keys count no more, in the database (%s): %w", state, err)
	}
	return n, nil
}

// keepLeast has managers that come later know which working keys this one outdates that has the network for itself: members refuse those for good.
func (st *station) keepLeast(ctx context.Context) error {
	if st.others != nil {
		return nil
	}
	d, _ := st.node.Document()
	kept, err := st.keptSerial(ctx, manager.StateLeast)
	if err != nil || d.MinSerial <= kept {
		return err
	}
	return st.db.PutState(ctx, st.manager.Epoch(), manager.StateLeast, strconv.AppendUint(nil, d.MinSerial, 10))
}

// renewStolen gives this manager a new working key where its own is no better than one that was stolen from another manager, or than those that another one has
// outdated while it had the network for itself.
func (st *station) renewStolen(ctx context.Context) error {
	stolen, err := st.keptSerial(ctx, manager.StateStolen)
	if err != nil {
		return err
	}
	least, err := st.keptSerial(ctx, manager.StateLeast)
	if err != nil {
		return err
	}
	stolen = max(stolen, st.keys.Stolen)
	st.earlier.stolen = stolen
	if st.others != nil {
		st.others.stolen = stolen
	}
	old := max(stolen, max(least, 1)-1)
	if st.keys.Authority.Delegation().Serial > old {
		return nil
	}
	if !st.keys.HasRoot() {
		return fmt.Errorf("working keys up to number %d of this network count no more, as they were stolen or the network has moved to newer ones, and this manager's is number %d: put root.key into %s, or restore it with `shoal key restore`, then start again",
			old, st.keys.Authority.Delegation().Serial, st.keys.Dir)
	}
	return st.keys.Outdate(time.Now(), old)
}

// shareStolen has the other managers, and those that start later, know which working keys are in others' hands.
func (st *station) shareStolen(ctx context.Context) error {
	if st.others == nil || st.keys.Stolen == 0 {
		return nil
	}
	return st.others.shared.Change(ctx, manager.StateStolen, func(b []byte) ([]byte, error) {
		kept, err := strconv.ParseUint(string(b), 10, 64)
		if b != nil && err != nil {
			return nil, fmt.Errorf("which working keys are stolen, in the database: %w", err)
		}
		return strconv.AppendUint(nil, max(kept, st.keys.Stolen), 10), nil
	})
}

// watchStolen ends this manager when another one tells that keys as old as its own were stolen, for it to start anew with a new one.
func (st *station) watchStolen(ctx context.Context) error {
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
		st.publishing.Lock()
		stolen := st.others.stolen
		st.publishing.Unlock()
		if st.keys.Authority.Delegation().Serial <= stolen && st.keys.HasRoot() {
			return fmt.Errorf("%w: another manager's working key was stolen, and this one gets a new key too", manager.ErrEnded)
		}
	}
}
