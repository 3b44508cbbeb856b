package upkeep

import (
	"bytes"
	"errors"
	"net/http"
	"slices"

	"shoal/channel"
	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/pages"
	"shoal/manager/archive/schema"
)

// takeBack is what follows for one URL from the withdrawal of deliverers.
type takeBack struct {
	snap       ledger.Snapshot
	pages      *pages.Pages
	url        string
	deliverers []uint64
	now        int64

	changes  []ledger.Change
	entry    *pb.Entry // for the page feed; nil: no version that counted was taken back
	captures int
	channel  uint64
}

type visit struct {
	key     []byte
	atUs    int64
	capture *pb.Capture
}

// status is that of the page which a visit saw: only one that is there is found unchanged.
func (v *visit) status() uint32 {
	if v.capture.Status == http.StatusNotModified {
		return http.StatusOK
	}
	return v.capture.Status
}

func (t *takeBack) run() error {
	all, err := t.visits()
	if err != nil {
		return err
	}
	var left []*visit // oldest first
	tainted := false
	gone := map[int64]bool{} // times
	for i := range all {
		v := &all[i]
		if !v.capture.Said {
			tainted = slices.Contains(t.deliverers, v.capture.Deliverer)
		}
		if !tainted && !slices.Contains(t.deliverers, v.capture.Deliverer) {
			left = append(left, v)
			continue
		}
		t.captures++
		gone[v.atUs] = true
		t.changes = append(t.changes, ledger.Change{Key: v.key})
		if err := t.dropPayload(v.capture); err != nil {
			return err
		}
	}
	if t.captures == 0 {
		return nil
	}
	good, err := t.newest(left)
	if err != nil {
		return err
	}
	return t.page(good, len(left), gone)
}

// newest is the newest of the visits that are left whose version may be shown: what is withdrawn of another deliverer, held or contested does not come back. Nil: there
// is none.
func (t *takeBack) newest(left []*visit) (*visit, error) {
	may, err := pages.MayBeShown(t.snap, t.url, t.deliverers)
	if err != nil {
		return nil, err
	}
	for _, v := range slices.Backward(left) {
		if yes, err := may(v.key, v.capture); err != nil || yes {
			return v, err
		}
	}
	return nil, nil
}

// visits reads the captures of the URL, oldest first.
func (t *takeBack) visits() (out []visit, err error) {
	prefix := append([]byte{schema.Capture}, pages.SURT(t.url)...)
	err = t.snap.Scan(append(prefix, 0), nil, true, func(key, value []byte) (bool, error) {
		if pages.URLOfCapture(key) != t.url {
			return true, nil
		}
		m := new(pb.Capture)
		if err := schema.Decode(value, m); err != nil {
			return false, err
		}
		_, at, _ := schema.CaptureOf(key)
		out = append(out, visit{bytes.Clone(key), at.UnixMicro(), m})
		return true, nil
	})
	return out, err
}

// dropPayload forgets where a payload is, and marks its segment to be compacted.
func (t *takeBack) dropPayload(c *pb.Capture) error {
	switch at, err := t.pages.Locate(t.snap, schema.Location(c.At)); {
	case err == nil:
		t.changes = append(t.changes, ledger.Change{Key: schema.SegmentKey(schema.Purged, at.Segment), Value: []byte{}})
	case !errors.Is(err, pages.ErrNotFound):
		return err
	}
	if len(c.Sha256) >= 16 && !c.Revisit {
		t.changes = append(t.changes, ledger.Change{Key: schema.PayloadKey(schema.Content, c.Sha256)}, ledger.Change{Key: schema.PayloadKey(schema.Text, c.Sha256)})
	}
	return nil
}

// page makes the state of the URL that of a visit, or removes it. Where no visit that is left may be shown, it shows nothing: a pardon may give one of them back.
func (t *takeBack) page(good *visit, left int, gone map[int64]bool) error {
	h := channel.URLHash(t.url)
	owner, err := ownerOf(t.snap, h)
	if err != nil {
		return err
	}
	m := new(pb.Page)
	key := schema.Key2(schema.Page, owner, h)
	found, err := ledger.Get(t.snap, key, m)
	if err != nil {
		return err
	}
	e := &pb.PageEvent{Url: t.url, Event: uint32(pages.Withdrawn), FetchedUs: t.now}
	if found && m.Url == t.url {
		t.channel = owner
		if left == 0 {
			for _, table := range schema.OfPage {
				t.changes = append(t.changes, ledger.Change{Key: schema.Key2(table, owner, h)})
			}
			t.changes = append(t.changes, ledger.Change{Key: schema.Key(schema.Owner, h)})
		} else if err := t.restore(m, key, good, gone); err != nil {
			return err
		}
	}
	if good != nil {
		c := good.capture
		e.Status, e.Mime, e.At, e.Original, e.FetchedUs, e.Deliverer, e.ShowsVisitor = good.status(), c.Mime, c.At, c.Original, good.atUs, c.Deliverer, c.ShowsVisitor
		e.Digest = c.Digest // by which its record tells how far it is believed
	}
	t.entry = &pb.Entry{Channel: owner, WhenUs: t.now, Page: e}
	return nil
}

// ownerOf reads whose page a URL is; 0: nobody's.
func ownerOf(snap ledger.Snapshot, url uint64) (id uint64, err error) {
	_, err = snap.Get(schema.Key(schema.Owner, url), func(v []byte) error {
		id = schema.Number(append([]byte{0}, schema.Padded(v)...), 0)
		return nil
	})
	return id, err
}

// restore makes a page's state that of an earlier visit, or that of a page of which nothing is shown. It has no digest: the next crawl fetches the page in full.
func (t *takeBack) restore(m *pb.Page, key []byte, good *visit, gone map[int64]bool) error {
	m.Digest, m.Raw, m.Shingle, m.Etag, m.LastModified, m.Confirmed, m.Missing, m.MissingUs = 0, 0, 0, nil, nil, false, 0, 0
	m.MissingBy, m.Before, m.BeforeAccount, m.Withdrawn, m.Settled = 0, 0, 0, good == nil, 0
	m.Account, m.Content = 0, nil
	if good == nil {
		m.Gone, m.Sha256, m.Deliverer = true, nil, 0
	} else if err := t.shows(m, good); err != nil {
		return err
	}
	var err error
	if t.changes, err = ledger.Put(t.changes, key, m); err != nil {
		return err
	}
	if err := t.record(append([]byte{schema.Trust}, key[1:]...)); err != nil {
		return err
	}
	past := new(pb.History)
	pastKey := append([]byte{schema.History}, key[1:]...)
	if ok, err := ledger.Get(t.snap, pastKey, past); err != nil || !ok {
		return err
	}
	past.Visits = slices.DeleteFunc(past.Visits, func(v *pb.Visit) bool { return gone[v.FetchedUs] })
	t.changes, err = ledger.Put(t.changes, pastKey, past)
	return err
}

// shows has a page's state describe a visit.
func (t *takeBack) shows(m *pb.Page, good *visit) error {
	c := good.capture
	m.Sha256, m.Status, m.Mime, m.Deliverer = c.Sha256, good.status(), c.Mime, c.Deliverer
	m.Gone = m.Status < 200 || m.Status >= 300
	m.FetchedUs = good.atUs
	var content pb.Content
	ok, err := ledger.Get(t.snap, schema.PayloadKey(schema.Content, c.Sha256), &content)
	if err == nil && ok && !t.dropped(c.Sha256) {
		m.Content = &content
	}
	return err
}

// record takes the deliverers out of what is said of the page's versions. What suspended deliverers are alone to say then is kept for their pardon, as it is when they are
// suspended.
func (t *takeBack) record(key []byte) error {
	r := new(pb.Trust)
	if ok, err := ledger.Get(t.snap, key, r); err != nil || !ok {
		return err
	}
	r, before, withheld, err := pages.Purged(t.snap, r, t.deliverers)
	if err != nil {
		return err
	}
	if r == nil {
		t.changes = append(t.changes, ledger.Change{Key: key})
		return nil
	}
	for _, by := range withheld {
		taken := append(schema.Key(schema.Taken, uint64(by)), key[1:]...)
		known, err := t.snap.Get(taken, func([]byte) error { return nil })
		if err == nil && !known {
			t.changes, err = ledger.Put(t.changes, taken, before)
		}
		if err != nil {
			return err
		}
	}
	t.changes, err = ledger.Put(t.changes, key, r)
	return err
}

// dropped reports whether a payload was forgotten just now.
func (t *takeBack) dropped(sha []byte) bool {
	if len(sha) < 16 {
		return true
	}
	key := schema.PayloadKey(schema.Content, sha)
	return slices.ContainsFunc(t.changes, func(c ledger.Change) bool { return c.Value == nil && bytes.Equal(c.Key, key) })
}
