package upkeep

import (
	"context"
	"errors"
	"maps"
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
	Damaged  int    // places where a file could not be read
	Old      string // where the old state is now

	told []*pb.Entry // what TellCreated tells
}

// Rebuild fills an empty ledger store from the records of the segments. What only the old ledger knew is gone: claims (running crawls start
// anew, the manager's generations go on), the feed (every page is told as created, cursors of old are refused) and change histories.
func Rebuild(ctx context.Context, to ledger.Store, from segment.Store) (out Rebuilt, err error) {
	b := rebuilder{to: to, from: from, out: &out, pages: map[string]*pb.Page{}, content: map[string]*pb.Content{}}
	all, err := from.List()
	if err != nil {
		return out, err
	}
	for _, s := range all {
		if err := b.segment(ctx, s); err != nil {
			return out, err
		}
	}
	return out, b.finish()
}

// TellCreated tells indexers of every page that a rebuild found.
func (u *Upkeep) TellCreated(r Rebuilt) error { return u.ledger.Tell(r.told) }

// rebuilder reads segments in order. It holds the state of every page in memory: about 500 bytes each.
type rebuilder struct {
	to      ledger.Store
	from    segment.Store
	out     *Rebuilt
	pages   map[string]*pb.Page
	content map[string]*pb.Content // by payload digest
	pending []ledger.Change
	last    uint32 // the highest ID of a segment
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
		p := b.pages[url]
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
	left := true
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
		return b.record(f.Record, schema.StoredLocation(f.At))
	})
	b.out.Files++
	if err != nil || !left {
		return err
	}
	whole.Records, whole.Sealed = s.Records, true
	b.last = max(b.last, s.ID)
	v, err := schema.EncodeSegment(whole)
	return b.put(schema.SegmentKey(schema.Segment, s.ID), v, err)
}

// record indexes one record.
func (b *rebuilder) record(r *warc.Read, at *pb.Location) error {
	kind, url := r.Field("WARC-Type"), r.Field("WARC-Target-URI")
	if kind != warc.Response && kind != warc.Revisit {
		return nil
	}
	when, err := time.Parse(time.RFC3339Nano, r.Field("WARC-Date"))
	if err != nil || damage(r) != "" {
		b.out.Damaged++
		return nil
	}
	header, body := r.HTTP()
	sha := r.Field("WARC-Payload-Digest")
	sum, err := warc.ParseDigest(sha)
	if err != nil {
		b.out.Damaged++
		return nil
	}
	m := &pb.Capture{At: at, Status: uint32(statusOf(header)), Sha256: sum, Mime: pages.MediaType(header), Revisit: kind == warc.Revisit,
		Deliverer: ledger.DelivererOf(r.Field(warc.FieldDeliverer)), ShowsVisitor: r.Field(warc.FieldShowsVisitor) == "true",
		Said: r.Field("WARC-Profile") == warc.NotModified}
	c := b.content[string(sum)]
	switch {
	case m.Revisit && c == nil:
		return nil // what it refers to is lost
	case m.Revisit:
		m.Original = c.At
		b.unsaid(m, url)
	default:
		c = &pb.Content{At: at, Url: url, DateUs: when.UnixMicro(), Id: parseID(r.Field("WARC-Record-ID")), ShowsVisitor: m.ShowsVisitor}
		b.content[string(sum)] = c
		if len(body) >= pages.MinShared {
			v, err := schema.Encode(c)
			if err := b.put(schema.PayloadKey(schema.Content, sum), v, err); err != nil {
				return err
			}
		}
	}
	b.out.Captures++
	b.visit(url, when, m, c)
	v, err := schema.Encode(m)
	return b.put(pages.CaptureKey(url, when), v, err)
}

// unsaid gives a revisit what its record does not say, as it has no HTTP header or only that of a 304: status and type are those of the page.
func (b *rebuilder) unsaid(m *pb.Capture, url string) {
	page := b.pages[url]
	switch {
	case m.Status != 0:
	case m.Said:
		m.Status = http.StatusNotModified
	case page != nil:
		m.Status = page.Status
	default:
		m.Status = http.StatusOK
	}
	if m.Mime == "" && page != nil {
		m.Mime = page.Mime
	}
}

// visit notes a capture in its page's state.
func (b *rebuilder) visit(url string, when time.Time, m *pb.Capture, c *pb.Content) {
	p := b.pages[url]
	if p == nil {
		p = &pb.Page{Url: url, FirstUs: when.UnixMicro(), ChangedUs: when.UnixMicro(), Status: http.StatusOK}
		b.pages[url] = p
	}
	if p.FetchedUs = when.UnixMicro(); m.Status != http.StatusNotModified { // the page is as it was
		p.Status, p.Gone = m.Status, m.Status < 200 || m.Status > 299
	}
	p.Visits++
	p.Deliverer = m.Deliverer
	p.Content, p.Sha256 = c, m.Sha256 // the digest is not known: the next crawl fetches it in full
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
