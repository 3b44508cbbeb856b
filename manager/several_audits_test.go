package manager

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"shoal/channel"
	"shoal/manager/dispatch"
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
	got, err := readAudited(a.state())
	if err != nil || len(got) != 2 || !got[channel.KeyOf("http://a.example")].Equal(now.Add(time.Second+2*term)) || !got[channel.KeyOf("http://b.example")].Equal(now.Add(time.Hour+2*term)) {
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
}

func (n *neighbours) Others(context.Context, string) ([][]byte, error) { return n.audits, nil }
func (n *neighbours) State(context.Context, string) ([]byte, error)    { return nil, nil }

// What another manager has written and this one cannot read, ends no manager; what the others have written counts.
func TestUnreadableAudits(t *testing.T) {
	now := time.UnixMilli(1_000_000)
	key := channel.KeyOf("http://a.example")
	from := &neighbours{audits: [][]byte{[]byte("torn"), auditedHosts{key: now.Add(time.Minute)}.state(), []byte("of another version")}}
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
