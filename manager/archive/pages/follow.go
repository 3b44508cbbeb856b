package pages

import (
	"bytes"
	"errors"
	"net/http"
	"slices"
	"time"

	"shoal/channel"
	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/schema"
	"shoal/manager/trust"
)

// follow has what is kept of a page follow its record: the state of the page describes the version that is shown, versions that leave the record take their
// state along, and the feed tells what readers have to know. taken says that the Machine took in this visit.
func (v *verdicts) follow(m *pb.Page, old, t *pb.Trust, fact *pb.Visited, taken bool) error {
	told := len(v.entries)
	v.left = v.left[:0]
	for _, w := range []*pb.Version{old.Cur, old.Prev} {
		if w == nil || sameVersion(w, t.Cur) || sameVersion(w, t.Prev) {
			continue
		}
		v.left = append(v.left, w)
		if err := v.leave(m.Url, w); err != nil {
			return err
		}
	}
	// What the page's state describes now: what this delivery brought, which the Machine has made current, or what it did before.
	if taken && fact != nil && fact.Digest != 0 && t.Cur != nil {
		t.Shows = t.Cur.Digest
	}
	if shown := shownOf(t); shown.GetDigest() != t.Shows {
		if err := v.settle(m, t, shown); err != nil {
			return err
		}
		t.Shows = shown.GetDigest()
	}
	for _, w := range []*pb.Version{t.Cur, t.Prev} {
		before := stateIn(sameOf(old, w).GetState())
		switch now := stateIn(w.GetState()); {
		case now == trust.Verified && before != trust.Verified:
			if err := v.verified(m, w); err != nil {
				return err
			}
		case now != trust.None && now != trust.Verified && before == trust.Verified && !slices.ContainsFunc(v.entries[told:], isWithdrawn): // that says as much
			if err := v.about(Unverified, m, w); err != nil {
				return err
			}
		}
	}
	return nil
}

func isWithdrawn(e *pb.Entry) bool { return Event(e.Page.GetEvent()) == Withdrawn }

func sameVersion(x, y *pb.Version) bool {
	return x != nil && y != nil && x.Digest == y.Digest && x.By == y.By && x.At == y.At
}

// sameOf is a record's version that is the same as w; nil: it has none.
func sameOf(t *pb.Trust, w *pb.Version) *pb.Version {
	switch {
	case sameVersion(t.Cur, w):
		return t.Cur
	case sameVersion(t.Prev, w):
		return t.Prev
	}
	return nil
}

// shownOf is the version of a record that is shown; nil: none is.
func shownOf(t *pb.Trust) *pb.Version {
	switch {
	case stateIn(t.GetCur().GetState()).Shown():
		return t.Cur
	case stateIn(t.GetPrev().GetState()).Shown():
		return t.Prev
	}
	return nil
}

// leave notes the state of a version, which its page's record has no room for any more, with its capture.
func (v *verdicts) leave(url string, w *pb.Version) error {
	if !lasting(w) {
		return nil
	}
	key, c, err := captureOf(v.snap, url, w)
	if err != nil || c == nil || c.State == w.State {
		return err
	}
	c.State, c.Also, c.Nearly = w.State, nil, false
	if stateIn(w.State) == trust.Verified {
		c.Also, c.Nearly = w.Also, w.Nearly // of them, or of those whose version it is, some may be suspended later
	}
	v.changes, err = ledger.Put(v.changes, key, c)
	return err
}

// lasting tells whether the state of a version outlives its record: not of one that is provisional, or withdrawn with its deliverer, which a pardon undoes. One that was held was
// never to be shown before another account sees it.
func lasting(w *pb.Version) bool {
	switch s := stateIn(w.State); s {
	case trust.Verified, trust.Contested, trust.Held:
		return true
	default:
		return s == trust.Withdrawn && w.Doubt
	}
}

// captureOf finds the first capture of a version; nil: it is not kept any more.
func captureOf(snap ledger.Snapshot, url string, w *pb.Version) (key []byte, c *pb.Capture, err error) {
	if w.FetchedUs != 0 {
		key, c = CaptureKey(url, time.UnixMicro(w.FetchedUs)), new(pb.Capture)
		if ok, err := ledger.Get(snap, key, c); err != nil || ok && (c.Digest == w.Digest || c.Digest == 0) {
			return key, c, err
		}
		key, c = nil, nil // retention has removed it, or it is of another version; a later one has the same content
	}
	prefix := append([]byte{schema.Capture}, SURT(url)...)
	from := CaptureKey(url, time.Unix(w.At, 0))
	err = snap.Scan(append(prefix, 0), from[:len(from)-1], true, func(k, value []byte) (bool, error) {
		m := new(pb.Capture)
		if URLOfCapture(k) != url {
			return true, nil
		}
		if err := schema.Decode(value, m); err != nil {
			return false, err
		}
		if m.Digest == w.Digest || m.Digest == 0 && m.Deliverer == w.By && !m.Said {
			key, c = bytes.Clone(k), m
		}
		return c == nil, nil
	})
	return key, c, err
}

// settle makes the state of a page that of another version of it, or of none, and tells so.
func (v *verdicts) settle(m *pb.Page, t *pb.Trust, shown *pb.Version) error {
	kind := Withdrawn
	switch was := t.Shows == 0 || describes(t, t.Shows); {
	case shown != nil && (m.Withdrawn || was && m.Gone):
		kind = Created
	case shown != nil && was:
		kind = Changed
	}
	return v.settleAs(kind, m, t, shown)
}

// settleAs is settle, which tells that a page that is there is as a kind of event says. A page that was found gone since is gone, whatever version of it is shown.
func (v *verdicts) settleAs(kind Event, m *pb.Page, t *pb.Trust, shown *pb.Version) error {
	var c *pb.Capture
	var key []byte
	var err error
	if shown != nil {
		key, c, err = captureOf(v.snap, m.Url, shown)
	} else if key, c, err = v.lastGood(m, t); c != nil {
		shown = &pb.Version{Digest: c.Digest, By: c.Deliverer}
	}
	if err != nil {
		return err
	}
	if k, n, err := v.goneSince(m.Url, t, key); err != nil {
		return err
	} else if n != nil {
		key, c, shown = k, n, &pb.Version{Digest: n.Digest, By: n.Deliverer}
	}
	gone := m.Gone && !m.Withdrawn
	m.Etag, m.LastModified, m.Missing, m.MissingUs, m.MissingBy = nil, nil, 0, 0, 0
	m.Before, m.BeforeAccount, m.Confirmed, m.Account, m.Settled = 0, 0, false, 0, 0
	if c == nil { // nothing of it is shown, or what should be is not kept any more
		m.Withdrawn, m.Gone, m.Digest, m.Raw, m.Sha256, m.Content = true, true, 0, 0, nil, nil
	} else {
		status := statusOf(c)
		m.Withdrawn, m.Gone = false, status < 200 || status >= 300
		m.Digest, m.Raw, m.Shingle, m.Sha256, m.Status, m.Mime, m.Deliverer = shown.Digest, c.Raw, shown.Shingle, c.Sha256, status, c.Mime, c.Deliverer
		m.Content = nil
		content := new(pb.Content)
		if ok, err := ledger.Get(v.snap, schema.PayloadKey(schema.Content, schema.Padded(c.Sha256)), content); err != nil {
			return err
		} else if ok {
			m.Content = content
		}
	}
	if v.changes, err = ledger.Put(v.changes, schema.Key2(schema.Page, uint64(v.id), channel.URLHash(m.Url)), m); err != nil || gone && m.Gone {
		return err
	}
	at := int64(0)
	if c != nil {
		at = timeOf(key)
	}
	if kind != Withdrawn && m.Gone {
		kind = Gone // as a redirect is
	}
	v.tell(kind, m.Url, at, c, shown)
	return nil
}

// goneSince finds the last capture of a page that is believed, if that found the page gone, and later than a capture of a version; nil: it did not. A record knows nothing
// of such visits.
func (v *verdicts) goneSince(url string, t *pb.Trust, version []byte) (key []byte, c *pb.Capture, err error) {
	s := standings{snap: v.snap, url: url, record: t, left: v.left}
	c, when, _, err := s.find(url, always, func(_ *pb.Capture, state trust.State) bool { return state.Shown() })
	if errors.Is(err, ErrNotFound) || err == nil && c.Status < 400 {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	if key = CaptureKey(url, when); bytes.Compare(key, version) <= 0 {
		return nil, nil, nil
	}
	return key, c, nil
}

// statusOf is the status of the page that a capture saw: only of one that is there a server says that nothing has changed.
func statusOf(c *pb.Capture) uint32 {
	if c.Status == http.StatusNotModified {
		return http.StatusOK
	}
	return c.Status
}

// describes tells whether a version of a record that may be shown has this digest.
func describes(t *pb.Trust, digest uint64) bool {
	for _, w := range []*pb.Version{t.Cur, t.Prev} {
		if w != nil && w.Digest == digest && stateIn(w.State).Shown() {
			return true
		}
	}
	return false
}

// verified tells that a version is corroborated, and notes whose credit that is.
func (v *verdicts) verified(m *pb.Page, w *pb.Version) error {
	if !w.Credited {
		w.Credited = true
		bytes := uint64(m.Size)
		if v.worth != nil {
			bytes = min(bytes, uint64(v.worth.Bytes))
		}
		if v.worth == nil || !v.worth.Nothing {
			v.earn(w, bytes)
		}
	}
	return v.about(Verified, m, w)
}

// about tells that a version of a page is believed as a kind of event says, if it is still kept.
func (v *verdicts) about(kind Event, m *pb.Page, w *pb.Version) error {
	if c := firstShown(m, w); c != nil {
		v.tell(kind, m.Url, w.FetchedUs, c, w)
		return nil
	}
	key, c, err := captureOf(v.snap, m.Url, w)
	if err != nil || c == nil {
		return err
	}
	v.tell(kind, m.Url, timeOf(key), c, w)
	return nil
}

// firstShown is the first capture of a version, as far as the feed tells of it, if the page says all of that: it shows the version, whose payload came with that
// capture. Nil: it does not.
func firstShown(m *pb.Page, w *pb.Version) *pb.Capture {
	c := m.Content
	if w.FetchedUs == 0 || m.Gone || m.Withdrawn || m.Digest != w.Digest || m.Deliverer != w.By || c.GetDateUs() != w.FetchedUs || c.GetUrl() != m.Url {
		return nil
	}
	return &pb.Capture{At: c.At, Status: m.Status, Mime: m.Mime, Deliverer: m.Deliverer, ShowsVisitor: c.ShowsVisitor}
}

// timeOf is when a capture was made, by its key, in microseconds.
func timeOf(key []byte) int64 {
	_, at, _ := schema.CaptureOf(key)
	return at.UnixMicro()
}

// tell adds an entry about a page to the page feed. c is the capture of the version that it is about, made at a time; nil: it has no
// content.
func (v *verdicts) tell(kind Event, url string, atUs int64, c *pb.Capture, w *pb.Version) {
	now := schema.Micros(v.now)
	e := &pb.PageEvent{Url: url, Event: uint32(kind), FetchedUs: now}
	if c != nil {
		e.FetchedUs, e.Status, e.Mime, e.At, e.Original, e.Deliverer, e.ShowsVisitor = atUs, statusOf(c), c.Mime, c.At, c.Original, c.Deliverer, c.ShowsVisitor
		e.Digest = w.Digest
	}
	v.entries = append(v.entries, &pb.Entry{Channel: uint64(v.id), WhenUs: now, Page: e})
}
