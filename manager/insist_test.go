package manager

import (
	"context"
	"errors"
	"testing"
	"time"

	"shoal/channel"
	"shoal/channel/badgerdb"
)

// TestOperatorsWordOnHostsStays: an operator blocks a host, lifts the block or resets the host while the loop has a record of it that it read before and writes after.
// The database says what the operator wanted all the same, so that a restart does not forget it.
func TestOperatorsWordOnHostsStays(t *testing.T) {
	db, err := badgerdb.Open(t.Context(), badgerdb.Default(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	cfg := Default()
	cfg.Archive, cfg.Evidence, cfg.Swarm, cfg.Store = stillArchive{}, noEvidence{}, noSwarm{}, db
	cfg.Sign = func(channel.Header) (channel.Signed, error) { return channel.Signed{}, nil }
	m, err := New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	const name, why = "https://a.example", "asked to"
	for _, x := range []struct {
		what      string
		write     func(h *channel.Host)
		tell      func(ctx context.Context) error
		blocked   string
		remembers bool // what reports have taught
	}{
		{"blocked", func(h *channel.Host) { h.Blocked = why }, func(ctx context.Context) error { return m.SetBlocked(ctx, name, why) }, why, true},
		{"unblocked", func(h *channel.Host) { h.Blocked = "" }, func(ctx context.Context) error { return m.SetBlocked(ctx, name, "") }, "", true},
		{"reset while an operator's block stays", func(h *channel.Host) { h.Blocked = why; ResetHost(h, time.Now()) }, func(ctx context.Context) error {
			return errors.Join(m.SetBlocked(ctx, name, why), m.ResetHost(ctx, name))
		}, why, false},
		{"unblocked again", func(h *channel.Host) { h.Blocked = "" }, func(ctx context.Context) error { return m.SetBlocked(ctx, name, "") }, "", true},
		{"reset", func(h *channel.Host) { ResetHost(h, time.Now()) }, func(ctx context.Context) error { return m.ResetHost(ctx, name) }, "", false},
	} {
		r, err := m.keep.hostRecord(name) // as for a report
		if err != nil {
			t.Fatal(err)
		}
		r.CrawlDelay = 9 * time.Second
		if err := db.UpdateHost(t.Context(), m.Epoch(), name, x.write); err != nil { // the operator
			t.Fatal(err)
		}
		m.keep.saveWithin(t.Context(), time.Now(), true)
		if err := x.tell(t.Context()); err != nil {
			t.Fatal(err)
		}
		h, err := db.Host(t.Context(), name)
		if err != nil || h.Blocked != x.blocked || (h.CrawlDelay > 0) != x.remembers {
			t.Errorf("%s: the database has %+v, %v", x.what, h, err)
		}
		if got := m.machine.Blocked(channel.KeyOf(name)); got != x.blocked {
			t.Errorf("%s: the loop has %q", x.what, got)
		}
	}
}
