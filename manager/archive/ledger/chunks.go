package ledger

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/manager/archive/schema"
	"shoal/manager/archive/segment"
)

// maxClear bounds the resume states that one report deletes; the next one goes on.
const maxClear = 1000

// PageSet is the pages of a chunk, all of them its channel's own.
type PageSet struct {
	Channel channel.ID
	Host    string
	Seed    [32]byte // hash of the chunk: a repeated chunk makes the same records
	Now     time.Time
	Packed  int // bytes of the chunk as it came
	Pages   []channel.Page
}

// Pages makes of a chunk's pages what is to be stored with it. Package pages does so.
type Pages interface {
	// Take makes the job. near is how many pages were told as changed and hardly are. done must be called when the job is durable or has
	// failed: until then nothing else is decided about the host's pages.
	Take(ctx context.Context, set PageSet) (j *Job, near int, done func(), err error)
}

// PutChunk stores a chunk on the durable head of its channel. Once it has answered STORED, the chunk's pages are in segments, its frontier
// changes are in the channel's resume state and its report is in the feed, all durable.
func (l *Ledger) PutChunk(ctx context.Context, peer string, c channel.Chunk, pages Pages) (lease.Reply, error) {
	s, err := l.lock(c.Channel)
	if err != nil {
		return lease.Reply{}, err
	}
	defer l.unlock(c.Channel, s)
	link := lease.Chunk{Gen: c.Gen, Seq: c.Seq, Prev: c.Prev, Hash: c.Hash()}
	who := lease.PeerOf(peer)
	if s.Value.fence.Check(who, link) != lease.Granted {
		l.counters.rejected.Add(1)
		return s.Value.fence.Put(l.cfg.Clock(), who, link, l.cfg.Terms).Reply, nil
	}
	body, free, err := l.unpack(ctx, c)
	if err != nil {
		return lease.Reply{}, err
	}
	defer func() { free() }()
	if err := l.scope(c.Channel, c.Gen, &s.Value); err != nil {
		return lease.Reply{}, err
	}

	n := s.Value
	part := l.ownPages(&body, &n)
	now := l.cfg.Clock()
	j, near, done, err := pages.Take(ctx, PageSet{Channel: c.Channel, Host: n.host, Seed: link.Hash, Now: now, Packed: len(c.Body), Pages: body.Pages})
	if err != nil {
		return lease.Reply{}, fmt.Errorf("put chunk %d of channel %d: %w", c.Seq, c.Channel, err)
	}
	defer done()
	n.near += uint64(near)
	if err := l.addToJob(j, c, part, body.Report, peer, &n); err != nil {
		return lease.Reply{}, fmt.Errorf("put chunk %d of channel %d: %w", c.Seq, c.Channel, err)
	}
	link.Final = body.Report != nil
	body = channel.ChunkBody{}
	free() // the pages are packed; waiting for the disk costs no memory
	free = func() {}
	step := n.fence.Put(now, who, link, l.cfg.Terms)
	if err := l.take(c.Channel, &s.Value, n, step, j); err != nil {
		return lease.Reply{}, err
	}
	return step.Reply, nil
}

// unpack decompresses a chunk within the memory that there is for such.
func (l *Ledger) unpack(ctx context.Context, c channel.Chunk) (body channel.ChunkBody, free func(), err error) {
	need := min(int64(len(c.Body))*4+64<<10, l.cfg.InFlight)
	if err := l.cores.Acquire(ctx, 1); err != nil {
		return body, nil, fmt.Errorf("put chunk: %w", err)
	}
	if err := l.unpacked.Acquire(ctx, need); err != nil {
		l.cores.Release(1)
		return body, nil, fmt.Errorf("put chunk: %w", err)
	}
	free = func() {
		l.unpacked.Release(need)
		l.cores.Release(1)
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
func (l *Ledger) scope(id channel.ID, gen channel.Gen, c *channelState) error {
	if c.scope != nil {
		return nil
	}
	d, err := l.deposit(id, gen)
	if err != nil {
		return fmt.Errorf("%w: body of channel %d, generation %d: %w", ErrStorage, id, gen, err)
	}
	body, err := channel.ParseBody(d.body)
	if err != nil {
		return fmt.Errorf("%w: channel %d, generation %d: %w", ErrBadTask, id, gen, err)
	}
	if c.scope, err = body.Scope.Compile(); err != nil {
		return fmt.Errorf("%w: channel %d, generation %d: %w", ErrBadTask, id, gen, err)
	}
	return nil
}

// ownPages leaves in a chunk the pages that are the channel's own, and counts them. The result is what the chunk adds to the resume state.
func (l *Ledger) ownPages(body *channel.ChunkBody, c *channelState) channel.Resume {
	part := channel.Resume{Frontier: body.Frontier}
	own := body.Pages[:0]
	for i := range body.Pages {
		p := &body.Pages[i]
		part.Done = append(part.Done, channel.URLHash(p.URL))
		if channel.Origin(p.URL) != c.host || !c.scope.Contains(p.URL) {
			l.counters.foreign.Add(1)
			continue
		}
		c.tally.add(p)
		own = append(own, *p)
	}
	body.Pages = own
	return part
}

// addToJob adds to the job of a chunk's pages what the ledger keeps of the chunk: its part of the resume state, or its report.
func (l *Ledger) addToJob(j *Job, c channel.Chunk, part channel.Resume, r *channel.Report, peer string, n *channelState) error {
	var early, last []Change
	if r != nil {
		r.Peer = peer
		n.tally.complete(r)
		near := min(int(n.near), r.Changed) // the peer has no fingerprints to compare with
		r.Changed, r.NearUnchanged = r.Changed-near, r.NearUnchanged+near
		n.near = 0
		j.report = r.Marshal()
		var err error
		if early, last, err = l.endCrawl(c, r, n); err != nil {
			return err
		}
	}
	if len(part.Frontier)+len(part.Done) > 0 && n.crawl <= c.Seq {
		last = append(last, Change{schema.Key2(schema.Resume, uint64(c.Channel), c.Seq), append([]byte{schema.ValueV1}, part.Marshal()...)})
	}
	j.Early, j.Changes = adding(j.Early, early), adding(j.Changes, last)
	j.Add.Chunks = 1
	j.Grows = true
	return nil
}

// adding puts further changes behind those of f.
func adding(f func([]segment.Location) ([]Change, error), more []Change) func([]segment.Location) ([]Change, error) {
	return func(at []segment.Location) ([]Change, error) {
		if f == nil {
			return more, nil
		}
		out, err := f(at)
		return append(out, more...), err
	}
}

// endCrawl ends the crawl that a report is of, unless another peer is to go on with it. early are changes that do no harm if the chunk is not
// stored after all.
func (l *Ledger) endCrawl(c channel.Chunk, r *channel.Report, n *channelState) (early, last []Change, err error) {
	id := uint64(c.Channel)
	last = []Change{{depositKey(c.Channel, c.Gen), nil}}
	err = l.store.View(func(s Snapshot) error {
		for _, u := range r.Inter {
			if n.inter >= channel.MaxKnownInter {
				break
			}
			k := schema.Key2(schema.Inter, id, channel.URLHash(u))
			known, err := s.Get(k, func([]byte) error { return nil })
			if err != nil {
				return err
			}
			if !known {
				early = append(early, Change{k, []byte{}})
				n.inter++
			}
		}
		if r.Outcome == channel.Stopped || r.Outcome == channel.Refused {
			return nil
		}
		n.crawl, n.tally = c.Seq+1, crawlTally{}
		return s.Scan(schema.Key(schema.Resume, id), nil, false, func(key, _ []byte) (bool, error) {
			if schema.Number(key, 1) <= c.Seq {
				last = append(last, Change{bytes.Clone(key), nil})
			}
			return len(last) < maxClear, nil
		})
	})
	return early, last, err
}
