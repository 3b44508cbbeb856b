package pages

import (
	"crypto/sha256"
	"encoding/binary"

	"shoal/channel"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/schema"
)

// Limits of the links that are kept for PageRank; the others are in the records only.
const (
	maxRankLinks     = 1000    // of a page
	maxRankLinkBytes = 1 << 20 // of a chunk
)

// keepLinks has a page's links stored, or forgotten when it is no more.
func (b *builder) keepLinks(d *draft, p *channel.Page, here bool) {
	k := schema.Key2(schema.Links, uint64(b.id), d.url)
	if !here {
		b.links = append(b.links, ledger.Change{Key: k})
		return
	}
	urls := make([]uint64, min(len(p.Links), maxRankLinks))
	for n := range urls {
		urls[n] = channel.URLHash(p.Links[n])
	}
	v := schema.EncodeLinks(urls)
	if b.linkBytes += len(v); b.linkBytes <= maxRankLinkBytes {
		b.links = append(b.links, ledger.Change{Key: k, Value: v})
	}
}

// linksDigest is a digest of a page's links in their order; 0: there are none.
func linksDigest(links []string) uint64 {
	if len(links) == 0 {
		return 0
	}
	h := sha256.New()
	for _, l := range links {
		h.Write([]byte(l))
		h.Write([]byte{'\n'})
	}
	return max(binary.BigEndian.Uint64(h.Sum(nil)), 1)
}

// linksOf adds the links of a page's stored version to out.
func linksOf(snap ledger.Snapshot, id channel.ID, url uint64, out []uint64) (_ []uint64, err error) {
	_, err = snap.Get(schema.Key2(schema.Links, uint64(id), url), func(v []byte) error {
		out, err = schema.DecodeLinks(out, v)
		return err
	})
	return out, err
}

// RankAt reads a page's PageRank; 0: it was not computed yet.
func RankAt(snap ledger.Snapshot, key []byte) (r float32, err error) {
	_, err = snap.Get(key, func(v []byte) error {
		r, err = schema.DecodeRank(v)
		return err
	})
	return r, err
}
