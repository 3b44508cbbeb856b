package manager

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/manager/archive"
	"shoal/manager/dispatch"
	"shoal/recrawl"
)

// slate is a database that notes what is applied, and refuses what every database does.
type slate struct {
	Store
	applied []channel.Advance
}

func (s *slate) Apply(_ context.Context, _ channel.Epoch, stretches ...channel.Advance) error {
	for i := range stretches {
		if err := stretches[i].Check(); err != nil {
			return err
		}
		for k := range stretches[i].Found {
			if _, err := stretches[i].Found[k].Origin(); err != nil {
				return err
			}
		}
	}
	s.applied = append(s.applied, stretches...)
	return nil
}

// TestLinksToManyChannels: a stretch of the feed with links to more channels than one write takes is written all the same, and its cursor last.
func TestLinksToManyChannels(t *testing.T) {
	db := &slate{}
	k := newKeeper(&core{cfg: Config{Store: db}})
	k.pending = newEffects("a", "b", time.Unix(1e9, 0))
	const many = 5000
	for id := range channel.ID(many) {
		k.pending.inter[id+1] = []string{fmt.Sprintf("https://n%d.example/x", id)}
	}
	if err := k.commit(t.Context()); err != nil || k.pending != nil {
		t.Fatal(err)
	}
	told := map[channel.ID]int{}
	for n, a := range db.applied {
		if last := n == len(db.applied)-1; (a.Feed == FeedName) != last || (a.To == "b") != last {
			t.Errorf("stretch %d of %d moves %q to %q", n+1, len(db.applied), a.Feed, a.To)
		}
		for _, w := range a.Edits {
			told[w.ID] += len(w.Inter)
		}
	}
	for id := range channel.ID(many) {
		if told[id+1] != 1 {
			t.Fatalf("channel %d is told of %d links", id+1, told[id+1])
		}
	}
}

// holding is a database with two channels of a host and one directory of others, which counts how often it is asked.
type holding struct {
	slate
	asked  int
	broken bool
}

func (h *holding) Holders(_ context.Context, urls []string) ([]channel.ID, error) {
	h.asked++
	if h.broken {
		return nil, context.DeadlineExceeded
	}
	ids := make([]channel.ID, len(urls))
	for i, u := range urls {
		for dir, id := range map[string]channel.ID{"https://a.example/news/": 2, "https://b.example/dir/": 3, "https://d.example/dir/": 4, "https://far.example/": 9} {
			if strings.HasPrefix(u, dir) {
				ids[i] = id
			}
		}
	}
	return ids, nil
}

// finder is a learner of a manager with four channels on three hosts, of which the database tells the directories.
func finder(t *testing.T, db Store) *learner {
	t.Helper()
	c := &core{cfg: Config{Store: db, Discover: DiscoverListed}, table: dispatch.NewTable(), machine: dispatch.New(time.Unix(1e9, 0), dispatch.Config{}, nil, nil, nil)}
	strategy, err := recrawl.New("fixed", recrawl.Params{})
	if err != nil {
		t.Fatal(err)
	}
	c.sched = recrawl.NewScheduler(1, strategy, recrawl.DefaultOptions())
	for i, host := range []string{"https://a.example", "https://a.example", "https://b.example", "https://d.example"} {
		c.table.Put(c.sched.Add(recrawl.Facts{}), channel.ID(i+1), channel.KeyOf(host))
	}
	return &learner{core: c, keep: newKeeper(c)}
}

// reporting are reports of channel 4, on d.example.
func reporting(inter ...string) []archive.Entry {
	return []archive.Entry{{Channel: 4, Event: lease.Event{Kind: lease.Reported}, Report: &channel.Report{Inter: inter}}}
}

// TestLinksAreLookedUpAtOnce: which channels hold the links of a stretch of the feed is one question to the database, whatever their number. While it is not
// answered nothing is taken in.
func TestLinksAreLookedUpAtOnce(t *testing.T) {
	db := &holding{}
	le := finder(t, db)
	var entries []archive.Entry
	for i := range 100 {
		entries = append(entries, reporting(fmt.Sprintf("https://a.example/news/%d", i), "https://a.example/other", "https://b.example/dir/", "https://c.example/", "x")...)
	}
	e := newEffects("a", "b", time.Unix(1e9, 0))
	if db.broken = true; le.readHolders(t.Context(), entries, e) == nil {
		t.Error("links are taken in though nothing is known of them")
	}
	db.broken, db.asked = false, 0
	if err := le.readHolders(t.Context(), entries, e); err != nil || db.asked != 1 {
		t.Fatalf("the database was asked %d times, %v", db.asked, err)
	}
	le.keep.pending = e
	for i := range entries {
		le.discover(3, entries[i].Report.Inter)
	}
	if db.asked != 1 || len(e.inter[1]) != 0 || len(e.inter[2]) != 100 || len(e.inter[3]) != 100 || len(e.found) != 100 {
		t.Errorf("asked %d times; links to channels 1, 2, 3: %d, %d, %d; to no channel: %d", db.asked, len(e.inter[1]), len(e.inter[2]), len(e.inter[3]), len(e.found))
	}
}

// TestLinksOutsideAChannelAreNotItsOwn: a link to a host with one channel goes to it only if it lies in its directory, and what a channel's own filters
// leave out does not come back to it.
func TestLinksOutsideAChannelAreNotItsOwn(t *testing.T) {
	db := &holding{}
	le := finder(t, db)
	entries := reporting("https://b.example/dir/1", "https://b.example/elsewhere", "https://b.example/", "https://d.example/dir/refused", "https://d.example/elsewhere")
	le.keep.pending = newEffects("a", "b", time.Unix(1e9, 0))
	if err := le.readHolders(t.Context(), entries, le.keep.pending); err != nil {
		t.Fatal(err)
	}
	le.discover(3, entries[0].Report.Inter)
	e := le.keep.pending
	if len(e.inter) != 1 || !slices.Equal(e.inter[3], entries[0].Report.Inter[:1]) || len(e.found) != 0 {
		t.Errorf("links to channels: %v; to no channel: %+v", e.inter, e.found)
	}
}

// TestLinksToOtherManagersChannels: a link to a host that another manager has goes to the channel there, and its host is not taken for a new one.
func TestLinksToOtherManagersChannels(t *testing.T) {
	db := &holding{}
	le := finder(t, db)
	le.tenancy = &tenancy{core: le.core}
	for _, host := range []string{"https://a.example", "https://b.example", "https://d.example"} {
		le.tenancy.owned[channel.KeyOf(host).Part()] = true
	}
	if le.tenancy.mine(channel.KeyOf("https://far.example")) {
		t.Fatal("another host is in the same partition: choose other names")
	}
	entries := append(reporting("https://far.example/1", "https://nobody.example/1"), archive.Entry{
		Channel: 77, Event: lease.Event{Kind: lease.Reported}, Report: &channel.Report{Inter: []string{"https://far.example/2"}}}) // not this manager's report
	le.keep.pending = newEffects("a", "b", time.Unix(1e9, 0))
	if err := le.readHolders(t.Context(), entries, le.keep.pending); err != nil {
		t.Fatal(err)
	}
	le.discover(3, entries[0].Report.Inter)
	e := le.keep.pending
	if len(e.inter) != 1 || !slices.Equal(e.inter[9], entries[0].Report.Inter[:1]) || len(e.found) != 1 || e.found[0].URL != entries[0].Report.Inter[1] || len(e.holders) != 2 {
		t.Errorf("links to channels: %v; to no channel: %+v; asked for %d", e.inter, e.found, len(e.holders))
	}
}

// TestLinksThatNoDatabaseTakes: an older archive's feed may have links that are no URLs. They are passed over, since the database would refuse all that
// is written with them.
func TestLinksThatNoDatabaseTakes(t *testing.T) {
	db := &slate{}
	c := &core{cfg: Config{Store: db, Discover: DiscoverListed}, table: dispatch.NewTable(), machine: dispatch.New(time.Unix(1e9, 0), dispatch.Config{}, nil, nil, nil)}
	c.table.Put(0, 1, channel.KeyOf("https://a.example"))
	le := &learner{core: c, keep: newKeeper(c)}
	le.keep.pending = newEffects("a", "b", time.Unix(1e9, 0))
	le.discover(0, []string{"https://no-path.example", "https://b.example/1", "http://", "x"})
	if err := le.keep.commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if found := db.applied[0].Found; len(found) != 1 || found[0].URL != "https://b.example/1" {
		t.Errorf("%+v", found)
	}
}

// TestFoundHostsWithLongNames: links to hosts with names as long as names can be take no more room in one write than the database in a folder has. It refused such a stretch of the feed, over and over, and
// nothing was handed out any more.
func TestFoundHostsWithLongNames(t *testing.T) {
	for length, least := range map[int]int{10: maxFound, 230: 1000} {
		le := finder(t, &holding{})
		le.keep.pending = newEffects("a", "b", time.Unix(1e9, 0))
		size := 0
		var urls []string
		for n := range maxFound {
			label := fmt.Sprintf("%0*d", min(length, 60), n)
			urls = append(urls, "https://"+strings.Repeat(label+".", max(length/60, 1))+"example/")
		}
		le.discover(3, urls)
		for _, f := range le.keep.pending.found {
			origin, err := f.Origin()
			if err != nil {
				t.Fatal(err)
			}
			size += len(origin) + 100
		}
		if n := len(le.keep.pending.found); n < least || size > 1<<20 {
			t.Errorf("names of %d bytes: %d hosts, which take %d bytes", length, n, size)
		}
	}
}
