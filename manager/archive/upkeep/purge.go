package upkeep

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"shoal/channel"
	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/pages"
	"shoal/manager/archive/schema"
)

// Purge takes Web hosts down: captures, states of pages, texts and the pages' entries in the feed, for which one gone entry each is told.
// Segments that hold such records are noted: they are compacted next, whatever share of them is still needed, by Run at once. What another
// host has too stays with that one. A purge that broke off is gone on with by another.
func (u *Upkeep) Purge(ctx context.Context, hosts channel.Hosts) (pages int, err error) {
	release, err := u.turns.turn(ctx, takedown)
	if err != nil {
		return 0, err
	}
	defer release()
	if err := u.ledger.Others.WaitForAll(ctx); err != nil { // what is being stored of the hosts goes too
		return 0, fmt.Errorf("purge %s: %w", hosts.Name(), err)
	}
	defer u.pages.PauseText()() // or it would store the text of a page that it has just read
	p := purge{u: u, hosts: hosts, gone: map[string]struct{}{}, segments: map[uint32]bool{}, batch: u.ledger.Batch()}
	if err := p.run(ctx); err != nil {
		return 0, fmt.Errorf("purge %s: %w", hosts.Name(), err)
	}
	u.pages.Recount()
	select {
	case u.purged <- struct{}{}:
	default: // it has been told
	}
	return len(p.gone), nil
}

// purge is one takedown.
type purge struct {
	u        *Upkeep
	hosts    channel.Hosts
	gone     map[string]struct{} // URLs
	segments map[uint32]bool     // that hold records of them
	batch    *ledger.Batch
	texts    []ledger.Change // likewise, of texts
}

// run deletes captures last, as all else is found by them. Texts it deletes when no other manager makes one any more of what it read before.
func (p *purge) run(ctx context.Context) error {
	if err := p.u.ledger.View(func(snap ledger.Snapshot) error { return p.find(ctx, snap) }); err != nil {
		return err
	}
	var marks []ledger.Change
	for _, id := range slices.Sorted(maps.Keys(p.segments)) {
		marks = append(marks, ledger.Change{Key: schema.SegmentKey(schema.Purged, id), Value: []byte{}})
	}
	if len(marks) > 0 {
		if err := p.u.ledger.Change(marks...); err != nil {
			return err
		}
	}
	if err := p.batch.Flush(); err != nil {
		return err
	}
	if err := p.tellGone(); err != nil {
		return err
	}
	if p.u.ledger.Others.Shared() {
		if err := p.u.ledger.Others.WaitForAll(ctx); err != nil {
			return err
		}
	}
	p.batch.Add(p.texts...)
	if err := p.batch.Flush(); err != nil {
		return err
	}
	err := p.u.ledger.View(func(snap ledger.Snapshot) error {
		return p.captures(ctx, snap, false, func(key, _ []byte) error { return p.batch.Delete(bytes.Clone(key)) })
	})
	if err != nil {
		return err
	}
	return p.batch.Flush()
}

// captures calls do for the captures of the hosts.
func (p *purge) captures(ctx context.Context, snap ledger.Snapshot, values bool, do func(key, value []byte) error) error {
	prefix := append([]byte{schema.Capture}, pages.HostPrefix(p.hosts.Name())...)
	return snap.Scan(prefix, nil, values, func(key, value []byte) (bool, error) {
		if !p.hosts.Has(channel.Origin(pages.URLOfCapture(key))) {
			return true, ctx.Err()
		}
		return true, firstOf(do(key, value), ctx.Err())
	})
}

// find notes what is to be deleted, but for the captures.
func (p *purge) find(ctx context.Context, snap ledger.Snapshot) error {
	m := new(pb.Capture)
	err := p.captures(ctx, snap, true, func(key, value []byte) error {
		m.Reset()
		if err := schema.Decode(value, m); err != nil {
			return err
		}
		p.gone[pages.URLOfCapture(key)] = struct{}{}
		for _, stored := range []*pb.Location{m.At, m.Original} { // the payload may be in the record of a visit that is forgotten
			switch at, err := p.u.pages.Locate(snap, schema.Location(stored)); {
			case err == nil:
				p.segments[at.Segment] = true
			case !errors.Is(err, pages.ErrNotFound): // else it is in no segment any more
				return err
			}
		}
		if len(m.Sha256) >= 16 { // whoever else has the payload finds it by its own captures, and its text is made again
			p.batch.Add(ledger.Change{Key: schema.PayloadKey(schema.Content, m.Sha256)})
			p.texts = append(p.texts, ledger.Change{Key: schema.PayloadKey(schema.Text, m.Sha256)})
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := p.feed(ctx, snap); err != nil {
		return err
	}
	for url := range p.gone {
		h := channel.URLHash(url)
		_, err := snap.Get(schema.Key(schema.Owner, h), func(v []byte) error {
			for _, table := range schema.OfPage {
				p.batch.Add(ledger.Change{Key: schema.Key2(table, schema.Number(append([]byte{0}, schema.Padded(v)...), 0), h)})
			}
			p.batch.Add(ledger.Change{Key: schema.Key(schema.Owner, h)})
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// feed finds what the page feed says of the hosts' pages, but that they are gone.
func (p *purge) feed(ctx context.Context, snap ledger.Snapshot) error {
	m := new(pb.Entry)
	return snap.Scan([]byte{schema.Changes}, nil, true, func(key, value []byte) (bool, error) {
		m.Reset()
		if err := schema.Decode(value, m); err != nil {
			return false, err
		}
		if url := m.Page.GetUrl(); pages.Event(m.Page.GetEvent()) != pages.Gone && p.hosts.Has(channel.Origin(url)) {
			p.gone[url] = struct{}{}
			p.batch.Add(ledger.Change{Key: bytes.Clone(key)})
		}
		return true, ctx.Err()
	})
}

// tellGone tells indexers that pages were taken down.
func (p *purge) tellGone() error {
	now := schema.Micros(p.u.cfg.Clock())
	var entries []*pb.Entry
	for _, url := range slices.Sorted(maps.Keys(p.gone)) {
		entries = append(entries, &pb.Entry{WhenUs: now, Page: &pb.PageEvent{Url: url, Event: uint32(pages.Gone), FetchedUs: now}})
	}
	return p.u.ledger.Tell(entries)
}

// compactPurged rewrites the segments that hold what was taken down.
func (u *Upkeep) compactPurged(ctx context.Context) error {
	marked, err := u.purgedSegments(ctx)
	if err != nil || len(marked) == 0 {
		return err
	}
	out, err := u.compact(ctx, afterPurge, 0, true)
	if err == nil {
		u.cfg.Log.Info("what was taken down has left the WARC files", "files", out.Files, "bytes", out.Freed)
	}
	return err
}

// purgedSegments are those that hold what was taken down.
func (u *Upkeep) purgedSegments(ctx context.Context) (map[uint32]bool, error) {
	out := map[uint32]bool{}
	return out, u.ledger.View(func(snap ledger.Snapshot) error {
		return snap.Scan([]byte{schema.Purged}, nil, false, func(key, _ []byte) (bool, error) {
			out[schema.SegmentOf(key)] = true
			return true, ctx.Err()
		})
	})
}
