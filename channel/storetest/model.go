package storetest

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"shoal/channel"
)

// model is the simplest possible channel database. The real one must agree with it.
type model struct {
	next   channel.ID
	chs    map[channel.ID]channel.Channel
	cursor int
	sums   map[string]int64
}

func (m *model) taken(s *channel.Scope) channel.ID {
	for id, c := range m.chs {
		if c.Scope.Reach() == s.Reach() {
			return id
		}
	}
	return 0
}

func (m *model) ids() []channel.ID { return slices.Sorted(maps.Keys(m.chs)) }

var modelScopes = []channel.Channel{
	whole("https://a.test"), whole("http://a.test"), dirs("https://a.test", "/x/"), dirs("https://a.test", "/x/", "/y/"),
	dirs("https://a.test", "/y/", "/x/"), dirs("https://a.test", "/x/", "/z/"), whole("https://b.test"), dirs("https://b.test", "/x/y/"),
	dirs("https://b.test", "/x/^/"), dirs("https://b.test", "/x/%5E/"),
}

// testModel applies random operations to the database and to the model, and compares everything that can be read.
func testModel(t *testing.T, open Open) {
	round := 0
	rapid.Check(t, func(rt *rapid.T) {
		round++
		name := fmt.Sprintf("model%d", round)
		f := &fixture{failer: rt, Database: open(t, name), ctx: t.Context()}
		f.take()
		m := &model{next: 1, chs: make(map[channel.ID]channel.Channel), sums: make(map[string]int64)}
		defer func() { f.must(f.Database.Close()) }()
		rt.Repeat(map[string]func(*rapid.T){
			"add":    func(rt *rapid.T) { m.tryAdd(rt, f) },
			"remove": func(rt *rapid.T) { m.tryRemove(rt, f) },
			"update": func(rt *rapid.T) { m.tryUpdate(rt, f) },
			"issue":  func(rt *rapid.T) { m.tryIssue(rt, f) },
			"apply":  func(rt *rapid.T) { m.tryApply(rt, f) },
			"reopen": func(rt *rapid.T) {
				if rapid.IntRange(0, 4).Draw(rt, "reopen") > 0 {
					return
				}
				f.must(f.Database.Close())
				f.Database = open(t, name)
				f.take()
			},
			"": func(rt *rapid.T) { m.compare(rt, f) },
		})
	})
}

// anyID is a channel that may be there.
func (m *model) anyID(rt *rapid.T) channel.ID {
	return channel.ID(rapid.IntRange(1, int(m.next)).Draw(rt, "id"))
}

func anyTime(rt *rapid.T) time.Time {
	return now.Add(time.Duration(rapid.IntRange(0, 1000).Draw(rt, "seconds")) * time.Second)
}

func (m *model) tryAdd(rt *rapid.T, f *fixture) {
	c := rapid.SampledFrom(modelScopes).Draw(rt, "channel")
	c.Settings.Pages = rapid.IntRange(0, 9).Draw(rt, "pages")
	ids, refused, err := f.Add(f.ctx, f.e, []channel.Channel{c})
	if taken := m.taken(&c.Scope); taken != 0 {
		if err != nil || len(refused) != 1 || refused[0].ID != taken {
			rt.Fatalf("Add %v: %v, %v; the scope is taken by %d", c.Scope, refused, err, taken)
		}
		return
	}
	if err != nil || len(refused) > 0 || ids[0] < m.next {
		rt.Fatalf("Add %v: %v, %v, %v", c.Scope, ids, refused, err)
	}
	c.ID = ids[0]
	m.chs[c.ID], m.next = c, c.ID+1
}

func (m *model) tryRemove(rt *rapid.T, f *fixture) {
	id := m.anyID(rt)
	_, ok := m.chs[id]
	if err := f.Remove(f.ctx, f.e, id); (err == nil) != ok {
		rt.Fatalf("Remove %d: %v", id, err)
	}
	delete(m.chs, id)
}

func (m *model) tryUpdate(rt *rapid.T, f *fixture) {
	id := m.anyID(rt)
	to := rapid.SampledFrom(modelScopes).Draw(rt, "scope").Scope
	err := f.Update(f.ctx, f.e, id, func(c *channel.Channel) { c.Scope, c.State, c.Reason = to, channel.Paused, "x" })
	c, ok := m.chs[id]
	if taken := m.taken(&to); !ok || taken != 0 && taken != id {
		if err == nil {
			rt.Fatalf("Update %d to %v", id, to)
		}
		return
	}
	f.must(err)
	c.Scope, c.State, c.Reason = to, channel.Paused, "x"
	m.chs[id] = c
}

func (m *model) tryIssue(rt *rapid.T, f *fixture) {
	i := channel.Issue{ID: m.anyID(rt), Gen: channel.Gen(rapid.IntRange(1, 20).Draw(rt, "gen")), Lease: []byte{1}, At: anyTime(rt)}
	refused, err := f.Issue(f.ctx, f.e, []channel.Issue{i})
	f.must(err)
	c, ok := m.chs[i.ID]
	if ok = ok && i.Gen > c.Learnt.Gen; ok != (len(refused) == 0) {
		rt.Fatalf("Issue %v: %v; generation was %d", i, refused, c.Learnt.Gen)
	}
	if ok {
		c.Learnt.Gen, c.Learnt.Submitted = i.Gen, i.At
		m.chs[i.ID] = c
	}
}

func (m *model) tryApply(rt *rapid.T, f *fixture) {
	e := channel.Edit{ID: m.anyID(rt), Learnt: &channel.Learnt{Visits: rapid.IntRange(0, 9).Draw(rt, "visits"), Updated: anyTime(rt)}}
	if rapid.Bool().Draw(rt, "lease") {
		e.Lease, e.Gen = []byte{2}, channel.Gen(rapid.IntRange(1, 20).Draw(rt, "gen"))
	}
	if rapid.Bool().Draw(rt, "facts") {
		e.Facts = []byte{byte(rapid.IntRange(0, 9).Draw(rt, "fact"))}
	}
	if rapid.Bool().Draw(rt, "inter") {
		e.Inter = []string{fmt.Sprintf("https://a.test/%d", rapid.IntRange(0, 3).Draw(rt, "page"))}
	}
	a := channel.Advance{Feed: "f", From: cursorAt(m.cursor), To: cursorAt(m.cursor + 1), At: now, Edits: []channel.Edit{e}, Counters: map[string]int64{"n": 1}}
	if rapid.IntRange(0, 4).Draw(rt, "stale") == 0 {
		a.From, a.To = cursorAt(m.cursor+1), cursorAt(m.cursor+2)
		f.want(f.Apply(f.ctx, f.e, a), channel.ErrCursor)
		return
	}
	f.must(f.Apply(f.ctx, f.e, a))
	m.apply(&a)
}

func (m *model) apply(a *channel.Advance) {
	m.cursor++
	for k, n := range a.Counters {
		m.sums[k] += n
	}
	for _, e := range a.Edits {
		c, ok := m.chs[e.ID]
		if !ok {
			continue
		}
		l := *e.Learnt
		l.Gen, l.Submitted, l.EstimatorBlob = c.Learnt.Gen, c.Learnt.Submitted, c.Learnt.EstimatorBlob
		if e.Lease != nil {
			l.Gen = max(l.Gen, e.Gen)
		}
		if e.Facts != nil {
			l.EstimatorBlob = e.Facts
		}
		c.Learnt = l
		for _, u := range e.Inter {
			if !slices.Contains(c.Inter, u) {
				c.Inter = append(slices.Clone(c.Inter), u)
			}
		}
		m.chs[e.ID] = c
	}
}

func (m *model) compare(rt *rapid.T, f *fixture) {
	var hot []channel.ID
	f.must(f.Scan(f.ctx, 0, 0, func(h channel.Hot) error {
		c := m.chs[h.ID]
		if h.Host != channel.KeyOf(c.Scope.Host) || h.Links != len(c.Seeds)+len(c.Inter) || h.State != c.State || h.Gen != c.Learnt.Gen || string(h.Facts) != string(c.Learnt.EstimatorBlob) {
			return fmt.Errorf("scanned %+v, want %+v", h, c)
		}
		hot = append(hot, h.ID)
		return nil
	}))
	list, err := f.List(f.ctx, 0, 100)
	f.must(err)
	var listed []channel.Channel
	for _, id := range m.ids() {
		listed = append(listed, m.chs[id])
	}
	f.same("list", list, listed)
	f.same("scan", len(hot), len(listed))
	found, _, err := f.Search(f.ctx, "a.test", "", 100)
	f.must(err)
	ids, total, err := f.Matching(f.ctx, "s://a", 0, 100)
	f.must(err)
	var https []channel.ID
	for _, c := range found {
		if c.Scope.Host == "https://a.test" {
			https = append(https, c.ID)
		}
	}
	f.same("matching", total, len(https))
	slices.Sort(ids)
	slices.Sort(https)
	f.same("matching", ids, https)
	slices.SortFunc(found, func(a, b channel.Channel) int { return cmp.Compare(a.ID, b.ID) })
	listed = slices.DeleteFunc(listed, func(c channel.Channel) bool { return c.Scope.Host == "https://b.test" })
	if len(found)+len(listed) > 0 {
		f.same("search", found, listed)
	}
	sums, err := f.Counters(f.ctx)
	f.must(err)
	f.same("counters", sums, m.sums)
	for _, c := range modelScopes {
		url := c.Scope.Host + "/x/y/1"
		id, err := f.Lookup(f.ctx, url)
		if err != nil && !errors.Is(err, channel.ErrUnknown) {
			rt.Fatal(err)
		}
		if want := m.deepest(c.Scope.Host, "/x/y/1"); want != (id != 0) {
			rt.Fatalf("Lookup %s: %d, %v", url, id, err)
		}
	}
}

// deepest reports whether any channel holds a path of a host.
func (m *model) deepest(host, path string) bool {
	for _, c := range m.chs {
		if mm, err := c.Scope.Compile(); err == nil && mm.Contains(host+path) {
			return true
		}
	}
	return false
}
