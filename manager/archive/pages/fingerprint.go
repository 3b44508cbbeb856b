package pages

import (
	"shoal/channel"
	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/schema"
	"shoal/manager/archive/warc"
)

// isNear reports whether a new version of a page has nearly the text of the version before. known: it is none, since nothing changed, or it is the first or last.
func (b *builder) isNear(d *draft, p *channel.Page, digest uint64, known bool) (bool, error) {
	if err := b.fingerprint(d, p, digest); err != nil || known {
		return false, err
	}
	if d.page.Size < minNear || len(p.Body) < minNear {
		return false, nil
	}
	return channel.Near(d.page.Shingle, p.Shingle) || p.Change == channel.NearUnchanged && b.p.cfg.Fingerprint == nil, nil
}

// fingerprint computes the fingerprint of a new version's text where something depends on it: if it is told to be near that of the version before, or if the page
// is known to differ at each fetch. There, honest visits confirm a version whose text is near theirs; so a forgery that came with the fingerprint of the true
// page would be confirmed. A body that is only the text of the page, as some channels want, is not what the fingerprint is of; there the told one stays.
func (b *builder) fingerprint(d *draft, p *channel.Page, digest uint64) error {
	compute := b.p.cfg.Fingerprint
	if compute == nil || len(p.Body) == 0 || d.page.Visits < 2 || d.page.Digest == digest {
		return nil
	}
	if !channel.Near(d.page.Shingle, p.Shingle) {
		differs, err := b.differs(d)
		if err != nil || !differs {
			return err
		}
	}
	if channel.ContentDigest(p.Body) == digest {
		p.Shingle = compute(p.URL, warc.FieldList(p.Header, "Content-Type"), p.Body)
	}
	return nil
}

// differs reports whether visits saw another content of the page and nearly the same text.
func (b *builder) differs(d *draft) (bool, error) {
	t := new(pb.Trust)
	_, err := ledger.Get(b.snap, schema.Key2(schema.Trust, uint64(d.owner), d.url), t)
	return t.GetDynamic() > 0, err
}
