package archive

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dgraph-io/badger/v4"
	"google.golang.org/protobuf/proto"

	"shoal/channel"
	"shoal/channel/lease"
	pb "shoal/manager/archive/archivepb"
)

// maxClear bounds the resume states that one report deletes; the next one goes on.
const maxClear = 1000

// Put stores a chunk on the durable head of its channel. Once it has answered STORED, the chunk's pages are in WARC files, its frontier
// changes are in the channel's resume state and its report is in the feed, all durable.
func (a *Archive) Put(ctx context.Context, peer string, c channel.Chunk) (lease.Reply, error) {
	s, err := a.lock(c.Channel)
	if err != nil {
		return lease.Reply{}, err
	}
	defer a.unlock(c.Channel, s)
	link := lease.Chunk{Gen: c.Gen, Seq: c.Seq, Prev: c.Prev, Hash: c.Hash()}
	who := lease.PeerOf(peer)
	if s.v.fence.Check(who, link) != lease.Granted {
		a.stats.rejected.Add(1)
		return s.v.fence.Put(a.cfg.Clock(), who, link, a.cfg.Terms).Reply, nil
	}
	body, free, err := a.unpack(ctx, c)
	if err != nil {
		return lease.Reply{}, err
	}
	defer func() { free() }()
	if err := a.scope(c.Channel, c.Gen, &s.v); err != nil {
		return lease.Reply{}, err
	}

	host := s.v.host
	h := a.hosts.lock(host)
	defer a.hosts.unlock(host, h, false)
	now := a.cfg.Clock()
	n := s.v
	a.building.RLock()
	defer a.building.RUnlock()
	b := builder{a: a, id: c.Channel, slot: &n, seed: link.Hash, now: now}
	if err := b.build(c, body, peer); err != nil {
		return lease.Reply{}, err
	}
	link.Final = body.Report != nil
	body = channel.ChunkBody{}
	free() // the pages are packed; waiting for the disk costs no room
	free = func() {}
	step := n.fence.Put(now, who, link, a.cfg.Terms)
	if err := a.take(c.Channel, &s.v, n, step, &b.job); err != nil {
		return lease.Reply{}, err
	}
	return step.Reply, nil
}

// unpack decompresses a chunk within the room that there is for such.
func (a *Archive) unpack(ctx context.Context, c channel.Chunk) (body channel.ChunkBody, free func(), err error) {
	need := min(int64(len(c.Body))*4+64<<10, a.cfg.InFlight)
	if err := a.cores.Acquire(ctx, 1); err != nil {
		return body, nil, fmt.Errorf("put chunk: %w", err)
	}
	if err := a.room.Acquire(ctx, need); err != nil {
		a.cores.Release(1)
		return body, nil, fmt.Errorf("put chunk: %w", err)
	}
	free = func() {
		a.room.Release(need)
		a.cores.Release(1)
	}
	body, err = channel.DecompressChunk(c.Body)
	switch r := body.Report; {
	case err != nil:
		err = fmt.Errorf("%w: channel %d, generation %d, chunk %d: %w", ErrBadChunk, c.Channel, c.Gen, c.Seq, err)
	case len(body.Pages) > MaxPages:
		err = fmt.Errorf("%w: channel %d, generation %d, chunk %d: %d pages, at most %d", ErrBadChunk, c.Channel, c.Gen, c.Seq, len(body.Pages), MaxPages)
	case r != nil && (r.Channel != c.Channel || r.Gen != c.Gen):
		err = fmt.Errorf("%w: channel %d, generation %d, chunk %d: report of channel %d, generation %d", ErrBadChunk, c.Channel, c.Gen, c.Seq, r.Channel, r.Gen)
	}
	if err != nil {
		free()
		return body, nil, err
	}
	return body, free, nil
}

// scope compiles the scope of the claimed task, once.
func (a *Archive) scope(id channel.ID, gen channel.Gen, s *slot) error {
	if s.scope != nil {
		return nil
	}
	d, err := a.deposit(id, gen)
	if err != nil {
		return fmt.Errorf("%w: body of channel %d, generation %d: %w", ErrStorage, id, gen, err)
	}
	body, err := channel.ParseBody(d.body)
	if err != nil {
		return fmt.Errorf("%w: channel %d, generation %d: %w", ErrBadTask, id, gen, err)
	}
	if s.scope, err = body.Scope.Compile(); err != nil {
		return fmt.Errorf("%w: channel %d, generation %d: %w", ErrBadTask, id, gen, err)
	}
	return nil
}

// builder makes the job of one chunk. It reads the database, and changes nothing but slot and job.
type builder struct {
	a    *Archive
	id   channel.ID
	slot *slot
	seed [32]byte // hash of the chunk: what record ids are made from
	now  time.Time
	job  job

	txn    *badger.Txn
	drafts map[uint64]*draft // by URL
	order  []*draft
	marks  []mark // of the records in job.records
	shots  []shot
	events []event
	gone   []kv // further changes
	early  []kv // further changes that do no harm if the others never come
	links  []kv // of pages, for PageRank

	linkBytes int
}

// mark is where a record begins and ends in job.records.
type mark struct{ begin, end int }

func (b *builder) build(c channel.Chunk, body channel.ChunkBody, peer string) error {
	b.drafts = make(map[uint64]*draft, len(body.Pages))
	b.job.records = make([]byte, 0, len(c.Body)+len(c.Body)/4)
	part := channel.Resume{Frontier: body.Frontier}
	err := b.a.db.View(func(txn *badger.Txn) error {
		b.txn = txn
		for i := range body.Pages {
			p := &body.Pages[i]
			part.Done = append(part.Done, channel.URLHash(p.URL))
			if channel.Origin(p.URL) != b.slot.host || !b.slot.scope.Contains(p.URL) {
				b.a.stats.foreign.Add(1)
				continue
			}
			b.slot.soFar.add(p)
			if err := b.page(p); err != nil {
				return err
			}
		}
		if r := body.Report; r != nil {
			r.Peer = peer
			b.slot.soFar.complete(r)
			n := min(int(b.slot.near), r.Changed) // the peer has no fingerprints to compare with
			r.Changed, r.NearUnchanged = r.Changed-n, r.NearUnchanged+n
			b.slot.near = 0
			b.job.report = r.Marshal()
			return b.report(c, r)
		}
		return nil
	})
	b.txn = nil
	if err != nil {
		return fmt.Errorf("put chunk %d of channel %d: %w", c.Seq, c.Channel, err)
	}
	if len(part.Frontier)+len(part.Done) > 0 && b.slot.crawl <= c.Seq {
		b.gone = append(b.gone, kv{key2(keyResume, uint64(c.Channel), c.Seq), append([]byte{valueV1}, part.Marshal()...)})
	}
	b.job.count = len(b.marks)
	b.job.tally.chunks = 1
	b.job.grows = true
	b.job.first, b.job.changes = b.first, b.last
	return nil
}

// report ends the crawl, unless another peer is to go on with it.
func (b *builder) report(c channel.Chunk, r *channel.Report) error {
	id := uint64(b.id)
	b.gone = append(b.gone, kv{key2(keyDeposit, id, uint64(c.Gen)), nil})
	known := b.slot.inter
	for _, u := range r.Inter {
		k := key2(keyInter, id, channel.URLHash(u))
		if known >= channel.MaxKnownInter {
			break
		}
		_, err := b.txn.Get(k)
		switch {
		case err == nil:
		case errors.Is(err, badger.ErrKeyNotFound):
			b.early = append(b.early, kv{k, []byte{}})
			known++
		default:
			return err
		}
	}
	b.slot.inter = known
	if r.Outcome == channel.Stopped || r.Outcome == channel.Refused {
		return nil
	}
	b.slot.crawl, b.slot.soFar = c.Seq+1, soFar{}
	return scan(b.txn, key1(keyResume, id), nil, false, func(key []byte, _ *badger.Item) (bool, error) {
		if binary.BigEndian.Uint64(key[9:]) <= c.Seq {
			b.gone = append(b.gone, kv{append([]byte(nil), key...), nil})
		}
		return len(b.gone) < maxClear, nil
	})
}

// first are the changes of the database that do no harm if the chunk is not stored after all. Now it is known where the records begin.
func (b *builder) first(file uint32, base uint64) (out []kv, err error) {
	out = slices.Concat(b.links, b.early)
	at := func(n int) *pb.Location {
		m := b.marks[n]
		return &pb.Location{File: file, Offset: base + uint64(m.begin), Length: uint32(m.end - m.begin)}
	}
	for i := range b.shots {
		s := &b.shots[i]
		s.capture.At, s.capture.Original = at(s.rec), s.original.GetAt()
		if out, err = put(out, keyOfCapture(s.url, s.at), s.capture); err != nil {
			return nil, err
		}
		if s.content == nil {
			continue
		}
		s.content.At = s.capture.At
		if s.big {
			if out, err = put(out, keyOfContent([32]byte(s.capture.Sha256)), s.content); err != nil {
				return nil, err
			}
		}
	}
	for _, d := range b.order {
		if d.past != nil {
			if out, err = put(out, key2(keyHistory, uint64(b.id), d.url), d.past); err != nil {
				return nil, err
			}
		}
		if !d.owned {
			out = append(out, kv{key1(keyOwner, d.url), binary.BigEndian.AppendUint64(nil, uint64(b.id))})
		}
	}
	for _, e := range b.events {
		s := &b.shots[e.shot]
		e.page.At, e.page.Original = s.capture.At, s.capture.Original
	}
	return out, nil
}

// last are the changes that make the chunk stored: one transaction with the new head and the feed.
func (b *builder) last(uint32, uint64) (out []kv, err error) {
	out = b.gone
	for _, d := range b.order {
		if out, err = put(out, key2(keyPage, uint64(b.id), d.url), d.page); err != nil {
			return nil, err
		}
		if !d.owned || d.owner == b.id {
			continue
		}
		out = append(out, kv{key1(keyOwner, d.url), binary.BigEndian.AppendUint64(nil, uint64(b.id))})
		for _, kind := range []byte{keyPage, keyHistory, keyLinks} {
			out = append(out, kv{key2(kind, uint64(d.owner), d.url), nil})
		}
	}
	return out, nil
}

func put(to []kv, key []byte, m proto.Message) ([]kv, error) {
	v, err := encode(m)
	return append(to, kv{key, v}), err
}
