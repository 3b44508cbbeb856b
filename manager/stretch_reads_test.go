package manager

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/manager/archive"
	"shoal/manager/dispatch"
	"shoal/recrawl"
)

// questioned is a database of channels, each of a host of its own, that notes each question. It answers those about many at once alone.
type questioned struct {
	Store
	gone   channel.ID // that is not there
	broken bool
	asked  []string
}

func (a *questioned) Entire(_ context.Context, ids []channel.ID) (all []channel.Entire, err error) {
	a.asked = append(a.asked, fmt.Sprint("channels ", slices.Compact(slices.Sorted(slices.Values(ids)))))
	for _, id := range slices.Compact(slices.Sorted(slices.Values(ids))) {
		if id == a.gone {
			continue
		}
		ch := channel.Entire{Channel: channel.Channel{ID: id, Scope: channel.Scope{Kind: channel.WholeHost, Host: fmt.Sprintf("https://h%d.example", id)}}}
		issue := lease.Issue{Gen: channel.Gen(id)}
		ch.Lease = issue.Append(nil)
		all = append(all, ch)
	}
	return all, nil
}

func (a *questioned) Hosts(_ context.Context, names []string) (all []channel.Host, err error) {
	a.asked = append(a.asked, fmt.Sprint("hosts ", names))
	if a.broken {
		return nil, context.DeadlineExceeded
	}
	for _, name := range names {
		all = append(all, channel.Host{Name: name, CrawlDelay: time.Second})
	}
	return all, nil
}

// TestAStretchIsReadAtOnce: what a stretch of the feed needs of channels, leases and hosts is two questions to the database, whatever the stretch's length. While one of
// them is not answered nothing is taken in.
func TestAStretchIsReadAtOnce(t *testing.T) {
	db := &questioned{}
	c := &core{cfg: Config{Store: db}, table: dispatch.NewTable(), machine: dispatch.New(time.Unix(1e9, 0), dispatch.Config{}, nil, nil, nil)}
	strategy, err := recrawl.New("fixed", recrawl.Params{})
	if err != nil {
		t.Fatal(err)
	}
	c.sched = recrawl.NewScheduler(1, strategy, recrawl.DefaultOptions())
	slots := map[channel.ID]recrawl.Slot{}
	for id := range channel.ID(6) {
		slots[id] = c.sched.Add(recrawl.Facts{})
		c.table.Put(slots[id], id+1, channel.KeyOf(fmt.Sprintf("https://h%d.example", id+1)))
	}
	errands := &errands{core: c, first: errandID}
	errands.places[3].errand = &errand{host: "https://looked-at.example"}
	le := &learner{core: c, keep: newKeeper(c), errands: errands}
	le.keep.issues[slots[5]] = lease.Issue{Gen: 60} // of channel 6, not written yet
	var entries []archive.Entry
	for _, e := range []struct {
		id   channel.ID
		kind lease.Kind
	}{{3, lease.Reported}, {1, lease.Claimed}, {2, lease.Lapsed}, {3, lease.Released}, {6, lease.Claimed}, {errandID + 3, lease.Reported}, {errandID + 4, lease.Reported}, {99, lease.Reported}} {
		entries = append(entries, archive.Entry{Channel: e.id, Event: lease.Event{Kind: e.kind}})
	}

	e := newEffects("a", "b", time.Unix(1e9, 0))
	if db.broken = true; !errors.Is(le.readFor(t.Context(), entries, e), context.DeadlineExceeded) {
		t.Error("a stretch is taken in of which nothing is known")
	}
	db.broken, db.asked = false, nil
	le.keep.records[channel.KeyOf("https://h2.example")] = &channel.Host{Name: "https://h2.example", Blocked: "not written yet"}
	e = newEffects("a", "b", time.Unix(1e9, 0))
	if err := le.readFor(t.Context(), entries, e); err != nil {
		t.Fatal(err)
	}
	if want := []string{"channels [2 3]", "hosts [https://h3.example https://looked-at.example]"}; !slices.Equal(db.asked, want) {
		t.Errorf("asked %q, want %q: the issue of channel 1 is known from the first try", db.asked, want)
	}
	if len(e.read) != 2 || e.read[slots[1]].ID != 2 || e.read[slots[2]].ID != 3 {
		t.Errorf("read %v", e.read)
	}
	for id, gen := range map[channel.ID]channel.Gen{1: 1, 2: 2, 3: 3, 6: 60} {
		if got := le.keep.gen(slots[id-1]); got != gen {
			t.Errorf("channel %d is at generation %d, want %d", id, got, gen)
		}
	}
	if r := le.keep.records; len(r) != 3 || r[channel.KeyOf("https://h2.example")].Blocked == "" || r[channel.KeyOf("https://h3.example")].CrawlDelay != time.Second {
		t.Errorf("hosts %v", r)
	}

	db.asked, db.gone = nil, 3
	if err := le.readFor(t.Context(), entries, newEffects("a", "b", time.Unix(1e9, 0))); err == nil {
		t.Error("a channel that is gone from the database is no error")
	}
	db.asked = nil
	if err := le.readFor(t.Context(), entries[1:2], newEffects("a", "b", time.Unix(1e9, 0))); err != nil || len(db.asked) != 0 {
		t.Errorf("asked %q for a claim whose issue is known, %v", db.asked, err)
	}
}

// edited is a database that takes states of channels, and nothing else.
type edited struct {
	Store
	chs map[channel.ID]channel.Channel
}

func (e *edited) Update(_ context.Context, _ channel.Epoch, id channel.ID, change func(*channel.Channel)) error {
	ch, ok := e.chs[id]
	if !ok {
		return channel.ErrUnknown
	}
	change(&ch)
	e.chs[id] = ch
	return nil
}

// TestOrdersOutliveWhatCannotBeWritten: a manager that ends since what it has learnt cannot be written any more writes that channels were paused, resumed and given up.
func TestOrdersOutliveWhatCannotBeWritten(t *testing.T) {
	db := &edited{chs: map[channel.ID]channel.Channel{1: {State: channel.Active}, 2: {State: channel.Paused}, 3: {State: channel.Removed}}}
	c := &core{cfg: Config{Store: db}, table: dispatch.NewTable()}
	k := newKeeper(c)
	k.pending = newEffects("a", "b", time.Unix(1e9, 0)) // of another cursor than the database's
	for i, state := range []channel.State{channel.Paused, channel.Active, channel.Paused, channel.Marked} {
		c.table.Put(recrawl.Slot(i), channel.ID(i+1), channel.HostKey(i+1))
		k.setState(recrawl.Slot(i), state, "why")
	}
	if k.saveStates(t.Context()); len(k.states) != 1 { // channel 4 is gone
		t.Errorf("%d are not written, want 1", len(k.states))
	}
	for id, want := range map[channel.ID]channel.State{1: channel.Paused, 2: channel.Active, 3: channel.Removed} {
		if got := db.chs[id].State; got != want {
			t.Errorf("channel %d is %d, want %d", id, got, want)
		}
	}
}
