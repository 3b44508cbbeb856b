package rogue

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"
	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/proto"

	"shoal/channel/channelpb"
	"shoal/internal/wire/uplink/uplinkpb"
)

// Run is a claimed task.
type Run struct {
	v       *Volunteer
	Offer   Offer
	Body    *channelpb.Body
	Resume  *channelpb.Resume
	began   time.Time
	seq     uint64
	head    [32]byte
	digests map[uint64]uint64
	bodies  map[string][]byte // of the pages that it has fetched
}

// Codes of an answer, as docs/protocol.md numbers them.
const (
	granted = 1
	stored  = 2
)

// Claim claims a task at the archive.
func (v *Volunteer) Claim(ctx context.Context, o Offer) (*Run, error) {
	b, err := v.Call(ctx, "/shoal/claim/1", o.Signed)
	if err != nil {
		return nil, err
	}
	var c uplinkpb.Claimed
	if err := proto.Unmarshal(b, &c); err != nil {
		return nil, err
	}
	if c.GetReply().GetStatus() != granted {
		v.Stats.Refused.Add(1)
		return nil, fmt.Errorf("rogue: the claim of channel %d is answered %d", o.Header.Channel, c.GetReply().GetStatus())
	}
	v.Stats.Claimed.Add(1)
	r := &Run{v: v, Offer: o, Body: &channelpb.Body{}, Resume: &channelpb.Resume{}, began: time.Now(), digests: map[uint64]uint64{}, bodies: map[string][]byte{}}
	if err := proto.Unmarshal(c.Body, r.Body); err != nil {
		return nil, err
	}
	if err := proto.Unmarshal(c.Resume, r.Resume); err != nil {
		return nil, err
	}
	for i, u := range r.Body.DigestUrl {
		if i < len(r.Body.DigestContent) {
			r.digests[u] = r.Body.DigestContent[i]
		}
	}
	r.seq = r.Resume.Seq
	copy(r.head[:], r.Resume.Head)
	return r, nil
}

var zipper, _ = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))

// Put stores a chunk on the channel's head.
func (r *Run) Put(ctx context.Context, b *channelpb.ChunkBody) error {
	c := &channelpb.Chunk{Channel: r.Offer.Header.Channel, Gen: r.Offer.Header.Gen, Seq: r.seq + 1, Body: zipper.EncodeAll(encode(b), nil)}
	if r.head != ([32]byte{}) {
		c.Prev = r.head[:]
	}
	raw, err := r.v.Call(ctx, "/shoal/chunk/1", encode(c))
	if err != nil {
		return err
	}
	var a uplinkpb.Reply
	if err := proto.Unmarshal(raw, &a); err != nil {
		return err
	}
	if a.Status != stored {
		r.v.Stats.Refused.Add(1)
		return fmt.Errorf("rogue: a chunk of channel %d is answered %d", c.Channel, a.Status)
	}
	r.seq, r.head = c.Seq, hash(c, r.head)
	r.v.Stats.Stored.Add(1)
	r.v.Stats.Pages.Add(int64(len(b.Pages)))
	if b.Report != nil && b.Report.Outcome == updated {
		r.v.Stats.Updates.Add(1)
	}
	return nil
}

func hash(c *channelpb.Chunk, prev [32]byte) [32]byte {
	h := sha256.New()
	b := []byte("shoal chunk 1\n")
	b = binary.BigEndian.AppendUint64(b, c.Channel)
	b = binary.BigEndian.AppendUint64(b, c.Gen)
	b = binary.BigEndian.AppendUint64(b, c.Seq)
	h.Write(append(b, prev[:]...))
	h.Write(c.Body)
	return [32]byte(h.Sum(nil))
}

// Release gives the task back.
func (r *Run) Release(ctx context.Context) error {
	_, err := r.v.Call(ctx, "/shoal/release/1", encode(&uplinkpb.Release{Channel: r.Offer.Header.Channel, Gen: r.Offer.Header.Gen}))
	return err
}

// Renew asks for more time.
func (r *Run) Renew(ctx context.Context) error {
	_, err := r.v.Call(ctx, "/shoal/renew/1", r.Offer.Signed)
	return err
}

// Outcomes and changes, as docs/protocol.md numbers them.
const (
	updated     = 1
	hostBlocked = 3

	pageNew       = 1
	pageChanged   = 2
	pageUnchanged = 4
	pageGone      = 5
)

// Report is an honest report of pages.
func (r *Run) Report(pages []*channelpb.Page) *channelpb.Report {
	m := &channelpb.Report{Channel: r.Offer.Header.Channel, Gen: r.Offer.Header.Gen, Peer: r.v.ID(), Outcome: updated, StartedUs: r.began.UnixMicro(), EndedUs: time.Now().UnixMicro(),
		Pages: int64(len(pages)), GapUs: r.Offer.Header.GapUs, RttUs: 20_000, Robots: "allowed"}
	for _, p := range pages {
		switch p.Change {
		case pageNew:
			m.New++
		case pageChanged:
			m.Changed++
		case pageUnchanged:
			m.Unchanged++
		case pageGone:
			m.Gone++
		}
		m.BytesDown += int64(len(p.Body))
	}
	return m
}

var href = regexp.MustCompile(`href="(/[^"#?]*)"`)

// Crawl fetches the task's pages as an honest peer would, politely and within the budget, and returns them. Of a crawl that another peer has begun it fetches
// what is left, and follows no link.
func (r *Run) Crawl(ctx context.Context) ([]*channelpb.Page, error) {
	h := r.Offer.Header
	todo := append([]string(nil), r.Body.Seeds...)
	rest := len(r.Resume.Done) > 0
	if rest {
		todo = nil
		for _, f := range r.Resume.Frontier {
			todo = append(todo, f.Url)
		}
	}
	if len(todo) == 0 {
		todo = []string{h.Host + "/"}
	}
	seen, most := map[string]bool{}, int(max(h.Budget, 1))
	gap := max(time.Duration(h.GapUs)*time.Microsecond, 10*time.Millisecond)
	var pages []*channelpb.Page
	for len(todo) > 0 && len(pages) < most {
		url := todo[0]
		todo = todo[1:]
		if seen[url] {
			continue
		}
		seen[url] = true
		status, header, body, err := r.v.Fetch(ctx, url)
		if err != nil {
			return pages, err
		}
		pages = append(pages, r.Page(url, status, header, body))
		r.v.learn(h.Host, url)
		r.bodies[url] = body
		if status == 200 && !rest {
			for _, m := range href.FindAllSubmatch(body, -1) {
				if !utf8.Valid(m[1]) {
					continue // no message can carry it
				}
				todo = append(todo, h.Host+string(m[1]))
			}
		}
		select {
		case <-ctx.Done():
			return pages, ctx.Err()
		case <-time.After(gap):
		}
	}
	return pages, nil
}

// Page returns an honest page.
func (r *Run) Page(url string, status int, header, body []byte) *channelpb.Page {
	p := &channelpb.Page{Url: url, FetchedUs: time.Now().UnixMicro(), Status: int64(status), Header: header, Digest: xxhash.Sum64(body), RttUs: 20_000, Change: pageNew}
	switch known, ok := r.digests[xxhash.Sum64String(url)]; {
	case status == 404 || status == 410:
		p.Change = pageGone
	case ok && known == p.Digest:
		p.Change = pageUnchanged
	case ok:
		p.Change = pageChanged
		fallthrough
	default:
		p.Body = body
	}
	return p
}

// Mark stands in every forged page.
const Mark = "forged by a rogue volunteer"

// forged returns a made-up page.
func forged(url string) []byte {
	return []byte("<html><head><title>" + Mark + "</title></head><body><p>" + strings.Repeat(Mark+" at "+url+". ", 20) + "</p></body></html>")
}
