package pages

import (
	"cmp"
	"encoding/binary"
	"net/http"
	"net/url"
	"slices"
	"time"

	"shoal/channel"
	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/schema"
	"shoal/manager/archive/warc"
)

// lastVisit is who visited a page last, in a task that was claimed at a time, Unix seconds.
type lastVisit struct {
	by uint64
	at int64
}

// visits notes who visits a page, and tells who did before.
func (b *builder) visits(m *pb.Page) (last lastVisit) {
	last = lastVisit{m.LastBy, m.LastAt}
	m.LastBy, m.LastAt = b.by, b.outbox.ClaimedUs/1e6
	return last
}

// again tells whether this claim has said what a page is before. Its first word counts: of two that differ, one could be shown, and the other one be found when it is
// looked at what was delivered. No crawl fetches a page twice.
func (b *builder) again(d *draft) (bool, error) {
	if d.said || d.page.LastBy != b.by || d.page.LastAt != b.outbox.ClaimedUs/1e6 {
		return d.said, nil // most pages
	}
	if b.before == nil {
		b.before = map[uint64]bool{}
		err := eachDelivered(b.snap, b.id, b.gen, func(_ []byte, m *pb.Delivered) error {
			for _, v := range m.Pages {
				b.before[v.Url] = true
			}
			for _, q := range m.Quiet {
				for _, url := range q.Urls {
					b.before[url] = true
				}
			}
			return nil
		})
		if err != nil {
			return false, err
		}
	}
	return b.before[d.url], nil
}

// deliveredBy begins what the manager takes in of a chunk.
func deliveredBy(set *ledger.PageSet) *pb.Delivered {
	return &pb.Delivered{Deliverer: set.Deliverer, Account: set.Account, Prefix: set.Prefix, ClaimedUs: schema.Micros(set.Claimed)}
}

// said notes what a delivery says of a page that is there, or leads elsewhere. digest is that of the content, which the peer computed; 0: it named none. old is
// the version that was stored before; nil: there was none. last is the visit before.
func (b *builder) said(d *draft, p *channel.Page, digest uint64, old *pb.Version, last lastVisit) {
	m := d.page
	if p.Status >= 400 { // contradict.go judges who says that a page is gone. It is no word about the version that there was before
		m.LastBy, m.LastAt = last.by, last.at
		return
	}
	if b.p.cfg.Unjudged {
		return
	}
	d.said = true
	if b.quiet(d, digest, old) {
		b.quietly(d.url, last.by)
		return
	}
	v := &pb.Visited{
		Url: d.url, Address: p.URL, Size: m.Size, Visits: m.Visits, Changes: m.Changes, FirstUs: m.FirstUs, LastBy: last.by, LastAt: last.at,
		FetchedUs: p.Fetched.UnixMicro(), Status: uint32(p.Status), Change: uint32(p.Change), Digest: digest, Shingle: p.Shingle, Before: old,
	}
	if p.Status == http.StatusNotModified {
		v.Digest = 0 // it was the server that said so
	}
	if v.Digest != 0 {
		v.Raw = m.Raw
	}
	v.Modified = Modified(p.Header, p.Fetched)
	if to := leadsTo(p); to != "" {
		v.Final = []byte(to)
	}
	b.outbox.Pages = append(b.outbox.Pages, v)
}

// How long before an answer a page must have changed, for its date to say something: by the answer's own date, and by that of the fetch, which is by another clock.
const (
	madeWithin  = 5 * time.Second
	clocksApart = 2 * time.Minute
)

// Modified is when an answer says that its page changed last, Unix seconds; 0: it says nothing. Many servers make a page at each request and say that it has changed
// just then. That says nothing, and would excuse whatever was said of the page before.
func Modified(header []byte, fetched time.Time) int64 {
	latest := fetched.Add(-clocksApart)
	if date, err := http.ParseTime(warc.Field(header, "Date")); err == nil {
		latest = date.Add(-madeWithin)
	}
	return dated(warc.Field(header, "Last-Modified"), latest)
}

// dated is the time that a Last-Modified says, Unix seconds; 0: it says none, or a later one than a page can be known to have.
func dated(field string, latest time.Time) int64 {
	at, err := http.ParseTime(field)
	if err != nil || at.Unix() <= 0 || at.After(latest) {
		return 0
	}
	return at.Unix()
}

// quiet tells whether a visit saw what is stored, as the manager's record of the page has it, and changes nothing of that record.
func (b *builder) quiet(d *draft, digest uint64, old *pb.Version) bool {
	m := d.page
	return m.Settled != 0 && m.Settled == m.Digest && (digest == 0 || digest == m.Settled) && d.owner == b.id && old.GetDigest() == m.Settled
}

// quietly notes a page of which a delivery says nothing new.
func (b *builder) quietly(url, last uint64) {
	all := b.outbox.Quiet
	i := slices.IndexFunc(all, func(q *pb.Quiet) bool { return q.LastBy == last })
	if i < 0 {
		i, all = len(all), append(all, &pb.Quiet{LastBy: last})
		b.outbox.Quiet = all
	}
	all[i].Urls = append(all[i].Urls, url)
}

// leadsTo is where a redirect leads; empty: the page is none. Peers send the body of one that leads nowhere, as a page that browsers show.
func leadsTo(p *channel.Page) string {
	location := warc.Field(p.Header, "Location")
	if p.Status < 300 || p.Status > 399 || location == "" || len(p.Body) > 0 {
		return ""
	}
	base, err := url.Parse(p.URL)
	if err != nil {
		return ""
	}
	to, err := base.Parse(location)
	if err != nil || len(to.String()) > channel.MaxURL {
		return ""
	}
	if canonical, err := channel.Canonical(to.String()); err == nil {
		return canonical
	}
	return ""
}

// contentDigest is the digest of what was sent of a page. raw is that of the page as it came, by the peer's word, where less was sent: its text only, or nothing, as of pages
// that are not to be archived. It is part of the digest then, since peers compare by it; but alone it would say nothing of what was sent with it. 0: all was sent.
func contentDigest(p *channel.Page) (digest, raw uint64) {
	digest = channel.ContentDigest(p.Body)
	if p.Digest == 0 || p.Digest == digest {
		return digest, 0
	}
	if leadsTo(p) != "" {
		return p.Digest, 0 // of where it leads
	}
	return channel.ContentDigest(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, p.Digest), digest)), p.Digest
}

// toldOf is the digest by which peers compare what they fetch with what is stored of a page.
func toldOf(m *pb.Page) uint64 { return cmp.Or(m.Raw, m.Digest) }

// versionDigest tells versions of a page apart: the digest of its content or, of a redirect, of where it leads.
func versionDigest(p *channel.Page, digest uint64) uint64 {
	if to := leadsTo(p); to != "" {
		return channel.ContentDigest([]byte(to))
	}
	return digest
}
