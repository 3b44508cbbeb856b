package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"shoal/internal/member"
	"shoal/internal/wire"
	"shoal/manager"
)

// A ban is made at one manager. It writes the list of all bans into the database, for those that start later, and tells
// others, if there are any, in a note, which each hears within a second. Each ends what the member has open there, and the claims that it has granted.

// noteBanned is what managers call a bannedNote.
const noteBanned = "banned"

// bannedNote tells that a peer or an account was banned, or forgiven.
type bannedNote struct {
	Name     string    `json:"name"`
	Refuse   bool      `json:"refuse"`
	Prefixes []string  `json:"prefixes,omitempty"`
	At       time.Time `json:"at"`
	// More says that another manager has banned it, and that it had these prefixes too.
	More bool `json:"more,omitempty"`
}

// barred are the connected peers that a name means: a peer's or an account's.
func (st *station) barred(name string) []wire.Connected {
	return st.node.Members(func(m wire.Member) bool {
		return m.Role == member.Peer && (m.Peer.String() == name || m.Account == name)
	})
}

// bar bans, or forgives, by an operator's word, and tells the other managers.
func (st *station) bar(n bannedNote) error {
	st.barring.Lock()
	defer st.barring.Unlock()
	of, err := st.set(&n)
	if err != nil {
		return err
	}
	var failed []error
	if err := st.publish(time.Now()); err != nil {
		failed = append(failed, fmt.Errorf("the ban is kept, but the network does not know of it yet: %w; the manager tells it as soon as it can", err))
	}
	if err := st.tellBanned(n); err != nil {
		failed = append(failed, fmt.Errorf("the ban is kept here, but the database does not have it, or not every manager knows of it: %w; ban once more", err))
	}
	return errors.Join(append(failed, st.evict(n, of))...)
}

// set keeps a ban, or that it was lifted, with the prefixes of those whom it means and that are connected here.
func (st *station) set(n *bannedNote) (of []wire.Connected, err error) {
	if n.Refuse {
		of = st.barred(n.Name)
	}
	for _, m := range of {
		if p := member.Prefix(m.Addr); m.Addr.IsValid() && !m.Addr.IsLoopback() && !slices.Contains(n.Prefixes, p) {
			n.Prefixes = append(n.Prefixes, p)
		}
	}
	return of, st.members.set(n.Name, n.Refuse, n.Prefixes, n.At)
}

// evict frees what those have claimed whom a ban means, and what they took and have not begun.
func (st *station) evict(n bannedNote, of []wire.Connected) error {
	if !n.Refuse {
		return nil
	}
	names := []string{n.Name}
	if id, err := peer.Decode(n.Name); err == nil {
		names[0] = id.String()
	}
	for _, m := range of {
		names = append(names, m.Peer.String())
	}
	ctx, cancel := context.WithTimeout(context.Background(), evictTime)
	defer cancel()
	_, err := st.archive.Evict(ctx, names)
	if st.manager != nil {
		err = errors.Join(err, st.manager.TakeBackFrom(ctx, names...))
	}
	if err != nil {
		return fmt.Errorf("the ban is kept, but not all that it has is freed: %w; ban once more, or wait until its leases end", err)
	}
	return nil
}

const evictTime = 10 * time.Second

// heard takes in what another manager told.
func (st *station) heard(what string, body []byte) {
	if what == noteReleases {
		st.releases.wakeUp()
	}
	if what == manager.NoteEnds {
		var a about
		if json.Unmarshal(body, &a) == nil {
			st.publishing.Lock()
			st.others.end(a)
			st.publishing.Unlock()
		}
	}
	if what != noteBanned {
		return
	}
	var n bannedNote
	err := json.Unmarshal(body, &n)
	if err == nil {
		err = st.hearBanned(n)
	}
	if err != nil {
		st.cfg.log.Error("a ban of another manager is not taken in as a whole", "who", n.Name, "err", err)
	}
}

// hearBanned does what a ban means here. It writes the list of all bans once more, as two managers that ban at the same time write lists without each
// other's; and it tells the others what prefixes the member had here.
func (st *station) hearBanned(n bannedNote) error {
	st.barring.Lock()
	defer st.barring.Unlock()
	if n.More && !slices.Contains(st.members.list(), n.Name) {
		return nil // forgiven meanwhile
	}
	for _, b := range st.members.all().Banned {
		if b.Name == n.Name {
			n.Prefixes = append(n.Prefixes, b.Prefixes...)
		}
	}
	slices.Sort(n.Prefixes)
	n.Prefixes = slices.Compact(n.Prefixes)
	known := len(n.Prefixes)
	of, err := st.set(&n)
	if err != nil {
		return err
	}
	failed := []error{st.publish(time.Now()), st.evict(n, of), st.members.noteTold(n.Name)}
	if len(n.Prefixes) > known {
		n.More = true
		failed = append(failed, st.tellBanned(n))
	} else {
		failed = append(failed, st.keepBanned())
	}
	return errors.Join(failed...)
}

// keepBanned writes who is banned into the database.
func (st *station) keepBanned() error {
	b, err := json.Marshal(st.members.all())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), evictTime)
	defer cancel()
	return st.db.PutState(ctx, st.manager.Epoch(), manager.StateBanned, b)
}

// tellBanned tells the other managers, and those that start later. The list comes first: a manager that starts reads it after the moment from which
// on it hears notes.
func (st *station) tellBanned(n bannedNote) error {
	if st.manager == nil {
		return nil
	}
	b, err := json.Marshal(n)
	if err != nil {
		return err
	}
	failed := st.keepBanned()
	ctx, cancel := context.WithTimeout(context.Background(), evictTime)
	defer cancel()
	if err := errors.Join(failed, st.manager.TellOthers(ctx, noteBanned, b)); err != nil {
		return err
	}
	return st.members.noteTold(n.Name)
}

// recallBanned takes in who was banned before this manager started, also where it has the network for itself: others may have banned somebody while it was away.
// Those whom it has banned and told none of stay banned.
func (st *station) recallBanned(ctx context.Context) error {
	b, err := st.db.State(ctx, manager.StateBanned)
	if err != nil || b == nil {
		return err
	}
	var f bannedFile
	if err := json.Unmarshal(b, &f); err != nil {
		return fmt.Errorf("who is banned, in the database: %w", err)
	}
	if err := st.members.join(f.Banned, time.Now()); err != nil {
		return err
	}
	return st.publish(time.Now())
}

// shareBanned takes in who was banned while this manager started, and has the others know whom it has banned while it was alone.
func (st *station) shareBanned(ctx context.Context) error {
	if err := st.recallBanned(ctx); err != nil {
		return err
	}
	if st.others == nil {
		return errors.Join(st.keepBanned(), st.members.noteTold(st.members.list()...))
	}
	for _, b := range st.members.all().Banned {
		if b.Told {
			continue
		}
		if err := st.bar(bannedNote{Name: b.Name, Refuse: true, Prefixes: b.Prefixes, At: b.Since}); err != nil {
			return err
		}
	}
	return st.keepBanned()
}
