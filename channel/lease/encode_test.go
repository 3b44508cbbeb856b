package lease

import (
	"bytes"
	"testing"
	"time"
	"unsafe"
)

func FuzzParse(f *testing.F) {
	i := Issue{Gen: 3, Live: 2, Phase: Leased, Tries: 1, last: Lapsed, until: 7, seen: 9}
	g := Fence{Gen: 3, Offered: 4, Peer: 5, Seq: 6, Head: [32]byte{1}, until: 7, hold: running, progress: true, stored: true, again: true}
	f.Add(i.Append(nil))
	f.Add(g.Append(nil))
	f.Add([]byte{issueV1})
	f.Fuzz(func(t *testing.T, b []byte) {
		if i, err := ParseIssue(b); err == nil {
			if !bytes.Equal(i.Append(nil), b) {
				t.Errorf("issue %+v is not what was read", i)
			}
			_ = i.Reason()
		}
		if g, err := ParseFence(b); err == nil && !bytes.Equal(g.Append(nil), b) {
			t.Errorf("fence %+v is not what was read", g)
		}
	})
}

func TestRoundTrip(t *testing.T) {
	i := Issue{Gen: 3, Live: 2, Done: 1, Phase: Leased, Tries: 1, last: Lapsed, until: 7, seen: 9}
	if got, err := ParseIssue(i.Append(nil)); err != nil || got != i {
		t.Errorf("got %+v, %v, want %+v", got, err, i)
	}
	f := Fence{Gen: 3, Offered: 4, Peer: 5, Seq: 6, Head: [32]byte{1}, until: 7, hold: running, progress: true, stored: true, again: true}
	if got, err := ParseFence(f.Append(nil)); err != nil || got != f {
		t.Errorf("got %+v, %v, want %+v", got, err, f)
	}
	if n := unsafe.Sizeof(i); n > 48 {
		t.Errorf("an Issue takes %d bytes; a million of them are kept", n)
	}
	if n := unsafe.Sizeof(f); n > 88 {
		t.Errorf("a Fence takes %d bytes; a million of them are kept", n)
	}
}

// BenchmarkHandingOut is one whole handing-out at both halves, as a simulator does it.
func BenchmarkHandingOut(b *testing.B) {
	const channels = 1 << 20
	issues, fences := make([]Issue, channels), make([]Fence, channels)
	t := Default()
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		i, f := &issues[n%channels], &fences[n%channels]
		gen, err := i.Next(epoch, epoch, t)
		if err != nil {
			b.Fatal(err)
		}
		f.Deposit(gen)
		i.Placed(gen)
		i.Apply(epoch, f.Claim(epoch, 7, gen, epoch, t).Event, t)
		c := Chunk{Gen: gen, Seq: f.Seq + 1, Prev: f.Head, Hash: [32]byte{byte(n)}, Final: true}
		if i.Apply(epoch, f.Put(epoch, 7, c, t).Event, t)&Apply == 0 {
			b.Fatal("report did not count")
		}
	}
}

// An idle channel's record can say until when it is left alone; one that is out keeps the time of its claim.
func TestResting(t *testing.T) {
	t.Parallel()
	until := time.Unix(1_800_000_000, 5)
	idle := Issue{Gen: 7, Done: 7}
	b := idle.Resting(until)
	got, err := ParseIssue(b.Append(nil))
	if err != nil {
		t.Fatal(err)
	}
	if w := got.Wake(); !w.Equal(until) || got != idle {
		t.Errorf("woke at %v as %+v", w, got)
	}
	if w := got.Wake(); !w.IsZero() {
		t.Errorf("woke again at %v", w)
	}
	var out Issue
	if _, err := out.Next(until, until.Add(time.Hour), Terms{}); err != nil {
		t.Fatal(err)
	}
	if r := out.Resting(until); r != out {
		t.Errorf("what is out rests: %+v", r)
	}
	if w := out.Wake(); !w.IsZero() {
		t.Errorf("what is out woke at %v", w)
	}
}
