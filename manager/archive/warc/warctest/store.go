package warctest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"shoal/manager/archive/segment"
	"shoal/manager/archive/warc"
)

// Subject is a segment store to be tested.
type Subject struct {
	Store segment.Store // new and empty; Recover was not called
	// Reopen opens the store again, as a restart does; crash forgets before that what was not synced.
	Reopen func(t *testing.T, crash bool) segment.Store
	// FailSync has the next Sync fail.
	FailSync func()
	// Roll is the bytes after which the store ends a segment.
	Roll int
}

// RunStore runs the contract of segment stores; each test has a store of its own.
func RunStore(t *testing.T, make func(t *testing.T) Subject) {
	for name, test := range map[string]func(*testing.T, Subject){
		"Append": testAppend, "Rollback": testRollback, "FailedSync": testFailedSync, "Seal": testSeal, "Roll": testRoll, "Uncommitted": testUncommitted,
		"Scan": testScan, "Cut": testCut, "Remove": testRemove, "Lost": testLost, "Copy": testCopy,
	} {
		t.Run(name, func(t *testing.T) { test(t, make(t)) })
	}
}

// ledgerOf stands for the ledger: it keeps what was committed.
type ledgerOf struct {
	t     *testing.T
	s     segment.Store
	known map[uint32]segment.Info
	last  uint32
	pack  *warc.Compressor
	n     int // records made
}

func begin(t *testing.T, s Subject) *ledgerOf {
	t.Helper()
	pack, err := warc.NewCompressor(1)
	must(t, err)
	l := &ledgerOf{t: t, s: s.Store, known: map[uint32]segment.Info{}, pack: pack}
	l.recover()
	return l
}

func (l *ledgerOf) infos() (out []segment.Info) {
	for _, s := range l.known {
		out = append(out, s)
	}
	return out
}

func (l *ledgerOf) recover() []segment.Problem {
	l.t.Helper()
	problems, err := l.s.Recover(l.infos(), l.last)
	must(l.t, err)
	return problems
}

// records packs records whose payloads are texts.
func (l *ledgerOf) records(texts ...string) (raw []byte, ends []int) {
	l.t.Helper()
	for _, text := range texts {
		l.n++
		var err error
		raw, err = l.pack.Append(raw, &warc.Record{
			Type: warc.Response, ID: warc.NewID([32]byte{7}, l.n), Date: time.Unix(1, 0), URI: "http://example.org/", Head: warc.HTTPHeader(nil, 200, len(text)), Body: []byte(text),
		})
		must(l.t, err)
		ends = append(ends, len(raw))
	}
	return raw, ends
}

func (l *ledgerOf) append(texts ...string) []segment.Location {
	l.t.Helper()
	raw, ends := l.records(texts...)
	at, err := l.s.Append(raw, ends)
	must(l.t, err)
	if len(at) != len(texts) {
		l.t.Fatalf("%d locations of %d records", len(at), len(texts))
	}
	for n, a := range at {
		if a.Segment == 0 || a.Segment != at[0].Segment || n > 0 && a.Offset <= at[n-1].Offset {
			l.t.Fatalf("locations %v", at)
		}
	}
	return at
}

// commit makes durable what was appended.
func (l *ledgerOf) commit() []segment.Info {
	l.t.Helper()
	changed, err := l.s.Sync()
	must(l.t, err)
	for _, s := range changed {
		l.known[s.ID] = s
		l.last = max(l.last, s.ID)
	}
	l.s.Commit()
	return changed
}

func (l *ledgerOf) put(texts ...string) []segment.Location {
	l.t.Helper()
	at := l.append(texts...)
	l.commit()
	return at
}

// holds wants a record to be at a location.
func (l *ledgerOf) holds(at segment.Location, text string) {
	l.t.Helper()
	in, err := l.s.Read(at, 0)
	if err != nil {
		l.t.Fatalf("read %v: %v", at, err)
	}
	defer in.Close()
	r, err := warc.ReadRecord(in)
	if err != nil {
		l.t.Fatalf("read %v: %v", at, err)
	}
	if _, body := r.HTTP(); string(body) != text {
		l.t.Errorf("at %v: %q, want %q", at, body, text)
	}
}

// scan gives the payloads of a segment, and what is wrong with it.
func (l *ledgerOf) scan(s segment.Info) (texts string, at []segment.Location, bad int, end bool) {
	l.t.Helper()
	err := l.s.Scan(l.t.Context(), s, func(f segment.Found) error {
		if f.Bad != nil {
			bad++
		}
		end = end || f.End
		if f.Record != nil && f.Record.Field("WARC-Type") == warc.Response {
			_, body := f.Record.HTTP()
			texts += string(body) + " "
			at = append(at, f.At)
		}
		return nil
	})
	must(l.t, err)
	return strings.TrimSpace(texts), at, bad, end
}

func testAppend(t *testing.T, s Subject) {
	l := begin(t, s)
	a := l.append("one", "two")
	b := l.append("three")
	changed := l.commit()
	if len(changed) != 1 || changed[0].ID != a[0].Segment || changed[0].Name == "" || changed[0].Sealed || changed[0].Records < 3 {
		t.Errorf("changed %+v", changed)
	}
	for n, text := range []string{"one", "two", "three"} {
		l.holds(append(a, b...)[n], text)
	}
	if changed := l.commit(); len(changed) > 0 {
		t.Errorf("nothing was appended, and changed is %+v", changed)
	}
	c := l.put("four")
	l.holds(c[0], "four")
	if !l.s.Has(a[0].Segment) || l.s.Has(a[0].Segment+1) || l.s.Count() != 1 {
		t.Errorf("has %v, %v, count %d", l.s.Has(a[0].Segment), l.s.Has(a[0].Segment+1), l.s.Count())
	}
	if p := l.s.Place(b[0]); !strings.HasPrefix(p.Name, strings.TrimSuffix(changed[0].Name, ".warc.gz")) || p.Offset <= 0 || p.Length != int64(b[0].Length) {
		t.Errorf("place %+v", p)
	}
	in, err := l.s.Read(a[0], 1<<20) // and what follows
	must(t, err)
	all, err := io.ReadAll(in)
	must(t, errors.Join(err, in.Close()))
	r := bytes.NewReader(all)
	for _, want := range []string{"one", "two", "three", "four"} {
		rec, err := warc.ReadRecord(r)
		must(t, err)
		if _, body := rec.HTTP(); string(body) != want {
			t.Errorf("read on: %q, want %q", body, want)
		}
	}
	if free, err := l.s.Free(); err != nil || free <= 0 {
		t.Errorf("%d bytes free, %v", free, err)
	}
}

func testRollback(t *testing.T, s Subject) {
	l := begin(t, s)
	l.append("gone") // of a segment that holds nothing else
	must(t, l.s.Rollback())
	if changed := l.commit(); len(changed) > 0 || l.s.Count() != 0 {
		t.Errorf("changed %+v, %d segments", changed, l.s.Count())
	}
	a := l.put("one")
	b := l.append("gone")
	must(t, l.s.Rollback())
	c := l.put("two")
	if c[0].Segment != a[0].Segment || c[0].Offset != b[0].Offset {
		t.Errorf("after a rollback at %v: at %v", b[0], c[0])
	}
	l.holds(a[0], "one")
	l.holds(c[0], "two")
	must(t, l.s.Rollback()) // of nothing
	l.holds(l.put("three")[0], "three")
}

// testFailedSync goes on in another segment, because this one may hold anything.
func testFailedSync(t *testing.T, s Subject) {
	l := begin(t, s)
	a := l.put("one")
	l.append("unknown")
	s.FailSync()
	if _, err := l.s.Sync(); err == nil {
		t.Fatal("the sync did not fail")
	}
	must(t, l.s.Rollback())
	b := l.put("two")
	if b[0].Segment == a[0].Segment {
		t.Error("appended to a segment whose sync has failed")
	}
	if !l.known[a[0].Segment].Sealed {
		t.Errorf("the ledger was not told: %+v", l.known)
	}
	if texts, _, bad, _ := l.scan(l.known[a[0].Segment]); texts != "one" || bad > 0 {
		t.Errorf("the segment holds %q, %d damaged", texts, bad)
	}
	l.s = s.Reopen(t, true)
	if p := l.recover(); len(p) > 0 {
		t.Errorf("problems %v", p)
	}
	l.holds(a[0], "one")
	l.holds(b[0], "two")
}

func testSeal(t *testing.T, s Subject) {
	l := begin(t, s)
	must(t, l.s.Seal()) // nothing is being written
	a := l.put("one")
	must(t, l.s.Seal())
	if changed := l.commit(); len(changed) != 1 || !changed[0].Sealed || changed[0].ID != a[0].Segment {
		t.Errorf("changed %+v", changed)
	}
	b := l.put("two")
	if b[0].Segment <= a[0].Segment {
		t.Errorf("appended to a sealed segment, or one of an older ID: %v after %v", b, a)
	}
	l.holds(a[0], "one")
	l.holds(b[0], "two")
}

// testRoll ends a segment that is long enough, but never between two commits.
func testRoll(t *testing.T, s Subject) {
	l := begin(t, s)
	random := func(n int) string { // hardly compresses
		var b strings.Builder
		for x := uint64(1); b.Len() < n; x = x*6364136223846793005 + 1442695040888963407 {
			fmt.Fprintf(&b, "%c", 33+x>>40%90)
		}
		return b.String()
	}
	a := l.append(random(2 * s.Roll))
	b := l.append("same commit")
	l.commit()
	c := l.put("next commit")
	if a[0].Segment != b[0].Segment || c[0].Segment == a[0].Segment {
		t.Errorf("segments %d, %d, %d", a[0].Segment, b[0].Segment, c[0].Segment)
	}
	if !l.known[a[0].Segment].Sealed || l.known[c[0].Segment].Sealed {
		t.Errorf("known %+v", l.known)
	}
}

// testUncommitted restarts with records that the ledger knows nothing of: they are gone, and those before are there.
func testUncommitted(t *testing.T, s Subject) {
	for _, crash := range []bool{false, true} {
		l := begin(t, Subject{Store: s.Reopen(t, false)})
		a := l.put("one")
		l.append("gone")
		_, err := l.s.Sync()
		must(t, err) // the ledger's own commit did not come
		l.s = s.Reopen(t, crash)
		if p := l.recover(); len(p) > 0 {
			t.Errorf("problems %v", p)
		}
		l.holds(a[0], "one")
		if texts, _, bad, end := l.scan(l.known[a[0].Segment]); texts != "one" || bad > 0 || end {
			t.Errorf("the segment holds %q, %d damaged, ends early %v", texts, bad, end)
		}
		b := l.put("two")
		l.holds(b[0], "two")
		if b[0].Segment != a[0].Segment {
			t.Error("the segment that was being written is not gone on with")
		}
		// Of a segment that the ledger has never heard of nothing is left.
		must(t, l.s.Seal())
		l.commit()
		l.append("gone")
		_, err = l.s.Sync()
		must(t, err)
		l.s = s.Reopen(t, crash)
		l.recover()
		if l.s.Count() != len(l.known) {
			t.Errorf("%d segments, the ledger knows %d", l.s.Count(), len(l.known))
		}
		l.known, l.last = map[uint32]segment.Info{}, 0
		l.recover()
	}
}

func testScan(t *testing.T, s Subject) {
	l := begin(t, s)
	at := l.put("one", "two")
	l.append("not committed")
	info := l.known[at[0].Segment]
	texts, found, bad, end := l.scan(info)
	if texts != "one two" || bad > 0 || end || len(found) != 2 || found[0] != at[0] || found[1] != at[1] {
		t.Errorf("%q at %v, %d damaged, ends early %v; want them at %v", texts, found, bad, end, at)
	}
	stop := errors.New("stop")
	if err := l.s.Scan(t.Context(), info, func(segment.Found) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("an error on the way: %v", err)
	}
	l.commit()
	list, err := l.s.List()
	if err != nil || len(list) != 1 || list[0].ID != info.ID || list[0].Name != info.Name {
		t.Errorf("list %+v, %v", list, err)
	}
	if texts, _, _, _ := l.scan(list[0]); texts != "one two not committed" {
		t.Errorf("what is there: %q", texts)
	}
}

// testCut ends a segment at a record.
func testCut(t *testing.T, s Subject) {
	l := begin(t, s)
	at := l.put("one", "two", "three")
	must(t, l.s.Seal())
	l.commit()
	cut, left := l.s.Cut(l.known[at[0].Segment], at[2])
	if !left || !cut.Sealed {
		t.Fatalf("cut %+v, %v", cut, left)
	}
	l.known[cut.ID] = cut
	l.s = s.Reopen(t, false)
	if p := l.recover(); len(p) > 0 {
		t.Errorf("problems %v", p)
	}
	if texts, _, bad, end := l.scan(cut); texts != "one two" || bad > 0 || end {
		t.Errorf("it holds %q, %d damaged, ends early %v", texts, bad, end)
	}
	if _, left := l.s.Cut(cut, segment.Location{Segment: cut.ID}); left {
		t.Error("something is left of a segment that was cut at its beginning")
	}
}

func testRemove(t *testing.T, s Subject) {
	l := begin(t, s)
	a := l.put("one")
	must(t, l.s.Seal())
	l.commit()
	b := l.put("two")
	gone := l.known[a[0].Segment]
	delete(l.known, gone.ID)
	must(t, l.s.Remove(gone))
	must(t, l.s.Remove(gone)) // again
	if l.s.Has(gone.ID) || l.s.Count() != 1 {
		t.Errorf("it is there: %v, %d segments", l.s.Has(gone.ID), l.s.Count())
	}
	if _, err := l.s.Read(a[0], 0); !errors.Is(err, segment.ErrNone) {
		t.Errorf("read of what was removed: %v", err)
	}
	l.holds(b[0], "two")
	l.s = s.Reopen(t, false)
	l.recover()
	if c := l.put("three"); c[0].Segment == gone.ID {
		t.Error("the ID of a removed segment is used again")
	}
}

// testLost has the ledger know of more than there is.
func testLost(t *testing.T, s Subject) {
	l := begin(t, s)
	at := l.put("one")
	info := l.known[at[0].Segment]
	longer := info
	longer.Length += 100
	missing := segment.Info{ID: info.ID + 1, Name: "shoal-20260101000000-99999.warc.gz", Length: 10}
	l.known = map[uint32]segment.Info{longer.ID: longer, missing.ID: missing}
	l.last = longer.ID
	l.s = s.Reopen(t, false)
	problems := l.recover()
	short, none := 0, 0
	for _, p := range problems {
		switch {
		case p.Segment.ID == longer.ID && errors.Is(p.Err, segment.ErrShort):
			short++
		case p.Segment.ID == missing.ID && errors.Is(p.Err, segment.ErrNone):
			none++
		}
	}
	if len(problems) != 2 || short != 1 || none != 1 {
		t.Errorf("problems %v", problems)
	}
	l.holds(at[0], "one") // what is left can be read
	if texts, _, bad, end := l.scan(longer); texts != "one" || bad == 0 || !end {
		t.Errorf("the short one holds %q, %d damaged, ends early %v", texts, bad, end)
	}
	if _, _, bad, end := l.scan(missing); bad == 0 || !end {
		t.Errorf("the missing one: %d damaged, ends early %v", bad, end)
	}
	if b := l.put("two"); b[0].Segment == longer.ID {
		t.Error("appended to a segment that has lost bytes")
	}
}

func testCopy(t *testing.T, s Subject) {
	l := begin(t, s)
	at := l.put("one", "two")
	l.append("not committed")
	var to bytes.Buffer
	must(t, l.s.Copy(t.Context(), l.known[at[0].Segment], &to))
	var texts []string
	sc := warc.NewScanner(&to)
	for sc.Scan() {
		if sc.Record().Field("WARC-Type") == warc.Response {
			_, body := sc.Record().HTTP()
			texts = append(texts, string(body))
		}
	}
	must(t, sc.Err())
	if fmt.Sprint(texts) != "[one two]" {
		t.Errorf("copied %q", texts)
	}
	long := l.known[at[0].Segment]
	long.Length += 1000
	if err := l.s.Copy(t.Context(), long, io.Discard); err == nil {
		t.Error("a copy that is too short is no error")
	}
	must(t, l.s.Close())
}
