package manager

import (
	"context"
	"errors"
	"fmt"
	"time"

	"shoal/manager/archive"
	"shoal/manager/trust"
	"shoal/manager/trust/compare"
)

// likeness compares what visits saw of pages that differ at each fetch with the versions that they would corroborate. The fingerprints of the two texts are nearly the
// same, and are so too if somebody has added a sentence or a link: the contents tell. So they do where two peers name the same page as it came, and have sent different texts of it.
type likeness struct {
	au     *auditor
	origin string
	host   *compare.Host // what is learnt of it; nil: it was not asked for yet
}

// unlike tells whether a page of a delivery is another page than the version that it would corroborate, or would have been read from. What is not kept any more cannot be
// compared. Clerks call it.
func (l *likeness) unlike(ctx context.Context, d *archive.Delivery, p *archive.Delivered) (bool, error) {
	g := &p.Record
	switch {
	case g.ReadOtherwise(&trust.Seen{Digest: p.Digest, Raw: p.Raw, Shingle: p.Shingle}):
		if p.Size == 0 {
			return false, nil // who sends nothing of a page, as of one that is not to be archived, accuses nobody
		}
		return l.differs(ctx, d, p, compare.OfOneSource)
	case !g.Doubtful(d.Deliverer, p.Digest, p.Shingle):
		return false, nil
	}
	if l.host == nil {
		if err := l.au.do(ctx, func(time.Time) {
			h := *l.au.learntOf(l.origin)
			l.host = &h
		}); err != nil {
			return false, err
		}
		if l.host.Learnt == 0 {
			*l.host = compare.Unlearnt
			l.host.Loose = compare.Figures // counters and clocks are what such pages differ by most often
		}
	}
	return l.differs(ctx, d, p, *l.host)
}

// differs tells whether a page of a delivery and its current version are a conflict, if so much may differ.
func (l *likeness) differs(ctx context.Context, d *archive.Delivery, p *archive.Delivered, most compare.Host) (bool, error) {
	is, err := l.au.said(ctx, p.URL, d.Deliverer, d.Claimed.Unix())
	if err == nil {
		var was *archive.EvidenceFetch
		if was, err = l.au.said(ctx, p.URL, p.Record.Cur.By, p.Record.Cur.At); err == nil {
			a, b := was.Features(), is.Features()
			return a != nil && b != nil && most.Compare(a, b).Verdict == compare.Conflict, nil
		}
	}
	if errors.Is(err, archive.ErrNotFound) {
		return false, nil
	}
	return false, fmt.Errorf("compare %s with its current version: %w", p.URL, err)
}

// alike tells whether a page of a delivery, about which the arbiter would be asked, is the same page as the current version, with other bytes. What cannot be read is asked
// about. Clerks call it.
func (l *likeness) alike(ctx context.Context, d *archive.Delivery, p *archive.Delivered) (bool, error) {
	g := &p.Record
	if !g.Contests(d.Deliverer, p.Digest, p.Shingle, p.Modified) {
		return false, nil
	}
	was, failed := l.au.said(ctx, p.URL, g.Cur.By, g.Cur.At)
	if failed != nil {
		return false, ctx.Err()
	}
	is, failed := l.au.said(ctx, p.URL, d.Deliverer, d.Claimed.Unix())
	return failed == nil && alike(was.Features(), is.Features()), ctx.Err()
}

// seen is what a delivery says of its pages, to the Machine. Clerks call it.
func seen(ctx context.Context, au *auditor, d *archive.Delivery, records []archive.Judged) ([]trust.Seen, error) {
	all, l := make([]trust.Seen, len(d.Pages)), likeness{au: au, origin: d.Host}
	for i := range d.Pages {
		p := &d.Pages[i]
		records[i] = archive.Judged{Hash: p.Hash, Page: p.Record, Was: p.Record}
		unlike, err := l.unlike(ctx, d, p)
		if err != nil {
			return nil, err
		}
		alike, err := l.alike(ctx, d, p)
		if err != nil {
			return nil, err
		}
		all[i] = trust.Seen{URL: p.Hash, Page: &records[i].Page, Digest: p.Digest, Raw: p.Raw, Shingle: p.Shingle, Modified: p.Modified, Unlike: unlike, Alike: alike}
	}
	return all, nil
}
