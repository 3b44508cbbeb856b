package pages

import (
	"slices"

	"shoal/channel"
	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/schema"
	"shoal/manager/trust"
)

// standings tells how far captures are believed. It is for one snapshot, and keeps what it has read of the last URL and of the deliverers.
type standings struct {
	snap      ledger.Snapshot
	url       string
	record    *pb.Trust // of url; never nil when that is set
	suspended map[uint64]bool
	repeated  map[string]kept // see repeats; nil: not looked yet
	left      []*pb.Version   // that leave the record in the write that is being made
}

// kept is what was noted with a capture when the page's record had no more room for its version.
type kept struct {
	state  trust.State
	also   []uint64 // verified: who vouched for it; none: that was not kept
	nearly bool     // somebody of also saw nearly the same
	by     uint64   // who delivered it
}

func keptWith(m *pb.Capture) kept { return kept{stateIn(m.State), m.Also, m.Nearly, m.Deliverer} }

// look turns to a page.
func (s *standings) look(url string) error {
	if s.url == url && s.record != nil {
		return nil
	}
	s.url, s.record, s.repeated = url, &pb.Trust{}, nil
	h := channel.URLHash(url)
	id, ok, err := owner(s.snap, h)
	if err != nil || !ok {
		return err
	}
	s.record, _, err = trustOf(s.snap, uint64(id), h)
	return err
}

// capture is how far a capture of the page is believed. A visit that saw what the one before it saw is believed as that one is: what is noted of a version that its
// page's record has forgotten is noted with its first capture alone.
func (s *standings) capture(key []byte, m *pb.Capture) (trust.State, error) {
	kept := keptWith(m)
	if kept.state == trust.None && m.Digest != 0 && !describes(s.record, m.Digest) {
		if err := s.repeats(); err != nil {
			return 0, err
		}
		kept = s.repeated[string(key)]
	}
	return s.of(m.Digest, m.Deliverer, kept)
}

// repeats looks through the page's captures for those that repeat one with which a state is noted. What does not stand in between does not count: the page was as
// it had been all the time.
func (s *standings) repeats() error {
	if s.repeated != nil {
		return nil
	}
	s.repeated = map[string]kept{}
	var last, bad uint64 // digests of the last capture that stands, and of the last one if that does not
	var noted, worse kept
	return s.snap.Scan(append(append([]byte{schema.Capture}, SURT(s.url)...), 0), nil, true, func(key, value []byte) (bool, error) {
		m := new(pb.Capture)
		if err := schema.Decode(value, m); err != nil {
			return false, err
		}
		if m.Digest == 0 || URLOfCapture(key) != s.url {
			return true, nil
		}
		is := keptWith(m)
		switch repeats := is.state == trust.None; {
		case repeats && m.Digest == bad:
			is = worse
		case repeats && m.Digest == last:
			is = noted
		case repeats:
			if suspended, err := s.isSuspended(m.Deliverer); err != nil || suspended {
				return true, err
			}
		}
		if stateIn(m.State) == trust.None && is.state != trust.None {
			s.repeated[string(key)] = is
		}
		if bad = 0; is.state != trust.None && !is.state.Shown() {
			bad, worse = m.Digest, is
		} else {
			last, noted = m.Digest, is
		}
		return true, nil
	})
}

// of is how far a capture of the page is believed. digest is that of its content, was what was noted with the capture.
//
// What the page's record knows decides; then what was noted when the record had no more room for the version; then whether the deliverer is suspended. What
// nothing is known of is provisional.
func (s *standings) of(digest, deliverer uint64, was kept) (trust.State, error) {
	if digest != 0 {
		for _, v := range []*pb.Version{s.record.GetCur(), s.record.GetPrev()} {
			if v != nil && v.Digest == digest {
				return stateIn(v.State), nil
			}
		}
	}
	for _, v := range s.left {
		if was.state == trust.None && digest != 0 && v.Digest == digest && lasting(v) {
			was = kept{stateIn(v.State), v.Also, v.Nearly, v.By}
		}
	}
	if was.state == trust.Withdrawn {
		return was.state, nil
	}
	if was.state == trust.Verified {
		vouched := len(was.also) == 0
		for _, by := range was.also {
			suspended, err := s.isSuspended(by)
			if err != nil {
				return 0, err
			}
			vouched = vouched || !suspended
		}
		if vouched && was.nearly {
			alone, err := s.isSuspended(was.by)
			if err != nil {
				return 0, err
			}
			vouched = !alone
		}
		if vouched {
			return was.state, nil
		}
		deliverer = was.by // also of a capture that repeats it: who vouched is not believed, or did not see all of it
	}
	if suspended, err := s.isSuspended(deliverer); err != nil || suspended {
		return trust.Withdrawn, err
	}
	if was.state == trust.Contested || was.state == trust.Held {
		return was.state, nil
	}
	return trust.Provisional, nil
}

// isSuspended tells whether what a deliverer alone has seen is withdrawn.
func (s *standings) isSuspended(deliverer uint64) (bool, error) {
	if deliverer == 0 {
		return false, nil
	}
	if known, ok := s.suspended[deliverer]; ok {
		return known, nil
	}
	var m pb.Suspension
	found, err := ledger.Get(s.snap, schema.Key(schema.Suspension, deliverer), &m)
	if err != nil {
		return false, err
	}
	if s.suspended == nil {
		s.suspended = map[uint64]bool{}
	}
	s.suspended[deliverer] = found && !m.Pardon
	return found && !m.Pardon, nil
}

// disown takes out of a record what suspended deliverers have said, and tells who they are whose word was in it. Those who vouch come before those who delivered: what
// is left of a version then is what others say.
func (s *standings) disown(g *trust.Page) (changed []trust.Peer, err error) {
	for _, by := range slices.Concat(g.Cur.Also[:], g.Prev.Also[:], []trust.Peer{g.Cur.By, g.Prev.By}) {
		suspended, err := s.isSuspended(uint64(by))
		if err != nil {
			return nil, err
		}
		if was := *g; suspended && (g.Withdraw(by) || *g != was) {
			changed = append(changed, by)
		}
	}
	return changed, nil
}

// change is how far the version that a line of the feed tells of is believed now.
func (s *standings) change(e *pb.PageEvent) (trust.State, error) {
	if Event(e.GetEvent()) == Gone || e.GetAt() == nil {
		return trust.None, nil
	}
	if err := s.look(e.Url); err != nil {
		return 0, err
	}
	state, err := s.of(e.Digest, e.Deliverer, kept{})
	if err != nil || state != trust.Provisional && state != trust.Withdrawn {
		return state, err
	}
	c := new(pb.Capture) // what was noted with it, if the page's record has forgotten the version
	ok, err := ledger.Get(s.snap, CaptureKey(e.Url, schema.Time(e.FetchedUs)), c)
	if err != nil || !ok || c.State == 0 {
		return state, err
	}
	return s.of(e.Digest, e.Deliverer, keptWith(c))
}

// StateName says in a word how far a version is believed: provisional, verified or withdrawn; empty: it says nothing of a version.
func StateName(s trust.State) string {
	switch s {
	case trust.None:
		return ""
	case trust.Verified, trust.Withdrawn:
		return s.String()
	}
	return trust.Provisional.String()
}

// MayBeShown makes a function that tells whether a capture of a page may be what the page shows, once all is gone that some deliverers said.
func MayBeShown(snap ledger.Snapshot, url string, purged []uint64) (func(key []byte, m *pb.Capture) (bool, error), error) {
	s := standings{snap: snap}
	if err := s.look(url); err != nil {
		return nil, err
	}
	var err error
	if s.record, _, _, err = Purged(snap, s.record, purged); err != nil {
		return nil, err
	}
	if s.record == nil {
		s.record = &pb.Trust{}
	}
	return func(key []byte, m *pb.Capture) (bool, error) {
		state, err := s.capture(key, m)
		return state.Shown(), err
	}, nil
}

// Kept makes a function that tells whether a capture is the first one of the version that its page shows, or of the verified one before it, to which it returns if
// that is withdrawn.
func Kept(snap ledger.Snapshot) func(key []byte) (bool, error) {
	s := standings{snap: snap}
	return func(key []byte) (bool, error) {
		if err := s.look(URLOfCapture(key)); err != nil {
			return false, err
		}
		_, at, _ := schema.CaptureOf(key)
		is := func(v *pb.Version) bool { return v != nil && v.FetchedUs == at.UnixMicro() }
		shown, before := shownOf(s.record), s.record.GetPrev()
		return is(shown) || is(before) && stateIn(before.State) == trust.Verified && stateIn(shown.GetState()) != trust.Verified, nil
	}
}
