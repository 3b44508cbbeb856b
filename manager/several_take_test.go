package manager

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"shoal/channel"
	"shoal/manager/archive"
	"shoal/manager/dispatch"
)

// taking is a database of which a manager takes partitions, with a look between its hosts and its channels.
type taking struct {
	Shared
	look func()
}

func (s *taking) ScanHeld(context.Context, time.Time, func(channel.Host) error) error {
	s.look()
	return errTaken
}

func (s *taking) Others(context.Context, string) ([][]byte, error) { return nil, nil }
func (s *taking) State(context.Context, string) ([]byte, error)    { return nil, nil }

// quietFeed has nothing new, or is away.
type quietFeed struct {
	Archive
	away error
}

func (f *quietFeed) Feed(context.Context, string, int) ([]archive.Entry, string, error) {
	return nil, "", f.away
}

// TestNothingGoesWhereNotAllIsKnown has a manager take a partition: until all its channels are read, and the feed to its end, nobody is sent to its hosts, as it may not
// be known yet that another channel of theirs is out. Hosts of other partitions do not wait.
func TestNothingGoesWhereNotAllIsKnown(t *testing.T) {
	now := time.UnixMilli(1_000_000)
	taken, own := channel.KeyOf("http://a.example"), channel.KeyOf("http://b.example")
	if taken.Part() == own.Part() {
		t.Fatal("the hosts of the test are in one partition")
	}
	feed := &quietFeed{}
	db := &taking{}
	c := &core{inbox: newInbox(func() time.Time { return now }), cfg: Config{Now: func() time.Time { return now }, Store: db, Archive: feed}, log: slog.New(slog.DiscardHandler)}
	none := func(context.Context) error { return nil }
	c.tenancy = &tenancy{core: c, Several: &Several{Shared: db, ShutOut: func(context.Context, []string) error { return nil }}, inherit: none}
	c.tenancy.owned[own.Part()] = true
	c.machine = dispatch.New(now, dispatch.Config{Coming: c.tenancy.isComing}, nil, nil, nil)
	goes := func(key channel.HostKey) bool {
		is := c.machine.Visit(now, key)
		if is {
			c.machine.Left(key, now)
		}
		return is
	}
	le := &learner{core: c, keep: newKeeper(c)}
	db.look = func() {
		if goes(taken) || !goes(own) {
			t.Errorf("while it is taken, hosts of the partition are visited: %v, others: %v", goes(taken), goes(own))
		}
	}
	if err := c.tenancy.takeIn(t.Context(), channel.Taken{Parts: []uint8{taken.Part()}}); !errors.Is(err, errTaken) {
		t.Fatal(err)
	}
	feed.away = errTaken
	if _, err := le.feedback(t.Context()); err == nil || goes(taken) {
		t.Errorf("hosts of the partition are visited though the feed cannot be read: %v, %v", goes(taken), err)
	}
	feed.away = nil
	if _, err := le.feedback(t.Context()); err != nil || !goes(taken) {
		t.Errorf("hosts of the partition are not visited when all is known: %v", err)
	}
	if !le.heard.Equal(now) {
		t.Errorf("the feed was heard up to %v, want %v", le.heard, now)
	}
}
