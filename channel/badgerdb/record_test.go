package badgerdb

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"shoal/channel"
)

// TestHotRecordsAreSmall checks that the records that are read of every channel stay in the index.
func TestHotRecordsAreSmall(t *testing.T) {
	now := time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
	f := facts{channel.Active, 2.5, 4, 1 << 60, channel.MaxLinks, make([]byte, 44)}
	l := leaseRecord{1 << 20, now, make([]byte, 44)}
	h := channel.Host{NextVisit: now, Rest: 24 * time.Hour, CrawlDelay: time.Hour, Blocked: "too many answers of status 403"}
	n := channel.Learnt{Out: true, Failed: 8, Visits: 1e6, Changes: 1e6, Pages: 1e6, Budget: 1e6, Service: time.Hour, LastOutcome: 6, Updated: now, Changed: now}
	for name, raw := range map[string][]byte{"facts": f.encode(), "lease": l.encode(), "host": encodeHot(&h), "learnt": encodeLearnt(&n, "")} {
		if len(raw) >= inlineValue {
			t.Errorf("%s has %d bytes, from %d on it lies in the value log", name, len(raw), inlineValue)
		}
	}
}

func FuzzRecord(f *testing.F) {
	f.Add([]byte{v1, 1, 3, 0, 0, 0, 0, 5, 1, 2, 3})
	l := leaseRecord{7, time.Now(), []byte{1}}
	f.Add(l.encode())
	f.Add(encodeLearnt(&channel.Learnt{Visits: 3, LastError: "x", Updated: time.Now()}, "y"))
	f.Add(encodeInter([]channel.Pending{{Found: time.Now(), URL: "https://a.test/"}}))
	f.Add(encodeCandidate(&channel.Candidate{Links: 3, Seeds: []string{"https://a.test/"}}))
	f.Add(ranges{{1, 5}, {7, 9}}.encode())
	f.Fuzz(func(t *testing.T, raw []byte) {
		if x, err := parseFacts(raw); err == nil {
			if again, err := parseFacts(x.encode()); err != nil || again.state != x.state || string(again.blob) != string(x.blob) {
				t.Fatalf("%+v, %+v, %v", x, again, err)
			}
		}
		if x, err := parseLease(raw); err == nil {
			if again, err := parseLease(x.encode()); err != nil || again.gen != x.gen || !again.submitted.Equal(x.submitted) {
				t.Fatalf("%+v, %+v, %v", x, again, err)
			}
		}
		if x, reason, err := parseLearnt(raw); err == nil {
			if again, _, err := parseLearnt(encodeLearnt(&x, reason)); err != nil || again.Visits != x.Visits || again.LastError != x.LastError {
				t.Fatalf("%+v, %+v, %v", x, again, err)
			}
		}
		if x, err := parseInter(raw); err == nil {
			if again, err := parseInter(encodeInter(x)); err != nil || len(again) != len(x) {
				t.Fatalf("%+v, %+v, %v", x, again, err)
			}
		}
		if x, err := parseRanges(raw); err == nil {
			if again, err := parseRanges(x.encode()); err != nil || len(again) != len(x) {
				t.Fatalf("%+v, %+v, %v", x, again, err)
			}
		}
		_, _ = parseCandidate("", raw)
		_, _ = parseHot("", raw)
		_, _ = parseBlobHead(raw)
		_, _ = parseID(raw)
		_, _, _ = parseHostKey(raw)
	})
}

func TestRanges(t *testing.T) {
	r := ranges(nil).join(idRange{3, 5}).join(idRange{6, 8}).join(idRange{10, 10})
	if len(r) != 2 || r.has(2) || !r.has(3) || !r.has(8) || r.has(9) || !r.has(10) || r.has(11) {
		t.Fatalf("%v", r)
	}
	for _, c := range []struct {
		out  ranges
		want int
	}{{ranges{{3, 8}, {10, 10}}, 0}, {ranges{{3, 3}}, 2}, {ranges{{5, 6}}, 3}, {ranges{{20, 30}}, 2}, {nil, 2}} {
		got := r.without(c.out)
		if len(got) != c.want {
			t.Errorf("%v without %v: %v", r, c.out, got)
		}
		for id := channel.ID(1); id < 12; id++ {
			if got.has(id) != (r.has(id) && !c.out.has(id)) {
				t.Errorf("%v without %v: %v at %d", r, c.out, got, id)
			}
		}
	}
}

// TestGC checks that replaced values give their space back and that the rest stays readable.
func TestGC(t *testing.T) {
	dir := t.TempDir()
	state := make([]byte, 4<<20)
	db := open(t, dir)
	for round := range 7 { // closing writes out the memory table; compacting it finds the dead values
		e, err := db.Take(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i := range 7 {
			for j := range state {
				state[j] = byte(round * i * j)
			}
			if err := db.PutState(t.Context(), e, "s", state); err != nil {
				t.Fatal(err)
			}
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		db = open(t, dir)
	}
	if err := db.b.Flatten(1); err != nil {
		t.Fatal(err)
	}
	before := size(t, dir)
	if err := db.GC(); err != nil {
		t.Fatal(err)
	}
	if after := size(t, dir); after > before/2 {
		t.Errorf("value log of %d MiB was cleaned to %d MiB", before>>20, after>>20)
	}
	got, err := db.State(t.Context(), "s")
	if err != nil || string(got) != string(state) {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
}

// size sums the value log without the current file, which is mapped at twice its final size.
func size(t *testing.T, dir string) (sum int64) {
	names, err := filepath.Glob(filepath.Join(dir, "*.vlog"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names[:len(names)-1] {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		sum += info.Size()
	}
	return sum
}

// TestNothingIsLeft checks that Close ends every goroutine.
func TestNothingIsLeft(t *testing.T) {
	ignore := goleak.IgnoreCurrent()
	cfg := Default(t.TempDir())
	for range 2 {
		db, err := Open(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.Take(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	goleak.VerifyNone(t, ignore)
}
