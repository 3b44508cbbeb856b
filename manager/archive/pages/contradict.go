package pages

import (
	"cmp"
	"encoding/binary"
	"slices"

	pb "shoal/manager/archive/archivepb"
	"shoal/manager/conduct"
)

// contradiction is a peer's word about one page that two other accounts contradict.
type contradiction struct {
	deliverer uint64
	deed      conduct.Deed
}

// versionOf tells versions of a page apart; 0: there is none.
func versionOf(sha []byte) uint64 {
	if len(sha) < 8 {
		return 0
	}
	return max(binary.BigEndian.Uint64(sha), 1)
}

// compare looks whether the visit contradicts what a peer of another account said. m is the page as it was before the visit. A version that one account alone
// has delivered is contradicted if a second account saw the same content before it that a third sees after it. That happens to honest peers too, where a page
// shows different visitors different content, but seldom.
func (b *builder) compare(m *pb.Page, sha [32]byte, here bool) {
	now := versionOf(sha[:])
	if !m.Confirmed && m.Account != 0 && b.account != 0 && now == m.Before && now != versionOf(m.Sha256) && three(m.Account, m.BeforeAccount, b.account) {
		b.contradicts = append(b.contradicts, contradiction{m.Deliverer, conduct.Forged})
	}
	if here {
		b.seen(m)
	}
}

// seen takes in that a page is there. Who said before that it is not is contradicted, if its current version is not this account's alone.
func (b *builder) seen(m *pb.Page) {
	if m.MissingBy != 0 && m.Missing != m.Account && m.Missing != b.account && (m.Confirmed || three(m.Missing, m.Account, b.account)) {
		b.contradicts = append(b.contradicts, contradiction{m.MissingBy, conduct.Gone})
		m.MissingBy = 0
	}
}

// three reports whether three accounts are known, and no two are the same.
func three(x, y, z uint64) bool { return x != 0 && y != 0 && z != 0 && x != y && y != z && x != z }

// tell tells of the contradictions of a chunk.
func (b *builder) tell() {
	slices.SortFunc(b.contradicts, func(x, y contradiction) int {
		return cmp.Or(cmp.Compare(x.deliverer, y.deliverer), cmp.Compare(x.deed, y.deed))
	})
	for i := 0; i < len(b.contradicts); {
		n := i
		for n < len(b.contradicts) && b.contradicts[n] == b.contradicts[i] {
			n++
		}
		b.p.ledger.Contradicted(b.contradicts[i].deliverer, b.contradicts[i].deed, n-i)
		i = n
	}
}
