package pages

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"shoal/channel"
	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/schema"
	"shoal/manager/archive/segment"
	"shoal/manager/archive/warc"
	"shoal/manager/trust"
)

// Capture is one visit of a page with its content.
type Capture struct {
	URL     string
	Fetched time.Time
	Status  int
	Mime    string
	Revisit bool     // the visit found what was stored already
	Header  []byte   // HTTP, of this visit
	Body    []byte   // decoded content
	Links   []string // as the visit that stored the content found them
	File    string   // WARC file of the record, and where in it
	Offset  int64

	Deliverer    string // number of the peer that delivered it; empty: not known
	ShowsVisitor bool   // the page shows the address of a peer that fetched it
	Number       uint64 // of that peer, as trust.Peer has it; 0: not known
	State        string // provisional, verified or withdrawn: how far its version is believed
	Raw          uint64 // digest of the page as it came, where less was sent; 0: all was, or it is not known
	Cut          string // why the body is not whole, as WARC-Truncated has it; empty: it is
}

// always is a time after that of any capture.
var always = time.UnixMicro(1<<62 - 1)

// Get reads a page as it was at a time: of the last visit then or before that was not withdrawn. A zero time means as it is: of the last visit whose version
// is shown, so that one that is held, or contradicted by others, is not it.
func (p *Pages) Get(ctx context.Context, rawURL string, at time.Time) (Capture, error) {
	now := at.IsZero()
	if now {
		at = always
	}
	return firstSpelling(rawURL, "get", func(url string) (out Capture, err error) {
		err = p.ledger.View(func(snap ledger.Snapshot) error {
			s := standings{snap: snap}
			m, when, state, err := s.find(url, at, func(_ *pb.Capture, state trust.State) bool {
				return state != trust.Withdrawn && (!now || state.Shown())
			})
			if err != nil {
				return err
			}
			if out, err = p.readCapture(snap, m); err != nil {
				return err
			}
			out.URL, out.Fetched, out.State = url, when, StateName(state)
			return ctx.Err()
		})
		return out, err
	})
}

// firstSpelling reads something of a URL by the first spelling under which it is stored.
func firstSpelling[T any](rawURL, what string, read func(url string) (T, error)) (out T, err error) {
	urls, err := channel.Spellings(rawURL)
	if err != nil {
		return out, err
	}
	var none error
	for _, url := range urls {
		got, err := read(url)
		switch {
		case err == nil:
			return got, nil
		case !errors.Is(err, ErrNotFound):
			return out, fmt.Errorf("%s %s: %w", what, url, err)
		case none == nil:
			none = fmt.Errorf("%s %s: %w", what, url, err)
		}
	}
	return out, none
}

// CaptureBy reads what a deliverer delivered of a page in a claim that began at a time, Unix seconds: the capture of which the page or its record says so; where neither
// does any more, the first one from that time on. Where it only said that the page is unchanged, the capture has the content that it vouched for.
func (p *Pages) CaptureBy(ctx context.Context, url string, by trust.Peer, at int64) (out Capture, err error) {
	err = p.ledger.View(func(snap ledger.Snapshot) error {
		found, when, err := claimed(snap, url, uint64(by), at)
		if err == nil && found == nil {
			found, when, err = firstBy(ctx, snap, url, uint64(by), at)
		}
		if err != nil || found == nil {
			return firstOf(err, ErrNotFound)
		}
		if out, err = p.readCapture(snap, found); err != nil {
			return err
		}
		out.URL, out.Fetched = url, when
		return nil
	})
	if err != nil {
		return Capture{}, fmt.Errorf("what was delivered of %s: %w", url, err)
	}
	return out, nil
}

// claimed finds the capture of a page's last visit, or of a version of its record, if that is what a deliverer delivered in the claim that began at a time; nil: neither
// is. Claims are named by whole seconds, and a peer may have two of a channel within one.
func claimed(snap ledger.Snapshot, url string, by uint64, at int64) (found *pb.Capture, when time.Time, err error) {
	h := channel.URLHash(url)
	id, ok, err := owner(snap, h)
	if err != nil || !ok {
		return nil, when, err
	}
	m := new(pb.Page)
	if _, err := ledger.Get(snap, schema.Key2(schema.Page, uint64(id), h), m); err != nil {
		return nil, when, err
	}
	t, _, err := trustOf(snap, uint64(id), h)
	if err != nil {
		return nil, when, err
	}
	var times []int64
	if m.Url == url && m.LastBy == by && m.LastAt == at {
		times = append(times, m.FetchedUs)
	}
	for _, v := range []*pb.Version{t.GetCur(), t.GetPrev()} {
		if v.GetBy() == by && v.GetAt() == at && v.GetFetchedUs() != 0 {
			times = append(times, v.FetchedUs)
		}
	}
	for _, us := range times {
		c := new(pb.Capture)
		when = time.UnixMicro(us).UTC()
		if ok, err := ledger.Get(snap, CaptureKey(url, when), c); err != nil || ok && c.Deliverer == by {
			return c, when, err
		}
	}
	return nil, when, nil
}

// firstBy finds the first capture of a page that a deliverer made at a time or after it, Unix seconds; nil: there is none.
func firstBy(ctx context.Context, snap ledger.Snapshot, url string, by uint64, at int64) (found *pb.Capture, when time.Time, err error) {
	prefix := append([]byte{schema.Capture}, SURT(url)...)
	from := CaptureKey(url, time.Unix(at, 0))
	err = snap.Scan(append(prefix, 0), from[:len(from)-1], true, func(key, value []byte) (bool, error) {
		m := new(pb.Capture)
		if err := schema.Decode(value, m); err != nil {
			return false, err
		}
		if m.Deliverer == by && URLOfCapture(key) == url {
			found = m
			_, when, _ = schema.CaptureOf(key)
		}
		return found == nil, ctx.Err()
	})
	return found, when, err
}

// find finds the last capture of a URL at a time or before that is wanted.
func (s *standings) find(url string, at time.Time, wanted func(*pb.Capture, trust.State) bool) (found *pb.Capture, when time.Time, state trust.State, err error) {
	last := CaptureKey(url, at)
	scheme := last[len(last)-1]
	if err := s.look(url); err != nil {
		return nil, when, 0, err
	}
	err = s.snap.ScanBack(last[:len(last)-9], append(bytes.Clone(last), 0xff), func(key, value []byte) (bool, error) {
		if len(key) != len(last) || key[len(key)-1] != scheme {
			return true, nil
		}
		m := new(pb.Capture)
		if err := schema.Decode(value, m); err != nil {
			return false, err
		}
		var err error
		if state, err = s.capture(key, m); err != nil || !wanted(m, state) {
			return true, err
		}
		found = m
		_, when, _ = schema.CaptureOf(key)
		return false, nil
	})
	if err == nil && found == nil {
		err = ErrNotFound
	}
	return found, when, state, err
}

// readCapture reads the records of a capture.
func (p *Pages) readCapture(snap ledger.Snapshot, m *pb.Capture) (Capture, error) {
	at, err := p.Locate(snap, schema.Location(m.At))
	if err != nil {
		return Capture{}, err
	}
	place := p.segments.Place(at)
	out := Capture{Status: int(m.Status), Mime: m.Mime, Revisit: m.Revisit, File: place.Name, Offset: place.Offset, Deliverer: delivererOf(m.Deliverer), Number: m.Deliverer, ShowsVisitor: m.ShowsVisitor, Raw: m.Raw}
	read, err := p.readPage(snap, at, schema.Location(m.Original))
	out.Header, out.Body, out.Links, out.Cut = read.header, read.body, read.links, read.cut
	return out, err
}

// readBack is a page as its records hold it.
type readBack struct {
	header   []byte // of the visit; where that has none, of the visit that stored the payload
	body     []byte
	links    []string
	protocol string
	cut      string // of the payload, as WARC-Truncated has it
}

// readPage reads a page from the record of a visit, and from the record of its payload if that is another.
func (p *Pages) readPage(snap ledger.Snapshot, at, original segment.Location) (out readBack, err error) {
	visit, links, err := p.readLocated(snap, at)
	if err != nil {
		return out, err
	}
	out.links, out.protocol, out.cut = links, visit.Field("WARC-Protocol"), visit.Field("WARC-Truncated")
	out.header, out.body = visit.HTTP()
	if original == (segment.Location{}) {
		return out, nil
	}
	stored, links, err := p.readLocated(snap, original)
	if err != nil {
		return readBack{}, err
	}
	header, body := stored.HTTP()
	out.body, out.cut = body, stored.Field("WARC-Truncated")
	if url := visit.Field("WARC-Target-URI"); len(out.header) == 0 && url != stored.Field("WARC-Target-URI") { // another page has the same bytes, and a header of its own
		out.header, err = headerBefore(p, snap, url, visit.Field("WARC-Date"))
	}
	if len(out.header) == 0 {
		out.header = header
	}
	if out.links == nil {
		out.links = links
	}
	return out, err
}

// headerBefore is the header of a page's last visit until some time that came with content, and so with a header; empty: there is none any more.
func headerBefore(p *Pages, snap ledger.Snapshot, url, date string) ([]byte, error) {
	at, err := time.Parse(time.RFC3339Nano, date)
	if err != nil {
		return nil, fmt.Errorf("%w: a record of %s has the date %q", ErrNotFound, url, date)
	}
	s := standings{snap: snap}
	m, _, _, err := s.find(url, at, func(m *pb.Capture, _ trust.State) bool { return !m.Said })
	if err != nil {
		if errors.Is(err, ErrNotFound) {
			err = nil
		}
		return nil, err
	}
	visit, _, err := p.readLocated(snap, schema.Location(m.At))
	if errors.Is(err, ErrNotFound) {
		return nil, nil // it went in between
	}
	if err != nil {
		return nil, err
	}
	header, _ := visit.HTTP()
	return header, nil
}

// readLocated reads a record that may have moved.
func (p *Pages) readLocated(snap ledger.Snapshot, at segment.Location) (*warc.Read, []string, error) {
	for try := 0; ; try++ {
		at, err := p.Locate(snap, at)
		if err != nil {
			return nil, nil, err
		}
		rec, links, err := p.readAt(at)
		if try < maxTries && errors.Is(err, ErrNotFound) && !p.segments.Has(at.Segment) {
			continue // its segment went in between
		}
		return rec, links, err
	}
}

// maxTries bounds how often a record is looked for again whose segment went in between.
const maxTries = 32

// Locate finds a record that may have moved when its segment was compacted. If the record was removed, the error is ErrNotFound.
func (p *Pages) Locate(snap ledger.Snapshot, at segment.Location) (segment.Location, error) {
	if at == (segment.Location{}) {
		return at, fmt.Errorf("%w: no record", ErrNotFound)
	}
	now, found, err := p.locate(snap, at)
	if err == nil && !found { // since the snapshot, perhaps: a segment goes once its records lie elsewhere, and then moves lead there from where they began
		err = p.ledger.View(func(snap ledger.Snapshot) (err error) {
			now, found, err = p.locate(snap, at)
			return err
		})
	}
	if err == nil && !found {
		err = fmt.Errorf("%w: its record was removed, WARC file %d", ErrNotFound, now.Segment)
	}
	return now, err
}

// locate follows a record over compacted segments, as far as a snapshot knows.
func (p *Pages) locate(snap ledger.Snapshot, at segment.Location) (now segment.Location, found bool, err error) {
	for range maxMoves {
		if p.segments.Has(at.Segment) {
			return at, true, nil
		}
		next, ok, err := moved(snap, at)
		if err != nil || !ok {
			return at, false, err
		}
		at = next
	}
	return at, false, fmt.Errorf("%w: a record's moves lead in a circle", schema.ErrValue)
}

// maxMoves bounds how often a record is followed. Compaction makes chains short, but an older version of this program did not.
const maxMoves = 1 << 16

// moved is where a record was moved to, as far as a snapshot knows.
func moved(snap ledger.Snapshot, at segment.Location) (segment.Location, bool, error) {
	next := new(pb.Location)
	ok, err := ledger.Get(snap, schema.MovedKey(at), next)
	return schema.Location(next), ok, err
}

// readAt reads a record, and the outlinks of the metadata record that follows it.
func (p *Pages) readAt(at segment.Location) (*warc.Read, []string, error) {
	in, err := p.segments.Read(at, warc.MaxBlock)
	if errors.Is(err, segment.ErrNone) {
		return nil, nil, fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = in.Close() }() // it was only read
	from := &witness{in: in}
	r := bufio.NewReader(from)
	rec, err := warc.ReadRecord(r)
	if err != nil {
		place := p.segments.Place(at)
		switch {
		case errors.Is(from.err, segment.ErrNone):
			err = fmt.Errorf("%w: %w", ErrNotFound, from.err)
		case from.err != nil:
			err = from.err // and not what is wrong with half a record
		}
		return nil, nil, fmt.Errorf("%s at %d: %w", place.Name, place.Offset, err)
	}
	next, err := warc.ReadRecord(r)
	if err != nil || next.Field("WARC-Type") != warc.Metadata || next.Field("WARC-Refers-To") != rec.Field("WARC-Record-ID") {
		return rec, nil, nil // the end of the segment, or another page
	}
	return rec, outlinks(next.Block), nil
}

// witness is a reader that remembers why it could not read on.
type witness struct {
	in  io.Reader
	err error
}

func (w *witness) Read(b []byte) (int, error) {
	n, err := w.in.Read(b)
	if err != nil && err != io.EOF { // one that wraps io.EOF is a connection that ended
		w.err = err
	}
	return n, err
}

// damaged tells whether a record was read and is not one: that stays so, unlike a disk or a server that does not answer.
func damaged(err error) bool {
	return errors.Is(err, warc.ErrMalformed) || errors.Is(err, segment.ErrShort)
}

// outlinks reads the links in a metadata record.
func outlinks(block []byte) (out []string) {
	for line := range bytes.SplitSeq(block, []byte("\r\n")) {
		if l, ok := bytes.CutPrefix(line, []byte("outlink: ")); ok {
			out = append(out, string(l))
		}
	}
	return out
}
