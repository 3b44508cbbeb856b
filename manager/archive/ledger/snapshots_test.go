package ledger_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/ledger/memledger"
	"shoal/manager/archive/warc/memory"
)

// counted counts the snapshots that are taken.
type counted struct {
	*memledger.Store
	snapshots int
}

func (c *counted) View(f func(ledger.Snapshot) error) error {
	c.snapshots++
	return c.Store.View(f)
}

// TestOneSnapshot has what the manager and peers do most often take one snapshot of the store each: in Badger that costs more than the reading.
func TestOneSnapshot(t *testing.T) {
	ctx := t.Context()
	b := &bench{t: t, now: time.Unix(1_700_000_000, 0)}
	store := &counted{Store: memledger.New()}
	l, err := ledger.Open(context.Background(), ledger.Config{
		Terms: lease.Default(), Clock: func() time.Time { return b.now }, Log: slog.New(slog.DiscardHandler), InFlight: 1 << 20, Where: "memory",
		Verify: func(_ time.Time, s channel.Signed) (channel.Header, error) { return channel.ParseHeader(s.Raw) },
	}, store, memory.New(memory.Config{}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	deposit := func(id channel.ID) error { return l.Deposit(ctx, b.task(id, 1), taskBody) }
	claim := func(peer string, id channel.ID, want lease.Status) func() error {
		return func() error {
			c, err := l.Claim(ctx, peer, b.task(id, 1))
			if err == nil && c.Status != want {
				t.Errorf("claim of channel %d by %s: %v, want %v", id, peer, c.Status, want)
			}
			return err
		}
	}
	for id := range channel.ID(2) { // from its second claim on a peer is known
		if err := errors.Join(deposit(id+1), claim("alice", id+1, lease.Granted)()); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		name string
		do   func() error
		want int
	}{
		{"deposit", func() error { return deposit(3) }, 1},
		{"claim", claim("alice", 3, lease.Granted), 1},
		{"the claim repeated", claim("alice", 3, lease.Granted), 1},
		{"another peer's claim", claim("bob", 3, lease.Fenced), 1},
		{"a claim of what was not deposited", claim("bob", 4, lease.Unclaimed), 1},
		{"renewal", func() error { _, err := l.Renew(ctx, "alice", b.task(3, 1)); return err }, 1},
		{"release", func() error { _, err := l.Release(ctx, "alice", 3, 1); return err }, 0},
	} {
		was := store.snapshots
		if err := step.do(); err != nil {
			t.Errorf("%s: %v", step.name, err)
		}
		if got := store.snapshots - was; got != step.want {
			t.Errorf("%s: %d snapshots, want %d", step.name, got, step.want)
		}
	}
}
