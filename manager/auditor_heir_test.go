package manager

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/manager/archive"
	"shoal/manager/dispatch"
	"shoal/manager/trust"
	"shoal/recrawl"
)

// leftBehind are managers that have gone, which had judged the feed up to some cursors.
type leftBehind struct {
	Shared
	judged     []string
	gone, here []byte // audits
	decided    []byte
}

// Others are those that are here, and what those that have gone keep still.
func (l *leftBehind) Others(context.Context, string) ([][]byte, error) {
	return [][]byte{l.here, []byte("torn"), l.gone}, nil
}

func (l *leftBehind) Left(_ context.Context, name string) (out [][]byte, err error) {
	if name == stateSentences {
		return [][]byte{l.decided, nil}, nil
	}
	if name == stateErrands {
		return [][]byte{l.gone, []byte("torn")}, nil
	}
	for _, c := range l.judged {
		out = append(out, []byte(c))
	}
	return out, nil
}

// feedOf is an archive whose feed has an entry for each channel, cursors of two digits, and batches of two.
type feedOf struct {
	Archive
	entries []archive.Entry
}

func (f *feedOf) Feed(_ context.Context, after string, _ int) ([]archive.Entry, string, error) {
	for i := range f.entries {
		if f.entries[i].Cursor > after {
			part := f.entries[i:min(i+2, len(f.entries))]
			return part, part[len(part)-1].Cursor, nil
		}
	}
	return nil, after, nil
}

// TestUnjudgedOfGoneManagers has a manager take partitions of others that have gone: what these had taken in of the feed and not judged is judged, of these
// partitions alone. What the others had not taken in comes with the feed anyway.
func TestUnjudgedOfGoneManagers(t *testing.T) {
	f := &feedOf{}
	parts := map[channel.ID]uint8{}
	c := &core{inbox: newInbox(time.Now), log: slog.New(slog.DiscardHandler), table: dispatch.NewTable()}
	for id := channel.ID(1); id <= 9; id++ {
		key := channel.KeyOf(fmt.Sprint("http://", id, ".example"))
		if parts[id] = key.Part(); id != 9 { // which another manager has
			c.table.Put(recrawl.Slot(id), id, key)
		}
		f.entries = append(f.entries, archive.Entry{Channel: id, Cursor: fmt.Sprintf("%02d", id), Event: lease.Event{Kind: lease.Reported}, Report: &channel.Report{Pages: int(id) % 8}})
	}
	earliest := func(cursors ...string) (string, error) { return slices.Min(cursors), nil }
	c.cfg.Archive = f
	c.tenancy = &tenancy{core: c, Several: &Several{Shared: &leftBehind{judged: []string{"04", "02", ""}}, Earliest: earliest}}
	au := &auditor{core: c, errands: &errands{core: c}}
	var got []channel.ID
	au.again = func(before string, e *archive.Entry) {
		got = append(got, e.Channel)
		if want := fmt.Sprintf("%02d", e.Channel-1); before != want {
			t.Errorf("the feed's cursor before channel %d is %q", e.Channel, before)
		}
	}
	taken := channel.Taken{Parts: []uint8{parts[3], parts[4], parts[6], parts[8], parts[9]}, Cursors: []string{"07", "03", "07", "09", "07"}}
	if err := (heir{au}).judgeLeft(t.Context(), taken); err != nil {
		t.Fatal(err)
	}
	// 1 and 2 were judged by all; 5 and 7 are not taken; of 4 its manager had come to 3; 8 brought nothing; 9 is not here.
	if want := []channel.ID{3, 6}; !slices.Equal(got, want) {
		t.Errorf("judged are %v, want %v", got, want)
	}
}

// TestAuditsOfOtherManagers has a manager take partitions of one that has gone, and of one that is here: audits of these hosts that waited are asked for. Those that were
// out at the one that has gone are asked for again when their hosts are free, unless their answers come before; those that are out at the other are its own.
func TestAuditsOfOtherManagers(t *testing.T) {
	now := time.Now()
	const term = time.Minute
	const outAs = errandID + 7000
	kept := func(host string, page uint64, change ...func(*keptErrand)) keptErrand {
		k := keptErrand{Host: host, Until: now.Add(time.Minute), Apart: []trust.Peer{3}, Pages: []keptWanted{{URL: host + "/", Hash: page, Case: trust.Case{URL: page, Accused: 9}}}}
		for _, f := range change {
			f(&k)
		}
		return k
	}
	out := func(k *keptErrand) { k.Place, k.ID, k.Issue = 1, outAs, (&lease.Issue{Gen: 5}).Append(nil) }
	idle := func(k *keptErrand) { k.Place, k.Idle = 2, true }
	arbiter := func(k *keptErrand) { k.Arbiter, k.Apart = true, nil }
	ended := func(by time.Duration) func(*keptErrand) { return func(k *keptErrand) { k.Until = now.Add(-by) } }
	const a, b, away = "http://a.example", "http://b.example", "http://elsewhere.example"
	state := func(all ...keptErrand) []byte {
		s, err := json.Marshal(all)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	from := &leftBehind{
		gone: state(kept(a, 1), kept(a, 2, out), kept(a, 3, idle), kept(a, 4, arbiter), kept(a, 5, ended(time.Second)), kept(a, 6, out, ended(time.Second)), kept(a, 7, out, ended(time.Hour)), kept(away, 8)),
		here: state(kept(b, 11), kept(b, 12, out), kept(b, 13, idle), kept(a, 1), kept(away, 14)),
	}
	taken := channel.Taken{Parts: []uint8{channel.KeyOf(a).Part(), channel.KeyOf(b).Part()}}
	take := func(gone, arbiter bool) *auditor {
		c := &core{inbox: newInbox(time.Now), log: slog.New(slog.DiscardHandler), cfg: Config{Terms: lease.Terms{Term: term}}}
		if arbiter {
			c.cfg.Arbiter = farSighted{}
		}
		c.tenancy = &tenancy{core: c, Several: &Several{Shared: from}}
		m, err := trust.New(trust.Default(), rand.New(rand.NewPCG(1, 2)))
		if err != nil {
			t.Fatal(err)
		}
		au := &auditor{core: c, errands: &errands{core: c}, trust: m}
		for range 2 { // as when more partitions are taken
			if err := (heir{au}).takeAudits(t.Context(), taken, gone); err != nil {
				t.Fatal(err)
			}
		}
		return au
	}
	pages := func(au *auditor) (all []uint64) {
		for _, e := range au.errands.waits {
			all = append(all, e.pages[0].hash)
		}
		slices.Sort(all)
		return all
	}
	if got, want := pages(take(false, false)), []uint64{1, 3, 4, 11, 13}; !slices.Equal(got, want) {
		t.Errorf("where none has gone, audits of the pages %v are asked for, want %v", got, want)
	}
	for page, want := range map[uint64]bool{21: true, 22: true, 23: false} { // of an earlier start, though no other manager is here that has seen its end
		c := take(false, false)
		c.earlier = []keptErrand{kept(a, 21), kept(b, 22, out), kept(away, 23)}
		if err := (heir{c}).takeAudits(t.Context(), taken, false); err != nil || slices.Contains(pages(c), page) != want {
			t.Errorf("of the manager's earlier start, %v: audits of the pages %v are asked for", err, pages(c))
		}
	}
	if au := take(true, true); len(au.visits.waits) != 1 || au.visits.waits[0].hash != 4 {
		t.Errorf("%d looks of the arbiter, want that of page 4", len(au.visits.waits))
	}
	au := take(true, false)
	if got, want := pages(au), []uint64{1, 2, 3, 4, 6, 11, 13}; !slices.Equal(got, want) {
		t.Errorf("where one has gone, audits of the pages %v are asked for, want %v", got, want)
	}
	for _, e := range au.errands.waits {
		switch e.pages[0].hash {
		case 2:
			if e.retry.Before(now.Add(time.Minute+2*term)) || !e.until.After(e.retry) {
				t.Errorf("what was out is offered from %v to %v, and its host is left alone until %v", e.retry, e.until, now.Add(time.Minute+2*term))
			}
		case 4:
			if !slices.Equal(e.apart, []trust.Peer{9}) {
				t.Errorf("in the arbiter's stead look others than %v, want than 9", e.apart)
			}
		}
	}
	var answered []uint64
	au.errands.answers = func(_ time.Time, e *errand, id channel.ID, gen channel.Gen, peer string) {
		if id != outAs || gen != 5 || peer != "p" {
			t.Errorf("an answer of %s to %d, generation %d", peer, id, gen)
		}
		answered = append(answered, e.pages[0].hash)
	}
	le := &learner{core: au.core, errands: au.errands}
	le.table = dispatch.NewTable()
	for _, e := range []archive.Entry{{Channel: outAs + 1, Event: lease.Event{Kind: lease.Reported, Gen: 5}}, {Channel: outAs, Event: lease.Event{Kind: lease.Claimed, Gen: 5}},
		{Channel: outAs, Event: lease.Event{Kind: lease.Reported, Gen: 4}}, {Channel: outAs, Peer: "p", Event: lease.Event{Kind: lease.Reported, Gen: 5}}} {
		le.takeIn(now, "", e)
	}
	if !slices.Equal(answered, []uint64{2}) || slices.Contains(pages(au), 2) {
		t.Errorf("answered are %v; what was out at the manager that has gone is answered by what its peer brought, and not asked for again", answered)
	}
}

// TestSomeLeft tells when managers have gone.
func TestSomeLeft(t *testing.T) {
	of := func(ids ...channel.Epoch) *channel.Tenure {
		var now channel.Tenure
		for _, id := range ids {
			now.Tenants = append(now.Tenants, channel.Tenancy{ID: id})
		}
		return &now
	}
	for i, c := range []struct {
		before, now *channel.Tenure
		want        bool
	}{{nil, of(1), true}, {nil, of(1, 2), false}, {of(1), of(1, 2), false}, {of(1, 2), of(1, 2), false}, {of(1, 2), of(1), true}, {of(1, 2), of(1, 3), true}} {
		if got := someLeft(c.before, c.now); got != c.want {
			t.Errorf("case %d: %v", i, got)
		}
	}
}
