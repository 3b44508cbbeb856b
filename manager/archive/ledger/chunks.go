package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/manager/archive/intake"
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

	Deliverer, Account uint64 // numbers of who delivers
	Several            bool   // other accounts deliver too
	Prefix             uint64 // number of the network of the deliverer's address; 0: not known
	Gen                channel.Gen
	Seq                uint64    // of the chunk
	Claimed            time.Time // when the task was claimed
	Aside              bool      // the task was deposited by DepositAside
	TextOnly           bool      // of HTML pages the task wants the text alone
	Pages              []channel.Page
}

// Pages makes of a chunk's pages what is to be stored with it. Package pages does so.
type Pages interface {
	// Take makes the job. done must be called when the job is durable or has failed: until then nothing else is decided about the host's pages.
	Take(ctx context.Context, set PageSet) (j *Job, told Retold, done func(), err error)
}

// PutChunk stores a chunk on the durable head of its channel. Once it has answered STORED, the chunk's pages are in segments, its frontier
// changes are in the channel's resume state and its report is in the feed, all durable.
func (l *Ledger) PutChunk(ctx context.Context, peer string, c channel.Chunk, pages Pages) (lease.Reply, error) {
	return sure(ctx, l, denied, func() (lease.Reply, error) { return putChunk(ctx, l, peer, c, pages) })
}

func putChunk(ctx context.Context, l *Ledger, peer string, c channel.Chunk, pages Pages) (lease.Reply, error) {
	t, s, err := lockTask(l, c.Channel, c.Gen)
	if err != nil {
		return lease.Reply{}, err
	}
	defer l.unlock(t.Channel, s)
	link := lease.Chunk{Gen: t.Gen, Seq: c.Seq, Prev: c.Prev, Hash: c.Hash()}
	c.Channel, c.Gen = t.Channel, t.Gen
	who := lease.PeerOf(peer)
	if s.Value.fence.Check(who, link) != lease.Granted {
		l.counters.rejected.Add(1)
		return t.reply(s.Value.fence.Put(nowFor(l, &s.Value), who, link, l.cfg.Terms).Reply), nil
	}
	if err := l.readTask(c.Channel, c.Gen, &s.Value); err != nil {
		return lease.Reply{}, err
	}
	body, free, err := l.unpack(ctx, c, &t, s.Value.task.FrontierRoom(&s.Value.claim.Sum))
	if err != nil {
		l.tellRefused(peer, err)
		return lease.Reply{}, err
	}
	defer func() { free() }()

	now := nowFor(l, &s.Value)
	s.Value.lookAtClock(now)
	n := s.Value
	useful, part, err := l.screen(now, &body, &n)
	if err != nil {
		l.tellRefused(peer, err)
		return lease.Reply{}, errors.Join(fmt.Errorf("%w: channel %d, generation %d, chunk %d: %w", ErrBadChunk, c.Channel, c.Gen, c.Seq, err), l.endClaim(c, &s.Value, peer, err))
	}
	if n.aside {
		body.Pages = wanted(body.Pages, n.rest)
	}
	j, told, done, err := pages.Take(ctx, PageSet{Channel: c.Channel, Host: n.host, Seed: link.Hash, Now: now, Packed: len(c.Body), Pages: body.Pages, Deliverer: n.deliverer, Account: n.account, Several: l.Several(),
		Prefix: n.prefix, Gen: c.Gen, Seq: c.Seq, Claimed: n.claim.at, Aside: n.aside, TextOnly: n.task.TextOnly})
	if err != nil {
		return lease.Reply{}, fmt.Errorf("put chunk %d of channel %d: %w", c.Seq, c.Channel, err)
	}
	defer done()
	n.near += uint64(told.Near)
	if told.Unfounded, err = tellUnfounded(l, c.Channel, c.Gen, &n, told.Unfounded); err != nil {
		return lease.Reply{}, err
	}
	told.correct(&n.claim.Sum, &n.tally, body.Report)
	useful -= len(told.Unfounded)
	if err := l.addToJob(j, c, part, body.Report, peer, &n); err != nil {
		return lease.Reply{}, fmt.Errorf("put chunk %d of channel %d: %w", c.Seq, c.Channel, err)
	}
	link.Final, link.Empty = body.Report != nil, useful == 0
	body = channel.ChunkBody{}
	free() // the pages are packed; waiting for the disk costs no memory
	free = func() {}
	step := n.fence.Put(now, who, link, l.cfg.Terms)
	if err := l.take(c.Channel, &s.Value, n, step, j); err != nil {
		return lease.Reply{}, err
	}
	return t.reply(step.Reply), nil
}

// unpack decompresses a chunk within the memory that there is for such, with as many URLs to fetch as there is room for.
func (l *Ledger) unpack(ctx context.Context, c channel.Chunk, t *task, room int) (body channel.ChunkBody, free func(), err error) {
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
	body, left, err := channel.DecompressChunk(c.Body, room)
	l.counters.mended.Add(uint64(left))
	switch r := body.Report; {
	case err != nil:
		err = fmt.Errorf("%w: channel %d, generation %d, chunk %d: %w", ErrBadChunk, c.Channel, c.Gen, c.Seq, err)
	case len(body.Pages) > MaxPages:
		err = fmt.Errorf("%w: channel %d, generation %d, chunk %d: %d pages, at most %d", ErrBadChunk, c.Channel, c.Gen, c.Seq, len(body.Pages), MaxPages)
	case r != nil && (r.Channel != t.named || r.Gen != t.namedGen):
		err = fmt.Errorf("%w: channel %d, generation %d, chunk %d: report of channel %d, generation %d", ErrBadChunk, t.named, t.namedGen, c.Seq, r.Channel, r.Gen)
	case r != nil:
		r.Channel, r.Gen = t.Channel, t.Gen
	}
	if err != nil {
		free()
		return body, nil, err
	}
	return body, free, nil
}

// errNoDeposit says that there is no such task.
var errNoDeposit = errors.New("archive: task was not deposited")

// readTask reads what bounds the chunks of the claimed task, once.
func (l *Ledger) readTask(id channel.ID, gen channel.Gen, c *channelState) error {
	if c.task != nil {
		return nil
	}
	d, err := l.deposit(id, gen)
	if err == nil && !d.ok {
		err = errNoDeposit
	}
	if err != nil {
		return fmt.Errorf("%w: body of channel %d, generation %d: %w", ErrStorage, id, gen, err)
	}
	h, headErr := channel.ParseHeader(d.raw)
	body, err := channel.ParseBody(d.body)
	if err = errors.Join(headErr, err); err != nil {
		return fmt.Errorf("%w: channel %d, generation %d: %w", ErrBadTask, id, gen, err)
	}
	scope, err := body.Scope.Compile()
	if err != nil {
		return fmt.Errorf("%w: channel %d, generation %d: %w", ErrBadTask, id, gen, err)
	}
	c.task = &intake.Task{
		Host: c.host, Scope: scope, Budget: h.Budget, PageBytes: body.Settings.PageBytes, Gap: h.Gap, TextOnly: body.Settings.TextOnly,
		Claimed: c.claim.at, SetBack: c.claim.mayBeSetBack(), Unpaced: l.cfg.Unpaced || c.claim.undated, Before: max(0, c.tally.pages-c.claim.Answered),
	}
	if c.aside, c.rest = d.aside, hashesOf(d.rest); c.aside {
		c.task.Before = h.Budget // it counts what was told to be done
	}
	return nil
}

// screen bounds what a chunk says, and counts its pages. part is what the chunk adds to the resume state.
func (l *Ledger) screen(now time.Time, body *channel.ChunkBody, c *channelState) (useful int, part channel.Resume, err error) {
	for i := range body.Pages {
		part.Done = append(part.Done, channel.URLHash(body.Pages[i].URL))
	}
	useful, found, err := intake.Screen(now, c.task, &c.claim.Sum, body)
	l.counters.foreign.Add(uint64(found.Foreign))
	l.counters.mended.Add(uint64(found.Digests + found.Times + found.Spelling + found.Frontier + found.Statuses + found.Numbers + found.Words + found.Truncated))
	l.tellFindings(c.peer, &found)
	if err != nil {
		return 0, part, err
	}
	for i := range body.Pages {
		c.tally.add(&body.Pages[i])
	}
	part.Frontier = body.Frontier
	if body.Report == nil && !c.aside {
		part.Leads = c.task.Leads(&c.claim.Sum, body.Pages)
	}
	return useful, part, nil
}

// endClaim ends a claim whose holder sent what its task does not allow. Another peer goes on from what was stored before.
func (l *Ledger) endClaim(c channel.Chunk, s *channelState, peer string, why error) error {
	now := nowFor(l, s)
	n := *s
	step := n.fence.Release(now, lease.PeerOf(peer), c.Gen)
	step.Event.Progress = false
	n.claim.Wrong++
	l.cfg.Log.Warn("a claim was ended, since its holder sent what its task does not allow", "channel", c.Channel, "gen", c.Gen, "peer", peer, "why", why)
	return l.take(c.Channel, s, n, step, &Job{Grows: true, fault: why.Error()})
}

// addToJob adds to the job of a chunk's pages what the ledger keeps of the chunk: its part of the resume state, or its report.
func (l *Ledger) addToJob(j *Job, c channel.Chunk, part channel.Resume, r *channel.Report, peer string, n *channelState) error {
	var early, last []Change
	if r != nil {
		r.Peer = peer
		n.tally.complete(r)
		switch r.Outcome {
		case channel.Updated, channel.Stopped, channel.Lapsed: // a peer that stops without having brought anything gives its task back, and sends no report
			if !n.aside && n.tally.brought() == 0 {
				r.Outcome, r.Reason = channel.Failed, "no page that is there, or is gone, was brought"
			}
		}
		near := min(int(n.near), r.Changed) // the peer has no fingerprints to compare with
		r.Changed, r.NearUnchanged = r.Changed-near, r.NearUnchanged+near
		n.near = 0
		var err error
		if early, last, err = l.endCrawl(c, r, n); err != nil {
			return err
		}
		j.report = r.Marshal()
	}
	if len(part.Frontier)+len(part.Done)+len(part.Leads) > 0 && n.crawl <= c.Seq {
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
	over := r.Outcome != channel.Stopped && r.Outcome != channel.Refused
	err = l.store.View(func(s Snapshot) error {
		known := func(u string) (bool, error) {
			return s.Get(schema.Key2(schema.Inter, id, channel.URLHash(u)), func([]byte) error { return nil })
		}
		if over {
			leads, err := leadsOf(s, c.Channel, n.crawl, c.Seq)
			if err == nil {
				err = intake.WithLeads(r, leads, known)
			}
			if err != nil {
				return err
			}
		}
		for _, u := range r.Inter {
			if n.inter >= channel.MaxKnownInter || n.aside {
				break
			}
			is, err := known(u)
			if err != nil {
				return err
			}
			if !is {
				early = append(early, Change{schema.Key2(schema.Inter, id, channel.URLHash(u)), []byte{}})
				n.inter++
			}
		}
		if !over {
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
