package pages

import (
	"bytes"
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
	for _, w := range []*pb.Version{old.Cur, old.Prev} {
		if w == nil || sameVersion(w, t.Cur) || sameVersion(w, t.Prev) {
			continue
		}
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
		if w == nil || trust.State(w.State) != trust.Verified {
			continue
		}
		if was := sameOf(old, w); was == nil || trust.State(was.State) != trust.Verified {
			if err := v.verified(m, w); err != nil {
				return err
			}
		}
	}
	return nil
}

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
	switch s := trust.State(w.State); {
	case s == trust.Verified, s == trust.Contested, s == trust.Withdrawn && w.Doubt:
	default: // provisional, or withdrawn with its deliverer, which a pardon undoes
		return nil
	}
	key, c, err := captureOf(v.snap, url, w)
	if err != nil || c == nil || c.State == w.State {
		return err
	}
	c.State = w.State
	v.changes, err = ledger.Put(v.changes, key, c)
	return err
}

// captureOf finds the first capture of a version; nil: it is not kept any more.
func captureOf(snap ledger.Snapshot, url string, w *pb.Version) (key []byte, c *pb.Capture, err error) {
	if w.FetchedUs != 0 {
		key, c = CaptureKey(url, time.UnixMicro(w.FetchedUs)), new(pb.Capture)
		if ok, err := ledger.Get(snap, key, c); err != nil || ok {
			return key, c, err
		}
		key, c = nil, nil // retention has removed it; a later one has the same content
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
	switch {
	case m.Withdrawn && shown != nil:
		kind = Created
	case shown != nil && (t.Shows == 0 || describes(t, t.Shows)):
		kind = Changed
	}
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
	gone := m.Gone && !m.Withdrawn
	m.Etag, m.LastModified, m.Missing, m.MissingUs, m.MissingBy = nil, nil, 0, 0, 0
	m.Before, m.BeforeAccount, m.Confirmed, m.Account, m.Settled = 0, 0, false, 0, 0
	if c == nil { // nothing of it is shown, or what should be is not kept any more
		m.Withdrawn, m.Gone, m.Digest, m.Sha256, m.Content = true, true, 0, nil, nil
	} else {
		m.Withdrawn, m.Gone = false, c.Status < 200 || c.Status >= 300 && c.Status != 304
		m.Digest, m.Shingle, m.Sha256, m.Status, m.Mime, m.Deliverer = shown.Digest, shown.Shingle, c.Sha256, c.Status, c.Mime, c.Deliverer
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
	v.tell(kind, m.Url, at, c, shown)
	return nil
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
		v.earn(w, uint64(m.Size))
	}
	if c := firstShown(m, w); c != nil {
		v.tell(Verified, m.Url, w.FetchedUs, c, w)
		return nil
	}
	key, c, err := captureOf(v.snap, m.Url, w)
	if err != nil || c == nil {
		return err
	}
	v.tell(Verified, m.Url, timeOf(key), c, w)
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
		e.FetchedUs, e.Status, e.Mime, e.At, e.Original, e.Deliverer, e.ShowsVisitor = atUs, c.Status, c.Mime, c.At, c.Original, c.Deliverer, c.ShowsVisitor
		e.Digest = w.Digest
	}
	v.entries = append(v.entries, &pb.Entry{Channel: uint64(v.id), WhenUs: now, Page: e})
}
