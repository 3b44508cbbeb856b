package archive

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"

	"github.com/dgraph-io/badger/v4"

	"shoal/channel"
	pb "shoal/manager/archive/archivepb"
)

// Purge takes Web hosts down: captures, states of pages, texts and the pages' entries in the feed, for which one gone entry each is told. Files
// that hold such records are noted: they are compacted next, whatever share of them is still needed, by Run at once. What another host has too
// stays with that one. A purge that broke off is gone on with by another.
func (a *Archive) Purge(ctx context.Context, hosts channel.Hosts) (pages int, err error) {
	a.upkeep.Lock()
	defer a.upkeep.Unlock()
	a.texting.Lock() // or it would store the text of a page that it has just read
	defer a.texting.Unlock()
	p := purge{a: a, hosts: hosts, gone: map[string]struct{}{}, files: map[uint32]bool{}, e: eraser{a: a}}
	if err := p.run(ctx); err != nil {
		return 0, fmt.Errorf("purge %s: %w", hosts.Name(), err)
	}
	select {
	case a.purged <- struct{}{}:
	default: // it has been told
	}
	return len(p.gone), nil
}

// purge is one takedown.
type purge struct {
	a     *Archive
	hosts channel.Hosts
	gone  map[string]struct{} // URLs
	files map[uint32]bool     // that hold records of them
	e     eraser
}

// run deletes captures last, as all else is found by them.
func (p *purge) run(ctx context.Context) error {
	if err := p.a.db.View(func(txn *badger.Txn) error { return p.find(ctx, txn) }); err != nil {
		return err
	}
	var marks []kv
	for n := range p.files {
		marks = append(marks, kv{keyOfPurged(n), []byte{}})
	}
	if len(marks) > 0 {
		if err := p.a.commit(&job{changes: func(uint32, uint64) ([]kv, error) { return marks, nil }}); err != nil {
			return err
		}
	}
	if err := p.e.flush(); err != nil {
		return err
	}
	if err := p.a.tellGone(p.gone); err != nil {
		return err
	}
	err := p.a.db.View(func(txn *badger.Txn) error {
		return p.captures(ctx, txn, false, func(key []byte, _ *badger.Item) error { return p.e.erase(bytes.Clone(key)) })
	})
	if err != nil {
		return err
	}
	return p.e.flush()
}

// captures calls do for the captures of the hosts.
func (p *purge) captures(ctx context.Context, txn *badger.Txn, values bool, do func(key []byte, item *badger.Item) error) error {
	return scan(txn, append([]byte{keyCapture}, surtOfName(p.hosts.Name())...), nil, values, func(key []byte, item *badger.Item) (bool, error) {
		if !p.hosts.Has(channel.Origin(urlOfCapture(key))) {
			return true, ctx.Err()
		}
		return true, firstOf(do(key, item), ctx.Err())
	})
}

// find notes what is to be deleted, but for the captures.
func (p *purge) find(ctx context.Context, txn *badger.Txn) error {
	m := new(pb.Capture)
	err := p.captures(ctx, txn, true, func(key []byte, item *badger.Item) error {
		m.Reset()
		if err := item.Value(func(b []byte) error { return decode(b, m) }); err != nil {
			return err
		}
		p.gone[urlOfCapture(key)] = struct{}{}
		if at, err := p.a.where(txn, m.At); err == nil { // else it is in no file any more
			p.files[at.File] = true
		}
		if len(m.Sha256) >= 16 && !m.Revisit {
			p.e.pending = append(p.e.pending, kv{keyOfContent([32]byte(padded(m.Sha256))), nil}, kv{keyOfText(m.Sha256), nil})
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := p.feed(ctx, txn); err != nil {
		return err
	}
	for u := range p.gone {
		h := channel.URLHash(u)
		item, err := txn.Get(key1(keyOwner, h))
		if err != nil {
			continue // never a page of its own
		}
		err = item.Value(func(v []byte) error {
			owner := binary.BigEndian.Uint64(padded(v))
			for _, kind := range pageKeys {
				p.e.pending = append(p.e.pending, kv{key2(kind, owner, h), nil})
			}
			p.e.pending = append(p.e.pending, kv{key1(keyOwner, h), nil})
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// pageKeys are what is kept of a page beside its captures and its owner.
var pageKeys = []byte{keyPage, keyHistory, keyLinks, keyRank}

// feed finds what the page feed says of the hosts' pages, but that they are gone.
func (p *purge) feed(ctx context.Context, txn *badger.Txn) error {
	m := new(pb.Entry)
	return scan(txn, []byte{keyChanges}, nil, true, func(key []byte, item *badger.Item) (bool, error) {
		m.Reset()
		if err := item.Value(func(b []byte) error { return decode(b, m) }); err != nil {
			return false, err
		}
		if u := m.Page.GetUrl(); Event(m.Page.GetEvent()) != Gone && p.hosts.Has(channel.Origin(u)) {
			p.gone[u] = struct{}{}
			p.e.pending = append(p.e.pending, kv{bytes.Clone(key), nil})
		}
		return true, ctx.Err()
	})
}

// tellGone tells indexers that pages were taken down.
func (a *Archive) tellGone(gone map[string]struct{}) error {
	now := micros(a.cfg.Clock())
	j := &job{}
	for _, u := range sorted(gone) {
		j.entries = append(j.entries, &pb.Entry{WhenUs: now, Page: &pb.PageEvent{Url: u, Event: uint32(Gone), FetchedUs: now}})
		if len(j.entries) == upkeepBatch {
			if err := a.commit(j); err != nil {
				return err
			}
			j = &job{}
		}
	}
	if len(j.entries) == 0 {
		return nil
	}
	return a.commit(j)
}

// compactPurged rewrites the files that hold what was taken down.
func (a *Archive) compactPurged(ctx context.Context) error {
	marked, err := a.purgedFiles(ctx)
	if err != nil || len(marked) == 0 {
		return err
	}
	out, err := a.Compact(ctx, 0)
	if err == nil {
		a.log.Info("what was taken down has left the WARC files", "files", out.Files, "bytes", out.Freed)
	}
	return err
}

// purgedFiles are those that hold what was taken down.
func (a *Archive) purgedFiles(ctx context.Context) (map[uint32]bool, error) {
	out := map[uint32]bool{}
	return out, a.db.View(func(txn *badger.Txn) error {
		return scan(txn, []byte{keyPurged}, nil, false, func(key []byte, _ *badger.Item) (bool, error) {
			out[binary.BigEndian.Uint32(key[1:])] = true
			return true, ctx.Err()
		})
	})
}

// Recall ends all tasks of a channel, claimed or not: what its peers still send is refused, as that of an older generation is. What they stored
// stays, and the next one goes on from it.
func (a *Archive) Recall(ctx context.Context, id channel.ID) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s, err := a.lock(id)
	if err != nil {
		return err
	}
	defer a.unlock(id, s)
	n := s.v
	step := n.fence.Revoke()
	return a.take(id, &s.v, n, step, &job{})
}

// Forget ends all tasks of a channel, claimed or not, and drops what is kept of it beside its fence: what its peers still send is refused, as
// that of an older generation is, and nobody goes on from it.
func (a *Archive) Forget(ctx context.Context, id channel.ID) error {
	s, err := a.lock(id)
	if err != nil {
		return err
	}
	defer a.unlock(id, s)
	n := s.v
	step := n.fence.Revoke()
	n.peer, n.host, n.scope = "", "", nil
	if err := a.take(id, &s.v, n, step, &job{}); err != nil {
		return err
	}
	e := eraser{a: a}
	err = a.db.View(func(txn *badger.Txn) error {
		m := new(pb.Page)
		for _, kind := range append([]byte{keyDeposit, keyResume, keyInter}, pageKeys...) {
			err := scan(txn, key1(kind, uint64(id)), nil, kind == keyPage, func(key []byte, item *badger.Item) (bool, error) {
				if kind == keyPage {
					m.Reset()
					if err := item.Value(func(b []byte) error { return decode(b, m) }); err != nil {
						return false, err
					}
					e.pending = append(e.pending, kv{key1(keyOwner, channel.URLHash(m.Url)), nil})
				}
				return true, firstOf(e.erase(bytes.Clone(key)), ctx.Err())
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("forget channel %d: %w", id, err)
	}
	return e.flush()
}
