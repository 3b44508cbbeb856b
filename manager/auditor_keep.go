package manager

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"shoal/channel"
	"shoal/manager/archive"
	"shoal/manager/trust"
	"shoal/manager/trust/compare"
)

// rules reads what the operator has set; first says that no manager before this one had a Machine, fresh that this one had none.
func (au *auditor) rules(ctx context.Context) (c trust.Config, first, fresh bool, err error) {
	c = trust.Default()
	b, err := au.cfg.Store.State(ctx, stateTrust)
	if err != nil {
		return c, false, false, fmt.Errorf("read the rules of trust: %w", err)
	}
	if b != nil {
		if err := json.Unmarshal(b, &c); err != nil {
			return c, false, false, fmt.Errorf("the rules of trust in the database are damaged: %w", err)
		}
	}
	c.Arbiter = au.cfg.Arbiter != nil
	c.Slack = slackOf(au.cfg.Tick)
	first, fresh = b == nil, b == nil
	if au.tenancy != nil { // all managers go by the same rules, and each has a Machine of its own
		at, err := au.cfg.Store.State(ctx, stateTrustAt)
		if err != nil {
			return c, false, false, fmt.Errorf("read up to where the feed was judged: %w", err)
		}
		if fresh = at == nil; fresh { // what the others know of peers comes with the first hosts
			all, err := au.tenancy.Shared.Others(ctx, stateTrustAt)
			if err != nil {
				return c, false, false, fmt.Errorf("read up to where the feed was judged: %w", err)
			}
			first = first && len(all) == 0 // the first one keeps the rules before it runs, and its cursor once it has judged something
		} else {
			first = false
		}
	}
	return c, first, fresh, c.Validate()
}

// slackOf is by how much servers' dates may be wrong. In a pond, whose ticks are shorter than a minute, everything goes so much faster.
func slackOf(tick time.Duration) time.Duration {
	slack := trust.Default().Slack
	if tick < time.Minute {
		slack = max(time.Duration(float64(slack)*tick.Minutes()), time.Second)
	}
	return slack
}

// keepRules writes them.
func (au *auditor) keepRules(ctx context.Context, c trust.Config) error {
	b, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return au.cfg.Store.PutState(ctx, au.epoch, stateTrust, b)
}

// agree has the Machine and the archive agree on who is suspended. Whom the Machine has suspended, the archive suspends again: one whose database was made anew knows
// of nobody. Whom the archive alone has suspended, the Machine takes for suspended, so that an operator can decide about it: its state was not written before a kill, is
// that of an older backup, or that of a manager among several. But a pardon that is written and not carried out stays one, here or at another manager.
//
// Among several managers it comes first what the others know: one that was away while a peer was pardoned must not suspend it again.
func (au *auditor) agree(ctx context.Context) error {
	if au.tenancy != nil {
		shards, err := othersOf(ctx, au.tenancy.Shared, trust.PeerShards())
		if err != nil {
			return fmt.Errorf("read what other managers know of peers: %w", err)
		}
		for _, s := range trust.PeerShards() {
			adopt(au, s, shards[s.Name()])
		}
	}
	pardoned, err := au.sentences.pardoned(ctx)
	if err != nil {
		return err
	}
	held, err := au.cfg.Archive.Suspensions(ctx)
	if err != nil {
		return err
	}
	for _, p := range au.trust.Peers() {
		if p.Standing < trust.Suspended {
			continue
		}
		if err := au.cfg.Archive.Suspend(ctx, p.Peer); err != nil {
			return err
		}
	}
	for _, s := range held {
		n := trust.Peer(archive.DelivererOf(s.Deliverer))
		p, known := au.trust.Peer(n)
		switch {
		case s.Pardon || p.Standing >= trust.Suspended || known && pardoned[n]:
			continue
		case !known:
			if err := au.joinAgain(ctx, au.trust, n); err != nil {
				return err
			}
		}
		if au.trust.Convict(n) {
			au.log.Warn("a peer is suspended in the archive, and is so here from now on", "number", s.Deliverer)
		}
	}
	au.ruled()
	return nil
}

// joinAgain tells a Machine of a peer that has delivered, and of which it knows nothing.
func (c *core) joinAgain(ctx context.Context, m *trust.Machine, n trust.Peer) error {
	account := ""
	known, err := c.cfg.Archive.Deliverers(ctx, archive.DelivererName(uint64(n)))
	if err != nil {
		return fmt.Errorf("read who has delivered: %w", err)
	}
	for _, d := range known {
		account = cmp.Or(d.Account, d.Peer)
	}
	as := trust.Account(n)
	if account != "" {
		as = trust.Account(c.number(account))
	}
	m.Join(n, as, trust.Prefix(n)) // where it is shows when it comes back
	return nil
}

// keepPeer writes what is known of a peer, before something follows from it that outlives a kill. Called on the loop.
func (au *auditor) keepPeer(n trust.Peer) error {
	au.endWrite() // it has the peer as it was before
	ctx, cancel := context.WithTimeout(context.Background(), moveWait)
	defer cancel()
	s := trust.ShardOf(n)
	if err := au.cfg.Store.PutState(ctx, au.epoch, s.Name(), au.trust.Append(nil, s)); err != nil {
		return fmt.Errorf("what is known of a peer is not written yet, and a restart now would forget what was decided: %w", err)
	}
	return nil
}

// kept is what is to be written of an auditor's state.
type kept struct {
	names  []string
	states [][]byte
	shards []trust.Shard
	hosts  bool
	at     string // the feed's cursor: all before it is judged
}

// collect gathers what has changed. What was judged before a crash and is not written yet is not judged again where its records are stored: a crash undoes half
// a minute of scores.
func (au *auditor) collect(now time.Time) (k kept, err error) {
	au.savedAt = now
	if d := now.Sub(au.worked); d > 0 {
		au.trust.Worked(d.Hours() / 24 * float64(au.nearby()))
		au.worked = now
	}
	put := func(name string, state []byte) { k.names, k.states = append(k.names, name), append(k.states, state) }
	k.shards = slices.Concat(au.unsaved, au.trust.Changed())
	au.unsaved = nil
	for _, s := range k.shards {
		put(s.Name(), au.trust.Append(nil, s))
	}
	if k.hosts = au.taught; k.hosts {
		put(stateTrustHosts, hostsState(au.hosts))
		au.taught = false
	}
	errands, err := au.errandsState()
	if err != nil {
		return k, err
	}
	if !bytes.Equal(errands, au.keptErrands) {
		au.keptErrands = errands
		put(stateErrands, errands)
	}
	if au.first { // after the shards: a manager that is killed in between vouches again
		b, err := json.Marshal(au.trust.Config())
		if err != nil {
			return k, err
		}
		put(stateTrust, b)
	}
	k.at = au.keep.cursor
	if len(au.unread) > 0 {
		k.at = au.unread[0].before
	}
	if k.at != au.cursor {
		put(stateTrustAt, []byte(k.at)) // last
	}
	return k, nil
}

// write writes it.
func (au *auditor) write(ctx context.Context, k *kept) error {
	for i, name := range k.names {
		if err := au.cfg.Store.PutState(ctx, au.epoch, name, k.states[i]); err != nil {
			return fmt.Errorf("write what is known of peers, %s: %w", name, err)
		}
	}
	return nil
}

// wrote takes in what came of that. Called on the loop, or in its stead.
func (au *auditor) wrote(k *kept, err error) {
	if err != nil {
		au.log.Error("what is known of peers is not kept", "err", err)
		au.keptErrands = nil
		au.unsaved, au.taught = append(au.unsaved, k.shards...), au.taught || k.hosts
		return
	}
	au.first, au.cursor = false, k.at
}

// save writes all that has changed, and waits for that.
func (au *auditor) save(ctx context.Context, now time.Time) error {
	k, err := au.collect(now)
	if err == nil {
		err = au.write(ctx, &k)
	}
	au.wrote(&k, err)
	return err
}

// keepUp writes now and then what has changed, beside the loop.
func (au *auditor) keepUp(ctx context.Context, now time.Time) {
	if au.writing != nil || now.Sub(au.savedAt) < trustEvery {
		return
	}
	k, err := au.collect(now)
	if err != nil || len(k.names) == 0 {
		return
	}
	done := make(chan struct{})
	au.writing = done
	au.beside.Go(func() {
		err := au.write(ctx, &k)
		au.written, au.writeErr = &k, err
		close(done)
		au.post(ctx, func(time.Time) { au.endWrite() })
	})
}

// endWrite takes in a write that has ended beside the loop, once.
func (au *auditor) endWrite() {
	if au.writing == nil {
		return
	}
	<-au.writing
	au.writing = nil
	au.wrote(au.written, au.writeErr)
}

// keepAll saves all at the end.
func (au *auditor) keepAll(ctx context.Context, now time.Time) {
	au.endWrite()
	_ = au.save(ctx, now) // it is logged
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

// hostsState is the stored form of what was learnt of hosts.
func hostsState(hosts map[channel.HostKey]*compare.Host) []byte {
	b := []byte{hostsV1}
	for _, key := range slices.Sorted(maps.Keys(hosts)) {
		h := hosts[key]
		b = binary.BigEndian.AppendUint64(b, uint64(key))
		b = append(b, h.Alike, h.Links, h.Others, h.Length, byte(h.Loose), h.Learnt, h.Unloose)
	}
	return b
}

func (au *auditor) restoreHosts(ctx context.Context) error {
	b, err := au.cfg.Store.State(ctx, stateTrustHosts)
	switch {
	case err != nil:
		return fmt.Errorf("read what is learnt of hosts' pages: %w", err)
	case b == nil:
		return nil
	}
	au.takeHosts(b)
	return nil
}

// takeHosts takes in what was learnt of hosts of which nothing is known here.
func (au *auditor) takeHosts(b []byte) {
	if len(b) == 0 || b[0] != hostsV1 || (len(b)-1)%hostSize != 0 {
		au.log.Warn("what was learnt of hosts' pages cannot be read, and is learnt anew", "bytes", len(b))
		return
	}
	for b = b[1:]; len(b) > 0 && len(au.hosts) < maxAudited; b = b[hostSize:] {
		key := channel.HostKey(binary.BigEndian.Uint64(b))
		if au.hosts[key] == nil {
			au.hosts[key] = &compare.Host{Alike: b[8], Links: b[9], Others: b[10], Length: b[11], Loose: compare.Differ(b[12]), Learnt: b[13], Unloose: b[14]}
		}
	}
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
