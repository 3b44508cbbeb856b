package archive

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"shoal/channel"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/schema"
	"shoal/manager/archive/segment"
)

// TestManyCompactions moves a page that never changes again and again. It is found after more than thirty moves, also by what refers to where it was at first, and neither
// moves nor texts stay of what is gone.
func TestManyCompactions(t *testing.T) {
	cl := &clock{time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)}
	cfg := testConfig(t.TempDir())
	cfg.Clock = cl.Now
	a := open(t, cfg)
	moved := 0
	for gen := channel.Gen(1); gen <= 70; gen++ {
		r, _ := start(t, a, "p", 1, gen)
		same := r.page("/same", "same "+long, channel.New)
		if gen > 1 {
			same.Change, same.Body = channel.Unchanged, nil
		}
		r.put(channel.ChunkBody{Pages: []channel.Page{same, r.page("/x", version(1, gen), channel.Changed)}, Report: r.report(channel.Updated)})
		for n := 1; n > 0; {
			var err error
			if n, err = a.ExtractText(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		cl.now = cl.now.Add(time.Hour)
		done, err := a.Tidy(t.Context(), Retention{Captures: 1, Feed: time.Minute}, 1)
		if err != nil {
			t.Fatal(err)
		}
		moved += done.Compacted.Moved
	}
	if moved <= 33 {
		t.Fatalf("%d records were moved, want the page to have moved more often than that", moved)
	}
	if got, err := a.Get(t.Context(), "http://site-1.example/same", time.Time{}); err != nil || string(got.Body) != "same "+long {
		t.Errorf("a page that moved often: %.20q, %v", got.Body, err)
	}
	for table, most := range map[byte]int{schema.Moved: 8, schema.Text: 4, schema.Content: 4} {
		n := 0
		if err := a.View(func(snap ledger.Snapshot) error {
			return snap.Scan([]byte{table}, nil, false, func(_, _ []byte) (bool, error) { n++; return true, nil })
		}); err != nil || n > most {
			t.Errorf("%d records in table %c, want at most %d; %v", n, table, most, err)
		}
	}
	clean(t, a)
}

// TestForgettingReadsLittle lets an archive of many segments forget a version of a page after each of some crawls. That reads a segment or two each time, not all
// of them.
func TestForgettingReadsLittle(t *testing.T) {
	cl := &clock{time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)}
	cfg := testConfig(t.TempDir())
	counted := &countedStores{Stores: Embedded(cfg.Dir)}
	cfg.Clock, cfg.Roll, cfg.Stores = cl.Now, 4<<10, counted
	a := open(t, cfg)
	crawl := func(id channel.ID, gen channel.Gen) {
		r, _ := start(t, a, "p", id, gen)
		r.put(channel.ChunkBody{Pages: []channel.Page{r.page("/x", version(id, gen), channel.Changed)}, Report: r.report(channel.Updated)})
		cl.now = cl.now.Add(time.Hour)
	}
	const pages, rounds = 60, 10
	for id := channel.ID(1); id <= pages; id++ {
		crawl(id, 1)
	}
	segments := a.Files()
	if segments < 20 {
		t.Fatalf("%d segments, want many", segments)
	}
	for gen := channel.Gen(2); gen < 2+rounds; gen++ {
		crawl(1, gen)
		before := counted.scans.Load()
		out, err := a.Retain(t.Context(), Retention{Captures: 1})
		if err != nil || out.Captures != 1 {
			t.Fatalf("retention: %+v, %v", out, err)
		}
		if _, err := a.CompactSparingly(t.Context(), .5); err != nil {
			t.Fatal(err)
		}
		if n := counted.scans.Load() - before; gen > 2 && n > int64(segments)/4 {
			t.Errorf("after crawl %d, %d reads of %d segments", gen, n, segments)
		}
	}
	clean(t, a)
}

// countedStores count how often segments are read through.
type countedStores struct {
	Stores
	scans atomic.Int64
}

func (c *countedStores) Open(ctx context.Context, own Own) (ledger.Store, segment.Store, error) {
	l, s, err := c.Stores.Open(ctx, own)
	return l, countedSegments{s, &c.scans}, err
}

type countedSegments struct {
	segment.Store
	scans *atomic.Int64
}

func (c countedSegments) Scan(ctx context.Context, s segment.Info, do func(segment.Found) error) error {
	c.scans.Add(1)
	return c.Store.Scan(ctx, s, do)
}
