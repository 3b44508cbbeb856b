package manager

import (
	"bytes"
	"context"
	"errors"

	"shoal/channel"
	"shoal/manager/archive"
	"shoal/manager/trust"
)

// worth is what there is to be credited for where a checker saw a page alike, as far as it is compared, and with other bytes: nil if they are the same. Comments and what else
// nobody sees could make any page large, and any crawl's version a new one.
func worth(ctx context.Context, au *auditor, url string, said, seen *archive.EvidenceFetch, was *trust.Page) (*archive.Worth, error) {
	if said.Size == seen.Size && bytes.HasPrefix(said.Body, seen.Body) { // as much as is kept of what a checker saw
		return nil, nil
	}
	w := &archive.Worth{Bytes: min(said.Size, seen.Size)}
	if was.Prev.State == trust.None {
		return w, nil
	}
	before, err := au.said(ctx, url, was.Prev.By, was.Prev.At)
	if errors.Is(err, archive.ErrNotFound) {
		return w, nil
	}
	if err == nil {
		w.Nothing = alike(before.Features(), said.Features())
	}
	return w, err
}

// crawlsWorth is worth of the pages whose versions a crawl has verified, where there is a doubt: the text is nearly that of the version before, as where two friends say that
// there is a comment, or it saw other bytes than that version's. What cannot be read is credited. Clerks call it.
func crawlsWorth(ctx context.Context, au *auditor, d *archive.Delivery, records []archive.Judged) error {
	for i := range records {
		j, p := &records[i], &d.Pages[i]
		g := &j.Page
		before := g.Prev.State != trust.None && g.Prev.At < g.Cur.At && channel.Near(g.Prev.Shingle, g.Cur.Shingle)
		otherwise := p.Digest != 0 && p.Digest != g.Cur.Digest
		if !verifies(&j.Was, g) || !before && !otherwise {
			continue
		}
		said, failed := au.said(ctx, p.URL, g.Cur.By, g.Cur.At)
		if failed != nil {
			continue
		}
		w := &archive.Worth{Bytes: said.Size}
		if otherwise {
			w.Bytes = min(w.Bytes, p.Size)
		}
		if before {
			last, failed := au.said(ctx, p.URL, g.Prev.By, g.Prev.At)
			w.Nothing = failed == nil && alike(last.Features(), said.Features())
		}
		j.Worth = w
	}
	return ctx.Err()
}

// verifies tells whether a page's current version is verified, and was not as the page was before.
func verifies(was, is *trust.Page) bool {
	v := &is.Cur
	if v.State != trust.Verified {
		return false
	}
	for _, o := range []*trust.Version{&was.Cur, &was.Prev} {
		if o.State == trust.Verified && o.Digest == v.Digest && o.By == v.By && o.At == v.At {
			return false
		}
	}
	return true
}
