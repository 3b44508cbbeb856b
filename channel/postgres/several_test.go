package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"shoal/channel"
	"shoal/internal/lab/pglab"
)

// oneOf opens a database as one of several managers.
func oneOf(t *testing.T, s *pglab.Server, name string, term time.Duration) *Several {
	t.Helper()
	m := open(t, s, "").AsOne(SeveralConfig{Node: name, Writer: "writer of " + name, Term: term, Feed: "archive"})
	if _, err := m.Take(t.Context()); err != nil {
		t.Fatal(err)
	}
	return m
}

func allParts() (all []uint8) {
	for p := range channel.Parts {
		all = append(all, uint8(p))
	}
	return all
}

// buried beats until the tenancy of another one has ended.
func buried(t *testing.T, m *Several, other channel.Epoch) {
	t.Helper()
	for {
		now, err := m.Beat(t.Context(), false, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(now.Tenants, func(x channel.Tenancy) bool { return x.ID == other }) {
			return
		}
	}
}

// TestTenancy has a manager go silent. Another one ends its tenancy and takes its partitions, with the cursor up to which it had come; whatever the
// silent one writes afterwards is refused and changes nothing.
func TestTenancy(t *testing.T) {
	server := pglab.Shared(t)
	old := oneOf(t, server, "old", time.Second)
	taken, err := old.TakeParts(t.Context(), allParts())
	if err != nil || len(taken.Parts) != channel.Parts {
		t.Fatalf("took %d, %v", len(taken.Parts), err)
	}
	if err := old.JoinParts(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	id := addOne(t, old, "http://a.example")
	if err := old.Apply(t.Context(), old.id, channel.Advance{Feed: "archive", To: "here", At: time.Now()}); err != nil {
		t.Fatal(err)
	}
	if refused, err := old.Issue(t.Context(), old.id, []channel.Issue{{ID: id, Gen: 1, At: time.Now()}}); err != nil || len(refused) > 0 {
		t.Fatal(refused, err)
	}
	if _, err := old.Beat(t.Context(), false, nil); err != nil { // its last; before its first, a manager has a minute
		t.Fatal(err)
	}

	next := oneOf(t, server, "next", time.Second)
	buried(t, next, old.id)
	taken, err = next.TakeParts(t.Context(), allParts())
	if err != nil || len(taken.Parts) != channel.Parts || taken.Cursors[7] != "here" || !slices.Contains(taken.Ended, "writer of old") {
		t.Fatalf("took %d from %q, ended %q, %v", len(taken.Parts), taken.Cursors, taken.Ended, err)
	}
	for what, write := range map[string]func() error{
		"issue": func() error {
			_, err := old.Issue(t.Context(), old.id, []channel.Issue{{ID: id, Gen: 2, At: time.Now()}})
			return err
		},
		"apply": func() error {
			return old.Apply(t.Context(), old.id, channel.Advance{Feed: "archive", From: "here", To: "there", At: time.Now(), Edits: []channel.Edit{{ID: id, Facts: []byte("x")}}})
		},
		"give":  func() error { return old.GiveParts(t.Context(), []uint8{1}) },
		"join":  func() error { return old.JoinParts(t.Context(), "elsewhere") },
		"state": func() error { return old.PutState(t.Context(), old.id, "x", nil) },
		"take": func() error {
			_, err := old.TakeParts(t.Context(), allParts())
			return err
		},
		"beat": func() error {
			_, err := old.Beat(t.Context(), false, nil)
			return err
		},
	} {
		if err := write(); !errors.Is(err, channel.ErrStaleEpoch) {
			t.Errorf("%s of who was silent: %v, want %v", what, err, channel.ErrStaleEpoch)
		}
	}
	ch, err := next.Channel(t.Context(), id)
	if err != nil || ch.Learnt.Gen != 1 || ch.Learnt.EstimatorBlob != nil {
		t.Errorf("the channel is at generation %d, %q, %v", ch.Learnt.Gen, ch.Learnt.EstimatorBlob, err)
	}
}

// TestAwayTogether has the server be away for two managers, by what is noted of their tenancies: the other's has run out. Neither that of a manager which was about
// to end tenancies when the server went, nor that of one which was just beginning and had not beaten once, says that its manager could see all the while that
// the other's was not renewed. So neither ends it.
func TestAwayTogether(t *testing.T) {
	server := pglab.Shared(t)
	for _, c := range []struct {
		what, left string // of its own tenancy, which lasts an hour
		does       func(context.Context, *Several) error
	}{
		{"ending", "-1 second", func(ctx context.Context, m *Several) error { return m.bury(ctx) }},
		{"beginning", "61 minutes", func(ctx context.Context, m *Several) error { _, err := m.Beat(ctx, false, nil); return err }},
	} {
		other, m := oneOf(t, server, "beside one "+c.what, time.Hour), oneOf(t, server, c.what, time.Hour)
		for id, left := range map[channel.Epoch]string{m.id: c.left, other.id: "-1 second"} {
			if _, err := m.pool.Exec(t.Context(), `UPDATE beats SET since = now() - interval '1 day', until = now() + $2::interval WHERE id = $1`, int64(id), left); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.does(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		if _, err := other.Beat(t.Context(), false, nil); err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}

// TestClockWentBack has the server's clock go back by an hour, as with a standby that takes over, by what is noted of three tenancies. None of them ends at once.
// A term later that of the manager ends which was not renewed since; the one that is just beginning does not.
func TestClockWentBack(t *testing.T) {
	server := pglab.Shared(t)
	gone, m := oneOf(t, server, "gone", time.Minute), oneOf(t, server, "m", time.Minute)
	note := func(of *Several, set string) {
		t.Helper()
		if _, err := m.pool.Exec(t.Context(), `UPDATE beats SET `+set+` WHERE id = $1`, int64(of.id)); err != nil {
			t.Fatal(err)
		}
	}
	tenants := func() (ids []channel.Epoch) {
		t.Helper()
		now, err := m.Beat(t.Context(), false, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range now.Tenants {
			ids = append(ids, x.ID)
		}
		return ids
	}
	for _, of := range []*Several{gone, m} {
		note(of, `since = now() - interval '1 day', until = now() + interval '61 minutes'`)
	}
	if err := m.bury(t.Context()); err != nil {
		t.Fatal(err)
	}
	if ids := tenants(); !slices.Equal(ids, []channel.Epoch{gone.id, m.id}) {
		t.Errorf("after the clock went back: %v", ids)
	}
	begins := oneOf(t, server, "begins", time.Minute)
	note(m, `since = now() - interval '1 minute'`)
	if ids := tenants(); !slices.Equal(ids, []channel.Epoch{m.id, begins.id}) {
		t.Errorf("a term later: %v, want without %d", ids, gone.id)
	}
}

func addOne(t *testing.T, m *Several, host string) channel.ID {
	t.Helper()
	ids, refused, err := m.Add(t.Context(), m.id, []channel.Channel{{Scope: channel.Scope{Kind: channel.WholeHost, Host: host}, Added: time.Now()}})
	if err != nil || len(refused) > 0 {
		t.Fatal(refused, err)
	}
	return ids[0]
}

// TestGive moves partitions: the next owner begins where the last one had come, and that one cannot hand out their channels any more, though it lives on.
func TestGive(t *testing.T) {
	server := pglab.Shared(t)
	a, b := oneOf(t, server, "a", time.Minute), oneOf(t, server, "b", time.Minute)
	if _, err := a.TakeParts(t.Context(), allParts()); err != nil {
		t.Fatal(err)
	}
	if err := a.JoinParts(t.Context(), "from"); err != nil {
		t.Fatal(err)
	}
	var ids [2]channel.ID // of a partition that stays, and of one that moves
	moved := channel.KeyOf("http://moves.example").Part()
	ids[1] = addOne(t, a, "http://moves.example")
	for n := 0; ids[0] == 0; n++ {
		if host := fmt.Sprintf("http://stays%d.example", n); channel.KeyOf(host).Part() != moved {
			ids[0] = addOne(t, a, host)
		}
	}
	if err := a.Apply(t.Context(), a.id, channel.Advance{Feed: "archive", From: "from", To: "far", At: time.Now()}); err != nil {
		t.Fatal(err)
	}
	if err := a.GiveParts(t.Context(), []uint8{moved}); err != nil {
		t.Fatal(err)
	}
	if all, err := a.Cursors(t.Context()); err != nil || !slices.Contains(all, "far") || len(all) > 2 {
		t.Errorf("the feed was taken in up to %q, %v", all, err)
	}
	taken, err := b.TakeParts(t.Context(), allParts())
	if err != nil || !slices.Equal(taken.Parts, []uint8{moved}) || taken.Cursors[0] != "far" {
		t.Fatalf("took %v, %v", taken, err)
	}
	refused, err := a.Issue(t.Context(), a.id, []channel.Issue{{ID: ids[0], Gen: 1, At: time.Now()}, {ID: ids[1], Gen: 1, At: time.Now()}})
	if err != nil || len(refused) != 1 || refused[0].N != 1 || !errors.Is(refused[0].Err, channel.ErrStaleEpoch) {
		t.Errorf("issues of what stays and what moved: %v, %v", refused, err)
	}
	var scanned []channel.ID
	if err := b.ScanParts(t.Context(), taken.Parts, 0, func(h channel.Hot) error {
		scanned = append(scanned, h.ID)
		return nil
	}); err != nil || !slices.Equal(scanned, ids[1:]) {
		t.Errorf("channels of the partition: %v, want %v; %v", scanned, ids[1:], err)
	}
	if err := b.Leave(t.Context()); err != nil { // before it joined: what it took goes on where the one before had come
		t.Fatal(err)
	}
	if taken, err = a.TakeParts(t.Context(), allParts()); err != nil || len(taken.Parts) != 1 || taken.Cursors[0] != "far" {
		t.Errorf("took back %v, %v", taken, err)
	}
}

// TestScanHeld reads the hosts that a manager must know of which takes partitions over, and no others.
func TestScanHeld(t *testing.T) {
	m := oneOf(t, pglab.Shared(t), "one", time.Minute)
	now := time.Now().Truncate(time.Microsecond)
	for name, h := range map[string]channel.Host{
		"http://was.example": {NextVisit: now}, "http://never.example": {CrawlDelay: time.Minute},
		"http://soon.example": {NextVisit: now.Add(time.Second), CrawlDelay: time.Minute}, "http://blocked.example": {Blocked: "it asked"},
	} {
		if err := m.UpdateHost(t.Context(), m.id, name, func(is *channel.Host) { is.NextVisit, is.CrawlDelay, is.Blocked = h.NextVisit, h.CrawlDelay, h.Blocked }); err != nil {
			t.Fatal(err)
		}
	}
	held := map[string]channel.Host{}
	if err := m.ScanHeld(t.Context(), now, func(h channel.Host) error { held[h.Name] = h; return nil }); err != nil {
		t.Fatal(err)
	}
	soon, blocked := held["http://soon.example"], held["http://blocked.example"]
	if len(held) != 2 || !soon.NextVisit.Equal(now.Add(time.Second)) || soon.CrawlDelay != time.Minute || blocked.Blocked != "it asked" {
		t.Errorf("held: %v", held)
	}
	enough := errors.New("enough")
	if err := m.ScanHeld(t.Context(), now, func(channel.Host) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("a scan that is ended: %v", err)
	}
}

// TestAloneAmongSeveral refuses a program that wants the database for itself while a manager shares it, and is shut out by one that begins to.
func TestAloneAmongSeveral(t *testing.T) {
	server := pglab.Shared(t)
	alone := open(t, server, "")
	epoch, err := alone.Take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	m := oneOf(t, server, "m", time.Minute)
	if err := alone.PutState(t.Context(), epoch, "x", nil); !errors.Is(err, channel.ErrStaleEpoch) {
		t.Errorf("who had it alone: %v, want %v", err, channel.ErrStaleEpoch)
	}
	if _, err := open(t, server, "").Take(t.Context()); !errors.Is(err, ErrSeveral) {
		t.Errorf("beside another: %v, want %v", err, ErrSeveral)
	}
	if err := m.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := open(t, server, "").Take(t.Context()); err != nil {
		t.Errorf("after all had left: %v", err)
	}
}

// TestAloneBesideOneThatBegins has a program want the database for itself in the moment in which a manager begins to share it: one of the two is refused.
func TestAloneBesideOneThatBegins(t *testing.T) {
	server := pglab.Shared(t)
	alone, m := open(t, server, ""), open(t, server, "")
	m.Server.cfg.Abandon = 0 // the other one may take long to connect
	m.pool.Reset()
	commits, goOn := make(chan struct{}), make(chan struct{})
	first := sync.OnceFunc(func() {
		close(commits)
		<-goOn
	})
	m.Server.cfg.Lose = func(string) error {
		first()
		return nil
	}
	var both sync.WaitGroup
	var begins, takes error
	both.Go(func() {
		_, begins = m.AsOne(SeveralConfig{Node: "m", Term: time.Minute, Feed: "archive"}).Take(t.Context())
	})
	<-commits
	both.Go(func() { _, takes = alone.Take(t.Context()) })
	for waits := 0; waits == 0; time.Sleep(5 * time.Millisecond) {
		if err := alone.pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'UPDATE tenure%'`).Scan(&waits); err != nil {
			t.Fatal(err)
		}
	}
	close(goOn)
	both.Wait()
	if begins != nil || !errors.Is(takes, ErrSeveral) {
		t.Errorf("who begins: %v; who wants it alone: %v, want %v", begins, takes, ErrSeveral)
	}
}

// TestNotes tells each note once, to the others alone.
func TestNotes(t *testing.T) {
	server := pglab.Shared(t)
	a, b := oneOf(t, server, "a", time.Minute), oneOf(t, server, "b", time.Minute)
	tell := func(from *Several, what string) {
		if err := from.Tell(context.Background(), channel.Note{What: what, Body: []byte(what)}); err != nil {
			t.Fatal(err)
		}
	}
	tell(a, "one")
	tell(b, "two")
	tell(a, "three")
	for _, want := range [][]string{{"one", "three"}, nil} {
		notes, err := b.Notes(t.Context())
		if err != nil || len(notes) != len(want) {
			t.Fatalf("%v, %v; want %v", notes, err, want)
		}
		for i, n := range notes {
			if n.What != want[i] || string(n.Body) != want[i] {
				t.Errorf("%v, want %v", notes, want)
			}
		}
	}
}

// TestStatesOfOthers has managers read what others keep for themselves, change what they share without losing a change, and refuse one too many.
func TestStatesOfOthers(t *testing.T) {
	server := pglab.Shared(t)
	a, b := oneOf(t, server, "a", time.Minute), oneOf(t, server, "b", time.Minute)
	for name, m := range map[string]*Several{"of a": a, "of b": b} {
		if err := m.PutState(t.Context(), m.id, "learnt", []byte(name)); err != nil {
			t.Fatal(err)
		}
		if err := m.PutState(t.Context(), m.id, "also learnt", []byte("something else")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.Beat(t.Context(), true, nil); err != nil {
		t.Fatal(err)
	}
	if managers, archives, err := a.Sharing(t.Context()); err != nil || managers != 1 || archives != 1 {
		t.Errorf("%d managers and %d archives alone share the database, %v; want one each", managers, archives, err)
	}
	if err := a.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, err := b.Others(t.Context(), "learnt"); err != nil || len(got) != 1 || string(got[0]) != "of a" {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := b.KeptBy(t.Context(), "learnt"); err != nil || len(got) != 1 || string(got["a"]) != "of a" {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := b.Left(t.Context(), "learnt"); err != nil || len(got) != 1 || string(got[0]) != "of a" {
		t.Errorf("of managers that have gone: %q, %v", got, err)
	}
	c := oneOf(t, server, "c", time.Minute)
	if got, err := c.Others(t.Context(), "learnt"); err != nil || len(got) != 2 || string(got[0]) != "of b" || string(got[1]) != "of a" {
		t.Errorf("%q, %v; want the latest first", got, err)
	}
	if got, err := c.OthersOf(t.Context(), []string{"learnt", "also learnt", "never learnt"}); err != nil || len(got) != 2 || !slices.EqualFunc(got["learnt"], []string{"of b", "of a"}, func(b []byte, s string) bool { return string(b) == s }) || len(got["also learnt"]) != 2 {
		t.Errorf("several states at once: %q, %v; want of each the latest first", got, err)
	}
	if got, err := b.OthersOf(t.Context(), []string{"learnt"}); err != nil || len(got) != 1 || len(got["learnt"]) != 1 || string(got["learnt"][0]) != "of a" {
		t.Errorf("without its own: %q, %v", got, err)
	}
	b.cfg.Shared, c.cfg.Shared = func(string) bool { return true }, func(string) bool { return true }
	var both sync.WaitGroup
	for _, m := range []*Several{b, c} {
		both.Go(func() {
			for range 20 {
				if err := m.Change(t.Context(), "count", func(was []byte) ([]byte, error) { return append(slices.Clone(was), 'x'), nil }); err != nil {
					t.Error(err)
				}
			}
		})
	}
	both.Wait()
	if got, err := b.State(t.Context(), "count"); err != nil || len(got) != 40 {
		t.Errorf("%d changes are left of 40, %v", len(got), err)
	}
	refused := errors.New("refused")
	if err := b.Change(t.Context(), "count", func([]byte) ([]byte, error) { return nil, refused }); !errors.Is(err, refused) {
		t.Errorf("a change that failed: %v", err)
	}
	b.cfg.Most, c.cfg.Most = 1, 2
	if err := b.Full(t.Context()); !errors.Is(err, ErrFull) {
		t.Errorf("beside one other, and one may be: %v", err)
	}
	if err := c.Full(t.Context()); err != nil {
		t.Errorf("beside one other, and two may be: %v", err)
	}
}

// TestHeir has a manager that had the database for itself become one of several: it goes on with what it had kept, and only one manager does.
func TestHeir(t *testing.T) {
	server := pglab.Shared(t)
	put := func(what string) {
		t.Helper()
		alone := open(t, server, "")
		epoch, err := alone.Take(t.Context())
		for _, name := range []string{"common", "learnt"} {
			err = errors.Join(err, alone.PutState(t.Context(), epoch, name, []byte(what)))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	one := func(node string, heir bool) *Several {
		t.Helper()
		m := open(t, server, "").AsOne(SeveralConfig{Node: node, Term: time.Minute, Shared: func(name string) bool { return name == "common" }, Heir: heir})
		if _, err := m.Take(t.Context()); err != nil {
			t.Fatal(err)
		}
		return m
	}
	has := func(m *Several, name, want string) {
		t.Helper()
		if got, err := m.State(t.Context(), name); err != nil || string(got) != want {
			t.Errorf("%s has %q for %s, %v; want %q", m.cfg.Node, got, name, err, want)
		}
	}
	put("first")
	archive, a := one("archive", false), one("a", true)
	b := one("b", true)
	has(archive, "learnt", "")
	has(a, "learnt", "first")
	has(b, "learnt", "")
	has(b, "common", "first")
	for _, m := range []*Several{archive, a, b} {
		if err := m.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	put("second") // one manager again, for a while
	has(one("a", true), "learnt", "second")
}

// TestHeirOfASum has managers share a database, one have it for itself, which goes on with the sum of what they counted, and managers share it again: what the
// others had counted before is not kept beside the sum, also where one of them comes back. What is no sum stays.
func TestHeirOfASum(t *testing.T) {
	server := pglab.Shared(t)
	one := func(node string) *Several {
		t.Helper()
		m := open(t, server, "").AsOne(SeveralConfig{Node: node, Term: time.Minute, Heir: true, Summed: func(name string) bool { return name == "counted" }})
		if _, err := m.Take(t.Context()); err != nil {
			t.Fatal(err)
		}
		return m
	}
	a, b := one("a"), one("b")
	for _, m := range []*Several{a, b} {
		for _, name := range []string{"counted", "learnt"} {
			if err := m.PutState(t.Context(), m.id, name, []byte(m.cfg.Node)); err != nil {
				t.Fatal(err)
			}
		}
		if err := m.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	alone := open(t, server, "")
	epoch, err := alone.Take(t.Context())
	if err = errors.Join(err, alone.PutState(t.Context(), epoch, "counted", []byte("a and b"))); err != nil {
		t.Fatal(err)
	}
	a, b = one("a"), one("b")
	for m, want := range map[*Several][2]string{a: {"a and b", "a"}, b: {"", "b"}} {
		for i, name := range []string{"counted", "learnt"} {
			if got, err := m.State(t.Context(), name); err != nil || string(got) != want[i] {
				t.Errorf("%s has %q for %s, %v; want %q", m.cfg.Node, got, name, err, want[i])
			}
		}
	}
}
