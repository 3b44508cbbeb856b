package manager

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"testing"
	"time"

	"shoal/channel"
	"shoal/manager/dispatch"
	"shoal/manager/share"
	"shoal/recrawl"
)

// quotaNet is managers that tell each other what they need, and nothing else.
type quotaNet struct {
	now   time.Time
	all   map[channel.Epoch]*quotaManager
	heard map[channel.Epoch][]channel.Note
	here  channel.Tenure
}

type quotaManager struct {
	*Manager
	price *pricedStrategy
}

// pricedStrategy has a crawl be worth what the test says.
type pricedStrategy struct {
	recrawl.Base
	price float64
}

func (pricedStrategy) Name() string                                   { return "priced" }
func (pricedStrategy) Quota(recrawl.Tick, recrawl.Load) recrawl.Quota { return recrawl.Quota{} }
func (pricedStrategy) Rank(now, _ recrawl.Tick, _ recrawl.Slot, _ *recrawl.Facts) (float32, recrawl.Tick) {
	return 0, now + 1
}
func (p *pricedStrategy) Price() float64 { return p.price }

// quotaDB is the database as one manager has it.
type quotaDB struct {
	Shared
	net  *quotaNet
	me   channel.Epoch
	deaf bool
}

func (d *quotaDB) Tell(_ context.Context, n channel.Note) error {
	if d.deaf {
		return errors.New("the database is away")
	}
	for id := range d.net.all {
		if id != d.me {
			d.net.heard[id] = append(d.net.heard[id], n)
		}
	}
	return nil
}

func (n *quotaNet) join(id channel.Epoch, price float64) *quotaManager {
	cfg := Default()
	cfg.Now, cfg.Log = func() time.Time { return n.now }, slog.New(slog.DiscardHandler)
	q := &quotaManager{price: &pricedStrategy{price: price}}
	c := &core{inbox: newInbox(cfg.Now), cfg: cfg, log: cfg.Log, epoch: id, machine: &dispatch.Machine{}, sched: recrawl.NewScheduler(1, q.price, recrawl.Options{Groups: 1})}
	c.tenancy = &tenancy{core: c, Several: &Several{Shared: &quotaDB{net: n, me: id}}, needs: map[channel.Epoch]share.Need{}}
	q.Manager = &Manager{core: c}
	n.all[id] = q
	n.here.Tenants = append(n.here.Tenants, channel.Tenancy{ID: id})
	return q
}

// turns has all managers that run hear and move their quotas so often.
func (n *quotaNet) turns(t *testing.T, times int) {
	t.Helper()
	for range times {
		n.now = n.now.Add(quotaEvery * Default().Tick)
		for _, x := range n.here.Tenants {
			q := n.all[x.ID]
			if q == nil {
				continue
			}
			for _, note := range n.heard[x.ID] {
				if err := q.hearNote(t.Context(), note); err != nil {
					t.Fatal(err)
				}
			}
			n.heard[x.ID] = nil
			q.tenancy.moveQuotas(t.Context(), &n.here)
			if s := q.machine.Share; !(s > 0 && s <= 1) {
				t.Fatalf("manager %d has %v of the swarm", x.ID, s)
			}
		}
	}
}

// TestQuotasOfManagers has managers come, need more than others, fall silent, go and leave.
func TestQuotasOfManagers(t *testing.T) {
	n := &quotaNet{now: time.Unix(1e9, 0), all: map[channel.Epoch]*quotaManager{}, heard: map[channel.Epoch][]channel.Note{}}
	is := func(what string, q *quotaManager, want float64) {
		t.Helper()
		if got := q.machine.Share; math.Abs(got-want) > .02 {
			t.Errorf("%s: it has %.3f of the swarm, should have %.3f", what, got, want)
		}
	}
	a := n.join(1, 0)
	n.turns(t, 2)
	is("alone", a, 1)
	b := n.join(2, 0)
	n.turns(t, 60)
	is("a second one came", a, .5)
	is("the second one", b, .5)

	for range 80 { // a crawl is worth what a manager needs for what it has
		a.price.price, b.price.price = 3/a.machine.Share, 1/b.machine.Share
		n.turns(t, 1)
	}
	is("it needs three times as much", a, .75)
	is("the other one", b, .25)

	a.price.price, b.price.price = 1e9, 1e-9
	n.turns(t, 200)
	if least := b.machine.Share; least < .04 {
		t.Errorf("the other's crawls are worth next to nothing: it is left %v", least)
	}
	b.tenancy.Shared.(*quotaDB).deaf = true
	n.turns(t, 3)
	b.tenancy.Shared.(*quotaDB).deaf = false

	n.here.Tenants[0].Leaving = true
	n.turns(t, 1)
	is("the other one leaves", b, 1)
	n.here.Tenants = n.here.Tenants[1:] // and has gone
	delete(n.all, 1)
	n.turns(t, 1)
	is("the other one has gone", b, 1)
	if _, kept := b.tenancy.needs[1]; kept {
		t.Error("what the other one told is kept")
	}
	stale, err := json.Marshal(noted{Need: &need{1, share.Need{Share: .9, Price: 1e9}}})
	if err != nil {
		t.Fatal(err)
	}
	n.heard[2] = append(n.heard[2], channel.Note{What: noteNeed, Body: stale})
	n.turns(t, 2)
	is("a late note of it came", b, 1)
	if len(b.tenancy.needs) != 1 {
		t.Errorf("kept: %v", b.tenancy.needs)
	}
}
