package desk

import (
	"cmp"
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"shoal/channel"
	"shoal/manager"
)

// hungUp is a channel database whose first write is the last thing that who asked for it waits for. It knows two origins of a host.
type hungUp struct {
	manager.Store
	hang    context.CancelFunc
	blocked []string
}

func (h *hungUp) Search(ctx context.Context, _, _ string, _ int) (out []channel.Channel, next string, err error) {
	for i, o := range []string{"http://a.example", "https://a.example"} {
		out = append(out, channel.Channel{ID: channel.ID(i + 1), Scope: channel.Scope{Host: o}})
	}
	return out, "", ctx.Err()
}

func (h *hungUp) ScanHosts(ctx context.Context, _ func(channel.Host) error) error { return ctx.Err() }

func (h *hungUp) UpdateHost(ctx context.Context, _ channel.Epoch, origin string, _ func(*channel.Host)) error {
	if ctx.Err() == nil {
		h.blocked = append(h.blocked, origin)
		h.hang()
	}
	return ctx.Err()
}

func (h *hungUp) Lease(ctx context.Context, _ channel.ID) ([]byte, error) { return nil, ctx.Err() }

// told is a manager that notes what it is told.
type told struct {
	Running
	blocked []string
	away    []channel.ID
}

func (m *told) Epoch() channel.Epoch { return 1 }

func (m *told) SetBlocked(ctx context.Context, origin, _ string) error {
	m.blocked = append(m.blocked, origin)
	return ctx.Err()
}

func (m *told) StandOff(ctx context.Context, id channel.ID, _ string) error {
	m.away = append(m.away, id)
	return ctx.Err()
}

// TestBlockAfterHangingUp has who blocks a host hang up after the first write: all its origins are blocked in the database and with the manager, and its tasks
// called back.
func TestBlockAfterHangingUp(t *testing.T) {
	ctx, hang := context.WithCancel(t.Context())
	s, m := &hungUp{hang: hang}, &told{}
	d, err := Open(ctx, Config{Store: s, Running: m})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Block(ctx, "a.example", "asked to"); err != nil {
		t.Error(err)
	}
	if len(s.blocked) != 2 || !slices.Equal(s.blocked, m.blocked) || !slices.Equal(m.away, []channel.ID{1, 2}) {
		t.Errorf("blocked %v, the manager %v, tasks of %v", s.blocked, m.blocked, m.away)
	}
}

// taken is an archive that notes what is asked of it.
type taken struct {
	Archive
	hosts    []string
	recalled []channel.ID
}

func (a *taken) Forget(ctx context.Context, id channel.ID) error {
	a.recalled = append(a.recalled, id)
	return ctx.Err()
}

func (a *taken) Purge(ctx context.Context, hosts channel.Hosts) (int, error) {
	a.hosts = append(a.hosts, hosts.Name())
	return 7, ctx.Err()
}

func (h *hungUp) Channel(ctx context.Context, id channel.ID) (channel.Channel, error) {
	return channel.Channel{}, cmp.Or(ctx.Err(), channel.ErrUnknown) // it goes with the first word
}

func (h *hungUp) Candidates(ctx context.Context, _ int, _ func(string) bool) ([]channel.Candidate, error) {
	return nil, ctx.Err()
}

func (h *hungUp) CountCandidates(ctx context.Context) (int, error) { return 0, ctx.Err() }

func (h *hungUp) DropCandidates(ctx context.Context, _ channel.Epoch, _ []string) error {
	return ctx.Err()
}

// TestTakedownAfterHangingUp has who takes a host down hang up after the first write: its pages leave the archive.
func TestTakedownAfterHangingUp(t *testing.T) {
	ctx, hang := context.WithCancel(t.Context())
	s, a := &hungUp{hang: hang}, &taken{}
	d, err := Open(ctx, Config{Store: s, Running: &told{}, Archive: a})
	if err != nil {
		t.Fatal(err)
	}
	out, err := d.Purge(ctx, "a.example", "")
	if err != nil || out.Pages != 7 || out.Channels != 2 || !slices.Equal(a.hosts, []string{"a.example"}) || !slices.Equal(a.recalled, []channel.ID{1, 2}) {
		t.Errorf("%+v, %v; the archive was asked for %v and called back %v", out, err, a.hosts, a.recalled)
	}
}

// TestFinishIsBounded has an order go on after its asker has hung up, but not for ever.
func TestFinishIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, hang := context.WithCancel(t.Context())
		out, done := (&Desk{m: &told{}}).finish(ctx)
		defer done()
		time.Sleep(2 * finishWithin)
		if out.Err() != nil {
			t.Error("it ended though nobody has hung up")
		}
		hang()
		began := time.Now()
		<-out.Done()
		if went := time.Since(began); went != finishWithin {
			t.Errorf("it went on for %v", went)
		}
	})
}
