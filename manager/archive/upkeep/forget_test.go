package upkeep

import (
	"testing"
	"time"

	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/pages"
	"shoal/manager/archive/schema"
)

// A capture that retention looks at in passing is read as it was stored.
func TestSightOfACapture(t *testing.T) {
	key := pages.CaptureKey("https://a.example/", time.Unix(77, 0))
	for _, m := range []*pb.Capture{
		{},
		{At: &pb.Location{File: 7, Offset: 1 << 40, Length: 9}, Status: 404, Sha256: []byte("0123456789abcdef"), Mime: "text/html", Deliverer: 1 << 63, Digest: 1, State: 4},
		{At: &pb.Location{File: 7}, Status: 304, Revisit: true, Original: &pb.Location{File: 3, Length: 1 << 31}, Said: true, ShowsVisitor: true, Digest: 1<<64 - 1},
	} {
		v, err := schema.Encode(m)
		if err != nil {
			t.Fatal(err)
		}
		want := sight{key: key, digest: m.Digest, deliverer: m.Deliverer, said: m.Said, there: m.Status == 304}
		copy(want.sha[:], m.Sha256)
		got, err := sightOf(key, v)
		if err != nil || string(got.key) != string(key) || !got.sameVersion(&want) || got.digest != want.digest || got.deliverer != want.deliverer || got.sha != want.sha || got.said != want.said {
			t.Errorf("%v is read as %+v, %v", m, got, err)
		}
		if got.at != schema.Location(m.At) || got.original != schema.Location(m.Original) {
			t.Errorf("%v is read as %+v", m, got)
		}
		for n := range v {
			if _, err := sightOf(key, v[:n]); err == nil && schema.Decode(v[:n], new(pb.Capture)) != nil {
				t.Errorf("%x of %x is read", v[:n], v)
			}
		}
	}
}

// FuzzSight reads what is no capture.
func FuzzSight(f *testing.F) {
	f.Add([]byte{schema.ValueV1, 0x10, 0x94, 3})
	f.Fuzz(func(t *testing.T, b []byte) {
		m := new(pb.Capture)
		if err := schema.Decode(b, m); err != nil {
			return
		}
		if got, err := sightOf(nil, b); err != nil || got.digest != m.Digest || got.deliverer != m.Deliverer || got.said != m.Said {
			t.Errorf("%x is %+v, %v, and not %v", b, got, err, m)
		}
	})
}
