package upkeep

import (
	"context"
	"errors"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"shoal/channel"
	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/pages"
	"shoal/manager/archive/schema"
	"shoal/manager/archive/segment"
	"shoal/manager/archive/warc"
)

// Rebuilt tells what a rebuild found.
type Rebuilt struct {
	Files    int
	Captures int
	Pages    int
	Damaged  int    // places where a file could not be read, and visits that refer to a record which is lost
	Old      string // where the old state is now

	told []*pb.Entry // what TellCreated tells
}

// Rebuild fills an empty ledger store from the records of the segments. What only the old ledger knew is gone: claims (running crawls start
// anew, the manager's generations go on), the feed (every page is told as created, cursors of old are refused) and change histories.
func Rebuild(ctx context.Context, to ledger.Store, from segment.Store) (out Rebuilt, err error) {
	b := rebuilder{to: to, from: from, out: &out, pages: map[string]*page{}, payloads: map[string]*payload{}, nth: map[uint32]int{}}
	all, err := from.List()
	if err != nil {
		return out, err
	}
	for n, s := range all {
		b.nth[s.ID] = n
	}
	if err := b.mark(true); err != nil {
		return out, err
	}
	for _, s := range all {
		if err := b.segment(ctx, s); err != nil {
			return out, err
		}
	}
	for _, s := range b.early {
		if err := b.revisits(ctx, s); err != nil {
			return out, err
		}
	}
	if err := b.finish(); err != nil {
		return out, err
	}
	return out, b.mark(false)
}

// TellCreated tells indexers of every page that a rebuild found.
func (u *Upkeep) TellCreated(r Rebuilt) error { return u.ledger.Tell(r.told) }

// rebuilder reads segments in order. That is not the order of visits: compaction has moved records to later segments, and managers write into one each. It holds the
// state of every page in memory: about 500 bytes each.
type rebuilder struct {
	to       ledger.Store
	from     segment.Store
	out      *Rebuilt
	pages    map[string]*page
	payloads map[string]*payload // by payload digest
	nth      map[uint32]int      // the place of a segment in the order
	early    []segment.Info      // that have revisits before what they refer to, or of what is lost: they are read twice
	pending  []ledger.Change
	last     uint32 // the highest ID of a segment
}

// page is the state of a page, and when the visits were that it is from, in microseconds.
type page struct {
	*pb.Page
	answered int64 // the last one at which its server did not only say that nothing has changed
	brought  int64 // the last one that brought content, or found a stored one
}

// payload is the first record that holds a payload.
type payload struct {
	*pb.Content
	status uint32
	mime   string
}

// mark notes in the ledger that it is being rebuilt. One that is broken off does not know all segments, and must not be taken for one that does.
func (b *rebuilder) mark(begins bool) error {
	c := ledger.Change{Key: schema.ProgressKey(schema.Rebuilding)}
	if begins {
		var err error
		if c.Value, err = schema.Encode(&pb.Progress{}); err != nil {
			return err
		}
	}
	refused, err := b.to.Commit([]ledger.Write{{Changes: []ledger.Change{c}}})
	return firstOf(append([]error{err}, refused...)...)
}

// add writes records, many at a time.
func (b *rebuilder) add(changes ...ledger.Change) error {
	if b.pending = append(b.pending, changes...); len(b.pending) < ledger.MaxBatch {
		return nil
	}
	return b.flush()
}

func (b *rebuilder) put(key []byte, v []byte, err error) error {
	if err != nil {
		return err
	}
	return b.add(ledger.Change{Key: key, Value: v})
}

func (b *rebuilder) flush() error {
	refused, err := b.to.Commit([]ledger.Write{{Early: b.pending, Segment: b.last}})
	b.pending = nil
	return firstOf(append([]error{err}, refused...)...)
}

// finish writes the pages' states.
func (b *rebuilder) finish() error {
	now := time.Now().UnixMicro()
	for _, url := range slices.Sorted(maps.Keys(b.pages)) {
		p := b.pages[url].Page
		h := channel.URLHash(url)
		v, err := schema.Encode(p)
		if err := firstOf(b.put(schema.Key2(schema.Page, 0, h), v, err), b.add(ledger.Change{Key: schema.Key(schema.Owner, h), Value: make([]byte, 8)})); err != nil {
			return err
		}
		if !p.Gone {
			b.out.told = append(b.out.told, &pb.Entry{WhenUs: now, Page: &pb.PageEvent{
				Url: url, Event: uint32(pages.Created), FetchedUs: p.FetchedUs, Status: p.Status, Mime: p.Mime, At: p.Content.At, Deliverer: p.Deliverer, ShowsVisitor: p.Content.ShowsVisitor,
			}})
		}
	}
	b.out.Pages = len(b.pages)
	return b.flush()
}

// segment indexes the records of a segment. Bytes behind its last readable record were never acknowledged, or are lost.
func (b *rebuilder) segment(ctx context.Context, s segment.Info) error {
	left, early := true, false
	s.Records = 0
	whole := s
	err := b.from.Scan(ctx, s, func(f segment.Found) error {
		if errors.Is(f.Bad, segment.ErrNone) {
			return f.Bad
		}
		if f.Bad != nil {
			b.out.Damaged++
		}
		if f.End {
			whole, left = b.from.Cut(s, f.At)
		}
		if f.Record == nil {
			return nil
		}
		s.Records++
		later, err := b.record(f.Record, schema.StoredLocation(f.At), false)
		early = early || later
		return err
	})
	if early {
		b.early = append(b.early, s)
	}
	b.out.Files++
	if err != nil || !left {
		return err
	}
	whole.Records, whole.Sealed = s.Records, true
	b.last = max(b.last, s.ID)
	v, err := schema.EncodeSegment(whole)
	return b.put(schema.SegmentKey(schema.Segment, s.ID), v, err)
}

// revisits indexes the revisits of a segment whose payloads were not known yet when it was read.
func (b *rebuilder) revisits(ctx context.Context, s segment.Info) error {
	return b.from.Scan(ctx, s, func(f segment.Found) error {
		if errors.Is(f.Bad, segment.ErrNone) {
			return f.Bad
		}
		if f.Record == nil || f.Record.Field("WARC-Type") != warc.Revisit {
			return nil
		}
		_, err := b.record(f.Record, schema.StoredLocation(f.At), true)
		return err
	})
}

// record indexes one record. later says that it is a revisit whose payload no record before it holds, and which is indexed when it is read again.
func (b *rebuilder) record(r *warc.Read, at *pb.Location, again bool) (later bool, err error) {
	kind, url := r.Field("WARC-Type"), r.Field("WARC-Target-URI")
	if kind != warc.Response && kind != warc.Revisit {
		return false, nil
	}
	when, err := time.Parse(time.RFC3339Nano, r.Field("WARC-Date"))
	sum, noSum := warc.ParseDigest(r.Field("WARC-Payload-Digest"))
	if err != nil || noSum != nil || damage(r) != "" {
		if !again {
			b.out.Damaged++
		}
		return false, nil
	}
	header, body := r.HTTP()
	m := &pb.Capture{At: at, Status: uint32(statusOf(header)), Sha256: sum, Mime: pages.MediaType(header), Revisit: kind == warc.Revisit,
		Deliverer: ledger.DelivererOf(r.Field(warc.FieldDeliverer)), ShowsVisitor: r.Field(warc.FieldShowsVisitor) == "true",
		Said: r.Field("WARC-Profile") == warc.NotModified}
	held := b.payloads[string(sum)]
	if m.Revisit {
		before := held != nil && !b.behind(held.At, at)
		switch {
		case again == before:
			return !before, nil // it is indexed already, or will be
		case held == nil:
			b.out.Damaged++ // what it refers to is lost
			return false, nil
		}
		m.Original = held.At
		unsaid(m, held)
		return false, b.capture(url, when, m, held.Content)
	}
	c := &pb.Content{At: at, Url: url, DateUs: when.UnixMicro(), Id: parseID(r.Field("WARC-Record-ID")), ShowsVisitor: m.ShowsVisitor}
	if held == nil {
		b.payloads[string(sum)] = &payload{c, m.Status, m.Mime}
		if len(body) >= pages.MinShared {
			v, err := schema.Encode(c)
			if err := b.put(schema.PayloadKey(schema.Content, sum), v, err); err != nil {
				return false, err
			}
		}
	}
	return false, b.capture(url, when, m, c)
}

// behind tells whether one record comes after another in the order of segments.
func (b *rebuilder) behind(x, y *pb.Location) bool {
	if x.File != y.File {
		return b.nth[x.File] > b.nth[y.File]
	}
	return x.Offset > y.Offset
}

// capture indexes a visit.
func (b *rebuilder) capture(url string, when time.Time, m *pb.Capture, c *pb.Content) error {
	b.out.Captures++
	b.visit(url, when.UnixMicro(), m, c)
	v, err := schema.Encode(m)
	return b.put(pages.CaptureKey(url, when), v, err)
}

// unsaid gives a revisit what its record does not say, as it has no HTTP header or only that of a 304: only of a page that is there it is said that nothing has
// changed, and so its status and its type are those of what it refers to.
func unsaid(m *pb.Capture, held *payload) {
	switch {
	case m.Status != 0:
	case m.Said:
		m.Status = http.StatusNotModified
	case held.status >= 200 && held.status < 300:
		m.Status = held.status
	default:
		m.Status = http.StatusOK
	}
	if m.Mime == "" {
		m.Mime = held.mime
	}
}

// visit notes a capture in its page's state: what the last visit saw counts, in whatever order they come.
func (b *rebuilder) visit(url string, at int64, m *pb.Capture, c *pb.Content) {
	p := b.pages[url]
	if p == nil {
		p = &page{Page: &pb.Page{Url: url, FirstUs: at, Status: http.StatusOK, FetchedUs: at}, answered: math.MinInt64, brought: math.MinInt64}
		b.pages[url] = p
	}
	p.Visits++
	p.FirstUs = min(p.FirstUs, at)
	p.ChangedUs = p.FirstUs
	if m.Status != http.StatusNotModified && at >= p.answered { // else the page is as it was
		p.Status, p.Gone, p.answered = m.Status, m.Status < 200 || m.Status > 299, at
	}
	switch {
	case !m.Said && at >= p.brought:
		p.Deliverer, p.brought = m.Deliverer, at
	case p.brought == math.MinInt64:
		p.Deliverer = m.Deliverer
	}
	if at < p.FetchedUs {
		return
	}
	p.FetchedUs, p.Content, p.Sha256 = at, c, m.Sha256 // the digest is not known: the next crawl fetches it in full
	if m.Mime != "" {
		p.Mime = m.Mime
	}
}

// statusOf reads the status in an HTTP header.
func statusOf(header []byte) int {
	f := strings.Fields(string(header[:min(len(header), 64)]))
	if len(f) < 2 {
		return 0
	}
	n, err := strconv.Atoi(f[1])
	if err != nil || n < 0 || n > 999 {
		return 0
	}
	return n
}

// parseID reads what warc.ID.String writes; nil: it is none.
func parseID(s string) []byte {
	hex := strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(s, "<urn:uuid:"), ">"), "-", "")
	out := make([]byte, 0, 16)
	for n := 0; n+2 <= len(hex); n += 2 {
		v, err := strconv.ParseUint(hex[n:n+2], 16, 8)
		if err != nil {
			return nil
		}
		out = append(out, byte(v))
	}
	if len(out) != 16 {
		return nil
	}
	return out
}
