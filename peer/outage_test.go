package peer

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"shoal/channel"
	"shoal/internal/wire"
	"shoal/internal/wire/uplink"
)

// deaf is the way to an archive that is away. It counts how often it was asked, and the longest time between.
type deaf struct {
	asked int
	last  time.Time
	gap   time.Duration
}

func (d *deaf) ask() error {
	now := time.Now()
	if d.asked++; d.asked > 1 {
		d.gap = max(d.gap, now.Sub(d.last))
	}
	d.last = now
	return wire.Busy
}

func (d *deaf) Call(context.Context, peer.ID, protocol.ID, []byte, int) ([]byte, error) {
	return nil, d.ask()
}

func (d *deaf) Put(context.Context, channel.Chunk) (uplink.Reply, error) {
	return uplink.Reply{}, d.ask()
}

func (d *deaf) Renew(context.Context, channel.Signed) (uplink.Reply, error) {
	return uplink.Reply{}, d.ask()
}

// TestArchiveAwayForADay: what waits for an archive that is away is tried for a day, once a minute, and then given up: the claim of
// an earlier run's task, a chunk, a release.
func TestArchiveAwayForADay(t *testing.T) {
	for name, try := range map[string]func(context.Context, *Agent, *job, *sender, *deaf) error{
		"claim": func(ctx context.Context, a *Agent, j *job, s *sender, d *deaf) error {
			j.task.Claimed = true
			close(j.stop) // it waits all the same
			_, err := a.claim(ctx, uplink.NewClient(d, "archive"), j, s.hold)
			return err
		},
		"chunk": func(ctx context.Context, _ *Agent, _ *job, s *sender, _ *deaf) error {
			return s.put(ctx, []byte("pages"))
		},
		"release": func(ctx context.Context, a *Agent, j *job, _ *sender, d *deaf) error {
			return a.release(ctx, uplink.NewClient(d, "archive"), j)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, j, s := leased(t, &leaser{term: time.Minute})
				d := &deaf{}
				s.up = d
				began := time.Now()
				err := try(t.Context(), a, j, s, d)
				took := time.Since(began)
				if !errors.Is(err, wire.Busy) && !strings.Contains(err.Error(), "has been away for 24h") || took < 24*time.Hour || took > 24*time.Hour+2*time.Minute {
					t.Errorf("given up after %v: %v", took, err)
				}
				if d.gap > time.Minute || d.asked < 24*60 {
					t.Errorf("asked %d times, with up to %v between", d.asked, d.gap)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Hour)
				defer cancel()
				a, j, s = leased(t, &leaser{term: time.Minute})
				s.up, began = d, time.Now()
				if err := try(ctx, a, j, s, d); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 5*time.Hour {
					t.Errorf("at the end of the process, after %v: %v", time.Since(began), err)
				}
			})
		})
	}
}

// TestArchiveComesBack just before a day is over: the chunk that waited is stored, and the lease lives.
func TestArchiveComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &leaser{term: 15 * time.Minute}
		l.away.Store(true)
		_, _, s := leased(t, l)
		time.AfterFunc(24*time.Hour-2*time.Minute, func() { l.away.Store(false) })
		if err := s.put(t.Context(), []byte("pages")); err != nil {
			t.Fatal(err)
		}
		if s.seq != 1 || !s.hold.may() || s.BytesUp() != int64(len("pages")) || s.away.Load() {
			t.Errorf("chunk %d, %d bytes sent, may fetch: %v, away: %v", s.seq, s.BytesUp(), s.hold.may(), s.away.Load())
		}
	})
}
