package manager

import (
	"context"
	"fmt"
	"testing"
	"time"

	"shoal/channel"
	"shoal/manager/dispatch"
)

// slate is a database that notes what is applied, and refuses what every database does.
type slate struct {
	Store
	applied []channel.Advance
}

func (s *slate) Apply(_ context.Context, _ channel.Epoch, stretches ...channel.Advance) error {
	for i := range stretches {
		if err := stretches[i].Check(); err != nil {
			return err
		}
		for k := range stretches[i].Found {
			if _, err := stretches[i].Found[k].Origin(); err != nil {
				return err
			}
		}
	}
	s.applied = append(s.applied, stretches...)
	return nil
}

// TestLinksToManyChannels: a stretch of the feed with links to more channels than one write takes is written all the same, and its cursor last.
func TestLinksToManyChannels(t *testing.T) {
	db := &slate{}
	k := newKeeper(&core{cfg: Config{Store: db}})
	k.pending = newEffects("a", "b", time.Unix(1e9, 0))
	const many = 5000
	for id := range channel.ID(many) {
		k.pending.inter[id+1] = []string{fmt.Sprintf("https://n%d.example/x", id)}
	}
	if err := k.commit(t.Context()); err != nil || k.pending != nil {
		t.Fatal(err)
	}
	told := map[channel.ID]int{}
	for n, a := range db.applied {
		if last := n == len(db.applied)-1; (a.Feed == FeedName) != last || (a.To == "b") != last {
			t.Errorf("stretch %d of %d moves %q to %q", n+1, len(db.applied), a.Feed, a.To)
		}
		for _, w := range a.Edits {
			told[w.ID] += len(w.Inter)
		}
	}
	for id := range channel.ID(many) {
		if told[id+1] != 1 {
			t.Fatalf("channel %d is told of %d links", id+1, told[id+1])
		}
	}
}

// TestLinksThatNoDatabaseTakes: an older archive's feed may have links that are no URLs. They are passed over, since the database would refuse all that
// is written with them.
func TestLinksThatNoDatabaseTakes(t *testing.T) {
	db := &slate{}
	c := &core{cfg: Config{Store: db, Discover: DiscoverListed}, table: dispatch.NewTable(), machine: dispatch.New(time.Unix(1e9, 0), dispatch.Config{}, nil, nil, nil)}
	c.table.Put(0, 1, channel.KeyOf("https://a.example"))
	le := &learner{core: c, keep: newKeeper(c)}
	le.keep.pending = newEffects("a", "b", time.Unix(1e9, 0))
	le.discover(0, []string{"https://no-path.example", "https://b.example/1", "http://", "x"})
	if err := le.keep.commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if found := db.applied[0].Found; len(found) != 1 || found[0].URL != "https://b.example/1" {
		t.Errorf("%+v", found)
	}
}
