package crawl

import (
	"slices"

	"shoal/channel"
)

// known is what the archive says about the stored copy: pairs of URL hash and content digest. A URL may have several, since pages return to
// earlier content.
type known struct {
	pairs []channel.PageDigest // by URL, then content
}

func newKnown(in []channel.PageDigest) known {
	pairs := slices.Clone(in)
	slices.SortFunc(pairs, func(a, b channel.PageDigest) int {
		if a.URL != b.URL {
			if a.URL < b.URL {
				return -1
			}
			return 1
		}
		if a.Content < b.Content {
			return -1
		} else if a.Content > b.Content {
			return 1
		}
		return 0
	})
	return known{pairs}
}

// change compares content with the stored copies of a URL.
func (k known) change(url, content uint64) channel.Change {
	i, found := slices.BinarySearchFunc(k.pairs, url, func(p channel.PageDigest, u uint64) int {
		if p.URL < u {
			return -1
		} else if p.URL > u {
			return 1
		}
		return 0
	})
	if !found {
		return channel.New
	}
	for ; i < len(k.pairs) && k.pairs[i].URL == url; i++ {
		if k.pairs[i].Content == content {
			return channel.Unchanged
		}
	}
	return channel.Changed
}

// has reports whether a URL was stored before.
func (k known) has(url uint64) bool { return k.change(url, 0) != channel.New }
