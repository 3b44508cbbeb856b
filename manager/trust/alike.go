package trust

import "shoal/channel"

// Contests tells whether a visit would have the arbiter asked about the current version, whose text is nearly what it saw: the version before is back, or the page is older than
// the last visit. Then it matters whether what it saw is Alike. modified is as Seen.Modified.
func (p *Page) Contests(by Peer, digest, shingle uint64, modified int64) bool {
	v := &p.Cur
	if digest == 0 || v.State == None || digest == v.Digest || p.LastBy == by || !channel.Near(v.Shingle, shingle) {
		return false
	}
	return p.Prev.State.Shown() && p.alike(&p.Prev, digest, shingle) || 0 < modified && modified < p.LastAt
}
