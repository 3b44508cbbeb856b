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
// same, and are so too if somebody has added a sentence or a link: the contents tell.
type likeness struct {
	au     *auditor
	origin string
	host   *compare.Host // what is learnt of it; nil: it was not asked for yet
}

// unlike tells whether a page of a delivery is another page than the version that it would corroborate. What is not kept any more cannot be compared. Clerks call it.
func (l *likeness) unlike(ctx context.Context, d *archive.Delivery, p *archive.Delivered) (bool, error) {
	g := &p.Record
	if !g.Doubtful(d.Deliverer, p.Digest, p.Shingle) {
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
	is, err := l.au.said(ctx, p.URL, d.Deliverer, d.Claimed.Unix())
	if err == nil {
		var was *archive.EvidenceFetch
		if was, err = l.au.said(ctx, p.URL, g.Cur.By, g.Cur.At); err == nil {
			a, b := was.Features(), is.Features()
			return a != nil && b != nil && l.host.Compare(a, b).Verdict == compare.Conflict, nil
		}
	}
	if errors.Is(err, archive.ErrNotFound) {
		return false, nil
	}
	return false, fmt.Errorf("compare %s with its current version: %w", p.URL, err)
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
		all[i] = trust.Seen{URL: p.Hash, Page: &records[i].Page, Digest: p.Digest, Shingle: p.Shingle, Modified: p.Modified, Unlike: unlike}
	}
	return all, nil
}
