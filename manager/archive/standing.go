package archive

import (
	"cmp"
	"slices"

	"github.com/dgraph-io/badger/v4"

	"shoal/channel"
	pb "shoal/manager/archive/archivepb"
)

// maxStanding bounds the URLs of stored pages, in bytes, that a claim takes along: more than that costs a peer more than it spares.
const maxStanding = 512 << 10

// standing gives the URLs of the stored pages of a channel, those nearest to its seeds first. A crawl that has them all on its to-do
// list need not read a page to find the others, and may ask for each with its validators. All or none: nothing where they are too
// many, or fewer than half have a validator.
func standing(txn *badger.Txn, id channel.ID) ([]channel.Frontier, error) {
	var out []channel.Frontier
	bytes, valid := 0, 0
	m := new(pb.Page)
	err := scan(txn, key1(keyPage, uint64(id)), nil, true, func(_ []byte, item *badger.Item) (bool, error) {
		m.Reset()
		if err := item.Value(func(b []byte) error { return decode(b, m) }); err != nil {
			return false, err
		}
		if m.Gone || m.FirstUs == 0 {
			return true, nil
		}
		if len(m.Etag)+len(m.LastModified) > 0 && m.Digest != 0 {
			valid++
		}
		bytes += len(m.Url)
		out = append(out, channel.Frontier{URL: m.Url, Depth: int(m.Depth)})
		return bytes <= maxStanding, nil
	})
	if err != nil || bytes > maxStanding || 2*valid < len(out) {
		return nil, err
	}
	slices.SortFunc(out, func(a, b channel.Frontier) int {
		return cmp.Or(cmp.Compare(a.Depth, b.Depth), cmp.Compare(a.URL, b.URL))
	})
	return out, nil
}
