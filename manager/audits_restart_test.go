package manager

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"shoal/channel"
	"shoal/manager/dispatch"
)

// auditLog is the database of a manager that has it for itself, or once shared it with others.
type auditLog struct {
	Store
	own    []byte
	others [][]byte
}

func (l *auditLog) State(context.Context, string) ([]byte, error)  { return l.own, nil }
func (l *auditLog) Kept(context.Context, string) ([][]byte, error) { return l.others, nil }
func (l *auditLog) PutState(_ context.Context, _ channel.Epoch, _ string, b []byte) error {
	l.own = b
	return nil
}

// TestAuditedHostsOutliveARestart has a manager without others be killed while audits are out: it leaves their hosts alone when it starts again, and once more if it is
// killed then, until no peer can be there.
func TestAuditedHostsOutliveARestart(t *testing.T) {
	now := time.UnixMilli(1_000_000)
	var db auditLog
	db.others = [][]byte{auditedHosts{channel.KeyOf("http://shared.example"): now.Add(time.Hour)}.state()}
	start := func() *placers {
		c := &core{inbox: newInbox(func() time.Time { return now }), cfg: Config{Now: func() time.Time { return now }, Store: &db}, log: slog.New(slog.DiscardHandler)}
		c.cfg.Terms.Term = time.Minute
		c.machine = dispatch.New(now, dispatch.Config{}, nil, nil, nil)
		p := &placers{core: c, audited: auditedHosts{}}
		if err := p.restoreAudits(t.Context(), now); err != nil {
			t.Fatal(err)
		}
		return p
	}
	of := func(host string) []job {
		return []job{{Order: dispatch.Order{Latest: now.Add(time.Minute)}, errand: &errand{host: host}}}
	}
	if _, err := start().issue(t.Context(), of("http://first.example")); err != nil {
		t.Fatal(err)
	}
	if _, err := start().issue(t.Context(), of("http://second.example")); err != nil {
		t.Fatal(err)
	}
	c := start().core
	for name, free := range map[string]bool{"http://first.example": false, "http://second.example": false, "http://shared.example": false, "http://other.example": true} {
		if c.machine.Visit(now, channel.KeyOf(name)) != free {
			t.Errorf("%s is visited: %v", name, !free)
		}
	}
	now = now.Add(4 * time.Minute)
	if c := start().core; !c.machine.Visit(now, channel.KeyOf("http://first.example")) {
		t.Error("a host is left alone though no peer can be there any more")
	}
}
