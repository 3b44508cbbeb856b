package manager

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"shoal/channel"
	"shoal/manager/archive"
	"shoal/manager/trust"
)

// TestADecisionThatFailsIsTriedAgain has a pardon fail to make a peer a member again: the operator is told, it is tried again, and so does a manager that starts
// after a kill. A suspension that is decided meanwhile takes its place.
func TestADecisionThatFailsIsTriedAgain(t *testing.T) {
	fails, bars := true, []string{}
	bar := func(name string, barred bool) error {
		if fails {
			return errors.New("the disk is full")
		}
		bars = append(bars, fmt.Sprint(name, " ", barred))
		return nil
	}
	au, a, d := judging(t)
	au.cfg.Bar = bar
	n := au.number("mallory")
	rows := []archive.Deliverer{{Number: uint64(n), Peer: "mallory", Account: "mallory"}}
	a.rows = rows
	if err := au.Vouch(t.Context(), "mallory"); err != nil {
		t.Fatal(err)
	}
	au.trust.Convict(n)
	work := func(au *auditor) {
		for job := au.clerks.next(0); job != nil; job = au.clerks.next(0) {
			job(t.Context())
		}
		au.drain()
	}
	if _, err := au.Pardon(t.Context(), "mallory"); err != nil {
		t.Fatal(err)
	}
	work(au)
	if told := au.one(n).Undone; len(told) != 1 || told[0].Why != "the disk is full" || told[0].Since.IsZero() {
		t.Fatalf("the operator is told %+v", told)
	}
	now := time.Now()
	if au.cfg.Evidence.(*docket).pardoned != n {
		t.Error("its cases are held against it still")
	}
	au.sentences.tick(now)
	if work(au); len(au.sentences.undone(0)) != 1 {
		t.Error("it is tried again at once, or forgotten")
	}
	fails = false

	next, b, _ := judging(t) // after a kill
	next.cfg.Store, next.cfg.Bar, b.rows = d, bar, rows
	s := trust.ShardOf(n)
	if err := next.trust.Restore(s, d.states[s.Name()]); err != nil {
		t.Fatal(err)
	}
	if err := next.sentences.restore(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	if work(next); !slices.Equal(bars, []string{"mallory false"}) {
		t.Errorf("after a kill: %q", bars)
	}

	bars = nil
	au.sentences.tick(now.Add(2 * sentenceFirst))
	if work(au); !slices.Equal(bars, []string{"mallory false"}) || len(au.sentences.undone(0)) != 0 {
		t.Errorf("tried again: %q, still to be done: %+v", bars, au.sentences.undone(0))
	}
	au.sentences.tick(now)
	if kept := string(d.states[stateSentences]); kept != "[]" {
		t.Errorf("carried out, and kept: %s", kept)
	}

	fails = true
	au.bar(now, n, false)
	work(au)
	fails = false
	au.bar(now, n, true)
	work(au)
	bars = nil
	au.sentences.tick(now.Add(time.Hour))
	if work(au); len(bars) > 0 {
		t.Errorf("what was decided otherwise is done: %q", bars)
	}
}

// stuck is a database that takes no state.
type stuck struct {
	*drawer
	tries int
}

func (d *stuck) PutState(context.Context, channel.Epoch, string, []byte) error {
	d.tries++
	return errors.New("the database is away")
}

// TestUnwrittenDecisionsKeepTheLoopFree: while the database hangs, what is decided is written again once a minute, not on each turn of the loop.
func TestUnwrittenDecisionsKeepTheLoopFree(t *testing.T) {
	au, _, d := judging(t)
	away := &stuck{drawer: d}
	au.cfg.Store, au.sentences.dirty = away, true
	now := time.Now()
	for i := range 121 {
		au.sentences.tick(now.Add(time.Duration(i) * time.Second))
	}
	if away.tries != 3 {
		t.Errorf("written %d times within two minutes, want 3", away.tries)
	}
	au.cfg.Store = d
	if au.sentences.tick(now.Add(180 * time.Second)); au.sentences.dirty {
		t.Error("it is not written when the database is back")
	}
}

// TestDecisionsOfGoneManagersAreCarriedOut has a manager take over from one that has gone, and had decided about two peers and carried out nothing of it: this one does,
// once. What was decided otherwise since is left alone.
func TestDecisionsOfGoneManagersAreCarriedOut(t *testing.T) {
	gone, _, d := judging(t)
	names := []string{"liar", "pardoned", "pardoned elsewhere"}
	for _, name := range names {
		n := gone.number(name)
		if err := gone.Vouch(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		gone.trust.Convict(n)
		gone.bar(time.Now(), n, true)
		gone.withdraw(time.Now(), n, true)
	}
	if _, err := gone.Pardon(t.Context(), "pardoned"); err != nil { // its clerks do nothing of it
		t.Fatal(err)
	}

	au, a, _ := judging(t)
	bars := []string{}
	au.cfg.Bar = func(name string, barred bool) error {
		bars = append(bars, fmt.Sprint(name, " ", barred))
		return nil
	}
	for _, name := range names {
		n := gone.number(name)
		a.rows = append(a.rows, archive.Deliverer{Number: uint64(n), Peer: name, Account: name})
		s := trust.ShardOf(n)
		if err := au.trust.Adopt(s, gone.trust.Append(nil, s)); err != nil {
			t.Fatal(err)
		}
	}
	au.trust.Pardon(gone.number("pardoned elsewhere"))
	au.tenancy = &tenancy{core: au.core, Several: &Several{Shared: &leftBehind{decided: d.states[stateSentences]}}}
	for range 2 { // it takes partitions twice within the hour
		if err := (heir{au}).judgeLeft(t.Context(), channel.Taken{}); err != nil {
			t.Fatal(err)
		}
		for job := au.clerks.next(0); job != nil; job = au.clerks.next(0) {
			job(t.Context())
		}
		au.drain()
	}
	slices.Sort(bars)
	if want := []string{"liar true", "pardoned false"}; !slices.Equal(bars, want) {
		t.Errorf("members are %q, want %q", bars, want)
	}
	slices.Sort(a.did)
	want := []string{"pardon " + archive.DelivererName(uint64(gone.number("pardoned"))), "suspend " + archive.DelivererName(uint64(gone.number("liar")))}
	if !slices.Equal(a.did, want) {
		t.Errorf("the archive was told %q, want %q", a.did, want)
	}
	if len(au.sentences.open) > 0 {
		t.Errorf("still to be done: %+v", au.sentences.sorted())
	}
}
