package manager

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"shoal/channel"
	"shoal/internal/plain"
	"shoal/manager/trust"
	"shoal/manager/trust/compare"
)

// rules reads what the operator has set; first says that no manager before this one had a Machine.
func (au *auditor) rules(ctx context.Context) (c trust.Config, first bool, err error) {
	c = trust.Default()
	b, err := au.cfg.Store.State(ctx, stateTrust)
	if err != nil {
		return c, false, fmt.Errorf("read the rules of trust: %w", err)
	}
	if b != nil {
		if err := json.Unmarshal(b, &c); err != nil {
			return c, false, fmt.Errorf("the rules of trust in the database are damaged: %w", err)
		}
	}
	c.Arbiter = au.cfg.Arbiter != nil
	return c, b == nil, c.Validate()
}

// keepRules writes them.
func (au *auditor) keepRules(ctx context.Context, c trust.Config) error {
	b, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return au.cfg.Store.PutState(ctx, au.epoch, stateTrust, b)
}

// save writes what has changed of the Machine's state, and up to where the feed was judged. What was judged before a crash and is not written yet is judged
// again of the same records, which changes nothing but that a task may count twice.
func (au *auditor) save(ctx context.Context, now time.Time, final bool) error {
	if !final && now.Sub(au.savedAt) < trustEvery {
		return nil
	}
	au.savedAt = now
	if d := now.Sub(au.worked); d > 0 {
		au.trust.Worked(d.Hours() / 24 * float64(au.nearby()))
		au.worked = now
	}
	if au.first {
		if err := au.keepRules(ctx, au.trust.Config()); err != nil {
			return err
		}
		au.first = false
	}
	changed := append(au.unsaved, au.trust.Changed()...)
	for i, s := range changed {
		if err := au.cfg.Store.PutState(ctx, au.epoch, s.Name(), au.trust.Append(nil, s)); err != nil {
			au.unsaved = slices.Clone(changed[i:])
			return err
		}
	}
	au.unsaved = nil
	if err := au.keepHosts(ctx, final); err != nil {
		return err
	}
	at := au.keep.cursor
	if len(au.unread) > 0 {
		at = au.unread[0].before
	}
	if at == au.cursor {
		return nil
	}
	if err := au.cfg.Store.PutState(ctx, au.epoch, stateTrustAt, []byte(at)); err != nil {
		return err
	}
	au.cursor = at
	return nil
}

// keepUp saves now and then, and tells people if that fails. Called on the loop.
func (au *auditor) keepUp(ctx context.Context, now time.Time) {
	if err := au.save(ctx, now, false); err != nil && ctx.Err() == nil {
		au.tally.notice(noticeStore, "Nothing new is taken in: "+plain.Error(err))
		au.log.Error("what is known of peers is not kept", "err", err)
	}
}

// keepAll saves all at the end.
func (au *auditor) keepAll(now time.Time) {
	ctx, cancel := context.WithTimeout(context.Background(), saveTimeout)
	defer cancel()
	if err := au.save(ctx, now, true); err != nil {
		au.log.Error("what is known of peers is not kept", "err", err)
	}
}

// nearby is how many established peers take tasks now.
func (au *auditor) nearby() (n int) {
	v := au.cfg.Swarm.View()
	for i := range v.Peers {
		if v.Peers[i].Load.Threads == 0 {
			continue
		}
		if a, ok := au.met[v.Peers[i].ID]; ok {
			if p, known := au.trust.Peer(a.number); known && p.Standing == trust.Established {
				n++
			}
		}
	}
	return n
}

// learntOf is what is learnt of a host; it is kept if it is learnt.
func (au *auditor) learntOf(origin string) *compare.Host {
	key := channel.KeyOf(origin)
	if h := au.hosts[key]; h != nil {
		return h
	}
	return &compare.Host{}
}

// learnt keeps what was learnt of a host.
func (au *auditor) learnt(origin string, h *compare.Host) {
	key := channel.KeyOf(origin)
	if au.hosts[key] == h || *h == (compare.Host{}) {
		return
	}
	if len(au.hosts) >= maxAudited {
		clear(au.hosts) // it is learnt anew
	}
	au.hosts[key] = h
	au.taught = true
}

const (
	hostsV1  = 1
	hostSize = 8 + 7
)

// keepHosts writes what was learnt of hosts, now and then.
func (au *auditor) keepHosts(ctx context.Context, final bool) error {
	if !au.taught || !final && au.savedAt.Sub(au.hostsAt) < strategyEvery {
		return nil
	}
	b := []byte{hostsV1}
	for _, key := range slices.Sorted(maps.Keys(au.hosts)) {
		h := au.hosts[key]
		b = binary.BigEndian.AppendUint64(b, uint64(key))
		b = append(b, h.Alike, h.Links, h.Others, h.Length, byte(h.Loose), h.Learnt, h.Unloose)
	}
	if err := au.cfg.Store.PutState(ctx, au.epoch, stateTrustHosts, b); err != nil {
		return err
	}
	au.hostsAt, au.taught = au.savedAt, false
	return nil
}

func (au *auditor) restoreHosts(ctx context.Context) error {
	b, err := au.cfg.Store.State(ctx, stateTrustHosts)
	switch {
	case err != nil:
		return fmt.Errorf("read what is learnt of hosts' pages: %w", err)
	case b == nil:
		return nil
	case b[0] != hostsV1 || (len(b)-1)%hostSize != 0:
		au.log.Warn("what was learnt of hosts' pages cannot be read, and is learnt anew", "bytes", len(b))
		return nil
	}
	for b = b[1:]; len(b) > 0; b = b[hostSize:] {
		h := compare.Host{Alike: b[8], Links: b[9], Others: b[10], Length: b[11], Loose: compare.Differ(b[12]), Learnt: b[13], Unloose: b[14]}
		au.hosts[channel.HostKey(binary.BigEndian.Uint64(b))] = &h
	}
	return nil
}

// catchUp reads again what the feed told of deliveries that were not judged when the manager before this one ended.
func (au *auditor) catchUp(ctx context.Context) error {
	for at := au.cursor; at != au.keep.cursor; {
		entries, next, err := au.cfg.Archive.Feed(ctx, at, feedBatch)
		if err != nil {
			return fmt.Errorf("read the deliveries that are to be judged: %w", err)
		}
		if next == at {
			return nil
		}
		for i := range entries {
			if e := &entries[i]; brought(e) > 0 {
				au.reported(at, e, 0)
			}
			if at = entries[i].Cursor; at == au.keep.cursor {
				return nil
			}
		}
		at = next
	}
	return nil
}
