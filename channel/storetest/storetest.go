// Package storetest is the contract of a channel database: tests that every implementation runs. channel/badgerdb is
// the first one. The package does not test what only one implementation promises, such as surviving kill -9, locking
// a folder, or speed.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"testing"
	"time"

	"shoal/channel"
)

// Store is manager.Store. It is repeated here so that a database's tests need not import the manager.
type Store interface {
	Take(ctx context.Context) (channel.Epoch, error)
	Add(ctx context.Context, e channel.Epoch, chs []channel.Channel) ([]channel.ID, []channel.Refusal, error)
	Import(ctx context.Context, e channel.Epoch, lines iter.Seq[channel.Line]) (channel.Imported, error)
	Update(ctx context.Context, e channel.Epoch, id channel.ID, change func(*channel.Channel)) error
	Remove(ctx context.Context, e channel.Epoch, id channel.ID) error
	Issue(ctx context.Context, e channel.Epoch, issues []channel.Issue) ([]channel.Refusal, error)
	Channel(ctx context.Context, id channel.ID) (channel.Channel, error)
	Entire(ctx context.Context, ids []channel.ID) ([]channel.Entire, error)
	List(ctx context.Context, after channel.ID, n int) ([]channel.Channel, error)
	Search(ctx context.Context, prefix, after string, n int) ([]channel.Channel, string, error)
	Matching(ctx context.Context, text string, from, n int) ([]channel.ID, int, error)
	Lookup(ctx context.Context, canonicalURL string) (channel.ID, error)
	Holders(ctx context.Context, canonicalURLs []string) ([]channel.ID, error)
	Lease(ctx context.Context, id channel.ID) ([]byte, error)
	Scan(ctx context.Context, first, last channel.ID, f func(channel.Hot) error) error
	Host(ctx context.Context, name string) (channel.Host, error)
	Hosts(ctx context.Context, names []string) ([]channel.Host, error)
	UpdateHost(ctx context.Context, e channel.Epoch, name string, change func(*channel.Host)) error
	ScanHosts(ctx context.Context, f func(channel.Host) error) error
	Candidates(ctx context.Context, n int, want func(host string) bool) ([]channel.Candidate, error)
	CountCandidates(ctx context.Context) (int, error)
	DropCandidates(ctx context.Context, e channel.Epoch, hosts []string) error
	Apply(ctx context.Context, e channel.Epoch, stretches ...channel.Advance) error
	Cursor(ctx context.Context, feed string) (string, error)
	Counters(ctx context.Context) (map[string]int64, error)
	PutState(ctx context.Context, e channel.Epoch, name string, state []byte) error
	State(ctx context.Context, name string) ([]byte, error)
	Kept(ctx context.Context, name string) ([][]byte, error)
	Close() error
}

// Database is a Store that can be moved to another database.
type Database interface {
	Store
	// Dump calls f with everything that the database holds, as of one moment.
	Dump(ctx context.Context, f func(channel.Item) error) error
	// Load fills an empty database with a dump; it refuses another with channel.ErrNotEmpty.
	Load(ctx context.Context, items iter.Seq2[channel.Item, error]) error
}

// Open opens a database for a test and closes it at the test's end. The same name within one test is the same
// database, opened again.
type Open func(t testing.TB, name string) Database

// Run runs the suite, or only some of its tests.
func Run(t *testing.T, open Open, only ...string) {
	for name, test := range map[string]func(*testing.T, Open){
		"Add": testAdd, "AddRefuses": testAddRefuses, "AddMost": testAddMost, "Update": testUpdate, "Remove": testRemove, "List": testList, "Search": testSearch, "Matching": testMatching,
		"Lookup": testLookup, "Scan": testScan, "Entire": testEntire, "Issue": testIssue, "IssueTogether": testIssueTogether, "Apply": testApply,
		"ApplyOnce": testApplyOnce, "ApplyMany": testApplyMany, "Inter": testInter, "Hosts": testHosts, "ManyHosts": testManyHosts, "Candidates": testCandidates,
		"Epoch": testEpoch, "State": testState, "Import": testImport, "ImportRefuses": testImportRefuses, "ImportBeside": testImportBeside,
		"Dump": testDump, "Model": testModel, "Spellings": testSpellings, "SpellingsLookup": testSpellingsLookup, "SpellingsOfOld": testSpellingsOfOld,
	} {
		if len(only) > 0 && !slices.Contains(only, name) {
			continue
		}
		t.Run(name, func(t *testing.T) { test(t, open) })
	}
}

// now has no more precision than databases keep.
var now = time.Date(2024, 5, 6, 7, 8, 9, 123e6, time.UTC)

func whole(host string) channel.Channel {
	return channel.Channel{
		Scope: channel.Scope{Kind: channel.WholeHost, Host: host}, Seeds: []string{host + "/"}, Added: now, State: channel.Active,
	}
}

func dirs(host string, dirs ...string) channel.Channel {
	c := whole(host)
	c.Scope.Kind, c.Scope.Dirs = channel.Directory, dirs
	if len(dirs) > 1 {
		c.Scope.Kind = channel.Directories
	}
	return c
}

// fixture is an open database that the test has taken over.
type fixture struct {
	failer
	Database
	t   testing.TB
	ctx context.Context
	e   channel.Epoch
}

// failer is the common part of testing.TB and rapid.T.
type failer interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

func begin(t testing.TB, open Open) *fixture {
	f := &fixture{failer: t, t: t, Database: open(t, "db"), ctx: t.Context()}
	f.take()
	return f
}

func (f *fixture) take() {
	f.Helper()
	var err error
	if f.e, err = f.Take(f.ctx); err != nil {
		f.Fatal(err)
	}
}

// reopen closes the database and opens it again.
func (f *fixture) reopen(open Open) {
	f.Helper()
	if err := f.Database.Close(); err != nil {
		f.Fatal(err)
	}
	f.Database = open(f.t, "db")
	f.take()
}

// add adds channels, none of which may be refused.
func (f *fixture) add(chs ...channel.Channel) []channel.ID {
	f.Helper()
	ids, refused, err := f.Add(f.ctx, f.e, chs)
	if err != nil || len(refused) > 0 {
		f.Fatalf("Add: %v, %v", refused, err)
	}
	return ids
}

func (f *fixture) get(id channel.ID) channel.Channel {
	f.Helper()
	c, err := f.Channel(f.ctx, id)
	if err != nil {
		f.Fatal(err)
	}
	return c
}

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) want(err, is error) {
	f.Helper()
	if !errors.Is(err, is) {
		f.Fatalf("error %v, want %v", err, is)
	}
}

func (f *fixture) same(what string, got, want any) {
	f.Helper()
	if !reflect.DeepEqual(got, want) {
		f.Fatalf("%s:\n got %+v\nwant %+v", what, got, want)
	}
}

func testAdd(t *testing.T, open Open) {
	f := begin(t, open)
	full := dirs("https://b.test:8443", "/x/", "/a/")
	full.Scope.Filters, full.Scope.Exclude, full.Scope.MaxDepth = []string{"x"}, []string{"y"}, 3
	full.State, full.Reason = channel.Paused, "asked to"
	full.Settings = channel.Settings{Order: "opic", Pages: 7, PageBytes: 1000, Weight: 2.5, TextOnly: true, Group: 3}
	full.Learnt.EstimatorBlob = []byte{1, 2, 3}
	all := []channel.Channel{whole("https://a.test"), full, dirs("https://a.test", "/d/"), whole("http://a.test")}
	ids := f.add(all...)
	for range 2 {
		for i, id := range ids {
			want := all[i]
			want.ID = id
			f.same("channel", f.get(id), want)
		}
		f.reopen(open)
	}
	seen := make(map[channel.ID]bool)
	for _, id := range append(ids, f.add(whole("https://c.test"))...) {
		if id == 0 || seen[id] {
			t.Fatalf("ids %v", ids)
		}
		seen[id] = true
	}
	_, err := f.Channel(f.ctx, 999)
	f.want(err, channel.ErrUnknown)
	state := whole("https://d.test")
	state.State = 0
	f.same("state of a new channel", f.get(f.add(state)[0]).State, channel.Active)
}

func testAddRefuses(t *testing.T, open Open) {
	f := begin(t, open)
	ids := f.add(whole("https://a.test"), dirs("https://a.test", "/x/", "/y/"))
	again := dirs("https://a.test", "/y/", "/x/")
	again.Settings.Pages = 9
	batch := []channel.Channel{whole("https://b.test"), whole("https://a.test"), again, whole("https://b.test"), dirs("https://a.test", "/x/")}
	got, refused, err := f.Add(f.ctx, f.e, batch)
	f.must(err)
	if len(got) != 5 || got[0] == 0 || got[1] != 0 || got[2] != 0 || got[3] != 0 || got[4] == 0 {
		t.Fatalf("ids %v", got)
	}
	for i, want := range []channel.Refusal{{N: 1, ID: ids[0]}, {N: 2, ID: ids[1]}, {N: 3, ID: got[0]}} {
		if len(refused) != 3 || refused[i].N != want.N || refused[i].ID != want.ID || !errors.Is(refused[i].Err, channel.ErrDuplicate) {
			t.Fatalf("refused %+v", refused)
		}
	}
	bad := whole("https://c.test")
	bad.Scope.Host = "c.test"
	_, _, err = f.Add(f.ctx, f.e, []channel.Channel{whole("https://c.test"), bad})
	f.want(err, channel.ErrScope)
	_, err = f.Lookup(f.ctx, "https://c.test/")
	f.want(err, channel.ErrUnknown)
	long := whole("https://d.test")
	long.Seeds = []string{"https://d.test/" + string(make([]byte, channel.MaxURL))}
	if _, _, err := f.Add(f.ctx, f.e, []channel.Channel{long}); err == nil {
		t.Fatal("a channel was stored that cannot be read again")
	}
	f.same("what is there", f.count(), 4)
	f.twiceNamed()
}

// twiceNamed checks that a directory, and a set that names it twice, are one reach.
func (f *fixture) twiceNamed() {
	f.Helper()
	once, twice := dirs("https://e.test", "/x/"), dirs("https://e.test", "/x/", "/x/")
	for _, two := range [][]channel.Channel{{once, twice}, {twice, once}} {
		id := f.add(two[0])[0]
		_, refused, err := f.Add(f.ctx, f.e, two[1:])
		f.must(err)
		if len(refused) != 1 || refused[0].ID != id {
			f.Fatalf("%q beside %q: refused %+v", two[1].Scope.Dirs, two[0].Scope.Dirs, refused)
		}
		other := f.add(dirs("https://e.test", "/y/"))[0]
		f.want(f.Update(f.ctx, f.e, other, func(c *channel.Channel) { c.Scope = two[1].Scope }), channel.ErrDuplicate)
		f.must(f.Update(f.ctx, f.e, id, func(c *channel.Channel) { c.Scope = two[1].Scope }))
		f.must(f.Update(f.ctx, f.e, id, func(c *channel.Channel) { c.Settings.Pages = 3 }))
		f.same("holder", f.holder("https://e.test/x/1"), id)
		f.must(f.Remove(f.ctx, f.e, id))
		f.must(f.Remove(f.ctx, f.e, other))
		f.same("holder of what was removed", f.holder("https://e.test/x/1"), channel.ID(0))
	}
}

func (f *fixture) holder(url string) channel.ID {
	f.Helper()
	ids, err := f.Holders(f.ctx, []string{url})
	f.must(err)
	return ids[0]
}

// testAddMost checks that a batch over the limit is refused as a whole.
func testAddMost(t *testing.T, open Open) {
	f := begin(t, open)
	var chs []channel.Channel
	for i := range channel.MaxAdd + 1 {
		chs = append(chs, whole(fmt.Sprintf("https://h%d.test", i)))
	}
	if _, _, err := f.Add(f.ctx, f.e, chs); err == nil {
		t.Error("more than channel.MaxAdd were taken")
	}
	f.same("channels", f.count(), 0)
	f.add(chs[1:]...)
	f.same("channels", f.count(), channel.MaxAdd)
}

func (f *fixture) count() int {
	f.Helper()
	n := 0
	f.must(f.Scan(f.ctx, 0, 0, func(channel.Hot) error { n++; return nil }))
	return n
}

func testUpdate(t *testing.T, open Open) {
	f := begin(t, open)
	ids := f.add(whole("https://a.test"), dirs("https://a.test", "/x/", "/y/"))
	f.must(f.Apply(f.ctx, f.e, channel.Advance{Feed: "f", To: "1", At: now, Edits: []channel.Edit{
		{ID: ids[0], Lease: []byte{1}, Gen: 3, Learnt: &channel.Learnt{Visits: 4, LastError: "x"}, Facts: []byte{7}, Inter: []string{"https://a.test/z"}},
	}}))
	want := f.get(ids[0])
	want.State, want.Reason = channel.Paused, "holidays"
	want.Settings.Weight, want.Settings.Group, want.Seeds = 3, 2, []string{"https://a.test/new"}
	f.must(f.Update(f.ctx, f.e, ids[0], func(c *channel.Channel) {
		*c = want
		c.ID, c.Learnt, c.Inter, c.Added = 77, channel.Learnt{}, nil, time.Time{}
	}))
	f.same("updated", f.get(ids[0]), want)

	f.want(f.Update(f.ctx, f.e, ids[0], func(c *channel.Channel) { c.Scope = f.get(ids[1]).Scope }), channel.ErrDuplicate)
	f.want(f.Update(f.ctx, f.e, ids[0], func(c *channel.Channel) { c.Scope.Host = "x" }), channel.ErrScope)
	f.want(f.Update(f.ctx, f.e, 99, func(*channel.Channel) {}), channel.ErrUnknown)
	f.same("unchanged", f.get(ids[0]), want)

	moved := dirs("https://b.test", "/y/", "/z/").Scope
	f.must(f.Update(f.ctx, f.e, ids[1], func(c *channel.Channel) { c.Scope = moved }))
	f.reopen(open)
	f.same("moved", f.get(ids[1]).Scope, moved)
	for url, want := range map[string]channel.ID{"https://b.test/y/": ids[1], "https://b.test/z/1": ids[1], "https://a.test/x/": ids[0]} {
		got, err := f.Lookup(f.ctx, url)
		f.must(err)
		f.same(url, got, want)
	}
	f.add(dirs("https://a.test", "/x/", "/y/")) // free again
	_, refused, err := f.Add(f.ctx, f.e, []channel.Channel{dirs("https://b.test", "/z/", "/y/")})
	f.must(err)
	f.same("refused", len(refused), 1)
}

func testRemove(t *testing.T, open Open) {
	f := begin(t, open)
	ids := f.add(whole("https://a.test"), dirs("https://a.test", "/x/", "/y/"))
	f.must(f.Apply(f.ctx, f.e, channel.Advance{Feed: "f", To: "1", At: now, Edits: []channel.Edit{
		{ID: ids[1], Lease: []byte{1}, Gen: 3, Learnt: &channel.Learnt{Visits: 4}, Inter: []string{"https://a.test/x/z"}},
	}}))
	f.must(f.Remove(f.ctx, f.e, ids[1]))
	f.want(f.Remove(f.ctx, f.e, ids[1]), channel.ErrUnknown)
	_, err := f.Channel(f.ctx, ids[1])
	f.want(err, channel.ErrUnknown)
	refused, err := f.Issue(f.ctx, f.e, []channel.Issue{{ID: ids[1], Gen: 9}, {ID: ids[0], Gen: 1, Lease: []byte{2}}})
	f.must(err)
	if len(refused) != 1 || refused[0].N != 0 || !errors.Is(refused[0].Err, channel.ErrUnknown) {
		t.Fatalf("refused %+v", refused)
	}
	f.must(f.Apply(f.ctx, f.e, channel.Advance{Feed: "f", From: "1", To: "2", At: now, Edits: []channel.Edit{
		{ID: ids[1], Lease: []byte{1}, Gen: 4, Learnt: &channel.Learnt{Visits: 5}, Facts: []byte{1}, Inter: []string{"https://a.test/x/z"}},
	}}))
	f.same("left", f.count(), 1)
	again := f.add(dirs("https://a.test", "/x/", "/y/"))
	if again[0] <= ids[1] {
		t.Fatalf("id %d was used again as %d", ids[1], again[0])
	}
	got := f.get(again[0])
	f.same("learnt of the new channel", got.Learnt, channel.Learnt{})
	f.same("links to the new channel", len(got.Inter), 0)
}

func testList(t *testing.T, open Open) {
	f := begin(t, open)
	var all []channel.Channel
	for i := range 25 {
		all = append(all, whole(fmt.Sprintf("https://h%d.test", i)))
	}
	ids := f.add(all...)
	f.must(f.Remove(f.ctx, f.e, ids[3]))
	ids = slices.Delete(ids, 3, 4)
	var got []channel.ID
	for after := channel.ID(0); ; {
		page, err := f.List(f.ctx, after, 10)
		f.must(err)
		if len(page) == 0 {
			break
		}
		for _, c := range page {
			got = append(got, c.ID)
		}
		after = got[len(got)-1]
	}
	f.same("ids", got, ids)
}

func testSearch(t *testing.T, open Open) {
	f := begin(t, open)
	f.add(whole("https://ab.test"), dirs("https://ab.test", "/x/"), dirs("https://ab.test", "/a/", "/y/"), whole("http://abc.test:8080"),
		whole("https://b.test"), whole("https://a.test"), whole("http://ab.test"))
	search := func(prefix string, n int) (got []string) {
		for after := ""; ; {
			page, next, err := f.Search(f.ctx, prefix, after, n)
			f.must(err)
			if len(page) > n {
				t.Fatalf("%d of %d", len(page), n)
			}
			for _, c := range page {
				got = append(got, fmt.Sprint(c.Scope.Host, c.Scope.Dirs))
			}
			if after = next; next == "" {
				return got
			}
		}
	}
	want := []string{"http://ab.test[]", "https://ab.test[]", "https://ab.test[/a/ /y/]", "https://ab.test[/x/]"}
	for n := 1; n < 6; n++ {
		f.same("ab.", search("ab.", n), want)
	}
	f.same("ab", len(search("ab", 3)), 5)
	f.same("all", len(search("", 3)), 7)
	f.same("none", len(search("x", 3)), 0)
	if _, _, err := f.Search(f.ctx, "a", "no position!", 3); err == nil {
		t.Fatal("any string is taken for a position")
	}
}

// testMatching searches by any part of a host's name, a few results at a time.
func testMatching(t *testing.T, open Open) {
	f := begin(t, open)
	var chs []channel.Channel
	for i := range 7 {
		chs = append(chs, whole(fmt.Sprintf("https://www%d.one.test", i)), whole(fmt.Sprintf("http://two%d.test:8080", i)))
	}
	ids := f.add(chs...)
	matching := func(text string, from, n int) ([]channel.ID, int) {
		t.Helper()
		got, total, err := f.Matching(f.ctx, text, from, n)
		f.must(err)
		return got, total
	}
	for text, want := range map[string]int{"": 14, "one": 7, "www3.o": 1, "https://w": 7, "://": 14, ":8080": 7, "two": 7, "three": 0} {
		all, total := matching(text, 0, 100)
		f.same("channels matching "+text, []int{len(all), total}, []int{want, want})
		var parts []channel.ID
		for from := 0; from < want+2; from += 2 {
			part, total := matching(text, from, 2)
			f.same("total", total, want)
			parts = append(parts, part...)
		}
		f.same("in parts, matching "+text, len(parts), want)
		for i := range parts {
			f.same("in the same order", parts[i], all[i])
		}
	}
	f.must(f.Remove(f.ctx, f.e, ids[0]))
	got, total := matching("one", 0, 100)
	f.same("after one was removed", []int{len(got), total}, []int{6, 6})
	if slices.Contains(got, ids[0]) {
		t.Error("a removed channel is found")
	}
}

func testLookup(t *testing.T, open Open) {
	f := begin(t, open)
	ids := f.add(dirs("https://a.test", "/x/"), dirs("https://a.test", "/x/y/", "/z/"), whole("https://b.test"), dirs("https://b.test", "/x/"), dirs("https://a.test", "/u^v/"))
	var urls []string
	var holders []channel.ID
	for url, want := range map[string]channel.ID{
		"https://a.test/x/": ids[0], "https://a.test/x": ids[0], "https://a.test/x/1": ids[0], "https://a.test/x/y": ids[1],
		"https://a.test/x/y/1?z": ids[1], "https://a.test/z/": ids[1], "https://a.test/xy": 0, "https://a.test/": 0, "http://a.test/x/": 0,
		"https://b.test/": ids[2], "https://b.test/?/x/": ids[2], "https://b.test/x/1": ids[3], "https://bb.test/": 0,
		"https://a.test/u%5Ev/1?^": ids[4], "https://a.test/u^v/": ids[4], "https://a.test/?u^v/": 0, // as versions before 0.2.0 wrote it
	} {
		got, err := f.Lookup(f.ctx, url)
		if got != want || (err != nil) != (want == 0) || err != nil && !errors.Is(err, channel.ErrUnknown) {
			t.Errorf("%s: %d, %v; want %d", url, got, err, want)
		}
		urls, holders = append(urls, url), append(holders, want)
	}
	for odd, want := range map[string]channel.ID{"https://a.test/x/\x00": ids[0], "https://a.test/x/\xff": ids[0], "https://a.test/\x00/": 0, "https://a.test": 0, "": 0} {
		urls, holders = append(urls, odd), append(holders, want) // what no database can store, or is no URL, keeps none of the others from being found
	}
	for len(urls) < 3000 { // more than one question to a server
		urls, holders = append(urls, fmt.Sprintf("https://b.test/x/%d/", len(urls)), fmt.Sprintf("https://none.test/%d/", len(urls))), append(holders, ids[3], 0)
	}
	var many []channel.Channel
	for i := range 100 { // a host with many channels
		many = append(many, dirs("https://c.test", fmt.Sprintf("/%d/", i)))
	}
	for i, id := range f.add(many...) {
		urls, holders = append(urls, fmt.Sprintf("https://c.test/%d/deep/er?q", i), fmt.Sprintf("https://c.test/%d-/", i)), append(holders, id, 0)
	}
	got, err := f.Holders(f.ctx, urls)
	f.must(err)
	f.same("holders of many URLs", got, holders)
	got, err = f.Holders(f.ctx, nil)
	f.must(err)
	f.same("holders of none", len(got), 0)
}

// testEntire reads channels at once, in the order of their ids: those that are there, each once.
func testEntire(t *testing.T, open Open) {
	f := begin(t, open)
	var ids []channel.ID
	for i := range 5 { // more than one question to a server
		var some []channel.Channel
		for j := range 500 {
			some = append(some, dirs(fmt.Sprintf("https://h%d.test", i), fmt.Sprintf("/%d/", j)))
		}
		ids = append(ids, f.add(some...)...)
	}
	_, err := f.Issue(f.ctx, f.e, []channel.Issue{issue(ids[7], 4, []byte{1, 2}, now), issue(ids[2000], 1, []byte{3}, now)})
	f.must(err)
	f.must(f.Apply(f.ctx, f.e, channel.Advance{At: now, Edits: []channel.Edit{
		{ID: ids[7], Learnt: &channel.Learnt{Visits: 3, LastError: "x"}, Facts: []byte{9}, Inter: []string{"https://h0.test/7/z"}},
		{ID: ids[8], State: channel.Paused, Reason: "for now"},
	}}))
	f.must(f.Remove(f.ctx, f.e, ids[1]))
	ask := slices.Clone(ids)
	slices.Reverse(ask)
	ask = append(ask, ids[7], 1<<40)
	got, err := f.Entire(f.ctx, ask)
	f.must(err)
	there := slices.Delete(slices.Sorted(slices.Values(ids)), 1, 2)
	f.same("how many", len(got), len(there))
	for i, id := range there {
		f.same(fmt.Sprint("channel ", i), got[i].Channel, f.get(id))
		lease, err := f.Lease(f.ctx, id)
		f.must(err)
		f.same(fmt.Sprint("lease ", i), got[i].Lease, lease)
	}
	f.same("lease", got[6].Lease, []byte{1, 2})
	f.same("visits", got[6].Learnt.Visits, 3)
	got, err = f.Entire(f.ctx, nil)
	f.must(err)
	f.same("channels of no ids", len(got), 0)
}

func testScan(t *testing.T, open Open) {
	f := begin(t, open)
	const n = 3000
	ids := make([]channel.ID, 0, n)
	for i := 0; i < n; i += 500 {
		var batch []channel.Channel
		for j := range 500 {
			c := dirs(fmt.Sprintf("https://h%d.test", (i+j)%700), fmt.Sprintf("/%d/", i+j))
			if j%10 == 0 {
				c.Scope.Kind, c.Scope.Dirs = channel.Directories, append(c.Scope.Dirs, "/more/")
			}
			c.Settings.Weight, c.Settings.Group = float32(j%2), j%3
			if j%5 == 0 {
				c.Learnt.EstimatorBlob = []byte(fmt.Sprint("facts", i+j))
			}
			batch = append(batch, c)
		}
		ids = append(ids, f.add(batch...)...)
	}
	var issues []channel.Issue
	for i := 0; i < n; i += 7 {
		issues = append(issues, channel.Issue{ID: ids[i], Gen: channel.Gen(i + 1), Lease: []byte(fmt.Sprint("lease", i)), At: now})
	}
	_, err := f.Issue(f.ctx, f.e, issues)
	f.must(err)
	f.must(f.Remove(f.ctx, f.e, ids[5]))
	f.must(f.Update(f.ctx, f.e, ids[6], func(c *channel.Channel) { c.State = channel.Marked }))
	for range 2 {
		for _, r := range [][2]int{{0, n - 1}, {10, 20}, {100, 2900}, {n - 1, n - 1}} {
			first, last := ids[r[0]], ids[r[1]]
			if r[1] == n-1 {
				last = 0
			}
			i := r[0]
			f.must(f.Scan(f.ctx, first, last, func(h channel.Hot) error {
				if i == 5 {
					i++
				}
				want := channel.Hot{
					ID: ids[i], Host: channel.KeyOf(fmt.Sprintf("https://h%d.test", i%700)), Links: 1, State: channel.Active, Weight: float32(i % 500 % 2), Group: i % 500 % 3,
				}
				if i%500%5 == 0 {
					want.Facts = []byte(fmt.Sprint("facts", i))
				}
				if i%7 == 0 {
					want.Gen, want.Lease, want.Submitted = channel.Gen(i+1), []byte(fmt.Sprint("lease", i)), now
				}
				if i == 6 {
					want.State = channel.Marked
				}
				f.same("hot", h, want)
				i++
				return nil
			}))
			f.same("end of scan", i, r[1]+1)
		}
		f.reopen(open)
	}
	stop := errors.New("enough")
	f.want(f.Scan(f.ctx, 0, 0, func(channel.Hot) error { return stop }), stop)
}
