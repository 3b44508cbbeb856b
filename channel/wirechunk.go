package channel

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/encoding/protowire"

	pb "shoal/channel/channelpb"
)

// Hash returns the name of the chunk in its successor's Prev. It covers all fields.
func (c *Chunk) Hash() [32]byte {
	h := sha256.New()
	b := append([]byte(nil), "shoal chunk 1\n"...)
	b = binary.BigEndian.AppendUint64(b, uint64(c.Channel))
	b = binary.BigEndian.AppendUint64(b, uint64(c.Gen))
	b = binary.BigEndian.AppendUint64(b, c.Seq)
	b = append(b, c.Prev[:]...)
	h.Write(b)
	h.Write(c.Body)
	return [32]byte(h.Sum(nil))
}

// Marshal encodes the chunk.
func (c *Chunk) Marshal() []byte {
	return encode(&pb.Chunk{Channel: uint64(c.Channel), Gen: uint64(c.Gen), Seq: c.Seq, Prev: bytes32(c.Prev), Body: c.Body})
}

// ParseChunk decodes a chunk; its body stays compressed.
func ParseChunk(b []byte) (Chunk, error) {
	var m pb.Chunk
	if err := decode(b, MaxChunk, &m); err != nil {
		return Chunk{}, err
	}
	c := checker{what: "chunk"}
	out := Chunk{Channel: ID(m.Channel), Gen: Gen(m.Gen), Seq: m.Seq, Prev: c.array32("predecessor", m.Prev), Body: c.bytes("body", m.Body, MaxChunk)}
	if out.Channel == 0 || out.Gen == 0 || out.Seq == 0 {
		c.fail(ErrMalformed, "no channel, generation or sequence number")
	}
	return out, c.err
}

// Marshal encodes the chunk body, uncompressed.
func (b *ChunkBody) Marshal() []byte {
	n := 0
	for i := range b.Pages {
		n += len(b.Pages[i].Body) + len(b.Pages[i].Header) + 512
	}
	return b.Append(make([]byte, 0, n+64*len(b.Frontier)))
}

// Append appends the encoded chunk body to a buffer. One encoding followed by another is the encoding of a body with
// the pages and frontier entries of both, so that a crawl can gather a chunk page by page. Append is written by hand
// because it is most of what a crawl encodes; a test compares it with the generated code.
func (b *ChunkBody) Append(to []byte) []byte {
	for i := range b.Pages {
		to = b.Pages[i].append(to)
	}
	for i := range b.Frontier {
		f := &b.Frontier[i]
		url := ascii(f.URL)
		n := sizeText(1, url) + sizeInt(2, int64(f.Depth))
		to = protowire.AppendVarint(protowire.AppendTag(to, 2, protowire.BytesType), uint64(n))
		to = appendInt(appendText(to, 1, url), 2, int64(f.Depth))
	}
	if b.Report != nil {
		to = protowire.AppendTag(to, 3, protowire.BytesType)
		to = protowire.AppendBytes(to, b.Report.Marshal())
	}
	return to
}

func (p *Page) append(to []byte) []byte {
	url, why, links := ascii(p.URL), text(p.Error), texts(p.Links)
	n := sizeText(1, url) + sizeInt(2, int64(p.Depth)) + sizeInt(3, micros(p.Fetched)) + sizeInt(4, int64(p.Status)) + sizeText(5, why) +
		sizeInt(6, int64(p.Change)) + sizeText(9, p.Header) + sizeText(10, p.Body) + sizeInt(12, p.RTT.Microseconds())
	for _, h := range []uint64{p.Digest, p.Shingle} {
		if h != 0 {
			n += 1 + protowire.SizeFixed64()
		}
	}
	for _, l := range links {
		n += 1 + protowire.SizeBytes(len(l))
	}
	for _, is := range []bool{p.Truncated, p.ShowsVisitor} {
		if is {
			n += 2
		}
	}
	to = protowire.AppendVarint(protowire.AppendTag(to, 1, protowire.BytesType), uint64(n))
	to = appendInt(appendText(to, 1, url), 2, int64(p.Depth))
	to = appendInt(appendInt(to, 3, micros(p.Fetched)), 4, int64(p.Status))
	to = appendInt(appendText(to, 5, why), 6, int64(p.Change))
	for i, h := range []uint64{p.Digest, p.Shingle} {
		if h != 0 {
			to = protowire.AppendFixed64(protowire.AppendTag(to, protowire.Number(7+i), protowire.Fixed64Type), h)
		}
	}
	to = appendText(appendText(to, 9, p.Header), 10, p.Body)
	for _, l := range links {
		to = protowire.AppendString(protowire.AppendTag(to, 11, protowire.BytesType), l)
	}
	to = appendInt(to, 12, p.RTT.Microseconds())
	if p.Truncated {
		to = appendInt(to, 13, 1)
	}
	if p.ShowsVisitor {
		to = appendInt(to, 14, 1)
	}
	return to
}

// The next functions append fields with numbers 1 to 15, whose tags are one byte. They leave zero values out.

func sizeInt(_ protowire.Number, v int64) int {
	if v == 0 {
		return 0
	}
	return 1 + protowire.SizeVarint(uint64(v))
}

func appendInt(to []byte, num protowire.Number, v int64) []byte {
	if v == 0 {
		return to
	}
	return protowire.AppendVarint(protowire.AppendTag(to, num, protowire.VarintType), uint64(v))
}

func sizeText[T string | []byte](_ protowire.Number, v T) int {
	if len(v) == 0 {
		return 0
	}
	return 1 + protowire.SizeBytes(len(v))
}

func appendText[T string | []byte](to []byte, num protowire.Number, v T) []byte {
	if len(v) == 0 {
		return to
	}
	to = protowire.AppendVarint(protowire.AppendTag(to, num, protowire.BytesType), uint64(len(v)))
	return append(to, v...)
}

// ParseChunkBody decodes a chunk body.
func ParseChunkBody(b []byte) (ChunkBody, error) {
	var m pb.ChunkBody
	if err := decode(b, MaxChunkBody, &m); err != nil {
		return ChunkBody{}, err
	}
	c := checker{what: "chunk body"}
	out := ChunkBody{Frontier: c.frontier(m.Frontier)}
	for _, p := range m.Pages {
		out.Pages = append(out.Pages, Page{
			URL: c.url("page", p.Url), Depth: c.count("depth", p.Depth, maxInt), Fetched: c.time("fetched", p.FetchedUs),
			Status: c.count("status", p.Status, 999), Error: c.text("error", p.Error, MaxText),
			Change: Change(c.enum("change", p.Change, uint32(Errored))), Digest: p.Digest, Shingle: p.Shingle,
			Header: c.bytes("response header", p.Header, MaxPageHeader), Body: c.bytes("page body", p.Body, MaxPage),
			Links: c.urls("links", p.Links, MaxPageLinks), RTT: c.duration("RTT", p.RttUs), Truncated: p.Truncated, ShowsVisitor: p.ShowsVisitor,
		})
	}
	if m.Report != nil {
		r := c.report(m.Report)
		out.Report = &r
	}
	return out, c.err
}

// Marshal encodes the report.
func (r *Report) Marshal() []byte { return encode(r.pb()) }

// ParseReport decodes a report that was stored. Archives of before stored some that are larger than MaxReport.
func ParseReport(b []byte) (Report, error) {
	var m pb.Report
	if err := decode(b, MaxChunkBody, &m); err != nil {
		return Report{}, err
	}
	c := checker{what: "report"}
	r := c.report(&m)
	return r, c.err
}

func (r *Report) pb() *pb.Report {
	m := &pb.Report{
		Channel: uint64(r.Channel), Gen: uint64(r.Gen), Peer: ascii(r.Peer), Outcome: uint32(r.Outcome), Reason: text(r.Reason),
		StartedUs: micros(r.Started), EndedUs: micros(r.Ended), Pages: int64(r.Pages), New: int64(r.New), Changed: int64(r.Changed),
		NearUnchanged: int64(r.NearUnchanged), Unchanged: int64(r.Unchanged), Gone: int64(r.Gone), BytesDown: r.BytesDown,
		BytesUp: r.BytesUp, Truncated: r.Truncated, Left: int64(r.Left), Inter: texts(r.Inter), RttUs: r.RTT.Microseconds(),
		GapUs: r.Gap.Microseconds(), RestUs: r.Rest.Microseconds(), Robots: text(r.Robots),
	}
	other := 0
	for i, kind := range slices.Sorted(maps.Keys(r.Errors)) {
		if i >= MaxErrorKinds {
			other += r.Errors[kind]
			continue
		}
		m.Errors = append(m.Errors, &pb.ErrorCount{Kind: text(kind), Count: int64(r.Errors[kind])})
	}
	if other > 0 {
		m.Errors = append(m.Errors, &pb.ErrorCount{Kind: "other", Count: int64(other)})
	}
	return m
}

func (c *checker) report(m *pb.Report) Report {
	const maxBytes = 1 << 50
	r := Report{
		Channel: ID(m.Channel), Gen: Gen(m.Gen), Peer: c.id("peer", m.Peer, MaxPeerID),
		Outcome: Outcome(c.enum("outcome", m.Outcome, uint32(Refused))), Reason: c.text("reason", m.Reason, MaxText),
		Started: c.time("started", m.StartedUs), Ended: c.time("ended", m.EndedUs), Pages: c.count("pages", m.Pages, maxInt),
		New: c.count("new", m.New, maxInt), Changed: c.count("changed", m.Changed, maxInt),
		NearUnchanged: c.count("near-unchanged", m.NearUnchanged, maxInt), Unchanged: c.count("unchanged", m.Unchanged, maxInt),
		Gone: c.count("gone", m.Gone, maxInt), Truncated: m.Truncated, Left: c.count("left", m.Left, maxInt),
		Inter: c.urls("inter-site URLs", m.Inter, MaxReportInter), RTT: c.duration("RTT", m.RttUs), Gap: c.duration("gap", m.GapUs), Rest: c.duration("rest", m.RestUs),
		Robots: c.text("robots", m.Robots, MaxText),
	}
	if r.Channel == 0 || r.Gen == 0 || r.Outcome == 0 {
		c.fail(ErrMalformed, "report without channel, generation or outcome")
	}
	for _, n := range []int64{m.BytesDown, m.BytesUp} {
		if n < 0 || n > maxBytes {
			c.fail(ErrMalformed, "report of %d bytes", n)
		}
	}
	r.BytesDown, r.BytesUp = m.BytesDown, m.BytesUp
	for _, e := range m.Errors {
		if r.Errors == nil {
			r.Errors = make(map[string]int)
		}
		r.Errors[c.text("error kind", e.Kind, MaxText)] += c.count("errors", e.Count, maxInt)
	}
	return r
}

// encoders and decoders save memory only: each holds buffers of up to a few MiB and no state between calls.
var (
	encoders = sync.Pool{New: func() any {
		e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(256<<10), zstd.WithLowerEncoderMem(true))
		if err != nil {
			return err
		}
		return e
	}}
	decoders = sync.Pool{New: func() any {
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(MaxChunkBody), zstd.WithDecoderMaxWindow(MaxChunkBody))
		if err != nil {
			return err
		}
		return d
	}}
)

// CompressBody returns Chunk.Body for an encoded ChunkBody. It refuses what DecompressChunk would refuse.
func CompressBody(raw []byte) ([]byte, error) {
	if len(raw) > MaxChunkBody {
		return nil, fmt.Errorf("%w: chunk body of %d bytes, at most %d", ErrTooLarge, len(raw), MaxChunkBody)
	}
	e, ok := encoders.Get().(*zstd.Encoder)
	if !ok {
		return nil, errors.New("channel: no zstd encoder")
	}
	defer encoders.Put(e)
	out := e.EncodeAll(raw, make([]byte, 0, len(raw)/2))
	if len(out) > MaxChunk-chunkOverhead {
		return nil, fmt.Errorf("%w: chunk body of %d compressed bytes, at most %d", ErrTooLarge, len(out), MaxChunk-chunkOverhead)
	}
	return out, nil
}

// chunkOverhead is an upper bound for the encoded size of a Chunk without its body.
const chunkOverhead = 128

// DecompressChunk decodes Chunk.Body with at most so many URLs to fetch. It stops with an error before the output exceeds MaxChunkBody bytes.
// It leaves out the URLs beyond, and tells how many. What is left out is not decoded: thousands of URLs need ten times as much memory then as before.
func DecompressChunk(body []byte, frontier int) (b ChunkBody, left int, err error) {
	room, ok := unpacked.Get().(*[]byte)
	if !ok {
		room = new([]byte)
	}
	raw, err := decompressChunk((*room)[:0], body)
	if err != nil {
		return ChunkBody{}, 0, err
	}
	kept, left := withoutFrontier(raw, frontier)
	b, err = ParseChunkBody(kept) // which copies all that it keeps
	if cap(raw) <= maxUnpacked {
		*room = raw
		unpacked.Put(room)
	}
	return b, left, err
}

// unpacked are buffers for what is decompressed, used again and again. Larger ones than maxUnpacked are given back.
var unpacked sync.Pool

const maxUnpacked = 2 << 20

// frontierField is the number of ChunkBody.frontier.
const frontierField = 2

// withoutFrontier takes from an encoded chunk body, which it changes, all URLs to fetch but the first n. It leaves what cannot be read to the decoder.
func withoutFrontier(raw []byte, n int) (kept []byte, left int) {
	kept = raw[:0]
	for len(raw) > 0 {
		num, _, size := protowire.ConsumeField(raw)
		if size < 0 {
			return append(kept, raw...), left
		}
		if num == frontierField {
			if n--; n < 0 {
				raw = raw[size:]
				left++
				continue
			}
		}
		kept, raw = append(kept, raw[:size]...), raw[size:]
	}
	return kept, left
}

func decompressChunk(to, body []byte) ([]byte, error) {
	if len(body) > MaxChunk {
		return nil, fmt.Errorf("%w: chunk body of %d compressed bytes, at most %d", ErrTooLarge, len(body), MaxChunk)
	}
	d, ok := decoders.Get().(*zstd.Decoder)
	if !ok {
		return nil, errors.New("channel: no zstd decoder")
	}
	defer decoders.Put(d)
	raw, err := d.DecodeAll(body, to)
	switch {
	case errors.Is(err, zstd.ErrDecoderSizeExceeded), errors.Is(err, zstd.ErrWindowSizeExceeded):
		return nil, fmt.Errorf("%w: chunk body of more than %d bytes", ErrTooLarge, MaxChunkBody)
	case err != nil:
		return nil, fmt.Errorf("%w: chunk body: %w", ErrMalformed, err)
	}
	return raw, nil
}
