package manager

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shoal/channel"
)

// slowShared is a database of which a manager takes long to take partitions, as if there were much to read. It notes when it hears of that one.
type slowShared struct {
	Shared
	takes time.Duration

	mu    sync.Mutex
	heard []time.Time
}

func (s *slowShared) Beat(context.Context, bool, []byte) (channel.Tenure, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard = append(s.heard, time.Now())
	return channel.Tenure{Tenants: []channel.Tenancy{{ID: 1}}}, nil
}

var errTaken = errors.New("that is enough for a test")

func (s *slowShared) TakeParts(context.Context, []uint8) (channel.Taken, error) {
	time.Sleep(s.takes)
	return channel.Taken{}, errTaken
}

// silence is the longest time up to now without a word.
func (s *slowShared) silence() (longest time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, at := range append(s.heard[1:], time.Now()) {
		longest = max(longest, at.Sub(s.heard[i]))
	}
	return longest
}

// TestLongTurn has a manager take longer to take partitions over than others wait for a word of it: they hear of it all the while. One that hangs falls silent in
// the end.
func TestLongTurn(t *testing.T) {
	for what, tt := range map[string]struct{ takes, least, most time.Duration }{
		"much to read": {time.Minute, 0, 3 * time.Second},
		"it hangs":     {turnMost + time.Hour, time.Hour, time.Hour + renewEvery},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db := &slowShared{takes: tt.takes}
				c := &core{inbox: newInbox(time.Now), cfg: Config{Now: time.Now}, log: slog.New(slog.DiscardHandler), epoch: 1}
				m := &tenancy{core: c, Several: &Several{Shared: db, About: func() []byte { return nil }, Seen: func(channel.Tenure) {}}}
				if err := m.turn(t.Context()); !errors.Is(err, errTaken) {
					t.Fatal(err)
				}
				if s := db.silence(); s < tt.least || s > tt.most {
					t.Errorf("nobody heard of the manager for %v, want %v to %v", s, tt.least, tt.most)
				}
			})
		})
	}
}

// joining is a database that notes in which order it is written, and refuses what it is told to.
type joining struct {
	Shared
	away error
	did  []string
}

func (j *joining) Apply(_ context.Context, _ channel.Epoch, stretches ...channel.Advance) error {
	if j.away == nil {
		j.did = append(j.did, stretches[len(stretches)-1].To)
	}
	return j.away
}

func (j *joining) JoinParts(_ context.Context, cursor string) error {
	j.did = append(j.did, "join at "+cursor)
	return nil
}

// TestTakeWithFeedPending has a manager take partitions over while something that it took in could not be written: that is written first, and if it cannot be, the
// partitions do not go on from elsewhere, where it could never be written any more.
func TestTakeWithFeedPending(t *testing.T) {
	away := errors.New("the database is away")
	for _, db := range []*joining{{}, {away: away}} {
		c := &core{cfg: Config{Store: db, Now: time.Now}, epoch: 1}
		k := newKeeper(c)
		k.pending, k.cursor = newEffects("first", "second", time.Now()), "second"
		m := &tenancy{core: c, keep: k, Several: &Several{Shared: db, Earliest: func(of ...string) (string, error) { return slices.Min(of), nil }}}
		m.owned[1], m.owned[2] = true, true
		err := m.goOn(channel.Taken{Parts: []uint8{2}, Cursors: []string{"fourth"}})
		want := []string{"second", "join at fourth"}
		if db.away != nil {
			want = nil
		}
		if !errors.Is(err, db.away) || !slices.Equal(db.did, want) || (k.pending == nil) != (db.away == nil) {
			t.Errorf("away: %v: it did %q, %v; want %q", db.away, db.did, err, want)
		}
	}
}
