package manager

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"shoal/channel"
	"shoal/manager/dispatch"
	"shoal/recrawl"
)

// The hosts of audits are kept until no peer can be at them any more, and read back as they were written.
func TestAuditedHosts(t *testing.T) {
	now, term := time.UnixMilli(1_000_000), time.Minute
	of := func(host string, latest time.Duration) job {
		return job{Order: dispatch.Order{Latest: now.Add(latest)}, errand: &errand{host: host}}
	}
	a := auditedHosts{}
	if a.add(now, []job{{}}, term) {
		t.Error("a crawl counts as an audit")
	}
	if !a.add(now, []job{of("http://a.example", time.Second), of("http://b.example", time.Hour), {}, of("http://a.example", 0)}, term) {
		t.Error("audits are not noted")
	}
	got, err := readAudited(a.state(now))
	if got.asOf(now.Add(time.Second)); err != nil || len(got) != 2 || !got[channel.KeyOf("http://a.example")].Equal(now.Add(time.Second+2*term)) || !got[channel.KeyOf("http://b.example")].Equal(now.Add(time.Hour+2*term)) {
		t.Errorf("%v, %v", got, err)
	}
	if a.add(now.Add(time.Hour), nil, term); len(a) != 1 {
		t.Errorf("an hour later: %v", a)
	}
	if _, err := readAudited([]byte("torn")); err == nil {
		t.Error("torn bytes were read")
	}
}

// neighbours are other managers, of which this one reads nothing but where their audits are.
type neighbours struct {
	Shared
	audits [][]byte
	own    map[string][]byte
}

func (n *neighbours) Others(context.Context, string) ([][]byte, error) { return n.audits, nil }
func (n *neighbours) State(_ context.Context, name string) ([]byte, error) {
	return n.own[name], nil
}

// What another manager has written and this one cannot read, ends no manager; what the others have written counts.
func TestUnreadableAudits(t *testing.T) {
	now := time.UnixMilli(1_000_000)
	key := channel.KeyOf("http://a.example")
	from := &neighbours{audits: [][]byte{[]byte("torn"), auditedHosts{key: now.Add(time.Minute)}.state(now), []byte("of another version")}}
	c := &core{inbox: newInbox(func() time.Time { return now }), log: slog.New(slog.DiscardHandler)}
	c.machine = dispatch.New(now, dispatch.Config{}, nil, nil, nil)
	tn := &tenancy{core: c, Several: &Several{Shared: from}}
	for i := range tn.owned {
		tn.owned[i] = true
	}
	if err := tn.readAudits(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c.machine.Visit(now, key) || !c.machine.Visit(now, channel.KeyOf("http://b.example")) {
		t.Error("the host of the audit that can be read is not left alone, or another one is")
	}
}

// A further manager knows no peer until it takes hosts over from the others. Those that are on probation there are not vouched for here: else each manager that is
// added would end all probations.
func TestFurtherManagerVouchesForNobody(t *testing.T) {
	for name, x := range map[string]struct {
		others       [][]byte
		own          map[string][]byte
		first, fresh bool
	}{
		"the first of all": {nil, nil, true, true},
		"a further one":    {[][]byte{[]byte("cursor")}, map[string][]byte{stateTrust: []byte("{}")}, false, true},
		"one that starts before the first has judged anything": {nil, map[string][]byte{stateTrust: []byte("{}")}, false, true},
		"one that is started anew":                             {nil, map[string][]byte{stateTrustAt: []byte("cursor")}, false, false},
	} {
		from := &neighbours{audits: x.others, own: x.own}
		c := &core{cfg: Config{Store: from}}
		c.tenancy = &tenancy{core: c, Several: &Several{Shared: from}}
		if _, first, fresh, err := (&auditor{core: c}).rules(t.Context()); err != nil || first != x.first || fresh != x.fresh {
			t.Errorf("%s: the first is %v, has no Machine yet: %v, %v", name, first, fresh, err)
		}
	}
}

// TestWholeCrawlsOfItsOwn has one of several managers begin anew: whole crawls that it had ordered are ordered once more, with those of others.
func TestWholeCrawlsOfItsOwn(t *testing.T) {
	own, other := binary.BigEndian.AppendUint64(nil, 1), binary.BigEndian.AppendUint64(nil, 2)
	from := &neighbours{audits: [][]byte{other}, own: map[string][]byte{stateWhole: own}}
	ctx, cancel := context.WithCancel(t.Context())
	c := &core{inbox: newInbox(time.Now), log: slog.New(slog.DiscardHandler), whole: newWholes(stateWhole), asked: newWholes(stateAsked)}
	c.tenancy = &tenancy{core: c, Several: &Several{Shared: from}}
	for range 2 {
		if err := c.inheritWhole(ctx); err != nil {
			t.Fatal(err)
		}
		if _, is := c.whole.of[2]; !is || len(c.whole.of) > 2 {
			t.Errorf("whole crawls of others: %v", c.whole.of)
		}
		if _, is := c.whole.of[1]; !is {
			t.Error("a whole crawl of its own is forgotten")
		}
	}
	cancel()
}

// TestWholeCrawlsOfGivenChannels has a manager give a channel of which a whole crawl is to begin: who takes it reads that, though this one has written its state anew
// meanwhile. A while later it is kept no more.
func TestWholeCrawlsOfGivenChannels(t *testing.T) {
	now := time.UnixMilli(1_000_000)
	w, next := wholes{of: map[channel.ID]wholeCrawl{}}, wholes{of: map[channel.ID]wholeCrawl{}}
	w.add(1, wholeCrawl{})
	w.add(2, wholeCrawl{true, 3})
	w.give(2, now)
	w.give(4, now) // nothing is to begin of it
	if err := next.takeIn(w.state(now.Add(wholeGiven / 2))); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[channel.ID]bool{1: true, 2: true, 4: false} {
		if _, is := next.of[id]; is != want {
			t.Errorf("a whole crawl of channel %d is known to the next: %v, want %v", id, is, want)
		}
	}
	if _, here := w.of[2]; here {
		t.Error("it is still to begin here")
	}
	if b := w.state(now.Add(wholeGiven)); len(b) != 8 {
		t.Errorf("a minute later %d bytes are kept", len(b))
	}
}

// TestSizesOfSeveral has a channel change its manager: what a channel has in the mean is the same at each, whoever has counted which pages, and whoever has gone since.
func TestSizesOfSeveral(t *testing.T) {
	var a, b sizes
	first, second := channel.Learnt{}, channel.Learnt{}
	a.crawled(&first, 10)
	a.crawled(&second, 40)
	first, second = channel.Learnt{Visits: 1, Pages: 10}, channel.Learnt{Visits: 1, Pages: 40}
	b.crawled(&second, 50) // which is its own now
	second.Pages = 50
	kept := func(z *sizes) []byte {
		raw, err := json.Marshal(z)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	mean := func(own *sizes, others ...[]byte) float32 {
		t.Helper()
		c := &core{inbox: newInbox(time.Now), log: slog.New(slog.DiscardHandler), sizes: *own}
		tn := &tenancy{core: c, Several: &Several{Shared: &neighbours{audits: others}}}
		if err := tn.hearSizes(t.Context()); err != nil {
			t.Fatal(err)
		}
		return c.sizes.mean()
	}
	for name, got := range map[string]float32{"the one": mean(&a, kept(&b)), "the other": mean(&b, []byte("torn"), kept(&a)), "a further one": mean(&sizes{}, kept(&b), kept(&a))} {
		if got != 30 {
			t.Errorf("%s has %v pages a channel in the mean, want 30", name, got)
		}
	}
	b.gone(&first)
	if got := mean(&a, kept(&b)); got != 50 {
		t.Errorf("without the first channel %v pages a channel, want 50", got)
	}
	c := &core{cfg: Config{Store: &keptStates{of: [][]byte{kept(&a), kept(&b)}}}}
	if err := c.recallSizes(t.Context()); err != nil || c.sizes.mean() != 50 {
		t.Errorf("the one that is left of several: %v pages a channel, %v", c.sizes.mean(), err)
	}
}

// keptStates is a database in which managers that had shared it have kept a state.
type keptStates struct {
	Store
	of [][]byte
}

func (k *keptStates) State(context.Context, string) ([]byte, error)  { return nil, nil }
func (k *keptStates) Kept(context.Context, string) ([][]byte, error) { return k.of, nil }

// TestEventsOfOthers has a manager take over channels: it tells what happened to them at their manager before, but for what it knows of later, and nothing of
// channels that are not here.
func TestEventsOfOthers(t *testing.T) {
	at := func(s int64) time.Time { return time.Unix(s, 0).UTC() }
	event := func(id channel.ID, s int64, note string) toldState {
		return toldState{id, []Event{{At: at(s), What: "updated", Note: note}}}
	}
	b, err := json.Marshal([]toldState{event(1, 10, "there"), event(2, 10, "there"), event(3, 10, "there"), event(4, 10, "there")})
	if err != nil {
		t.Fatal(err)
	}
	c := &core{inbox: newInbox(time.Now), log: slog.New(slog.DiscardHandler), events: newEvents(), table: dispatch.NewTable()}
	for id := channel.ID(1); id <= 3; id++ {
		c.table.Put(recrawl.Slot(id), id, channel.KeyOf(fmt.Sprint("http://", id, ".example")))
	}
	c.events.add(2, event(2, 5, "here").What[0])
	c.events.add(3, event(3, 15, "here").What[0])
	tn := &tenancy{core: c, Several: &Several{Shared: &neighbours{audits: [][]byte{[]byte("torn"), b}}}}
	tn.recallEvents(t.Context())
	for id, want := range map[channel.ID]string{1: "there", 2: "there", 3: "here", 4: ""} {
		note := ""
		for _, e := range c.events.of(id) {
			note += e.Note
		}
		if note != want {
			t.Errorf("of channel %d is told %q, want %q", id, note, want)
		}
	}
}
