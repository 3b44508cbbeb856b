package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"shoal/channel"
	"shoal/coords"
)

// testDump loads the dump of one database into another, which must then hold the same and go on like the first.
func testDump(t *testing.T, open Open) {
	f := begin(t, open)
	ids := f.add(whole("https://a.test"), dirs("https://a.test", "/x/", "/y/"), dirs("http://b.test:8080", "/z/"), whole("https://gone.test"), whole("http://a.test"))
	paused := func(c *channel.Channel) { c.State, c.Reason, c.Settings.Weight = channel.Paused, "asked to", 2.5 }
	f.must(f.Update(f.ctx, f.e, ids[2], paused))
	_, err := f.Issue(f.ctx, f.e, []channel.Issue{issue(ids[0], 4, []byte{1, 2}, now), issue(ids[4], 2, nil, now)})
	f.must(err)
	f.must(f.Apply(f.ctx, f.e, channel.Advance{
		Feed: "archive", To: "c1", At: now, Counters: map[string]int64{"pages": 10, "left": -2},
		Edits: []channel.Edit{
			{ID: ids[0], Learnt: &channel.Learnt{Visits: 5, Updated: now, Service: time.Minute, LastError: "none", History: []byte{7}}, Facts: []byte{6}},
			{ID: ids[1], Inter: []string{"https://a.test/x/1", "https://a.test/y/2"}},
		},
		Hosts: []channel.Host{
			{Name: "https://a.test", NextVisit: now, Rest: time.Minute, CrawlDelay: 2 * time.Second, Record: coords.HostRecord{Best: []string{"peer"}, Anycast: true}},
			{Name: "http://a.test", Blocked: "takedown"},
		},
		Found: []channel.Found{{URL: "https://new.test/1", From: ids[0]}, {URL: "https://new.test/2", From: ids[0]}, {URL: "http://new.test/", From: ids[1]}},
	}))
	f.must(f.PutState(f.ctx, f.e, "price", make([]byte, 300_000)))
	f.must(f.PutState(f.ctx, f.e, "icr", []byte{1}))
	f.must(f.Remove(f.ctx, f.e, ids[3]))

	var items []channel.Item
	var sum, again channel.Sum
	f.must(f.Dump(f.ctx, func(it channel.Item) error { items = append(items, it); sum.Add(&it); return nil }))
	stop := errors.New("enough")
	f.want(f.Dump(f.ctx, func(channel.Item) error { return stop }), stop)
	f.want(f.Load(f.ctx, sequence(items, nil)), channel.ErrNotEmpty)

	g := &fixture{failer: t, t: t, Database: open(t, "copy"), ctx: t.Context()}
	g.must(g.Load(g.ctx, sequence(items, nil)))
	g.must(g.Dump(g.ctx, func(it channel.Item) error { again.Add(&it); return nil }))
	if !again.Equal(&sum) {
		t.Fatalf("the copy holds %d items, the first database %d, or others", again.Items(), sum.Items())
	}
	g.take()
	for _, id := range ids {
		if id == ids[3] {
			continue
		}
		g.same("channel", g.get(id), f.get(id))
		g.same("links", g.links(id), f.links(id))
		l, err := g.Lease(g.ctx, id)
		g.must(err)
		want, err := f.Lease(f.ctx, id)
		g.must(err)
		g.same("lease", l, want)
	}
	n, err := g.CountCandidates(g.ctx)
	g.must(err)
	g.same("candidates", n, 2)
	if next := g.add(whole("https://next.test"))[0]; next <= ids[4] {
		t.Errorf("id %d was used again as %d", ids[4], next)
	}
	refused, err := g.Issue(g.ctx, g.e, []channel.Issue{issue(ids[0], 4, nil, now)})
	g.must(err)
	g.same("refused generations", len(refused), 1)

	broken := errors.New("cable out")
	h := &fixture{failer: t, t: t, Database: open(t, "broken"), ctx: t.Context()}
	h.want(h.Load(h.ctx, sequence(items[:3], broken)), broken)
}

// sequence are items, then an error if there is one.
func sequence(items []channel.Item, err error) func(yield func(channel.Item, error) bool) {
	return func(yield func(channel.Item, error) bool) {
		for _, it := range items {
			if !yield(it, nil) {
				return
			}
		}
		if err != nil {
			yield(channel.Item{}, fmt.Errorf("reading: %w", err))
		}
	}
}
