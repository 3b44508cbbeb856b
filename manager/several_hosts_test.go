package manager

import (
	"context"
	"testing"
	"time"

	"shoal/channel"
	"shoal/manager/dispatch"
)

// manyHosts is a database of which nobody may read all hosts.
type manyHosts struct {
	Shared
	t    *testing.T
	held []channel.Host
}

func (m *manyHosts) ScanHosts(context.Context, func(channel.Host) error) error {
	m.t.Error("all hosts of the network are read")
	return nil
}

func (m *manyHosts) ScanHeld(_ context.Context, _ time.Time, f func(channel.Host) error) error {
	for _, h := range m.held {
		if err := f(h); err != nil {
			return err
		}
	}
	return nil
}

// TestTakeOverReadsHeldHosts has a manager take a partition over: it learns which hosts are blocked, of all, and which of its own may not be visited yet. It does not read
// the hosts of the whole network for that.
func TestTakeOverReadsHeldHosts(t *testing.T) {
	now := time.UnixMilli(1_000_000)
	const own, others, blocked = "http://own.example", "http://others.example", "http://blocked.example"
	db := &manyHosts{t: t, held: []channel.Host{{Name: own, NextVisit: now.Add(time.Minute)}, {Name: others, NextVisit: now.Add(time.Minute)}, {Name: blocked, Blocked: "it asked"}}}
	if channel.KeyOf(own).Part() == channel.KeyOf(others).Part() {
		t.Fatal("both hosts are in one partition")
	}
	c := &core{inbox: newInbox(func() time.Time { return now }), cfg: Config{Now: func() time.Time { return now }}}
	c.machine = dispatch.New(now, dispatch.Config{}, nil, nil, nil)
	tn := &tenancy{core: c, Several: &Several{Shared: db}}
	if err := tn.readHosts(t.Context(), []uint8{channel.KeyOf(own).Part()}); err != nil {
		t.Fatal(err)
	}
	if c.machine.Visit(now, channel.KeyOf(own)) || !c.machine.Visit(now, channel.KeyOf(others)) {
		t.Error("the host that may not be visited yet is not left alone, or another one is")
	}
	if c.machine.Blocked(channel.KeyOf(blocked)) != "it asked" {
		t.Error("a host that is blocked may be visited")
	}
}
