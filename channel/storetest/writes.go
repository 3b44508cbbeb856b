package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"testing"
	"time"

	"shoal/channel"
	"shoal/coords"
)

func testIssue(t *testing.T, open Open) {
	f := begin(t, open)
	ids := f.add(whole("https://a.test"), whole("https://b.test"))
	_, err := f.Issue(f.ctx, f.e, []channel.Issue{issue(ids[0], 4, []byte{1, 2}, now), issue(ids[1], 1, []byte{3}, now)})
	f.must(err)
	f.reopen(open)
	refused, err := f.Issue(f.ctx, f.e, []channel.Issue{
		issue(ids[0], 4, []byte{9}, now), issue(ids[0], 3, []byte{9}, now), issue(99, 1, nil, now), issue(ids[1], 2, []byte{4}, now.Add(time.Hour)), issue(ids[1], 2, []byte{9}, now),
	})
	f.must(err)
	for i, want := range []error{channel.ErrGen, channel.ErrGen, channel.ErrUnknown, channel.ErrGen} {
		if len(refused) != 4 || !errors.Is(refused[i].Err, want) || refused[i].N != []int{0, 1, 2, 4}[i] {
			t.Fatalf("refused %+v", refused)
		}
	}
	f.same("learnt", f.get(ids[0]).Learnt, channel.Learnt{Gen: 4, Submitted: now})
	f.same("learnt", f.get(ids[1]).Learnt, channel.Learnt{Gen: 2, Submitted: now.Add(time.Hour)})
	for i, want := range [][]byte{{1, 2}, {4}} {
		got, err := f.Lease(f.ctx, ids[i])
		f.must(err)
		f.same("lease", got, want)
	}
	got, err := f.Lease(f.ctx, 99)
	f.must(err)
	f.same("lease of no channel", len(got), 0)
	_, err = f.Issue(f.ctx, f.e, []channel.Issue{issue(ids[0], 5, make([]byte, channel.MaxLease+1), now), issue(ids[1], 3, nil, now)})
	f.want(err, channel.ErrTooLarge)
	f.same("nothing of a bad batch", f.get(ids[1]).Learnt.Gen, channel.Gen(2))
}

func issue(id channel.ID, gen channel.Gen, lease []byte, at time.Time) channel.Issue {
	return channel.Issue{ID: id, Gen: gen, Lease: lease, At: at}
}

func testIssueTogether(t *testing.T, open Open) {
	f := begin(t, open)
	const workers, each = 16, 20
	var chs []channel.Channel
	for i := range workers {
		chs = append(chs, whole(fmt.Sprintf("https://h%d.test", i)))
	}
	ids := f.add(chs...)
	var wg sync.WaitGroup
	for _, id := range ids {
		wg.Go(func() {
			for g := range each {
				refused, err := f.Issue(f.ctx, f.e, []channel.Issue{issue(id, channel.Gen(g+1), []byte{byte(g)}, now)})
				if err != nil || len(refused) > 0 {
					t.Errorf("Issue: %v, %v", refused, err)
				}
			}
		})
	}
	wg.Wait()
	f.reopen(open)
	for _, id := range ids {
		f.same("gen", f.get(id).Learnt.Gen, channel.Gen(each))
	}
}

func testApply(t *testing.T, open Open) {
	f := begin(t, open)
	ids := f.add(whole("https://a.test"), whole("https://b.test"))
	_, err := f.Issue(f.ctx, f.e, []channel.Issue{issue(ids[0], 4, []byte{1}, now)})
	f.must(err)
	learnt := channel.Learnt{
		Gen: 99, Failed: 1, Submitted: now.Add(time.Hour), Updated: now.Add(time.Minute), Changed: now.Add(time.Second), Visits: 5, Changes: 2,
		Pages: 10, Budget: 64, Service: time.Minute, LastOutcome: channel.Updated, LastError: "none", Out: true, EstimatorBlob: []byte{5}, History: []byte{7, 8, 9, 10},
	}
	a := channel.Advance{
		Feed: "archive", To: "c1", At: now, Counters: map[string]int64{"pages": 10, "errors": 1},
		Edits: []channel.Edit{
			{ID: ids[0], Gen: 3, Lease: []byte{2}, Learnt: &learnt},
			{ID: ids[1], Gen: 6, Lease: []byte{3}, Facts: []byte{6}, State: channel.Marked, Reason: "given up"},
			{ID: 99, Learnt: &learnt},
		},
	}
	f.must(f.Apply(f.ctx, f.e, a))
	learnt.Gen, learnt.Submitted = 4, now // of Issue: never lower, never of Learnt
	for range 2 {
		f.same("learnt", f.get(ids[0]).Learnt, learnt)
		b := f.get(ids[1])
		f.same("edited", []any{b.State, b.Reason, b.Learnt}, []any{channel.Marked, "given up", channel.Learnt{Gen: 6, EstimatorBlob: []byte{6}}})
		cursor, err := f.Cursor(f.ctx, "archive")
		f.must(err)
		f.same("cursor", cursor, "c1")
		f.reopen(open)
	}
	f.must(f.Apply(f.ctx, f.e, channel.Advance{Feed: "archive", From: "c1", To: "c2", At: now, Counters: map[string]int64{"pages": 5, "left": -2},
		Edits: []channel.Edit{{ID: ids[1], State: channel.Active}, {ID: ids[0], Learnt: &channel.Learnt{Visits: 6}}}}))
	sums, err := f.Counters(f.ctx)
	f.must(err)
	f.same("counters", sums, map[string]int64{"pages": 15, "errors": 1, "left": -2})
	b := f.get(ids[1])
	f.same("edited", []any{b.State, b.Reason, b.Learnt.EstimatorBlob}, []any{channel.Active, "", []byte{6}})
	f.same("learnt", f.get(ids[0]).Learnt, channel.Learnt{Gen: 4, Submitted: now, Visits: 6, EstimatorBlob: []byte{5}})
}

func testApplyOnce(t *testing.T, open Open) {
	f := begin(t, open)
	id := f.add(whole("https://a.test"))[0]
	step := func(from, to string) channel.Advance {
		return channel.Advance{Feed: "archive", From: from, To: to, At: now, Counters: map[string]int64{"n": 1}}
	}
	f.must(f.Apply(f.ctx, f.e, step("", "1"), step("1", "2")))
	f.want(f.Apply(f.ctx, f.e, step("1", "2")), channel.ErrCursor)
	f.want(f.Apply(f.ctx, f.e, step("", "1")), channel.ErrCursor)
	f.want(f.Apply(f.ctx, f.e, step("2", "3"), step("2", "3"), step("3", "4")), channel.ErrCursor) // the third follows the first
	f.must(f.Apply(f.ctx, f.e, channel.Advance{Feed: "another", To: "1", Counters: map[string]int64{"n": 1}}))
	check := func(cursor string, n int64) {
		t.Helper()
		got, err := f.Cursor(f.ctx, "archive")
		f.must(err)
		sums, err := f.Counters(f.ctx)
		f.must(err)
		f.same("cursor and counter", []any{got, sums["n"]}, []any{cursor, n})
	}
	check("4", 5)
	bad := step("4", "5")
	bad.Edits = []channel.Edit{{ID: id, Learnt: &channel.Learnt{Visits: 1}}, {ID: id, Lease: make([]byte, channel.MaxLease+1)}}
	f.want(f.Apply(f.ctx, f.e, bad), channel.ErrTooLarge)
	bad.Edits, bad.Hosts = bad.Edits[:1], []channel.Host{{Name: "no host"}}
	f.want(f.Apply(f.ctx, f.e, bad), channel.ErrMalformed)
	bad.Hosts, bad.Found = nil, []channel.Found{{URL: "mailto:x"}}
	f.want(f.Apply(f.ctx, f.e, bad), channel.ErrMalformed)
	f.same("nothing of a bad stretch", f.get(id).Learnt, channel.Learnt{})
	f.want(f.Apply(f.ctx, f.e, step("4", "4")), channel.ErrMalformed)
	none := channel.Advance{At: now, Edits: []channel.Edit{{ID: id, Learnt: &channel.Learnt{Visits: 2}}}} // of no feed: no cursor moves
	f.must(f.Apply(f.ctx, f.e, none, none))
	f.same("effects of no feed", f.get(id).Learnt.Visits, 2)
	none.To = "1"
	f.want(f.Apply(f.ctx, f.e, none), channel.ErrMalformed)
	f.reopen(open)
	check("4", 5)
}

// testApplyMany applies a stretch of the largest allowed size.
func testApplyMany(t *testing.T, open Open) {
	f := begin(t, open)
	var chs []channel.Channel
	for i := range channel.MaxAdd {
		chs = append(chs, whole(fmt.Sprintf("https://h%d.test", i)))
	}
	ids := f.add(chs...)
	a := channel.Advance{Feed: "archive", To: "1", At: now}
	for _, id := range ids {
		a.Edits = append(a.Edits, channel.Edit{
			ID: id, Gen: 1, Lease: make([]byte, 45), Facts: make([]byte, 44), Learnt: &channel.Learnt{Visits: 1, LastError: string(bytes.Repeat([]byte{'x'}, 500))},
			Inter: []string{"https://x.test/1", "https://x.test/2"},
		})
		at := coords.Coord{Height: 1}
		h := channel.Host{Name: fmt.Sprintf("https://h%d.test", id), NextVisit: now, Blocked: "x"}
		for range coords.MaxSamples {
			h.Record.Samples = append(h.Record.Samples, coords.Sample{Vantage: "peer", At: at, RTT: time.Second, When: now.Unix()})
		}
		a.Hosts = append(a.Hosts, h)
	}
	for i := 0; a.Size() < channel.MaxAdvance; i++ {
		a.Found = append(a.Found, channel.Found{URL: fmt.Sprintf("https://new%d.test/a/long/path/to/a/page/with/a/long/name/%d.html", i, i), From: ids[0]})
	}
	f.must(f.Apply(f.ctx, f.e, a))
	f.same("visits", f.get(ids[len(ids)-1]).Learnt.Visits, 1)
	n, err := f.CountCandidates(f.ctx)
	f.must(err)
	f.same("candidates", n, len(a.Found))
	a.From, a.To, a.Found = "1", "2", append(a.Found, a.Found[0])
	if f.Apply(f.ctx, f.e, a) == nil {
		t.Fatal("more than the limit was applied")
	}
}

// links returns Hot.Links of a channel.
func (f *fixture) links(id channel.ID) (n int) {
	f.Helper()
	f.must(f.Scan(f.ctx, id, id, func(h channel.Hot) error { n = h.Links; return nil }))
	return n
}

func testInter(t *testing.T, open Open) {
	f := begin(t, open)
	id := f.add(whole("https://a.test"))[0]
	n := 0
	apply := func(at time.Time, e channel.Edit) {
		t.Helper()
		e.ID = id
		f.must(f.Apply(f.ctx, f.e, channel.Advance{Feed: "f", From: cursorAt(n), To: cursorAt(n + 1), At: at, Edits: []channel.Edit{e}}))
		n++
	}
	apply(now, channel.Edit{Inter: []string{"https://a.test/1", "https://a.test/2", "https://a.test/1"}})
	apply(now.Add(time.Minute), channel.Edit{Inter: []string{"https://a.test/2", "https://a.test/3"}})
	f.same("pending", f.get(id).Inter, []string{"https://a.test/1", "https://a.test/2", "https://a.test/3"})
	f.same("links", f.links(id), 1+3)
	apply(now.Add(time.Hour), channel.Edit{Crawled: now.Add(time.Second), Inter: []string{"https://a.test/4"}})
	f.reopen(open)
	f.same("pending", f.get(id).Inter, []string{"https://a.test/3", "https://a.test/4"})
	f.same("links", f.links(id), 2)
	f.reopen(open)
	f.same("links", f.links(id), 2)
	apply(now, channel.Edit{Crawled: now.Add(time.Hour)})
	f.same("pending", len(f.get(id).Inter), 0)
	var many []string
	for i := range channel.MaxInter + 10 {
		many = append(many, fmt.Sprintf("https://a.test/%d", i))
	}
	apply(now, channel.Edit{Inter: many})
	f.same("pending", f.get(id).Inter, many[:channel.MaxInter])
	long := slices.Clone(many[:100])
	for i := range long {
		long[i] += string(bytes.Repeat([]byte{'x'}, 1500))
	}
	apply(now, channel.Edit{Crawled: now, Inter: long})
	if got := len(f.get(id).Inter); got == 0 || got >= 100 {
		t.Fatalf("%d long URLs pending", got)
	}
}

func cursorAt(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

func testHosts(t *testing.T, open Open) {
	f := begin(t, open)
	h, err := f.Host(f.ctx, "https://a.test")
	f.must(err)
	f.same("unknown host", h, channel.Host{Name: "https://a.test"})
	a := channel.Host{Name: "https://a.test", NextVisit: now, Rest: time.Minute, CrawlDelay: 2 * time.Second, Record: coords.HostRecord{
		Samples: []coords.Sample{{Vantage: "peer", At: coords.Coord{Vec: [8]float64{1}, Height: 2}, RTT: time.Millisecond, When: 7}}, Best: []string{"peer"}, Anycast: true,
	}}
	b := channel.Host{Name: "http://a.test:8080", Blocked: "takedown"}
	f.must(f.Apply(f.ctx, f.e, channel.Advance{Feed: "f", To: "1", Hosts: []channel.Host{a}}))
	f.must(f.UpdateHost(f.ctx, f.e, b.Name, func(h *channel.Host) { *h = b; h.Name = "changed" }))
	for range 2 {
		for _, want := range []channel.Host{a, b} {
			got, err := f.Host(f.ctx, want.Name)
			f.must(err)
			f.same("host", got, want)
		}
		var all []channel.Host
		f.must(f.ScanHosts(f.ctx, func(h channel.Host) error { all = append(all, h); return nil }))
		hot := a
		hot.Record = coords.HostRecord{}
		f.same("hosts", all, []channel.Host{hot, b})
		f.reopen(open)
	}
	f.must(f.UpdateHost(f.ctx, f.e, a.Name, func(h *channel.Host) { h.Record = coords.HostRecord{} }))
	got, err := f.Host(f.ctx, a.Name)
	f.must(err)
	f.same("record", got.Record, coords.HostRecord{})
}

// testManyHosts reads hosts at once, in the order in which they are named, known or not, and some twice.
func testManyHosts(t *testing.T, open Open) {
	f := begin(t, open)
	var hosts []channel.Host
	var names []string
	for i := range 2500 { // more than one question to a server
		h := channel.Host{Name: fmt.Sprintf("https://h%d.test", i)}
		switch i % 3 {
		case 0:
			h.CrawlDelay, h.Blocked = time.Duration(i)*time.Second, fmt.Sprint("takedown ", i)
		case 1:
			h.Record = coords.HostRecord{Samples: []coords.Sample{{Vantage: "peer", RTT: time.Duration(i), When: 7}}}
		case 2:
			h.NextVisit = now.Add(time.Duration(i) * time.Hour)
		}
		hosts, names = append(hosts, h), append(names, h.Name)
	}
	for some := range slices.Chunk(hosts, 500) {
		f.must(f.Apply(f.ctx, f.e, channel.Advance{Hosts: some}))
	}
	slices.Reverse(names)
	names = append(names, "https://none.test", names[0], "http://h1.test", "https://none.test")
	got, err := f.Hosts(f.ctx, names)
	f.must(err)
	f.same("how many", len(got), len(names))
	for i, name := range names {
		want, err := f.Host(f.ctx, name)
		f.must(err)
		f.same(fmt.Sprint("host ", i), got[i], want)
	}
	f.same("the first as stored", got[len(hosts)-1], hosts[0])
	got, err = f.Hosts(f.ctx, nil)
	f.must(err)
	f.same("hosts of no names", len(got), 0)
}

func testCandidates(t *testing.T, open Open) {
	f := begin(t, open)
	var found []channel.Found
	for i, n := range []int{3, 20, 1, 3} {
		for j := range n {
			found = append(found, channel.Found{URL: fmt.Sprintf("https://h%d.test/%d", i, j), From: channel.ID(i + 1)})
		}
	}
	f.must(f.Apply(f.ctx, f.e, channel.Advance{Feed: "f", To: "1", At: now, Found: found}))
	f.must(f.Apply(f.ctx, f.e, channel.Advance{Feed: "f", From: "1", To: "2", At: now.Add(time.Hour), Found: []channel.Found{{URL: "https://h2.test/0", From: 9}}}))
	f.reopen(open)
	all, err := f.Candidates(f.ctx, 100, nil)
	f.must(err)
	f.same("order", []string{all[0].Host, all[1].Host, all[2].Host, all[3].Host}, []string{"https://h1.test", "https://h0.test", "https://h3.test", "https://h2.test"})
	f.same("links", []int{all[0].Links, all[1].Links, all[3].Links}, []int{20, 3, 2})
	f.same("URLs kept", len(all[0].Seeds), channel.MaxCandidateSeeds)
	f.same("candidate", all[3], channel.Candidate{Host: "https://h2.test", Links: 2, Seeds: []string{"https://h2.test/0"}, From: 3, First: now, Last: now.Add(time.Hour)})
	top, err := f.Candidates(f.ctx, 2, nil)
	f.must(err)
	f.same("top", top, all[:2])
	asked := 0
	few, err := f.Candidates(f.ctx, 2, func(host string) bool { asked++; return host != "https://h1.test" })
	f.must(err)
	f.same("top of those that are wanted", []any{asked, few}, []any{4, all[1:3]})
	none, err := f.Candidates(f.ctx, 2, func(string) bool { return false })
	f.must(err)
	f.same("of none that is wanted", len(none), 0)
	f.must(f.DropCandidates(f.ctx, f.e, []string{"https://h1.test", "https://none.test"}))
	n, err := f.CountCandidates(f.ctx)
	f.must(err)
	rest, err := f.Candidates(f.ctx, 100, nil)
	f.must(err)
	f.same("after dropping", []any{n, rest}, []any{3, all[1:]})
}

func testEpoch(t *testing.T, open Open) {
	f := begin(t, open)
	id := f.add(whole("https://a.test"))[0]
	before := f.get(id)
	old := f.e
	f.take()
	for name, write := range map[string]func(e channel.Epoch, n int) error{
		"Add": func(e channel.Epoch, n int) error {
			_, _, err := f.Add(f.ctx, e, []channel.Channel{whole(fmt.Sprintf("https://b%d.test", n))})
			return err
		},
		"Import": func(e channel.Epoch, n int) error {
			_, err := f.Import(f.ctx, e, lines(whole(fmt.Sprintf("https://c%d.test", n))))
			return err
		},
		"Update": func(e channel.Epoch, _ int) error { return f.Update(f.ctx, e, id, func(c *channel.Channel) {}) },
		"Issue": func(e channel.Epoch, n int) error {
			_, err := f.Issue(f.ctx, e, []channel.Issue{issue(id, channel.Gen(n), nil, now)})
			return err
		},
		"Apply": func(e channel.Epoch, n int) error {
			return f.Apply(f.ctx, e, channel.Advance{Feed: fmt.Sprint(n), To: "1"})
		},
		"UpdateHost": func(e channel.Epoch, _ int) error {
			return f.UpdateHost(f.ctx, e, "https://a.test", func(h *channel.Host) { h.Blocked = "x" })
		},
		"DropCandidates": func(e channel.Epoch, _ int) error { return f.DropCandidates(f.ctx, e, nil) },
		"PutState":       func(e channel.Epoch, _ int) error { return f.PutState(f.ctx, e, "s", []byte{1}) },
	} {
		for n, e := range []channel.Epoch{0, old, f.e + 1} {
			if err := write(e, n+1); !errors.Is(err, channel.ErrStaleEpoch) {
				t.Errorf("%s with epoch %d of %d: %v", name, e, f.e, err)
			}
		}
		if err := write(f.e, 9); err != nil {
			t.Errorf("%s with the present epoch: %v", name, err)
		}
	}
	if err := f.Remove(f.ctx, old, id); !errors.Is(err, channel.ErrStaleEpoch) {
		t.Errorf("Remove with epoch %d of %d: %v", old, f.e, err)
	}
	before.Learnt.Gen, before.Learnt.Submitted = 9, now
	f.same("channel", f.get(id), before)
	f.same("channels", f.count(), 3)
	f.reopen(open)
	if f.e <= old+1 {
		t.Fatalf("epoch %d after %d", f.e, old+1)
	}
}

func testState(t *testing.T, open Open) {
	f := begin(t, open)
	got, err := f.State(f.ctx, "icr")
	if got != nil || err != nil {
		t.Fatalf("state of nothing: %v, %v", got, err)
	}
	f.must(f.PutState(f.ctx, f.e, "price", []byte{7}))
	for _, n := range []int{0, 1, 2_000_000, 300_000, 262_144, 5} {
		state := make([]byte, n)
		for i := range state {
			state[i] = byte(i * n >> 8)
		}
		f.must(f.PutState(f.ctx, f.e, "icr", state))
		f.reopen(open)
		got, err := f.State(f.ctx, "icr")
		f.must(err)
		if !bytes.Equal(got, state) || got == nil {
			t.Fatalf("state of %d bytes came back as %d", n, len(got))
		}
	}
	got, err = f.State(f.ctx, "price")
	f.must(err)
	f.same("another state", got, []byte{7})
	for node, state := range map[string][]byte{"a": {8}, "b": make([]byte, 300_000)} {
		f.must(f.PutState(f.ctx, f.e, channel.OwnState(node, "price"), state))
		f.must(f.PutState(f.ctx, f.e, channel.OwnState(node, "high/price"), []byte{9}))
	}
	all, err := f.Kept(f.ctx, "price")
	f.must(err)
	f.same("states that managers keep", len(all), 3)
	f.same("that of one alone", all[0], []byte{7})
	f.same("those of several", len(all[1])+len(all[2]), 300_001)
	all, err = f.Kept(f.ctx, "none")
	f.must(err)
	f.same("states that nobody keeps", len(all), 0)
	if f.PutState(f.ctx, f.e, "", nil) == nil {
		t.Fatal("a state without a name")
	}
}

func lines(chs ...channel.Channel) iter.Seq[channel.Line] {
	return func(yield func(channel.Line) bool) {
		for i, c := range chs {
			if !yield(channel.Line{N: i + 1, Channel: c}) {
				return
			}
		}
	}
}

func testImport(t *testing.T, open Open) {
	f := begin(t, open)
	old := f.add(whole("https://h3.test"))[0]
	const n = 5000
	var chs []channel.Channel
	for i := range n {
		chs = append(chs, whole(fmt.Sprintf("https://h%d.test", i%(n-10))))
	}
	got, err := f.Import(f.ctx, f.e, lines(chs...))
	f.must(err)
	f.same("added, duplicates", []int{got.Added, got.Duplicates, len(got.Refused)}, []int{n - 11, 11, 11})
	f.same("numbers, of which duplicates use none", int(got.Last-got.First)+1, got.Added)
	f.same("line of the first duplicate", []any{got.Refused[0].N, got.Refused[0].ID}, []any{4, old})
	first, err := f.Lookup(f.ctx, "https://h0.test/")
	f.must(err)
	f.same("an earlier line", []any{got.Refused[1].N, got.Refused[1].ID}, []any{n - 9, first})
	f.want(got.Refused[1].Err, channel.ErrDuplicate)
	for range 2 {
		f.same("channels", f.count(), n-10)
		in := 0
		f.must(f.Scan(f.ctx, got.First, got.Last, func(channel.Hot) error { in++; return nil }))
		f.same("channels imported", in, got.Added)
		f.reopen(open)
	}
	many := make([]channel.Channel, channel.MaxRefusals+50)
	for i := range many {
		many[i] = whole("https://h3.test")
	}
	got, err = f.Import(f.ctx, f.e, lines(many...))
	f.must(err)
	f.same("all duplicates", []int{got.Added, got.Duplicates, len(got.Refused)}, []int{0, len(many), channel.MaxRefusals})
	got, err = f.Import(f.ctx, f.e, lines())
	f.must(err)
	f.same("nothing", got, channel.Imported{})
}

func testImportRefuses(t *testing.T, open Open) {
	f := begin(t, open)
	f.add(whole("https://old.test"))
	const n = 4500
	broken := errors.New("disk gone")
	badScope := whole("https://x.test")
	badScope.Scope.Kind = 9
	for name, c := range map[string]struct {
		last channel.Line
		want error
	}{
		"unreadable": {channel.Line{N: n + 1, Err: broken}, broken},
		"bad scope":  {channel.Line{N: n + 1, Channel: badScope}, channel.ErrScope},
	} {
		_, err := f.Import(f.ctx, f.e, func(yield func(channel.Line) bool) {
			for i := range n {
				if !yield(channel.Line{N: i + 1, Channel: whole(fmt.Sprintf("https://h%d.test", i))}) {
					return
				}
			}
			yield(c.last)
		})
		if !errors.Is(err, c.want) || !bytes.Contains([]byte(err.Error()), []byte("4501")) {
			t.Errorf("%s: %v", name, err)
		}
		f.same("channels", f.count(), 1)
		_, err = f.Lookup(f.ctx, "https://h7.test/")
		f.want(err, channel.ErrUnknown)
	}
	ctx, cancel := context.WithCancel(f.ctx)
	_, err := f.Import(ctx, f.e, func(yield func(channel.Line) bool) {
		for i := 0; yield(channel.Line{N: i, Channel: whole(fmt.Sprintf("https://h%d.test", i))}); i++ {
			if i == n {
				cancel()
			}
		}
	})
	f.want(err, context.Canceled)
	f.reopen(open)
	f.same("channels", f.count(), 1)
	got, err := f.Import(f.ctx, f.e, lines(whole("https://h7.test"), whole("https://h8.test")))
	f.must(err)
	f.same("added", got.Added, 2)
}

// testImportBeside checks that an unfinished import is invisible and that other writes go on.
func testImportBeside(t *testing.T, open Open) {
	f := begin(t, open)
	const n = 6500
	inside := 0
	got, err := f.Import(f.ctx, f.e, func(yield func(channel.Line) bool) {
		for i := range n {
			if i%1300 == 0 {
				id := f.add(whole(fmt.Sprintf("https://other%d.test", i)))[0]
				_, err := f.Issue(f.ctx, f.e, []channel.Issue{issue(id, 1, []byte{1}, now)})
				f.must(err)
				inside++
				f.same("channels during the import", f.count(), inside)
				page, err := f.List(f.ctx, 0, 100)
				f.must(err)
				f.same("list during the import", len(page), inside)
				page, _, err = f.Search(f.ctx, "h", "", 10)
				f.must(err)
				f.same("search during the import", len(page), 0)
				_, err = f.Lookup(f.ctx, "https://h0.test/")
				f.want(err, channel.ErrUnknown)
				_, err = f.Channel(f.ctx, id+1)
				f.want(err, channel.ErrUnknown)
			}
			if !yield(channel.Line{N: i + 1, Channel: whole(fmt.Sprintf("https://h%d.test", i))}) {
				return
			}
		}
	})
	f.must(err)
	f.same("added", got.Added, n)
	f.same("channels", f.count(), n+inside)
	f.reopen(open)
	f.same("channels", f.count(), n+inside)
}
