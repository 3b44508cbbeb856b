package evidence

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"shoal/channel"
	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/pages"
	"shoal/manager/archive/schema"
	"shoal/manager/archive/warc"
	"shoal/manager/trust"
	"shoal/manager/trust/compare"
)

// Fetch is one fetch of a page. Redirects are not followed in it: of a page that leads elsewhere Final says where.
type Fetch struct {
	URL     string
	Final   string // where it leads; empty: nowhere else
	Status  int    // 0: nothing came, and Error says why
	Header  []byte // HTTP, as received
	Body    []byte // decoded; at most MaxBody bytes are kept
	Size    int    // of the body as it came
	Short   bool   // the body's end did not come, as on a slow line; not of one that is cut as the channel wants
	Fetched time.Time
	By      trust.Peer // 0: the arbiter
	Error   string

	// Of a fetch that is in hand; of those that were stored, answers have Raw:
	Answered bool   // the host itself said that nothing has changed: Header and Body are those of the fetch before
	Raw      uint64 // digest of the page as it came, where less may have been sent or kept of it
}

// Features are what package compare looks at; nil: nothing came.
func (f *Fetch) Features() *compare.Features {
	if f == nil || f.Status == 0 {
		return nil
	}
	return compare.Of(compare.Fetch{URL: f.URL, Final: f.Final, Status: f.Status, Type: warc.FieldList(f.Header, "Content-Type"), Body: f.Body, Size: f.Size, Short: f.Short})
}

// Both are the Features of two fetches of a page. Most audits see what was delivered, byte by byte, which is read once then.
func Both(a, b *Fetch) (of, and *compare.Features) {
	of = a.Features()
	if of != nil && b != nil && a.URL == b.URL && a.Final == b.Final && a.Status == b.Status && a.Size == b.Size && a.Short == b.Short &&
		warc.FieldList(a.Header, "Content-Type") == warc.FieldList(b.Header, "Content-Type") && bytes.Equal(a.Body, b.Body) {
		return of, of
	}
	return of, b.Features()
}

// Modified is pages.Modified of the answer.
func (f *Fetch) Modified() int64 { return pages.Modified(f.Header, f.Fetched) }

// Of makes a Fetch of a capture.
func Of(c *pages.Capture) *Fetch {
	f := &Fetch{URL: c.URL, Status: c.Status, Header: c.Header, Body: c.Body, Size: len(c.Body), Fetched: c.Fetched, By: trust.Peer(c.Number)}
	if c.Status == http.StatusNotModified { // the host said that the content is as it was
		f.Status = http.StatusOK
	}
	f.Answered, f.Raw = c.Status == http.StatusNotModified, c.Raw
	f.Final, f.Short = leads(f.URL, f.Status, f.Header), c.Cut != "" && c.Cut != warc.CutLength
	return f
}

// Unmoved tells whether a visit that found nothing new may have been told so: what it asked by is what the host names by a fetch of another's. What it asked by came with what was
// delivered before it, and whoever delivered that could name what is the true page's.
func (f *Fetch) Unmoved(now *Fetch) bool {
	if f.Raw != 0 {
		return f.Raw == now.Raw
	}
	if !f.Answered {
		return false
	}
	for _, name := range []string{"ETag", "Last-Modified"} { // hosts look at the second only where there is no first
		if was := warc.Opaque(warc.Field(f.Header, name)); was != "" {
			return was == warc.Opaque(warc.Field(now.Header, name))
		}
	}
	return false
}

// leads is where a redirect leads; empty: the answer is none.
func leads(from string, status int, header []byte) string {
	if status < 300 || status > 399 {
		return ""
	}
	base, err := url.Parse(from)
	if err != nil {
		return ""
	}
	to, err := base.Parse(warc.Field(header, "Location"))
	if err != nil {
		return ""
	}
	canonical, err := channel.Canonical(to.String())
	if err != nil {
		return ""
	}
	return canonical
}

// stored is the stored form of a fetch, whose body is cut if it packs to more than some bytes; 0: it is not.
func (r *Room) stored(f *Fetch, most int) *pb.Fetch {
	body := f.Body[:min(len(f.Body), MaxBody)]
	packed := r.pack.EncodeAll(body, nil)
	if most > 0 && len(packed) > most {
		body = body[:min(len(body), most-packSlack)] // it hardly packs at all
		packed = r.pack.EncodeAll(body, nil)
	}
	return &pb.Fetch{
		Url: f.URL, Final: f.Final, Status: uint32(f.Status), Header: f.Header[:min(len(f.Header), maxHeader)], Body: packed,
		Size: uint32(max(f.Size, len(f.Body))), Cut: len(body) < len(f.Body), FetchedUs: schema.Micros(f.Fetched), By: uint64(f.By),
		StoredUs: schema.Micros(r.cfg.Clock()), Error: channel.PlainText(f.Error, maxNote), Short: f.Short, Raw: f.Raw,
	}
}

// packSlack is more than packing adds to what does not pack.
const packSlack = 1 << 10

// leaveOut leaves a fetch's content out, and says why.
func leaveOut(m *pb.Fetch, why string) {
	m.Body, m.Header, m.Status, m.Final, m.Error = nil, nil, 0, "", why
}

func (r *Room) fetchIn(m *pb.Fetch) (*Fetch, error) {
	f := &Fetch{
		URL: m.Url, Final: m.Final, Status: int(m.Status), Header: m.Header, Size: int(m.Size), Fetched: schema.Time(m.FetchedUs), By: trust.Peer(m.By), Error: m.Error,
		Short: m.Short, Raw: m.Raw,
	}
	if len(m.Body) == 0 {
		return f, nil
	}
	var err error
	if f.Body, err = r.unpack.DecodeAll(m.Body, nil); err != nil {
		return nil, fmt.Errorf("%w: evidence of %s: %w", schema.ErrValue, m.Url, err)
	}
	return f, nil
}
