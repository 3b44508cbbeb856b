package pages

import (
	"context"
	"encoding/binary"
	"slices"
	"time"

	"shoal/channel"
	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/schema"
	"shoal/manager/archive/segment"
)

// Take implements ledger.Pages.
func (p *Pages) Take(ctx context.Context, set ledger.PageSet) (j *ledger.Job, told ledger.Retold, done func(), err error) {
	h := p.hosts.Lock(set.Host)
	p.building.RLock()
	done = func() {
		p.building.RUnlock()
		p.hosts.Unlock(set.Host, h, false)
	}
	b := builder{outbox: deliveredBy(&set), key: schema.Key3(schema.Delivered, uint64(set.Channel), uint64(set.Gen), set.Seq), p: p, id: set.Channel, gen: set.Gen, seed: set.Seed, now: set.Now, by: set.Deliverer, account: set.Account, several: set.Several, textOnly: set.TextOnly, drafts: make(map[uint64]*draft, len(set.Pages))}
	if err := b.build(ctx, set); err != nil {
		done()
		return nil, told, nil, err
	}
	b.tell()
	return &b.job, b.told, done, nil
}

// builder makes the job of one chunk's pages. It reads the ledger, and changes nothing but the job.
type builder struct {
	p    *Pages
	id   channel.ID
	gen  channel.Gen
	seed [32]byte // hash of the chunk: what record ids are made from
	now  time.Time
	job  ledger.Job

	by, account uint64 // numbers of who delivers
	several     bool   // other accounts deliver too
	textOnly    bool   // of HTML pages the text alone is kept
	contradicts []contradiction
	told        ledger.Retold

	snap   ledger.Snapshot
	drafts map[uint64]*draft // by URL
	order  []*draft
	shots  []shot
	events []event
	links  []ledger.Change // of pages, for PageRank

	outbox *pb.Delivered   // what the manager takes in of it
	key    []byte          // of that
	before map[uint64]bool // pages of which earlier chunks of the claim say something; nil: that was not looked for yet

	linkBytes int
}

func (b *builder) build(ctx context.Context, set ledger.PageSet) error {
	b.job.Records = make([]byte, 0, set.Packed+set.Packed/4)
	err := b.p.ledger.View(func(snap ledger.Snapshot) error {
		b.snap = snap
		for i := range set.Pages {
			if err := b.page(&set.Pages[i]); err != nil {
				return err
			}
		}
		return ctx.Err()
	})
	b.snap = nil
	b.job.Early, b.job.Changes = b.early, b.last
	return err
}

// early are the changes that do no harm if the chunk is not stored after all. Now it is known where the records are.
func (b *builder) early(at []segment.Location) (out []ledger.Change, err error) {
	out = slices.Clone(b.links)
	for i := range b.shots {
		s := &b.shots[i]
		s.capture.At, s.capture.Original = schema.StoredLocation(at[s.rec]), s.original.GetAt()
		if out, err = ledger.Put(out, CaptureKey(s.url, s.at), s.capture); err != nil {
			return nil, err
		}
		if s.content == nil {
			continue
		}
		s.content.At = s.capture.At
		if s.big {
			if out, err = ledger.Put(out, schema.PayloadKey(schema.Content, s.capture.Sha256), s.content); err != nil {
				return nil, err
			}
		}
	}
	for _, d := range b.order {
		if d.past != nil {
			if out, err = ledger.Put(out, schema.Key2(schema.History, uint64(b.id), d.url), d.past); err != nil {
				return nil, err
			}
		}
		if !d.owned {
			out = append(out, ownerOf(d.url, b.id))
		}
	}
	for _, e := range b.events {
		s := &b.shots[e.shot]
		e.page.At, e.page.Original = s.capture.At, s.capture.Original
	}
	return out, nil
}

// last are the changes that are made together with the channel's new head and the feed.
func (b *builder) last([]segment.Location) (out []ledger.Change, err error) {
	if len(b.outbox.Pages)+len(b.outbox.Quiet) > 0 {
		if out, err = ledger.Put(out, b.key, b.outbox); err != nil {
			return nil, err
		}
	}
	for _, d := range b.order {
		if out, err = ledger.Put(out, schema.Key2(schema.Page, uint64(b.id), d.url), d.page); err != nil {
			return nil, err
		}
		if !d.owned || d.owner == b.id {
			continue
		}
		out = append(out, ownerOf(d.url, b.id))
		for _, table := range []byte{schema.Page, schema.History, schema.Links, schema.Trust} {
			out = append(out, ledger.Change{Key: schema.Key2(table, uint64(d.owner), d.url)})
		}
		if d.trust != nil {
			t, err := untaken(d.trust)
			if err != nil {
				return nil, err
			}
			out = append(out, ledger.Change{Key: schema.Key2(schema.Trust, uint64(b.id), d.url), Value: t})
		}
	}
	return out, nil
}

// ownerOf notes whose page a URL is.
func ownerOf(url uint64, id channel.ID) ledger.Change {
	return ledger.Change{Key: schema.Key(schema.Owner, url), Value: binary.BigEndian.AppendUint64(nil, uint64(id))}
}
