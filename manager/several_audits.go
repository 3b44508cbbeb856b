package manager

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"time"

	"shoal/channel"
	"shoal/manager/dispatch"
)

// stateAudits names what a manager keeps of the hosts at which its audits are, or may be. An audit is no channel's task: without this, a manager that starts anew, and
// among several the next owner of a host, would not know that a peer is at it.
const stateAudits = "audited-hosts"

// auditedHosts are hosts with the times until which an audit that was handed out may be at them. Owned by the goroutine that makes generations durable.
type auditedHosts map[channel.HostKey]time.Time

const auditBytes = 16 // of one, stored

// mostAudited bounds what is kept; the places of errands bound what is out at a time.
const mostAudited = 4 * errandPlaces

// add notes the audits of a batch, and reports whether there were any. An audit that is claimed by its latest start has ended after two terms: it is a few pages,
// sent in one chunk.
func (a auditedHosts) add(now time.Time, batch []job, term time.Duration) (any bool) {
	maps.DeleteFunc(a, func(_ channel.HostKey, until time.Time) bool { return !until.After(now) })
	for _, j := range batch {
		if j.errand == nil {
			continue
		}
		any = true
		key, until := channel.KeyOf(j.errand.host), j.Latest.Add(2*term)
		if until.After(a[key]) && (len(a) < mostAudited || !a[key].IsZero()) {
			a[key] = until
		}
	}
	return any
}

// auditsSaid is no host: its time is when the state was written.
const auditsSaid channel.HostKey = 0

// state is the stored form. What counts evenly is written as the clock shows it now.
func (a auditedHosts) state(now time.Time) (b []byte) {
	put := func(key channel.HostKey, at time.Time) {
		b = binary.BigEndian.AppendUint64(b, uint64(key))
		b = binary.BigEndian.AppendUint64(b, uint64(at.UnixMilli()))
	}
	put(auditsSaid, now)
	for _, key := range slices.Sorted(maps.Keys(a)) {
		put(key, now.Add(a[key].Sub(now)))
	}
	return b
}

// asOf has no audit take longer than when the state was written: the clock may have been ahead then.
func (a auditedHosts) asOf(now time.Time) {
	ahead := max(a[auditsSaid].Sub(now), 0)
	delete(a, auditsSaid)
	for key := range a {
		a[key] = a[key].Add(-ahead)
	}
}

func readAudited(b []byte) (auditedHosts, error) {
	if len(b)%auditBytes != 0 {
		return nil, fmt.Errorf("manager: audited hosts in %d bytes", len(b))
	}
	a := auditedHosts{}
	for ; len(b) > 0; b = b[auditBytes:] {
		a[channel.HostKey(binary.BigEndian.Uint64(b))] = time.UnixMilli(int64(binary.BigEndian.Uint64(b[8:])))
	}
	return a, nil
}

// noteAudits makes durable at which hosts the audits of a batch will be, before any is offered.
func (p *placers) noteAudits(ctx context.Context, batch []job) error {
	if !p.audited.add(p.cfg.Now(), batch, p.cfg.Terms.Term) {
		return nil
	}
	if err := p.cfg.Store.PutState(ctx, p.epoch, stateAudits, p.audited.state(p.cfg.Now())); err != nil {
		return fmt.Errorf("write at which hosts audits are: %w", err)
	}
	return nil
}

// readAudits leaves the hosts alone at which other managers' audits may be, and those of this one before its start.
func (t *tenancy) readAudits(ctx context.Context) error {
	all, err := t.Shared.Others(ctx, stateAudits)
	if err != nil {
		return fmt.Errorf("read at which hosts audits are: %w", err)
	}
	own, err := t.Shared.State(ctx, stateAudits)
	if err != nil {
		return fmt.Errorf("read at which hosts audits are: %w", err)
	}
	for _, a := range t.auditedIn(append(all, own)) {
		if err := t.onLoop(ctx, func(now time.Time) {
			a.asOf(now)
			t.leaveAudited(now, a)
		}); err != nil {
			return err
		}
	}
	return nil
}

// auditedIn reads what managers keep of the hosts at which their audits are.
func (c *core) auditedIn(states [][]byte) (all []auditedHosts) {
	for _, b := range states {
		a, err := readAudited(b)
		if err != nil { // of a version that writes it otherwise: one request may then meet an audit at a host, which is no reason to stop
			c.log.Warn("it is not known at which hosts audits of a manager are", "err", err)
			continue
		}
		all = append(all, a)
	}
	return all
}

// leaveAudited leaves hosts alone at which audits may be. Called on the loop.
func (c *core) leaveAudited(now time.Time, a auditedHosts) {
	for key, until := range a {
		if until.After(now) && c.tenancy.mine(key) {
			dispatch.LeaveNoted(c.machine, key, c.soonest(now, until))
		}
	}
}

// restoreAudits goes on with what was kept before this start: of the hosts at which audits may still be it tells the next start, too. One that has all partitions leaves
// them alone at once; one of several when it takes theirs.
func (p *placers) restoreAudits(ctx context.Context, now time.Time) error {
	own, err := p.cfg.Store.State(ctx, stateAudits)
	states := [][]byte{own}
	if err == nil && p.tenancy == nil {
		var others [][]byte
		others, err = p.cfg.Store.Kept(ctx, stateAudits)
		states = append(states, others...)
	}
	if err != nil {
		return fmt.Errorf("read at which hosts audits are: %w", err)
	}
	for _, a := range p.auditedIn(states) {
		a.asOf(now)
		for key, until := range a {
			if until = p.soonest(now, until); until.After(now) && until.After(p.audited[key]) {
				p.audited[key] = until
			}
		}
	}
	if p.tenancy == nil {
		p.leaveAudited(now, p.audited)
	}
	return nil
}
