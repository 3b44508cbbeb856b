package storetest

import (
	"errors"
	"testing"

	"shoal/channel"
)

// Versions before 0.2.0 left "^" in directories as it is; see channel.FormerSpelling.
const (
	former = "/a^b/"
	today  = "/a%5Eb/"
)

// spelt are scopes that reach the same, in either spelling.
var spelt = [][2][]string{{{former}, {today}}, {{"/x/", former}, {today, "/x/"}}, {{former, former}, {today}}, {{former}, {today, today}}, {{"/^/^^/"}, {"/%5E/%5E%5E/"}}}

// testSpellings checks that a directory is the same in whichever spelling it was stored, and is given again.
func testSpellings(t *testing.T, open Open) {
	f := begin(t, open)
	const host = "https://a.test"
	for _, two := range spelt {
		for i := range 2 {
			one, other := dirs(host, two[i]...), dirs(host, two[1-i]...)
			id := f.add(one, dirs(host, "/x/"))
			_, refused, err := f.Add(f.ctx, f.e, []channel.Channel{dirs("https://b.test", "/x/"), other})
			f.must(err)
			f.refused("Add", refused, 1, id[0])
			done, err := f.Import(f.ctx, f.e, lines(dirs(host, "/y/"), other, dirs(host, "/y/")))
			f.must(err)
			f.same("imported", []int{done.Added, done.Duplicates}, []int{1, 2})
			f.refused("Import", done.Refused[:1], 2, id[0])
			f.want(f.Update(f.ctx, f.e, id[1], func(c *channel.Channel) { c.Scope = other.Scope }), channel.ErrDuplicate)
			f.same("scope as stored", f.get(id[0]).Scope, one.Scope)
			f.must(f.Update(f.ctx, f.e, id[0], func(c *channel.Channel) { c.Scope = other.Scope }))
			_, refused, err = f.Add(f.ctx, f.e, []channel.Channel{one})
			f.must(err)
			f.refused("Add of what was respelt", refused, 0, id[0])
			f.removeAll()

			done, err = f.Import(f.ctx, f.e, lines(one, dirs(host, "/y/"), other))
			f.must(err)
			f.same("imported at once", []int{done.Added, done.Duplicates}, []int{2, 1})
			f.refused("a later line", done.Refused, 3, done.First)
			f.removeAll()
			ids, refused, err := f.Add(f.ctx, f.e, []channel.Channel{one, other})
			f.must(err)
			f.refused("Add at once", refused, 1, ids[0])
			f.removeAll()
		}
	}
}

func (f *fixture) refused(what string, got []channel.Refusal, n int, by channel.ID) {
	f.Helper()
	if len(got) != 1 || got[0].N != n || got[0].ID != by || !errors.Is(got[0].Err, channel.ErrDuplicate) {
		f.Fatalf("%s: refused %+v; want number %d, which channel %d is", what, got, n, by)
	}
}

func (f *fixture) removeAll() {
	f.Helper()
	all, err := f.List(f.ctx, 0, 100)
	f.must(err)
	for _, c := range all {
		f.must(f.Remove(f.ctx, f.e, c.ID))
	}
}

// testSpellingsLookup checks that the deepest directory is found, whichever spelling it has, and whichever the URL has.
func testSpellingsLookup(t *testing.T, open Open) {
	f := begin(t, open)
	ids := f.add(dirs("https://a.test", "/^^/b/c/"), dirs("https://a.test", "/%5E%5E/b/", "/u/"), dirs("https://a.test", "/^^/"), dirs("https://b.test", today), dirs("https://b.test", "/x/", "/a^b/^^^/"))
	for url, want := range map[string]channel.ID{
		"https://a.test/%5E%5E/b/c/x": ids[0], "https://a.test/^^/b/c/x": ids[0], "https://a.test/%5E%5E/b/x": ids[1], "https://a.test/^^/b/": ids[1], "https://a.test/%5E%5E/": ids[2],
		"https://b.test/a^b/1": ids[3], "https://b.test/a%5Eb/%5E%5E%5E/?^": ids[4], "https://b.test/a%5Eb?/%5E%5E%5E/": ids[3],
	} {
		got, err := f.Lookup(f.ctx, url)
		f.must(err)
		f.same("Lookup "+url, got, want)
		f.same("holder of "+url, f.holder(url), want)
	}
}

// testSpellingsOfOld loads what a version before 0.2.0 may have: a channel of each spelling. They stay as they are, each can be changed, and neither becomes the other.
func testSpellingsOfOld(t *testing.T, open Open) {
	f := begin(t, open)
	const host = "https://a.test"
	var items []channel.Item
	for i, c := range []channel.Channel{dirs(host, former), dirs(host, today), dirs(host, "/x/", "/s^/"), dirs(host, "/x/", "/s%5E/")} {
		c.ID = channel.ID(i + 1)
		items = append(items, channel.Item{Channel: &channel.Stored{Channel: c}})
	}
	items = append(items, channel.Item{Next: 5})
	f.must(f.Load(f.ctx, sequence(items, nil)))
	f.take()
	var sum, again channel.Sum
	for i := range items {
		sum.Add(&items[i])
	}
	f.must(f.Dump(f.ctx, func(it channel.Item) error { again.Add(&it); return nil }))
	if !again.Equal(&sum) {
		t.Fatalf("%d items of %d, or others", again.Items(), sum.Items())
	}
	for id := channel.ID(1); id <= 4; id++ {
		f.must(f.Update(f.ctx, f.e, id, func(c *channel.Channel) { c.State = channel.Paused }))
		twin := []channel.ID{2, 1, 4, 3}[id-1]
		f.want(f.Update(f.ctx, f.e, id, func(c *channel.Channel) { c.Scope = f.get(twin).Scope }), channel.ErrDuplicate)
	}
	f.same("the holder", f.holder(host+"/a%5Eb/1"), channel.ID(2))
	f.must(f.Remove(f.ctx, f.e, 2))
	f.same("the holder that is left", f.holder(host+"/a%5Eb/1"), channel.ID(1))
	_, refused, err := f.Add(f.ctx, f.e, []channel.Channel{dirs(host, today)})
	f.must(err)
	f.refused("Add", refused, 0, 1)
}
