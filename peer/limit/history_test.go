package limit

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestHistory checks sums, bounds, gaps, and that the file holds all of it.
func TestHistory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history")
	now := time.Unix(1_800_000_000, 0)
	h, err := OpenHistory(path, now)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 40 * 24 * 60 { // forty days, a minute each
		h.Add(now.Add(time.Duration(i)*time.Minute), Flow{Down: 60, Up: 6, Pages: 1})
	}
	end := now.Add(40*24*time.Hour - time.Minute)
	if err := h.Save(); err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(path)
	if err != nil || st.Size() > 16<<10 {
		t.Error("the file has", st.Size(), err)
	}
	again, err := OpenHistory(path, end)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range []*History{h, again} {
		for span, want := range map[string][2]int64{"hour": {60 * 60, 180}, "day": {288 * 5 * 60, 288}, "month": {372 * 120 * 60, 372}} {
			p, ok := h.Past(span, end)
			sum := int64(0)
			for _, v := range p.Down {
				sum += v
			}
			if !ok || int64(len(p.Down)) != want[1] || sum > want[0] || sum < want[0]-120*60 || !p.Since.Equal(now) {
				t.Errorf("%s: %d bytes in %d, since %v; want %v", span, sum, len(p.Down), p.Since, want)
			}
		}
		if p, _ := h.Past("day", end.Add(2*24*time.Hour)); p.Down[0] != 0 || p.Down[287] != 0 {
			t.Error("a time without anything has something")
		}
	}
	if _, ok := h.Past("year", end); ok {
		t.Error("a year is known")
	}
	b, _ := os.ReadFile(path)
	b[len(b)/2] ^= 1
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if h, err := OpenHistory(path, end); err != nil {
		t.Error(err)
	} else if p, _ := h.Past("month", end); p.Down[300] != 0 || !p.Since.Equal(end) {
		t.Error("a damaged file was believed")
	}
}

func FuzzHistory(f *testing.F) {
	h := &History{rings: [][]cell{make([]cell, Spans[0].N), make([]cell, Spans[1].N), make([]cell, Spans[2].N)}}
	h.Add(time.Unix(1_800_000_000, 0), Flow{1, 2, 3})
	f.Add(h.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		h := &History{rings: [][]cell{make([]cell, Spans[0].N), make([]cell, Spans[1].N), make([]cell, Spans[2].N)}}
		h.decode(b)
		h.Past("hour", time.Unix(1_800_000_000, 0))
	})
}
