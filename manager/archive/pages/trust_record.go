package pages

import (
	"slices"

	"google.golang.org/protobuf/proto"

	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/schema"
	"shoal/manager/trust"
)

// trustOf reads how far the versions of a page are believed; false: nothing was ever said of them.
func trustOf(snap ledger.Snapshot, channel, url uint64) (*pb.Trust, bool, error) {
	t := new(pb.Trust)
	ok, err := ledger.Get(snap, schema.Key2(schema.Trust, channel, url), t)
	return t, ok, err
}

// recordOf is the stored form of a page's record as trust.Machine knows it.
func recordOf(t *pb.Trust) trust.Page {
	return trust.Page{
		Cur: versionIn(t.GetCur()), Prev: versionIn(t.GetPrev()), LastBy: trust.Peer(t.GetLastBy()), LastAt: t.GetLastAt(), Same: t.GetSame(),
		Dynamic: uint8(t.GetDynamic()), Flaps: uint8(t.GetFlaps()), Blind: uint8(t.GetBlind()),
	}
}

func versionIn(v *pb.Version) trust.Version {
	out := trust.Version{Digest: v.GetDigest(), Raw: v.GetRaw(), Shingle: v.GetShingle(), By: trust.Peer(v.GetBy()), At: v.GetAt(), State: stateIn(v.GetState()), Doubt: v.GetDoubt(), Nearly: v.GetNearly()}
	for i, n := range v.GetAlso()[:min(len(v.GetAlso()), len(out.Also))] {
		out.Also[i] = trust.Peer(n)
	}
	return out
}

// stateIn reads a stored state. One that this program does not know is in doubt.
func stateIn(n uint32) trust.State {
	if n > uint32(trust.Withdrawn) {
		return trust.Held
	}
	return trust.State(n)
}

// lastSeen takes in a visit that changed nothing of a record, and is not in it.
func lastSeen(g *trust.Page, by uint64, at int64) {
	if at > g.LastAt && g.Cur.State != trust.None {
		g.LastBy, g.LastAt, g.Same = trust.Peer(by), at, true
	}
}

// idle tells whether a record says the same as before but for the last visit, which saw what is shown: the page itself has that.
func idle(was, is *trust.Page) bool {
	if !is.Same || !is.Cur.State.Shown() || was.LastAt > is.LastAt {
		return false
	}
	w := *was
	w.LastBy, w.LastAt, w.Same = is.LastBy, is.LastAt, is.Same
	return w == *is
}

// skippable tells whether a delivery says nothing new of a page: its record stays, and that it is settled is known, or it is not.
func skippable(was, is *trust.Page) bool { return !is.Settled() && idle(was, is) }

// settled is the digest of the version that a page shows, if its record is trust.Page.Settled; 0: it is not, or the page shows something else.
func settled(g *trust.Page, m *pb.Page) uint64 {
	if !g.Settled() || m.Digest != g.Cur.Digest || m.Gone || m.Withdrawn {
		return 0
	}
	return m.Digest
}

// storedVersion is the stored form of a version; nil: there is none. was is the stored form of the same version, if there is one: what only the archive
// knows of it stays.
func storedVersion(v *trust.Version, was *pb.Version) *pb.Version {
	if v.State == trust.None {
		return nil
	}
	out := &pb.Version{
		Digest: v.Digest, Raw: v.Raw, Shingle: v.Shingle, By: uint64(v.By), At: v.At, State: uint32(v.State), Doubt: v.Doubt, Nearly: v.Nearly,
		FetchedUs: was.GetFetchedUs(), Credited: was.GetCredited(),
	}
	for _, n := range v.Also[:v.Seen()] {
		out.Also = append(out.Also, uint64(n))
	}
	return out
}

// version is a stored version of a record that is the same one as v; nil: there is none.
func version(t *pb.Trust, v *trust.Version) *pb.Version {
	for _, w := range []*pb.Version{t.GetCur(), t.GetPrev()} {
		if w != nil && w.Digest == v.Digest && w.By == uint64(v.By) && w.At == v.At {
			return w
		}
	}
	return nil
}

// without is the record of a page of which nothing was said yet, and that was stored before this visit: one provisional version.
func without(before *pb.Version) *pb.Trust {
	if before == nil {
		return &pb.Trust{}
	}
	return &pb.Trust{Cur: before, LastBy: before.By, LastAt: before.At, Shows: before.Digest}
}

// storedBefore is the version of a page that a record of the page as it is now stands for, where nothing else is known of it.
func storedBefore(m *pb.Page) *pb.Version {
	if m.FirstUs == 0 || m.Digest == 0 || m.Gone || m.Withdrawn {
		return nil
	}
	return &pb.Version{Digest: m.Digest, Raw: m.Raw, Shingle: m.Shingle, By: m.Deliverer, At: m.FetchedUs / 1e6, State: uint32(trust.Provisional)}
}

// Names tells whether a record rests on a deliverer's word.
func Names(t *pb.Trust, by uint64) bool {
	for _, v := range []*pb.Version{t.GetCur(), t.GetPrev()} {
		if v.GetBy() == by || slices.Contains(v.GetAlso(), by) {
			return true
		}
	}
	return false
}

// Purged is a page's record once all is gone that some deliverers said; nil: nothing is left of it. With that falls what suspended deliverers are then alone to say: withheld
// are they, and before is what a pardon gives them back.
func Purged(snap ledger.Snapshot, t *pb.Trust, purged []uint64) (out, before *pb.Trust, withheld []trust.Peer, err error) {
	if out = withoutDeliverers(t, purged); out == nil {
		return nil, nil, nil, nil
	}
	g, s := recordOf(out), standings{snap: snap}
	if withheld, err = s.disown(&g); err != nil || len(withheld) == 0 {
		return out, nil, nil, err
	}
	before, out = out, proto.CloneOf(out)
	out.Cur, out.Prev = storedVersion(&g.Cur, version(before, &g.Cur)), storedVersion(&g.Prev, version(before, &g.Prev))
	out.Shows = shownOf(out).GetDigest()
	return out, before, withheld, nil
}

// withoutDeliverers is a record without what some deliverers said; nil: nothing is left of it.
func withoutDeliverers(t *pb.Trust, purged []uint64) *pb.Trust {
	g := recordOf(t)
	for _, by := range purged {
		g.Withdraw(trust.Peer(by))
	}
	keep := func(v *trust.Version) *pb.Version {
		if slices.Contains(purged, uint64(v.By)) {
			return nil
		}
		return storedVersion(v, version(t, v))
	}
	out := &pb.Trust{Cur: keep(&g.Cur), Prev: keep(&g.Prev), LastBy: t.LastBy, LastAt: t.LastAt, Same: t.Same, Dynamic: t.Dynamic, Flaps: t.Flaps, Blind: t.Blind, Gen: t.Gen}
	if out.Cur == nil {
		out.Cur, out.Prev = out.Prev, nil
	}
	if out.Cur == nil {
		return nil
	}
	if slices.Contains(purged, out.LastBy) {
		out.LastBy, out.LastAt, out.Same = out.Cur.By, out.Cur.At, false
	}
	out.Shows = shownOf(out).GetDigest()
	return out
}
