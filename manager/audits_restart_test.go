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
	db.others = [][]byte{auditedHosts{channel.KeyOf("http://shared.example"): now.Add(time.Hour)}.state(now)}
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

// TestAuditedHostsOfAClockThatWasAhead has audits go out while the clock is ten minutes ahead, and a manager start once it is right. Their hosts are left alone for as long as they would have been, be
// the state written before the clock was set or after.
func TestAuditedHostsOfAClockThatWasAhead(t *testing.T) {
	now, key := time.Now(), channel.KeyOf("http://first.example")
	const ahead, term = 10 * time.Minute, time.Minute
	for what, tt := range map[string]struct {
		latest, written time.Time
		want            time.Duration
	}{
		"right":                      {now.Add(term), now, 3 * term},
		"ahead, and killed":          {now.Add(ahead).Round(0).Add(term), now.Add(ahead).Round(0), 3 * term},
		"ahead, and set right later": {now.Add(ahead).Round(0).Add(term), now, 3*term + ahead}, // by what the clock shows alone
		"a little ahead":             {now.Add(term), now.Add(2 * time.Second), 3*term - 2*time.Second},
	} {
		a := auditedHosts{}
		a.add(now, []job{{Order: dispatch.Order{Latest: tt.latest}, errand: &errand{host: "http://first.example"}}}, term)
		db := auditLog{others: [][]byte{a.state(tt.written)}}
		c := &core{inbox: newInbox(func() time.Time { return now }), cfg: Config{Now: func() time.Time { return now }, Store: &db}, log: slog.New(slog.DiscardHandler)}
		c.machine = dispatch.New(now, dispatch.Config{}, nil, nil, nil)
		if err := (&placers{core: c, audited: auditedHosts{}}).restoreAudits(t.Context(), now); err != nil {
			t.Fatal(err)
		}
		if got := dispatch.LeftUntil(c.machine, key).Sub(now.Round(0)).Round(10 * time.Millisecond); got != tt.want {
			t.Errorf("%s: the host is left alone for %v, want %v", what, got, tt.want)
		}
	}
}
