package channel

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	pb "shoal/channel/channelpb"
)

// generated encodes a chunk body by the generated code.
func generated(b *ChunkBody) []byte {
	m := &pb.ChunkBody{Frontier: frontierPB(b.Frontier)}
	for i := range b.Pages {
		p := &b.Pages[i]
		m.Pages = append(m.Pages, &pb.Page{
			Url: ascii(p.URL), Depth: int64(p.Depth), FetchedUs: micros(p.Fetched), Status: int64(p.Status), Error: text(p.Error),
			Change: uint32(p.Change), Digest: p.Digest, Shingle: p.Shingle, Header: p.Header, Body: p.Body, Links: texts(p.Links),
			RttUs: p.RTT.Microseconds(), Truncated: p.Truncated, ShowsVisitor: p.ShowsVisitor,
		})
	}
	if b.Report != nil {
		m.Report = b.Report.pb()
	}
	return encode(m)
}

func TestChunkBodyIsEncodedAsGenerated(t *testing.T) {
	bodies := []ChunkBody{{}, sampleChunkBody(), {Pages: make([]Page, 3)}, {Frontier: make([]Frontier, 2)}, {Report: &Report{}},
		{Pages: []Page{{URL: "\xff", Depth: -1, Error: "\xfe", Status: -7, RTT: -time.Second, Links: []string{"", "\xff", "b"}}}}}
	rng := rand.New(rand.NewPCG(1, 2))
	word := func() string { return strings.Repeat("x", rng.IntN(3)*rng.IntN(100)) }
	for range 300 {
		var b ChunkBody
		for range rng.IntN(3) {
			p := Page{URL: word(), Depth: rng.IntN(3), Status: rng.IntN(3) * 200, Error: word(), Change: Change(rng.IntN(7)),
				Digest: rng.Uint64N(2) * rng.Uint64(), Shingle: rng.Uint64N(2) * rng.Uint64(), Header: []byte(word()), Body: []byte(strings.Repeat(word(), 50)),
				RTT: time.Duration(rng.IntN(2)) * time.Second, Truncated: rng.IntN(2) == 0, ShowsVisitor: rng.IntN(2) == 0}
			if rng.IntN(2) == 0 {
				p.Fetched = time.UnixMicro(rng.Int64N(1e15))
			}
			for range rng.IntN(4) {
				p.Links = append(p.Links, word())
			}
			b.Pages = append(b.Pages, p)
		}
		for range rng.IntN(3) {
			b.Frontier = append(b.Frontier, Frontier{word(), rng.IntN(200)})
		}
		bodies = append(bodies, b)
	}
	var whole ChunkBody
	var parts []byte
	for i := range bodies {
		b := &bodies[i]
		if got, want := b.Marshal(), generated(b); !bytes.Equal(got, want) {
			t.Fatalf("%+v:\n%x, generated\n%x", b, got, want)
		}
		if b.Report == nil {
			whole.Pages, whole.Frontier = append(whole.Pages, b.Pages...), append(whole.Frontier, b.Frontier...)
			parts = b.Append(parts)
		}
	}
	var a, c pb.ChunkBody
	if err := decode(parts, MaxChunkBody, &a); err != nil {
		t.Fatal(err)
	}
	if err := decode(whole.Marshal(), MaxChunkBody, &c); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(encode(&a), encode(&c)) {
		t.Error("encodings one after another are not that of the whole")
	}
}
