package pages

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net/http"
	"strings"
	"time"

	"shoal/channel"
	"shoal/channel/markup"
	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/schema"
	"shoal/manager/archive/warc"
)

// Limits of what is kept of a page.
const (
	MaxHistory = 32      // changes of a page that are remembered
	maxMime    = 100     // bytes of a media type
	minNear    = 1 << 10 // bytes of a payload from which fingerprints of texts say something
	MinShared  = 64      // bytes of a payload below which a reference saves nothing
)

// Event is what happened to a page, as an indexer sees it.
type Event uint8

// The events of the page feed. The numbers are stored and sent: never reuse one.
const (
	Created    Event = iota + 1 // there is a page where there was none, or again
	Changed                     // its content is another
	Gone                        // it is no more: 404, 410, or moved away
	Withdrawn                   // what was told of it was a peer's that is not believed: it is as this event says, or unknown
	Verified                    // another account in another network saw the version alike that was told before
	Unverified                  // who saw the version alike that was told as verified is not believed any more, or it is in doubt
)

var eventNames = [...]string{"", "created", "changed", "gone", "withdrawn", "verified", "unverified"}

func (e Event) String() string {
	if int(e) < len(eventNames) {
		return eventNames[e]
	}
	return fmt.Sprintf("event %d", uint8(e))
}

// draft is a page's state as this chunk makes it.
type draft struct {
	url   uint64
	page  *pb.Page
	owner channel.ID // the channel whose page it was; 0: none, or rebuilt from files
	owned bool
	said  bool        // this chunk says something of it that the manager takes in
	past  *pb.History // if it changed
	trust []byte      // its record, if it was another channel's; nil: nothing was said of it
}

// shot is a capture to be indexed.
type shot struct {
	url      string
	at       time.Time
	rec      int // which of the records
	capture  *pb.Capture
	original *pb.Content // revisit: what holds the payload
	content  *pb.Content // response: what it holds
	big      bool        // worth to be found by its digest
}

// event is a change to be told, of a page whose record is known later.
type event struct {
	page *pb.PageEvent
	shot int
}

// draft finds a page's state: of this chunk, or stored, or new.
func (b *builder) draft(url string) (*draft, error) {
	h := channel.URLHash(url)
	if d := b.drafts[h]; d != nil {
		return d, nil
	}
	d := &draft{url: h, page: &pb.Page{Url: url}}
	var err error
	if d.owner, d.owned, err = owner(b.snap, h); err != nil || !d.owned {
		return d, err
	}
	if _, err := ledger.Get(b.snap, schema.Key2(schema.Page, uint64(d.owner), h), d.page); err != nil {
		return nil, err
	}
	if d.owner != b.id {
		_, err := b.snap.Get(schema.Key2(schema.Trust, uint64(d.owner), h), func(v []byte) error { d.trust = bytes.Clone(v); return nil })
		if err != nil {
			return nil, err
		}
	}
	if d.page.Url != url { // two URLs of one hash: the younger one wins
		d.page = &pb.Page{Url: url}
	}
	return d, nil
}

// owner reads whose page a URL is; false: it is none.
func owner(snap ledger.Snapshot, url uint64) (id channel.ID, ok bool, err error) {
	ok, err = snap.Get(schema.Key(schema.Owner, url), func(v []byte) error {
		if len(v) != 8 {
			return fmt.Errorf("%w: owner of %d bytes", schema.ErrValue, len(v))
		}
		id = channel.ID(binary.BigEndian.Uint64(v))
		return nil
	})
	return id, ok, err
}

// keep has the draft stored.
func (b *builder) keep(d *draft) {
	if b.drafts[d.url] == nil {
		b.drafts[d.url] = d
		b.order = append(b.order, d)
	}
	d.page.Channel = uint64(b.id)
}

// page takes one fetched page.
func (b *builder) page(p *channel.Page) error {
	if p.Status == 0 || p.Change == channel.Errored {
		return nil // nothing was learnt of it
	}
	if warc.Bodiless(p.Status) && len(p.Body) > 0 {
		return nil // no server can have sent that, and no reader of WARC files would find it whole
	}
	if p.Fetched.IsZero() || p.Fetched.After(b.now.Add(5*time.Minute)) || p.Fetched.Before(b.now.Add(-30*24*time.Hour)) {
		p.Fetched = b.now // a clock that is wrong
	}
	p.Fetched = p.Fetched.Truncate(time.Microsecond)
	d, err := b.draft(p.URL)
	if err != nil {
		return err
	}
	if again, err := b.again(d); err != nil || again {
		return err
	}
	p.Fetched = afterLast(d.page, p.Fetched)
	seen := d.page.FirstUs != 0
	switch {
	case p.Change == channel.Unchanged, p.Status == 304, p.Change == channel.NearUnchanged && len(p.Body) == 0:
		return b.unchanged(d, p)
	case !seen && (p.Change == channel.Gone || p.Status >= 400):
		return nil // there never was a page
	}
	return b.content(d, p)
}

// afterLast dates a visit of a page. It is never dated before the last one: a clock that was ahead may have dated that one, and index, retention and readers of the files would
// take what came before for the newest version until the time came that the clock had shown. It is a second later then, since readers tell captures apart by seconds.
func afterLast(m *pb.Page, fetched time.Time) time.Time {
	if last := schema.Time(m.FetchedUs); last.After(fetched) {
		return last.Add(time.Second)
	}
	return fetched
}

// unchanged notes a visit that brought nothing new. A page that we do not have, or have otherwise, is fetched in full next time.
func (b *builder) unchanged(d *draft, p *channel.Page) error {
	was := d.page
	unfounded := was.FirstUs == 0 || was.Content == nil || was.Gone || (p.Change == channel.Unchanged && p.Digest != 0 && p.Digest != toldOf(was))
	if unfounded || b.otherForm(was, p) {
		if unfounded {
			b.p.mismatched.Add(1)
		}
		b.told.Unfounded = append(b.told.Unfounded, ledger.Unfounded{PageDigest: channel.PageDigest{URL: d.url, Content: p.Digest}, Near: p.Change == channel.NearUnchanged, Form: !unfounded})
		if was.FirstUs != 0 {
			was.Digest, was.Raw, was.Settled, was.Etag, was.LastModified = 0, 0, 0, nil, nil
			b.keep(d)
		}
		return nil
	}
	b.keep(d)
	old, last := storedBefore(was), b.visits(was)
	b.visit(d, p)
	b.validators(was, p, last)
	digest := uint64(0)
	if p.Digest == was.Digest && was.Raw == 0 { // else it is of no content that came, or does not tell what was sent of it
		digest = was.Digest
	}
	b.said(d, p, digest, old, last)
	b.seen(was)
	was.Missing, was.MissingUs, was.MissingBy = 0, 0, 0 // it is there
	b.job.Add.Unchanged++
	r := warc.Record{
		Type: warc.Revisit, Profile: warc.SameDigest, Date: p.Fetched, URI: p.URL, Payload: [32]byte(was.Sha256), Protocol: warc.Protocol(p.Header, p.URL),
		Deliverer: delivererOf(b.by), ShowsVisitor: was.Content.ShowsVisitor,
	}
	switch {
	case p.Status == 304: // readers replay a header that they find, and this one's status: without one they take the original's
		r.Profile = warc.NotModified
	case len(p.Header) > 0:
		r.Head = warc.HTTPHeader(p.Header, p.Status, int(was.Size))
	}
	return b.record(r, was.Content, p, &pb.Capture{Status: uint32(p.Status), Sha256: was.Sha256, Mime: was.Mime, Revisit: true, Deliverer: b.by, Said: true, Digest: was.Digest, Raw: was.Raw, ShowsVisitor: was.Content.ShowsVisitor}, nil)
}

// otherForm reports whether the text of a page is stored, and the channel keeps pages as they come now, or the other way round. A 304 and the digest, which is of what came,
// say nothing of that.
func (b *builder) otherForm(was *pb.Page, p *channel.Page) bool {
	switch {
	case was.Size == 0:
		return false
	case !b.textOnly:
		return was.Raw != 0
	}
	return was.Raw == 0 && (markup.IsHTML(was.Mime) || was.Mime != "text/plain" && MediaType(p.Header) == "text/plain")
}

// visit updates what every successful visit does.
func (b *builder) visit(d *draft, p *channel.Page) {
	m := d.page
	if m.FirstUs == 0 {
		m.FirstUs = p.Fetched.UnixMicro()
	}
	m.FetchedUs = p.Fetched.UnixMicro()
	m.Visits++
	m.Depth = uint32(p.Depth)
}

// validators takes in by what the next peer may ask whether a page has changed, of a visit that saw the content which is stored. If that names others than are known, none is
// known any more, and the next one's count if it is another peer: who has seen the page change could name the new ones with the old content, and the host would say to all
// who come later that nothing has changed.
func (b *builder) validators(m *pb.Page, p *channel.Page, last lastVisit) {
	for name, known := range map[string]*[]byte{"ETag": &m.Etag, "Last-Modified": &m.LastModified} {
		v := warc.Field(p.Header, name)
		switch {
		case warc.Opaque(string(*known)) == warc.Opaque(v), !isValidator(v) && len(p.Body) == 0:
		case len(*known) > 0 && p.Status == http.StatusNotModified: // the host says so of what is known, whatever it calls it now
		case len(*known) > 0 || !isValidator(v):
			*known = nil
		case !b.several || last.by != b.by:
			*known = []byte(v)
		}
	}
}

// isValidator reports whether peers may send v back to the host.
func isValidator(v string) bool {
	return v != "" && len(v) <= channel.MaxValidator && channel.IsFieldValue(v)
}

// content takes a page with its content, which may be empty.
func (b *builder) content(d *draft, p *channel.Page) error {
	was := d.page
	sha := sha256.Sum256(p.Body)
	here := p.Status >= 200 && p.Status < 300
	before := was.FirstUs != 0 && !was.Gone
	same := was.Content != nil && string(was.Sha256) == string(sha[:]) && before == here
	b.keep(d)
	if !here && before && b.missing(was) {
		return nil
	}
	old, last := storedBefore(was), b.visits(was)
	b.visit(d, p)
	if same {
		b.validators(was, p, last)
	} else {
		was.Etag, was.LastModified = nil, nil
		b.validators(was, p, lastVisit{})
	}
	b.compare(was, sha, here)
	b.delivered(was, same)
	was.Status = uint32(p.Status)
	digest, raw := contentDigest(p)
	mime := MediaType(p.Header)
	r := warc.Record{
		Type: warc.Response, Date: p.Fetched, URI: p.URL, Payload: sha, Truncated: cutBy(p), Protocol: warc.Protocol(p.Header, p.URL),
		Head: warc.HTTPHeader(p.Header, p.Status, len(p.Body)), Body: p.Body, Deliverer: delivererOf(b.by),
	}
	stored, err := b.stored(sha, len(p.Body))
	if err != nil {
		return err
	}
	r.ShowsVisitor = p.ShowsVisitor || stored.GetShowsVisitor()
	capture := &pb.Capture{Status: uint32(p.Status), Sha256: sha[:], Mime: mime, Deliverer: b.by, ShowsVisitor: r.ShowsVisitor, Digest: versionDigest(p, digest), Raw: raw}
	if stored != nil {
		r.Type, r.Profile, r.Body = warc.Revisit, warc.SameDigest, nil
		capture.Revisit = true
		b.job.Add.Unchanged++
	} else {
		b.job.Add.Pages++
		b.job.Add.Bytes += uint64(len(p.Body))
	}
	shot := len(b.shots)
	c, err := b.recordContent(r, stored, p, capture)
	if err != nil {
		return err
	}
	was.Withdrawn = false
	near, err := b.isNear(d, p, digest, same || !before || !here)
	if err != nil {
		return err
	}
	if was.Content, was.Sha256, was.Digest, was.Raw = c, sha[:], digest, raw; was.Settled != digest {
		was.Settled = 0 // what the record will say of this version is not known yet
	}
	was.Mime, was.Size, was.Gone = mime, uint32(len(p.Body)), !here
	b.keepLinks(d, p, here)
	b.said(d, p, versionDigest(p, digest), old, last)
	b.retell(p, before && here && d.owned && d.owner == b.id, same, near)
	if same {
		return nil
	}
	if !near {
		if err := b.changed(d, p, digest); err != nil {
			return err
		}
	}
	kind := eventOf(here, before)
	if kind == 0 {
		return nil
	}
	e := &pb.PageEvent{
		Url: p.URL, Event: uint32(kind), FetchedUs: was.FetchedUs, Status: was.Status, Digest: digest,
		Near: near, Mime: mime, Deliverer: b.by, ShowsVisitor: r.ShowsVisitor,
	}
	b.events = append(b.events, event{e, shot})
	b.job.Entries = append(b.job.Entries, &pb.Entry{Channel: uint64(b.id), WhenUs: schema.Micros(b.now), Page: e})
	return nil
}

// cutBy is why a page's body is not whole; empty: it is. The error of a page begins with its kind.
func cutBy(p *channel.Page) string {
	kind, _, _ := strings.Cut(p.Error, ":")
	switch {
	case !p.Truncated:
		return ""
	case kind == "":
		return warc.CutLength
	case kind == "timeout":
		return warc.CutTime
	case kind == "cut-off", kind == "hang-up", kind == "reset", kind == "unreachable", strings.HasPrefix(kind, "h2-"):
		return warc.CutDisconnect
	}
	return warc.CutUnspecified
}

// retell counts a page that is otherwise than its peer could tell. stored says that it was the channel's own before.
func (b *builder) retell(p *channel.Page, stored, same, near bool) {
	t := &b.told
	switch {
	case p.Change == channel.Changed && near && !same:
		t.Near++
	case p.Change != channel.New || !stored:
	case same:
		t.Same++
	case near:
		t.Hardly++
	default:
		t.Other++
	}
}

// eventOf is what happened to a page, by whether it is there, and was; 0: a redirect or an error page where nothing was.
func eventOf(here, before bool) Event {
	switch {
	case !here && !before:
		return 0
	case !here:
		return Gone
	case !before:
		return Created
	}
	return Changed
}

// delivered notes whose word the current version of a page is. The same content from another account confirms it; until then neither its digest nor its
// validators are told to peers, which could only say that what is there is right.
func (b *builder) delivered(m *pb.Page, same bool) {
	m.Missing, m.MissingUs, m.MissingBy = 0, 0, 0
	switch {
	case !same || m.Account == 0:
		m.Before, m.BeforeAccount = versionOf(m.Sha256), m.Account
		m.Deliverer, m.Account, m.Confirmed = b.by, b.account, false
	case m.Account != b.account:
		m.Confirmed = true
	}
}

// missingAgain is how long one account must find no page before it alone makes the page gone.
const missingAgain = 24 * time.Hour

// missing reports whether a page that was there and is not is left as it is for now: only the word of a second account, or the same one a day later, makes
// it gone. Where only one account delivers, its word must do.
func (b *builder) missing(m *pb.Page) bool {
	if !b.several || b.account == 0 || m.Missing != 0 && (m.Missing != b.account || b.now.Sub(schema.Time(m.MissingUs)) >= missingAgain) {
		return false
	}
	if m.Missing == 0 {
		m.Missing, m.MissingUs, m.MissingBy = b.account, schema.Micros(b.now), b.by
	}
	return true
}

// changed notes a change that counts. The fingerprint stays that of the last one, so that many small changes make a large one.
func (b *builder) changed(d *draft, p *channel.Page, digest uint64) error {
	was := d.page
	if d.past == nil {
		d.past = new(pb.History)
		if was.ChangedUs != 0 {
			if _, err := ledger.Get(b.snap, schema.Key2(schema.History, uint64(d.owner), d.url), d.past); err != nil {
				return err
			}
		}
	}
	if was.ChangedUs != 0 {
		was.Changes++
	}
	was.ChangedUs, was.Shingle = was.FetchedUs, p.Shingle
	if len(d.past.Visits) > 0 && d.past.Visits[0].Digest == digest { // noted by a chunk that was not stored in the end
		return nil
	}
	v := append([]*pb.Visit{{FetchedUs: was.FetchedUs, Digest: digest}}, d.past.Visits...)
	d.past.Visits = v[:min(len(v), MaxHistory)]
	return nil
}

// stored finds a payload that is stored already; nil: it is not.
func (b *builder) stored(sha [32]byte, size int) (*pb.Content, error) {
	if size < MinShared {
		return nil, nil
	}
	for i := range b.shots { // of this chunk
		if c := b.shots[i].content; c != nil && string(b.shots[i].capture.Sha256) == string(sha[:]) {
			return c, nil
		}
	}
	var c pb.Content
	ok, err := ledger.Get(b.snap, schema.PayloadKey(schema.Content, sha[:]), &c)
	if err != nil || !ok {
		return nil, err
	}
	return &c, nil
}

// recordContent writes the record of a page's content, and what else is known of the page, and tells which record holds the payload. A visit that finds a stored
// payload with the same links has its record alone.
func (b *builder) recordContent(r warc.Record, stored *pb.Content, p *channel.Page, capture *pb.Capture) (*pb.Content, error) {
	id, links := b.nextID(), linksDigest(p.Links)
	c := stored
	var fresh *pb.Content
	if c == nil {
		c = &pb.Content{Url: p.URL, DateUs: p.Fetched.UnixMicro(), Id: id[:], ShowsVisitor: r.ShowsVisitor, Links: links}
		fresh = c
	} else if r.ShowsVisitor && !c.ShowsVisitor {
		if err := b.markContent(c, capture.Sha256); err != nil {
			return nil, err
		}
	}
	if err := b.record(r, stored, p, capture, fresh); err != nil {
		return nil, err
	}
	if links == 0 || stored != nil && stored.Links == links && stored.Url == p.URL { // who reads the visit finds them behind what it refers to
		return c, nil
	}
	pairs := make([]string, 0, 2*len(p.Links)+4)
	pairs = append(pairs, "fetchTimeMs", fmt.Sprint(p.RTT.Milliseconds()), "shingle", fmt.Sprintf("%016x", p.Shingle))
	for _, l := range p.Links {
		pairs = append(pairs, "outlink", l)
	}
	return c, b.append(warc.Record{Type: warc.Metadata, Date: p.Fetched, URI: p.URL, Refers: id, Body: warc.Fields(pairs...)})
}

// markContent notes of a stored payload that it shows the address of a peer that fetched it, which the peer before could not see.
func (b *builder) markContent(c *pb.Content, sha []byte) (err error) {
	c.ShowsVisitor = true
	if c.At != nil { // else it is of this chunk, and stored with it
		b.links, err = ledger.Put(b.links, schema.PayloadKey(schema.Content, sha), c)
	}
	return err
}

// record writes a record that is a capture; original is the record that holds its payload, content is set if this one does.
func (b *builder) record(r warc.Record, original *pb.Content, p *channel.Page, capture *pb.Capture, content *pb.Content) error {
	if original != nil {
		r.RefersURI, r.RefersAt = original.Url, schema.Time(original.DateUs)
		copy(r.Refers[:], original.Id)
	}
	b.shots = append(b.shots, shot{url: p.URL, at: p.Fetched, rec: len(b.job.Ends), capture: capture, original: original, content: content, big: len(p.Body) >= MinShared})
	return b.append(r)
}

func (b *builder) nextID() warc.ID { return warc.NewID(b.seed, len(b.job.Ends)) }

// append packs a record behind the others.
func (b *builder) append(r warc.Record) error {
	r.ID = b.nextID()
	out, err := b.p.cfg.Pack.Append(b.job.Records, &r)
	if err != nil {
		return err
	}
	b.job.Records, b.job.Ends = out, append(b.job.Ends, len(out))
	return nil
}

// MediaType is the type that a header names, without its parameters; "": none. It is what the crawl has taken the page for.
func MediaType(header []byte) string {
	m := markup.MediaType(warc.FieldList(header, "Content-Type"))
	if len(m) > maxMime {
		return ""
	}
	return m
}
