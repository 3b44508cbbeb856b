package trust

import (
	"cmp"
	"slices"

	"shoal/channel"
)

// Peer is the number by which captures name a peer: it tells strangers nothing.
type Peer uint64

// State is what is known of a version. The numbers are stored.
type State uint8

// The states. Held and Contested are provisional versions that are not shown as current: the version before them is.
const (
	None        State = iota
	Provisional       // one account saw it
	Verified          // another account in another prefix saw it alike; of a dynamic page two did
	Held              // provisional, and its deliverer or its channel is in doubt
	Contested         // the crawls before and after contradict it
	Withdrawn         // its deliverer was suspended, or an arbiter saw otherwise
)

func (s State) String() string {
	return [...]string{"none", "provisional", "verified", "held", "contested", "withdrawn"}[min(s, Withdrawn)]
}

// Shown tells whether a version may be a page's current one.
func (s State) Shown() bool { return s == Provisional || s == Verified }

// Version is one content of a page, as first delivered.
type Version struct {
	Digest  uint64  // channel.ContentDigest
	Raw     uint64  // of the page as it came, where less was sent, as its text only; 0: all was, or it is not known
	Shingle uint64  // channel.Shingler's
	By      Peer    // who delivered it first
	Also    [3]Peer // who saw it alike, in their order; 0: nobody yet
	At      int64   // when By fetched it, Unix seconds
	State   State
	Doubt   bool // its delivery lost before the arbiter, by this page or by another
	Nearly  bool // somebody of Also saw nearly the same, as of a page that differs at each fetch: a part of it may be By's alone
}

// Page is the record of one page. Its keeper stores it beside the page.
type Page struct {
	Cur, Prev Version
	LastBy    Peer  // the peer of the last visit
	LastAt    int64 // Unix seconds
	Same      bool  // the last visit brought no new version
	Dynamic   uint8 // visits in turn that saw another digest and nearly the same text, at most 3
	Flaps     uint8 // times that it went back to an earlier version, at most 3
	Blind     uint8 // rulings in turn in which all fetches differed, at most 3
}

// dynamicFrom is how many visits must have seen another digest and nearly the same text. Their peers are of different accounts, since consecutive crawls are.
const dynamicFrom = 2

// IsDynamic tells whether each fetch of the page is expected to differ.
func (p *Page) IsDynamic() bool { return p.Dynamic >= dynamicFrom }

// blindFrom is how many rulings in turn must have been no evidence before a page is audited no more. No two fetches of it can be compared, so that no version of
// it is ever verified either.
const blindFrom = 2

// Shown returns the version that is current for whoever uses the archive, nil if there is none.
func (p *Page) Shown() *Version {
	switch {
	case p.Cur.State.Shown():
		return &p.Cur
	case p.Prev.State.Shown():
		return &p.Prev
	}
	return nil
}

// Tells says whether the next peer may be told digest and validators of the page: only of a version that two accounts saw.
func (p *Page) Tells() bool { return p.Cur.State == Verified }

// settledBy is how many accounts beside the deliverer's must have seen a version before one more makes no difference: one of them may be suspended, and the
// version is verified still.
const settledBy = 2

// Settled tells whether a visit that sees the current version as it is changes nothing of the record but who came last. The archive need not read the
// records of such pages when a delivery is judged: they come as Delivery.Quiet.
func (p *Page) Settled() bool {
	return p.Cur.State == Verified && p.Cur.Seen() >= settledBy && p.Dynamic == 0 && p.Blind == 0
}

// alike tells whether a visit saw a version: the same content or, of a dynamic page, nearly the same text.
func (p *Page) alike(v *Version, digest, shingle uint64) bool {
	return v.State != None && (v.Digest == digest || p.IsDynamic() && channel.Near(v.Shingle, shingle))
}

// readOtherwise tells whether a visit came upon the same page as a version, and sent a little another text of it, as peers do whose programs read pages a little
// differently. Neither vouches for the other, since one may have made its text up; but that they differ is nobody's fault. It goes by what the peers say: the contents tell
// more, see Seen.Unlike.
func (v *Version) readOtherwise(s *Seen) bool {
	return s.Digest != 0 && v.State != None && s.Digest != v.Digest && cmp.Or(s.Raw, s.Digest) == cmp.Or(v.Raw, v.Digest) && channel.Near(s.Shingle, v.Shingle)
}

// Seen is how many accounts beside the deliverer's saw the version alike, as far as they are counted.
func (v *Version) Seen() int {
	for i, p := range v.Also {
		if p == 0 {
			return i
		}
	}
	return len(v.Also)
}

// needed is how many accounts beside the deliverer's must have seen a version before it is verified. Liars who are after one host vouch for each other:
// two of them are not enough where there is a doubt.
func (p *Page) needed(v *Version) int {
	switch {
	case v.Doubt:
		return 3
	case p.IsDynamic():
		return 2
	}
	return 1
}

// see counts a visit of an established peer that may corroborate the current version. nearly says that it saw nearly the same.
func (p *Page) see(by Peer, nearly bool) {
	v := &p.Cur
	v.Also[v.Seen()] = by
	v.Nearly = v.Nearly || nearly
	if v.Seen() >= p.needed(v) && (v.State == Provisional || v.State == Held) {
		v.State = Verified
	}
}

// push makes v current. What was current is the version before it, unless it was in doubt and there is a better one.
func (p *Page) push(v Version) {
	if p.Cur.State.Shown() || !p.Prev.State.Shown() && p.Cur.State != Withdrawn {
		p.Prev = p.Cur
	}
	p.Cur = v
}

// goBack makes the version before current again, and keeps the other one as contested.
func (p *Page) goBack() {
	p.Cur, p.Prev = p.Prev, p.Cur
	if p.Prev.State != Withdrawn {
		p.Prev.State = Contested
	}
}

// shows tells whether the current version is what a delivery saw: who saw the same as that delivery vouches for no version that came later.
func (p *Page) shows(by Peer, at int64) bool {
	return p.Cur.By == by && p.Cur.At == at || p.LastBy == by && p.LastAt == at
}

// visited is a time before which the last visit was not, for a visit that comes after it and is dated at. A visit that is dated later was dated by a clock that was ahead and
// has been set right since: the page may have changed after it and before the date. The versions were delivered by that visit, or before it. 0: no date can be relied on.
func (p *Page) visited(at int64) int64 {
	for _, t := range []int64{p.LastAt, p.Cur.At, p.Prev.At} {
		if t <= at {
			return t
		}
	}
	return 0
}

// after is the time of the delivery by which the accuser of a next crawl contradicted another one, as far as the record knows; else what is given.
func (p *Page) after(k *Case, or int64) int64 {
	switch {
	case p.Cur.By == k.Accuser && p.Cur.At > k.At:
		return p.Cur.At
	case p.Prev.By == k.Accuser && p.Prev.At > k.At:
		return p.Prev.At
	case p.LastBy == k.Accuser && p.LastAt > k.At:
		return p.LastAt
	}
	return or
}

// disbelieve takes back what a delivery said of the page that lost before the arbiter: a version of its own, and its word for that of another.
func (p *Page) disbelieve(by Peer, at int64) {
	for _, v := range []*Version{&p.Cur, &p.Prev} {
		if p.LastBy == by && p.LastAt == at {
			p.unsay(v, by)
		}
		if v.State != None && v.By == by && v.At == at {
			v.State, v.Doubt = Withdrawn, true
		}
	}
}

// Hold marks the version that a peer delivered at a time as held, if nobody has corroborated it. What the same delivery said of another's version corroborates it no
// more: liars who are after one host come in turn, and each would vouch for the one before. It reports whether the record has changed.
func (p *Page) Hold(by Peer, at int64) bool {
	unsaid := p.LastBy == by && p.LastAt == at && p.unsay(&p.Cur, by)
	if p.Cur.By != by || p.Cur.At != at || p.Cur.State != Provisional && p.Cur.State != Held {
		return unsaid
	}
	p.Cur.State, p.Cur.Doubt = Held, true
	return true
}

// unsay takes a peer's word for a version of another back.
func (p *Page) unsay(v *Version, by Peer) bool {
	i := slices.Index(v.Also[:], by)
	if i < 0 {
		return false
	}
	copy(v.Also[i:], v.Also[i+1:])
	v.Also[len(v.Also)-1] = 0
	v.Nearly = v.Nearly && v.Seen() > 0
	if v.State == Verified && v.Seen() < p.needed(v) {
		if v.State = Provisional; v.Doubt {
			v.State = Held
		}
	}
	return true
}

// mistrust has a version be verified no more which a visit left as it was, as the host had told it, and which is not what the host shows: three others must see it.
func (p *Page) mistrust(k *Case) {
	v := &p.Cur
	switch {
	case p.LastBy == k.Accused && p.LastAt == k.At:
	case p.Cur.By == k.Accuser && p.Cur.At > k.At: // the next crawl's own is current
		v = &p.Prev
	default:
		return
	}
	if v.State != Verified && v.State != Provisional {
		return
	}
	v.State, v.Doubt = Provisional, true
	if v.Also = [len(v.Also)]Peer{v.Also[0]}; v.Also[0] == k.Accused {
		v.Also[0] = 0
	}
	v.Nearly = v.Nearly && v.Seen() > 0
}

// Accept ends a hold: the audits of the delivery were valid.
func (p *Page) Accept(by Peer, at int64) bool {
	if p.Cur.By != by || p.Cur.At != at || p.Cur.State != Held || p.Cur.Doubt {
		return false
	}
	p.Cur.State = Provisional
	return true
}

// Withdraw takes back what a peer said of the page: its versions that are not independently corroborated, or of which somebody saw nearly the same and not the same, and
// its word for those of others. again says that the page should be crawled again first: what is current rests on that peer, or its last visit was.
func (p *Page) Withdraw(by Peer) (again bool) {
	again = p.LastBy == by
	for _, v := range []*Version{&p.Cur, &p.Prev} {
		if v.State == None || v.State == Withdrawn {
			continue
		}
		if was := v.State; p.unsay(v, by) && v.State != was {
			again = true
		}
		if v.By == by && (v.Nearly || v.Seen() < p.needed(v)) {
			v.State = Withdrawn
			again = again || v == &p.Cur
		}
	}
	return again
}

// Restore gives back what Withdraw took of a peer that was pardoned. It is provisional until corroborated.
func (p *Page) Restore(by Peer) {
	for _, v := range []*Version{&p.Cur, &p.Prev} {
		if v.By == by && v.State == Withdrawn {
			v.State = Provisional
			if v.Seen() >= p.needed(v) {
				v.State = Verified
			}
		}
	}
}
