package channel

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/proto"

	pb "shoal/channel/channelpb"
	"shoal/coords"
)

var when = time.Date(2024, 5, 6, 7, 8, 9, 123456000, time.UTC)

func sampleRecord() coords.HostRecord {
	at := coords.Coord{Vec: [coords.Dims]float64{1, -2, 3.5, 0, 0, 0, 0, 1e5}, Height: .5, Adjust: -1, Err: .25}
	return coords.HostRecord{
		Samples: []coords.Sample{{Vantage: "12D3KooWA", At: at, RTT: 31 * time.Millisecond, When: when.Unix()}},
		Best:    []string{"12D3KooWA", "12D3KooWB"}, Anycast: true,
	}
}

func sampleScope() Scope {
	return Scope{Kind: Directories, Host: "https://example.org:8443", Dirs: []string{"/a/", "/b/c/"}, Filters: []string{`\.html$`}, Exclude: []string{"x"}, MaxDepth: 4}
}

func sampleSettings() Settings {
	return Settings{Order: "opic", Pages: 100, PageBytes: 1 << 20, Weight: 2.5, TextOnly: true, Group: 3}
}

func sampleHeader() Header {
	return Header{
		Network: [32]byte{1, 2}, Channel: 7, Gen: 9, Host: "https://example.org", Pages: 10, Budget: 20, Issued: when,
		Latest: when.Add(time.Hour), Gap: time.Second, Archive: "12D3KooWArchive", BodySHA256: [32]byte{3}, BodyBytes: 400_000,
	}
}

func sampleBody() Body {
	return Body{
		Scope: sampleScope(), Seeds: []string{"https://example.org:8443/a/"}, Inter: []string{"https://example.org:8443/a/x"},
		Settings: sampleSettings(), Digests: []PageDigest{{1, 2}, {3, 4}}, KnownInter: []uint64{5, math.MaxUint64},
		Validators: []Validator{{URL: 1, ETag: "\"\xffx\"", LastModified: "Mon, 06 May 2024 07:08:09 GMT"}},
		Importance: []Importance{{1, .5}, {3, 1e-9}}, Record: sampleRecord(), Contact: "https://search.test/bot",
	}
}

func sampleReport() Report {
	return Report{
		Channel: 7, Gen: 9, Peer: "12D3KooWA", Outcome: Stopped, Reason: "asked to", Started: when, Ended: when.Add(time.Minute), Pages: 9,
		New: 1, Changed: 2, NearUnchanged: 3, Unchanged: 2, Gone: 1, BytesDown: 1 << 40, BytesUp: 5, Truncated: true, Left: 3,
		Inter: []string{"http://other.test/"}, Errors: map[string]int{"timeout": 2, "dns": 1}, RTT: time.Millisecond, Gap: time.Second, Rest: 4 * time.Minute,
		Robots: "allowed",
	}
}

func sampleChunkBody() ChunkBody {
	r := sampleReport()
	return ChunkBody{
		Pages: []Page{{
			URL: "https://example.org/a", Depth: 2, Fetched: when, Status: 200, Change: Changed, Digest: 1, Shingle: 2,
			Header: []byte("HTTP/1.1 200 OK\r\n\r\n"), Body: []byte("\x00\xff<html>"), Links: []string{"https://example.org/b"},
			RTT: 40 * time.Millisecond, Truncated: true, ShowsVisitor: true,
		}, {URL: "https://example.org/c", Error: "connection reset", Change: Errored}},
		Frontier: []Frontier{{"https://example.org/b", 3}}, Report: &r,
	}
}

func sampleResume() Resume {
	return Resume{Seq: 3, Head: [32]byte{9}, Frontier: []Frontier{{"https://example.org/b", 3}, {"https://example.org/c", 0}}, Done: []uint64{1, 2}, Leads: []string{"https://example.net/"}}
}

func sampleChannel() Channel {
	return Channel{
		ID: 7, Scope: sampleScope(), Seeds: []string{"https://example.org:8443/a/"}, Inter: []string{"https://example.org:8443/a/x"},
		Added: when, State: Marked, Reason: "blocked", Settings: sampleSettings(),
		Learnt: Learnt{
			Gen: 9, Failed: 1, Submitted: when, Updated: when, Changed: when, Visits: 5, Changes: 2, Pages: 10, Budget: 20,
			Service: time.Minute, LastOutcome: Failed, LastError: "dns", Out: true, EstimatorBlob: []byte{1, 2, 3}, History: []byte{4, 5},
		},
	}
}

func sampleHost() Host {
	return Host{Name: "https://example.org", NextVisit: when, Rest: time.Minute, CrawlDelay: 2 * time.Second, Blocked: "403", Record: sampleRecord()}
}

// form is one type's way to the wire and back.
type form struct {
	name   string
	sample []byte
	parse  func([]byte) (value any, again []byte, err error)
	value  any
}

func forms() []form {
	h, s, b, r, c, cb, rp, ch, ho := sampleHeader(), Signed{Raw: []byte{1}, Sig: []byte{2}, Delegation: []byte{3}}, sampleBody(), sampleResume(),
		Chunk{Channel: 7, Gen: 9, Seq: 2, Prev: [32]byte{1}, Body: []byte{1, 2, 3}}, sampleChunkBody(), sampleReport(), sampleChannel(), sampleHost()
	return []form{
		{"Header", h.Marshal(), func(b []byte) (any, []byte, error) { v, err := ParseHeader(b); return v, v.Marshal(), err }, h},
		{"Signed", s.Marshal(), func(b []byte) (any, []byte, error) { v, err := ParseSigned(b); return v, v.Marshal(), err }, s},
		{"Body", b.Marshal(), func(b []byte) (any, []byte, error) { v, err := ParseBody(b); return v, v.Marshal(), err }, b},
		{"Resume", r.Marshal(), func(b []byte) (any, []byte, error) { v, err := ParseResume(b); return v, v.Marshal(), err }, r},
		{"Chunk", c.Marshal(), func(b []byte) (any, []byte, error) { v, err := ParseChunk(b); return v, v.Marshal(), err }, c},
		{"ChunkBody", cb.Marshal(), func(b []byte) (any, []byte, error) { v, err := ParseChunkBody(b); return v, v.Marshal(), err }, cb},
		{"Report", rp.Marshal(), func(b []byte) (any, []byte, error) { v, err := ParseReport(b); return v, v.Marshal(), err }, rp},
		{"Channel", ch.Marshal(), func(b []byte) (any, []byte, error) { v, err := ParseChannel(b); return v, v.Marshal(), err }, ch},
		{"Host", ho.Marshal(), func(b []byte) (any, []byte, error) { v, err := ParseHost(b); return v, v.Marshal(), err }, ho},
	}
}

func TestRoundTrip(t *testing.T) {
	for _, f := range forms() {
		got, again, err := f.parse(f.sample)
		if err != nil || !reflect.DeepEqual(got, f.value) {
			t.Errorf("%s: %v\n got %+v\nwant %+v", f.name, err, got, f.value)
		}
		if !bytes.Equal(again, f.sample) {
			t.Errorf("%s: encoded again, the bytes differ", f.name)
		}
		for cut := range f.sample { // never a panic
			_, _, _ = f.parse(f.sample[:cut])
		}
	}
}

// TestParseLeads reads one field of a resume state, which ParseResume reads alike.
func TestParseLeads(t *testing.T) {
	r := sampleResume()
	raw := r.Marshal()
	if got, err := ParseLeads(raw); err != nil || !reflect.DeepEqual(got, r.Leads) {
		t.Errorf("%v, %v; want %v", got, err, r.Leads)
	}
	if _, err := ParseLeads(append(raw, 0x2a, 0x7f)); !errors.Is(err, ErrMalformed) {
		t.Errorf("a field that is cut off: %v", err)
	}
	for cut := range raw { // never a panic
		_, _ = ParseLeads(raw[:cut])
	}
}

// TestSamplesAreFull checks that no sample leaves a field at zero, so that TestRoundTrip covers every field, new ones
// included.
func TestSamplesAreFull(t *testing.T) {
	cb, rs, rec := sampleChunkBody(), sampleResume(), sampleRecord()
	b, ch := sampleBody(), sampleChannel()
	page := cb.Pages[0]
	page.Error = cb.Pages[1].Error
	for _, v := range []any{sampleHeader(), b, b.Scope, b.Settings, b.Digests[0], b.Validators[0], b.Importance[0], rec, rec.Samples[0],
		rs, rs.Frontier[0], cb, page, sampleReport(), ch, ch.Learnt, sampleHost()} {
		rv := reflect.ValueOf(v)
		for i := range rv.NumField() {
			if rv.Field(i).IsZero() {
				t.Errorf("%T.%s is zero in its sample", v, rv.Type().Field(i).Name)
			}
		}
	}
}

// The largest header that can be made, with signature and delegation, fits its limit.
func TestHeaderFits(t *testing.T) {
	label := strings.Repeat("a", 63)
	host := "https://" + strings.Join([]string{label, label, label, strings.Repeat("b", 61)}, ".") + ":65535"
	var full [32]byte
	for i := range full {
		full[i] = 0xff
	}
	h := Header{
		Network: full, Channel: math.MaxUint64, Gen: math.MaxUint64, Host: host, Pages: maxInt, Budget: maxInt,
		Issued: fromMicros(maxTime), Latest: fromMicros(maxTime), Gap: maxDuration, Archive: strings.Repeat("x", MaxPeerID),
		BodySHA256: full, BodyBytes: MaxBody,
	}
	s := Signed{Raw: h.Marshal(), Sig: make([]byte, MaxSig), Delegation: make([]byte, MaxDelegation)}
	wire := s.Marshal()
	if len(wire) > MaxHeader {
		t.Fatalf("signed header of %d bytes, the limit is %d", len(wire), MaxHeader)
	}
	s2, err := ParseSigned(wire)
	if err != nil {
		t.Fatal(err)
	}
	if h2, err := ParseHeader(s2.Raw); err != nil || h2 != h {
		t.Fatalf("%+v, %v", h2, err)
	}
}

func TestParseRefuses(t *testing.T) {
	repeat := func(n int, s string) []string {
		out := make([]string, n)
		for i := range out {
			out[i] = s
		}
		return out
	}
	header := func(change func(*Header)) []byte { h := sampleHeader(); change(&h); return h.Marshal() }
	body := func(change func(*Body)) []byte { b := sampleBody(); change(&b); return b.Marshal() }
	chunkBody := func(change func(*ChunkBody)) []byte { b := sampleChunkBody(); change(&b); return b.Marshal() }
	host := func(change func(*Host)) []byte { h := sampleHost(); change(&h); return h.Marshal() }
	coord := func(f float64) []byte {
		return host(func(h *Host) { h.Record.Samples[0].At.Vec[3] = f })
	}
	const url = "https://example.org/"
	parse := make(map[string]form)
	for _, f := range forms() {
		parse[f.name] = f
	}
	for name, c := range map[string]struct {
		form string
		raw  []byte
		want error
	}{
		"header too large":        {"Header", make([]byte, MaxHeader+1), ErrTooLarge},
		"signed too large":        {"Signed", (&Signed{Raw: make([]byte, MaxHeader)}).Marshal(), ErrTooLarge},
		"delegation too large":    {"Signed", (&Signed{Delegation: make([]byte, MaxDelegation+1)}).Marshal(), ErrTooLarge},
		"header without channel":  {"Header", header(func(h *Header) { h.Channel = 0 }), ErrMalformed},
		"header, host not origin": {"Header", header(func(h *Header) { h.Host = "https://a/b" }), ErrMalformed},
		"header, negative pages":  {"Header", header(func(h *Header) { h.Pages = -1 }), ErrMalformed},
		"header, negative gap":    {"Header", header(func(h *Header) { h.Gap = -time.Second }), ErrMalformed},
		"header, before 1970":     {"Header", header(func(h *Header) { h.Issued = time.Unix(-1, 0) }), ErrMalformed},
		"header, body size":       {"Header", header(func(h *Header) { h.BodyBytes = MaxBody + 1 }), ErrMalformed},
		"header, archive id":      {"Header", header(func(h *Header) { h.Archive = "a\nb" }), ErrMalformed},
		"header, short hash":      {"Header", encode(&pb.Header{Channel: 1, Gen: 1, Host: "https://h.test", BodySha256: []byte{1}}), ErrMalformed},
		"body, seeds":             {"Body", body(func(b *Body) { b.Seeds = repeat(MaxSeeds+1, url) }), ErrTooLarge},
		"body, long URL":          {"Body", body(func(b *Body) { b.Seeds = []string{url + strings.Repeat("a", MaxURL)} }), ErrTooLarge},
		"body, URL with space":    {"Body", body(func(b *Body) { b.Seeds = []string{url + "a b"} }), ErrMalformed},
		"body, no URL":            {"Body", body(func(b *Body) { b.Inter = []string{"gopher://h.test/"} }), ErrMalformed},
		"body, digests":           {"Body", body(func(b *Body) { b.Digests = make([]PageDigest, MaxDigests+1) }), ErrTooLarge},
		"body, digests unpaired":  {"Body", encode(&pb.Body{Scope: &pb.Scope{Kind: 1, Host: "https://h.test"}, DigestUrl: []uint64{1}}), ErrMalformed},
		"body, known inter":       {"Body", body(func(b *Body) { b.KnownInter = make([]uint64, MaxKnownInter+1) }), ErrTooLarge},
		"body, importance NaN":    {"Body", body(func(b *Body) { b.Importance[0].Rank = float32(math.NaN()) }), ErrMalformed},
		"body, weight infinite":   {"Body", body(func(b *Body) { b.Settings.Weight = float32(math.Inf(1)) }), ErrMalformed},
		"body, ETag":              {"Body", body(func(b *Body) { b.Validators[0].ETag = strings.Repeat("x", MaxValidator+1) }), ErrTooLarge},
		"body, scope":             {"Body", body(func(b *Body) { b.Scope.Host = "ftp://h.test" }), ErrMalformed},
		"body, scope's filters":   {"Body", body(func(b *Body) { b.Scope.Filters = repeat(MaxFilters+1, "a") }), ErrMalformed},
		"body without scope":      {"Body", nil, ErrMalformed},
		"chunk without gen":       {"Chunk", (&Chunk{Channel: 1, Seq: 1}).Marshal(), ErrMalformed},
		"chunk too large":         {"Chunk", make([]byte, MaxChunk+1), ErrTooLarge},
		"pages":                   {"ChunkBody", bytes.Repeat([]byte{1<<3 | 2, 0}, MaxChunkPages+1), ErrTooLarge},
		"links of one page":       {"ChunkBody", chunkBody(func(b *ChunkBody) { b.Pages[0].Links = repeat(MaxPageLinks+1, url) }), ErrTooLarge},
		"links of all pages":      {"ChunkBody", append([]byte{1<<3 | 2, 0xc2, 0x84, 0x3d}, bytes.Repeat([]byte{11<<3 | 2, 0}, 500_001)...), ErrTooLarge},
		"page's body":             {"ChunkBody", chunkBody(func(b *ChunkBody) { b.Pages[0].Body = make([]byte, MaxPage+1) }), ErrTooLarge},
		"page's header":           {"ChunkBody", chunkBody(func(b *ChunkBody) { b.Pages[0].Header = make([]byte, MaxPageHeader+1) }), ErrTooLarge},
		"page's change":           {"ChunkBody", chunkBody(func(b *ChunkBody) { b.Pages[0].Change = 99 }), ErrMalformed},
		"page's status":           {"ChunkBody", chunkBody(func(b *ChunkBody) { b.Pages[0].Status = 1000 }), ErrMalformed},
		"frontier":                {"ChunkBody", chunkBody(func(b *ChunkBody) { b.Frontier = make([]Frontier, MaxFrontierPart+1) }), ErrTooLarge},
		"report without outcome":  {"ChunkBody", chunkBody(func(b *ChunkBody) { b.Report.Outcome = 0 }), ErrMalformed},
		"report's bytes":          {"ChunkBody", chunkBody(func(b *ChunkBody) { b.Report.BytesUp = -1 }), ErrMalformed},
		"report's URLs":           {"ChunkBody", chunkBody(func(b *ChunkBody) { b.Report.Inter = repeat(MaxReportInter+1, url) }), ErrTooLarge},
		"coordinate NaN":          {"Host", coord(math.NaN()), ErrMalformed},
		"coordinate infinite":     {"Host", coord(math.Inf(-1)), ErrMalformed},
		"coordinate far":          {"Host", coord(2 * maxCoordMS), ErrMalformed},
		"height negative":         {"Host", host(func(h *Host) { h.Record.Samples[0].At.Height = -1 }), ErrMalformed},
		"sample's RTT":            {"Host", host(func(h *Host) { h.Record.Samples[0].RTT = time.Hour }), ErrMalformed},
		"samples":                 {"Host", host(func(h *Host) { h.Record.Samples = make([]coords.Sample, coords.MaxSamples+1) }), ErrTooLarge},
		"coordinate's dimensions": {"Host", encode(&pb.Host{Name: "https://h.test", Record: &pb.HostRecord{Samples: []*pb.Sample{{At: &pb.Coord{Vec: []float64{1}}}}}}), ErrMalformed},
		"host's name":             {"Host", host(func(h *Host) { h.Name = "" }), ErrMalformed},
		"invalid UTF-8":           {"Host", []byte{1<<3 | 2, 1, 0xff}, ErrMalformed},
		"cut short":               {"Report", sampleBytes("Report")[:20], ErrMalformed},
		"length beyond the end":   {"Report", []byte{3<<3 | 2, 0xff, 0xff, 0xff, 0xff, 0x0f}, ErrMalformed},
		"wrong group":             {"Report", []byte{3<<3 | 4}, ErrMalformed},
		"header cut short":        {"Header", sampleBytes("Header")[:20], ErrMalformed},
		"header, wrong group":     {"Header", append(sampleBytes("Header"), 3<<3|4), ErrMalformed},
		"hand-overs":              {"Signed", (&Signed{Handovers: make([]Handover, MaxHandovers+1)}).Marshal(), ErrTooLarge},
	} {
		if _, _, err := parse[c.form].parse(c.raw); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// TestShortMessages holds what a message must be for its fields not to be counted one by one.
func TestShortMessages(t *testing.T) {
	fields := (&pb.Header{}).ProtoReflect().Descriptor().Fields()
	for n := range fields.Len() {
		f := fields.Get(n)
		if _, listed := counts[f.FullName()]; listed || f.IsList() || f.Message() != nil {
			t.Errorf("%s must be counted", f.FullName())
		}
	}
	if MaxHeader > 2*maxOther {
		t.Error("a header may have more fields than are allowed")
	}
}

// In a message that is short the fields that are not listed may be as many as there is room for, as in a long one.
func TestShortAndLongAreCountedAlike(t *testing.T) {
	for _, raw := range [][]byte{sampleBytes("Body"), sampleBytes("Signed"), bytes.Repeat([]byte{2 << 3, 1}, maxOther), bytes.Repeat([]byte{4<<3 | 2, 0}, MaxHandovers+1)} {
		md := (&pb.Signed{}).ProtoReflect().Descriptor()
		short, long := (&counter{small: true}).scan(raw, md), new(counter).scan(raw, md)
		if (short == nil) != (long == nil) {
			t.Errorf("%d bytes: short %v, long %v", len(raw), short, long)
		}
	}
	many := bytes.Repeat([]byte{1 << 3, 1}, maxOther+1)
	if err := decode(many, len(many), &pb.Signed{}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("%d fields: %v", maxOther+1, err)
	}
}

func sampleBytes(name string) []byte {
	for _, f := range forms() {
		if f.name == name {
			return f.sample
		}
	}
	return nil
}

// Free text never makes a message that its reader refuses.
func TestTextIsCut(t *testing.T) {
	r := sampleReport()
	r.Reason = strings.Repeat("\xff€", MaxText)
	r.Errors = make(map[string]int)
	for i := range 3 * MaxErrorKinds {
		r.Errors[strings.Repeat("e", MaxText)+string(rune('a'+i))] = 1
	}
	got, err := ParseReport(r.Marshal())
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Reason) > MaxText || len(got.Errors) > MaxErrorKinds+1 {
		t.Errorf("reason of %d bytes, %d kinds of error", len(got.Reason), len(got.Errors))
	}
	sum := 0
	for _, n := range got.Errors {
		sum += n
	}
	if sum != 3*MaxErrorKinds {
		t.Errorf("%d errors came back of %d", sum, 3*MaxErrorKinds)
	}
}

func TestChunkHash(t *testing.T) {
	c := Chunk{Channel: 1, Gen: 2, Seq: 3, Prev: [32]byte{4}, Body: []byte{5}}
	seen := map[[32]byte]bool{c.Hash(): true}
	for _, change := range []func(*Chunk){
		func(c *Chunk) { c.Channel++ }, func(c *Chunk) { c.Gen++ }, func(c *Chunk) { c.Seq++ }, func(c *Chunk) { c.Prev[31]++ },
		func(c *Chunk) { c.Body = []byte{6} }, func(c *Chunk) { c.Body = nil },
	} {
		d := c
		change(&d)
		if seen[d.Hash()] {
			t.Errorf("%+v has the hash of another chunk", d)
		}
		seen[d.Hash()] = true
	}
}

func TestCompress(t *testing.T) {
	want := sampleChunkBody()
	z, err := CompressBody(want.Marshal())
	if err != nil {
		t.Fatal(err)
	}
	if got, err := unpack(z); err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%+v, %v", got, err)
	}
	large := ChunkBody{Pages: []Page{
		{URL: "https://example.org/", Body: make([]byte, MaxPage)}, {URL: "https://example.org/", Body: make([]byte, MaxPage)},
	}}
	if _, err := CompressBody(large.Marshal()); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a body beyond the limit: %v", err)
	}
	for name, raw := range map[string][]byte{"nothing": {1, 2, 3}, "cut": z[:len(z)-1], "rest": append(bytes.Clone(z), 1)} {
		if _, err := unpack(raw); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v, want ErrMalformed", name, err)
		}
	}
}

// Of a chunk with more URLs than there is room for the first are decoded, and all else that it has.
func TestDecompressUpTo(t *testing.T) {
	want := sampleChunkBody()
	for i := range 50 {
		want.Frontier = append(want.Frontier, Frontier{URL: "https://example.org/" + strconv.Itoa(i), Depth: 1})
	}
	z, err := CompressBody(want.Marshal())
	if err != nil {
		t.Fatal(err)
	}
	all := want.Frontier
	for _, room := range []int{0, 1, 17, len(all), len(all) + 1} {
		kept := min(room, len(all))
		want.Frontier = append([]Frontier(nil), all[:kept]...)
		if got, left, err := DecompressChunk(z, room); err != nil || left != len(all)-kept || !reflect.DeepEqual(got, want) {
			t.Errorf("room for %d: %d left out, %v\n%+v\nwant\n%+v", room, left, err, got, want)
		}
	}
}

// A chunk that is decoded later changes nothing of one that was decoded before.
func TestDecompressedIsKept(t *testing.T) {
	want := sampleChunkBody()
	z, err := CompressBody(want.Marshal())
	if err != nil {
		t.Fatal(err)
	}
	other := ChunkBody{Pages: []Page{{URL: "https://example.org/", Error: "x", Change: Errored, Body: bytes.Repeat([]byte{0xff}, 100_000)}}}
	y, err := CompressBody(other.Marshal())
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		got, err := unpack(z)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := unpack(y); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("after another chunk: %+v", got)
		}
	}
}

func TestBomb(t *testing.T) {
	enc, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	bomb := enc.EncodeAll(make([]byte, 1<<30), nil)
	var stream bytes.Buffer // without the size in the frame's header
	enc.Reset(&stream)
	for range 64 {
		if _, err := enc.Write(make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	if err := enc.Close(); err != nil {
		t.Fatal(err)
	}
	frame := enc.EncodeAll(make([]byte, MaxChunkBody-1), nil)
	for name, raw := range map[string][]byte{"sized": bomb, "unsized": stream.Bytes(), "many frames": bytes.Repeat(frame, 20), "raw": make([]byte, MaxChunk+1)} {
		if _, err := unpack(raw); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s (%d bytes): %v, want ErrTooLarge", name, len(raw), err)
		}
	}
}

func TestUnknownFieldsAreSkipped(t *testing.T) {
	h := sampleHeader()
	raw := append(h.Marshal(), 0xfa, 0x3f, 3, 'n', 'e', 'w') // field 1023
	if got, err := ParseHeader(raw); err != nil || got != h {
		t.Errorf("%+v, %v", got, err)
	}
}

func fuzzForm(f *testing.F, name string) {
	var form form
	for _, x := range forms() {
		if x.name == name {
			form = x
		}
	}
	f.Add(form.sample)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, wire, err := form.parse(raw)
		if err != nil {
			if !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrTooLarge) {
				t.Fatalf("an error of no kind: %v", err)
			}
			return
		}
		again, wire2, err := form.parse(wire)
		if err != nil || !bytes.Equal(wire, wire2) || !reflect.DeepEqual(got, again) {
			t.Fatalf("%+v encoded and parsed: %+v, %v", got, again, err)
		}
	})
}

func FuzzHeader(f *testing.F)    { fuzzForm(f, "Header") }
func FuzzSigned(f *testing.F)    { fuzzForm(f, "Signed") }
func FuzzBody(f *testing.F)      { fuzzForm(f, "Body") }
func FuzzResume(f *testing.F)    { fuzzForm(f, "Resume") }
func FuzzChunk(f *testing.F)     { fuzzForm(f, "Chunk") }
func FuzzChunkBody(f *testing.F) { fuzzForm(f, "ChunkBody") }
func FuzzReport(f *testing.F)    { fuzzForm(f, "Report") }
func FuzzChannel(f *testing.F)   { fuzzForm(f, "Channel") }
func FuzzHost(f *testing.F)      { fuzzForm(f, "Host") }

func FuzzCoord(f *testing.F) {
	f.Add(encode(CoordPB(sampleRecord().Samples[0].At)))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var m pb.Coord
		if proto.Unmarshal(raw, &m) != nil {
			return
		}
		at, err := ParseCoordPB(&m)
		if err != nil {
			return
		}
		for _, v := range append(at.Vec[:], at.Height, at.Adjust, at.Err) {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				t.Fatalf("%+v", at)
			}
		}
	})
}

func FuzzDecompressChunk(f *testing.F) {
	body := sampleChunkBody()
	z, err := CompressBody(body.Marshal())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(z)
	f.Fuzz(func(t *testing.T, raw []byte) {
		if _, err := unpack(raw); err != nil && !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrTooLarge) {
			t.Fatalf("an error of no kind: %v", err)
		}
	})
}

func BenchmarkChunk(b *testing.B) {
	body := ChunkBody{}
	text := []byte(strings.Repeat("<p>The shoal turns as one.</p>\n", 500))
	for range 60 {
		body.Pages = append(body.Pages, Page{URL: "https://example.org/a", Body: text, Links: []string{"https://example.org/b", "https://example.org/c"}})
	}
	z, err := CompressBody(body.Marshal())
	if err != nil {
		b.Fatal(err)
	}
	raw := int64(60 * len(text))
	b.Run("compress", func(b *testing.B) {
		b.SetBytes(raw)
		b.ReportAllocs()
		for b.Loop() {
			if _, err := CompressBody(body.Marshal()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("decompress", func(b *testing.B) {
		b.SetBytes(raw)
		b.ReportAllocs()
		for b.Loop() {
			if _, err := unpack(z); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// unpack decodes a chunk's body with all its URLs to fetch.
func unpack(body []byte) (ChunkBody, error) {
	b, _, err := DecompressChunk(body, MaxFrontierPart)
	return b, err
}

// TestValidatorsAreFieldValues has a task with validators that would end the line of a request. They are left out, and the rest is read.
func TestValidatorsAreFieldValues(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{`"good"`, `"good"`}, {"W/\"a\tb\xff\"", "W/\"a\tb\xff\""}, {"\"x\"\rX-Forged: 1", ""}, {"\"x\"\r\n\r\nGET / HTTP/1.1", ""}, {"\"x\"\nA: b", ""}, {"\"\x00\"", ""}, {"\"\x7f\"", ""},
	} {
		b := sampleBody()
		b.Validators = []Validator{{URL: 1, ETag: tt.in, LastModified: tt.in}, {URL: 2, ETag: `"other"`}}
		got, err := ParseBody(b.Marshal())
		if err != nil {
			t.Fatalf("%q: %v", tt.in, err)
		}
		if v := got.Validators[0]; v.ETag != tt.want || v.LastModified != tt.want || got.Validators[1].ETag != `"other"` {
			t.Errorf("%q is read as %+v, want %q", tt.in, got.Validators, tt.want)
		}
	}
}
