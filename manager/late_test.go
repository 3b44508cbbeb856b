package manager

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"testing"
	"time"

	"shoal/channel"
	"shoal/manager/dispatch"
	"shoal/recrawl"
)

// ordered is a database with one channel, which notes what is written and told.
type ordered struct {
	Shared
	ch   channel.Channel
	told []channel.Note
}

func (o *ordered) Update(_ context.Context, _ channel.Epoch, id channel.ID, change func(*channel.Channel)) error {
	change(&o.ch)
	return nil
}

func (o *ordered) Tell(_ context.Context, n channel.Note) error {
	o.told = append(o.told, n)
	return nil
}

// beside is a manager that has no channels, among several.
func beside(db *ordered) *roster {
	now := time.Now()
	c := &core{inbox: newInbox(time.Now), cfg: Config{Store: db, Now: func() time.Time { return now }}, log: slog.New(slog.DiscardHandler), table: dispatch.NewTable()}
	c.tenancy = &tenancy{core: c, Several: &Several{Shared: db}}
	return &roster{core: c}
}

// TestPauseWithoutOwner pauses a channel that another manager has, or none at the moment: the order is in the database, where the next one finds it.
func TestPauseWithoutOwner(t *testing.T) {
	db := &ordered{ch: channel.Channel{ID: 7, State: channel.Marked, Reason: "it fails"}}
	ro := beside(db)
	for _, want := range []channel.State{channel.Paused, channel.Active} {
		if err := ro.Pause(t.Context(), 7, want == channel.Paused); err != nil {
			t.Fatal(err)
		}
		if db.ch.State != want || db.ch.Reason != "" {
			t.Errorf("the channel is %v, %q; want %v", db.ch.State, db.ch.Reason, want)
		}
	}
	if len(db.told) != 2 {
		t.Errorf("its manager was told %v", db.told)
	}
}

func (o *ordered) Channel(context.Context, channel.ID) (channel.Channel, error) { return o.ch, nil }

// TestEditOfNoOwner has a channel's weight be changed while no manager has it: who takes it goes by the new one, though what its manager had learnt of it has the old
// one, and to take it in twice changes nothing.
func TestEditOfNoOwner(t *testing.T) {
	before := channel.Channel{ID: 7, Scope: channel.Scope{Kind: channel.WholeHost, Host: "http://a.example"}, State: channel.Active, Added: time.Unix(1, 0)}
	after := before
	after.Settings.Weight, after.Learnt.Visits, after.Learnt.Pages = 5, 1, 30
	db := &ordered{ch: after}
	ro := beside(db)
	options := recrawl.DefaultOptions()
	strategy, err := recrawl.New("price", recrawl.Params{})
	if err != nil {
		t.Fatal(err)
	}
	ro.sched = recrawl.NewScheduler(1, strategy, options)
	ro.tune = &tuning{core: ro.core, limits: Limits{Weights: recrawl.PageWeights}}
	ro.sizes = sizes{Sites: 2, Pages: 40}
	ro.tenancy.roster = ro
	if err := ro.tell(t.Context(), noteEdited, noted{Before: before.Marshal(), After: after.Marshal()}); err != nil {
		t.Fatal(err)
	}
	var f recrawl.Facts
	f.Weight = 1.5 // of 30 pages, before the edit
	ro.table.Put(ro.sched.Add(f), 7, channel.HostKey(9)<<56)
	for range 2 {
		ro.tenancy.catchUp(t.Context(), []uint8{9})
		s, _ := ro.table.Find(7)
		if got := ro.sched.Facts(s).Weight; got != 7.5 {
			t.Errorf("the channel weighs %v, want 7.5", got)
		}
	}
}

// TestOrdersOfNoOwner has orders be given for channels that nobody has. Who takes a channel then does what was ordered of it, and not what was long ago.
func TestOrdersOfNoOwner(t *testing.T) {
	ro := beside(&ordered{})
	m := ro.tenancy
	var did []channel.ID
	m.hear = func(_ context.Context, n channel.Note) error {
		var of noted
		if err := json.Unmarshal(n.Body, &of); err != nil {
			t.Error(err)
		}
		if _, is := m.table.Find(of.ID); is {
			did = append(did, of.ID)
		}
		return nil
	}
	began := m.cfg.Now()
	order := func(id channel.ID, what string, after time.Duration) {
		t.Helper()
		m.cfg.Now = func() time.Time { return began.Add(after) }
		if err := m.tell(t.Context(), what, noted{ID: id}); err != nil { // its own is not told to itself
			t.Fatal(err)
		}
	}
	order(1, noteCrawl, 0)
	order(2, noteStandOff, 20*time.Second)
	order(3, noteCrawl, 20*time.Second)
	order(4, noteLimits, 20*time.Second)
	b, err := json.Marshal(noted{ID: 5})
	if err != nil {
		t.Fatal(err)
	}
	m.told = []channel.Note{{What: noteCrawl, Body: b}}
	m.looked = m.cfg.Now() // for stray channels
	m.obey(t.Context())
	host := channel.HostKey(9) << 56
	for id := range channel.ID(6) {
		of := host
		if id == 3 {
			of = 8 << 56
		}
		m.table.Put(recrawl.Slot(id), id, of)
	}
	m.cfg.Now = func() time.Time { return began.Add(lateFor + time.Second) }
	m.catchUp(t.Context(), []uint8{9})
	if want := []channel.ID{2, 5}; !slices.Equal(did, want) {
		t.Errorf("done was %v, want %v", did, want)
	}
}
