package manager

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/manager/archive"
	"shoal/manager/trust"
)

// heir is an auditor that takes over what those of other managers know, and gives up what is theirs now.
type heir struct{ *auditor }

// adopt takes in a shard as other managers keep it.
func adopt(au *auditor, s trust.Shard, all [][]byte) {
	for _, b := range all {
		if err := au.trust.Adopt(s, b); err != nil {
			au.log.Warn("a part of what another manager knew is left out", "shard", s.Name(), "err", err)
		}
	}
}

// adoptSites takes in a shard of channels as other managers keep it. Called on the loop, or before there is one.
func adoptSites(au *auditor, s trust.Shard, all [][]byte, mine func(channel.ID) bool) {
	for _, b := range all {
		if err := au.trust.AdoptSites(s, b, mine); err != nil {
			au.log.Warn("which channels are on watch at another manager is left out in part", "shard", s.Name(), "err", err)
		}
	}
}

// inheritSites takes in what other managers know of the trouble that channels had which this one has now: which are on watch, and who lost there.
func (au heir) inheritSites(ctx context.Context, _ channel.Taken) error {
	mine := func(id channel.ID) bool { _, is := au.table.Find(id); return is }
	all, err := othersOf(ctx, au.tenancy.Shared, trust.SiteShards())
	if err != nil {
		return fmt.Errorf("read which channels are on watch: %w", err)
	}
	for _, s := range trust.SiteShards() {
		if len(all[s.Name()]) == 0 {
			continue
		}
		if err := au.onLoop(ctx, func(time.Time) { adoptSites(au.auditor, s, all[s.Name()], mine) }); err != nil {
			return err
		}
	}
	return nil
}

// takeErrands goes on with audits of another manager, of hosts that this one has now. Those that are out at a manager which is here are left to it. Of one that has
// gone they are asked for again when their hosts are free, where nothing comes of them before.
func (au heir) takeErrands(now time.Time, b []byte, parts []uint8, gone bool) {
	var kept []keptErrand
	if err := json.Unmarshal(b, &kept); err != nil {
		au.log.Warn("audits that waited at another manager cannot be read, and are lost", "err", err)
		return
	}
	au.takeKept(now, kept, parts, gone)
}

func (au heir) takeKept(now time.Time, kept []keptErrand, parts []uint8, gone bool) {
	for i := range kept {
		k := &kept[i]
		until := k.end(au.cfg.Terms.Term, au.trust.Config().WithinAudit)
		if len(k.Pages) == 0 || now.After(until) || k.out() && !gone || len(au.errands.waits) >= errandWaiting || !slices.Contains(parts, channel.KeyOf(k.Host).Part()) || au.errands.has(&k.Pages[0].Case) {
			continue
		}
		e := k.errand()
		if k.Arbiter && au.cfg.Arbiter != nil {
			au.visits.addOnce(now, &dispute{wanted: e.pages[0], origin: e.host})
			continue
		}
		if k.Arbiter { // this manager has none: a peer looks, if there is one that may
			e.apart = []trust.Peer{e.pages[0].c.Accused}
		}
		if e.until = until; k.out() {
			if issue, err := lease.ParseIssue(k.Issue); err == nil {
				e.was, e.wasGen = k.ID, issue.Gen
			}
			e.retry = k.Until.Add(2 * au.cfg.Terms.Term) // its host is left alone until then
		}
		au.errands.waits = append(au.errands.waits, e)
	}
}

// takeAudits goes on with the audits that other managers had given up with the hosts that this one takes: those that waited, and of managers that have gone, and this
// one's earlier start, all.
func (au heir) takeAudits(ctx context.Context, taken channel.Taken, gone bool) error {
	all, err := au.tenancy.Shared.Others(ctx, stateErrands)
	var left [][]byte
	if err == nil && gone {
		left, err = au.tenancy.Shared.Left(ctx, stateErrands)
	}
	if err != nil {
		return fmt.Errorf("read which audits waited, or were out: %w", err)
	}
	return au.onLoop(ctx, func(now time.Time) {
		au.takeKept(now, au.earlier, taken.Parts, true)
		for _, b := range left {
			au.takeErrands(now, b, taken.Parts, true)
		}
		for _, b := range all {
			au.takeErrands(now, b, taken.Parts, false)
		}
	})
}

// mostLeft bounds the entries of the feed that are read once more after a manager has gone.
const mostLeft = 100_000

// judgeLeft reads once more what the feed told of deliveries that managers which have gone had taken in and not judged, as far as their channels are this one's now.
// What they had judged already is as it is. It goes on with what was decided there about peers and is not carried out.
func (au heir) judgeLeft(ctx context.Context, taken channel.Taken) error {
	decided, err := au.tenancy.Shared.Left(ctx, stateSentences)
	if err != nil {
		return fmt.Errorf("read what was decided about peers: %w", err)
	}
	if err := au.onLoop(ctx, func(now time.Time) {
		for _, b := range decided {
			au.sentences.goOn(now, b)
		}
	}); err != nil {
		return err
	}
	judged, err := au.tenancy.Shared.Left(ctx, stateTrustAt)
	if err != nil {
		return fmt.Errorf("read up to where the feed was judged: %w", err)
	}
	var from []string
	for _, b := range judged {
		if len(b) > 0 {
			from = append(from, string(b))
		}
	}
	if len(from) == 0 || len(taken.Parts) != len(taken.Cursors) {
		return nil
	}
	at, err := au.tenancy.Earliest(from...)
	if err != nil {
		return err
	}
	for read := 0; read < mostLeft; {
		entries, next, err := au.cfg.Archive.Feed(ctx, at, feedBatch)
		if err != nil {
			return fmt.Errorf("read the deliveries that are to be judged: %w", err)
		}
		within, err := takenIn(entries, taken.Cursors, au.tenancy.Earliest)
		if err != nil {
			return err
		}
		if err := au.onLoop(ctx, func(time.Time) { au.readLeft(at, entries, within, taken) }); err != nil {
			return err
		}
		if next == at || len(within) < len(entries) {
			return nil
		}
		at, read = next, read+len(entries)
	}
	return nil
}

// takenIn are, of each of some entries of the feed, the cursors that lie behind it: so far their partitions' managers had come. It ends where there is none.
func takenIn(entries []archive.Entry, cursors []string, earliest func(...string) (string, error)) (within []map[string]bool, err error) {
	for i := range entries {
		at := map[string]bool{}
		for _, cursor := range cursors {
			if cursor == "" || at[cursor] {
				continue
			}
			first, err := earliest(entries[i].Cursor, cursor)
			if err != nil {
				return nil, err
			}
			if first == entries[i].Cursor {
				at[cursor] = true
			}
		}
		if len(at) == 0 {
			break
		}
		within = append(within, at)
	}
	return within, nil
}

// readLeft has those of some entries judged that their partition's manager had taken in. Called on the loop.
func (au heir) readLeft(at string, entries []archive.Entry, within []map[string]bool, taken channel.Taken) {
	for i := range within {
		e := &entries[i]
		if s, mine := au.table.Find(e.Channel); mine && brought(e) > 0 {
			if k := slices.Index(taken.Parts, au.table.Host(s).Part()); k >= 0 && within[i][taken.Cursors[k]] {
				au.again(at, e)
			}
		}
		at = e.Cursor
	}
}

// handOver writes all that another manager will read which takes partitions of this one. Called on the loop.
func (au heir) handOver(ctx context.Context, now time.Time) {
	au.endWrite()
	if err := au.save(ctx, now); err != nil {
		au.log.Warn("who takes the partitions does not know what was learnt of peers and channels in the last half minute", "err", err)
	}
}

// onWatch tells of a channel that another manager has now, and on which somebody lost by an audit that this one had asked for before.
func (au heir) onWatch(id channel.ID) {
	if _, mine := au.table.Find(id); mine || au.tenancy == nil {
		return
	}
	b := au.trust.AppendSite(nil, id)
	au.clerk(0, "the manager that has a channel does not know that it is on watch", func(ctx context.Context) error {
		return au.tell(ctx, noteWatch, noted{ID: id, Site: b})
	})
}

// hearWatch takes in what another manager tells of a channel that this one has.
func (au heir) hearWatch(ctx context.Context, id channel.ID, site []byte) error {
	var failed error
	err := au.onLoop(ctx, func(time.Time) {
		failed = au.trust.AdoptSites(trust.SiteShardOf(id), site, func(is channel.ID) bool { return is == id })
	})
	return errors.Join(err, failed)
}

// succeed has a manager that has the database for itself, and keeps nothing there yet, go on with what those knew that had shared it.
func succeed(ctx context.Context, au *auditor) error {
	judged := false
	mine := func(id channel.ID) bool { _, is := au.table.Find(id); return is }
	for _, s := range trust.SiteShards() {
		all, err := au.cfg.Store.Kept(ctx, s.Name())
		if err != nil {
			return fmt.Errorf("read which channels are on watch: %w", err)
		}
		adoptSites(au, s, all, mine)
	}
	for _, s := range trust.PeerShards() {
		all, err := au.cfg.Store.Kept(ctx, s.Name())
		if err != nil {
			return fmt.Errorf("read what managers knew of peers that had shared the database: %w", err)
		}
		adopt(au, s, all)
		judged = judged || len(all) > 0
	}
	all, err := au.cfg.Store.Kept(ctx, stateTrustHosts)
	if err != nil {
		return fmt.Errorf("read what managers learnt of hosts' pages that had shared the database: %w", err)
	}
	for _, b := range all {
		au.takeHosts(b)
	}
	if judged { // they have judged what there was
		au.cursor = au.keep.cursor
		au.ruled()
	}
	return nil
}

// inherit takes in what other managers know of peers and of hosts' pages, when this one takes hosts of theirs. What a manager knew that has gone is kept so; of
// those that are here, the worse of what both know of a peer counts.
func (au *auditor) inherit(ctx context.Context) error {
	shards, err := othersOf(ctx, au.tenancy.Shared, trust.PeerShards())
	if err != nil {
		return fmt.Errorf("read what other managers know of peers: %w", err)
	}
	for _, s := range trust.PeerShards() {
		if len(shards[s.Name()]) == 0 {
			continue
		}
		if err := au.onLoop(ctx, func(time.Time) {
			adopt(au, s, shards[s.Name()])
			au.forget(au.trust)
			au.ruled()
		}); err != nil {
			return err
		}
	}
	all, err := au.tenancy.Shared.Others(ctx, stateTrustHosts)
	if err != nil {
		return fmt.Errorf("read what other managers learnt of hosts' pages: %w", err)
	}
	if err := au.onLoop(ctx, func(time.Time) {
		for _, b := range all {
			au.takeHosts(b)
		}
	}); err != nil {
		return err
	}
	au.clerk(0, "contested pages are not ruled on", au.reopen)
	return nil
}

// othersOf is what other managers keep of some shards, by their names: read at once, since partitions that move wait for it.
func othersOf(ctx context.Context, from Shared, shards []trust.Shard) (map[string][][]byte, error) {
	names := make([]string, len(shards))
	for i, s := range shards {
		names[i] = s.Name()
	}
	return from.OthersOf(ctx, names)
}
