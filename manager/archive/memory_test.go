package archive

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/manager/archive/ledger/memledger"
	"shoal/manager/archive/warc"
	"shoal/manager/archive/warc/memory"
)

// diskless is an archive on stores in memory. Its locations count records, so that it fails where anything takes one for a place in a file.
type diskless struct {
	cfg      Config
	records  *memledger.Store
	segments *memory.Store
}

func newDiskless(t *testing.T) *diskless {
	t.Helper()
	d := &diskless{cfg: testConfig("memory"), records: memledger.New(), segments: memory.New(memory.Config{Roll: 4 << 10})}
	if err := d.cfg.validate(); err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *diskless) open(t *testing.T) *Archive {
	t.Helper()
	pack, err := warc.NewCompressor(1)
	if err != nil {
		t.Fatal(err)
	}
	d.records.Reopen()
	a, err := assemble(t.Context(), d.cfg, pack, d.records, d.segments)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestWithoutDisk has ledger, pages and upkeep work on other stores than Badger and files: crawls, a power cut, retention, compaction, a takedown.
func TestWithoutDisk(t *testing.T) {
	ctx := t.Context()
	d := newDiskless(t)
	a := d.open(t)
	for gen := channel.Gen(1); gen <= 3; gen++ {
		for id := channel.ID(1); id <= 3; id++ {
			r, _ := start(t, a, "p", id, gen)
			for n := range 4 {
				r.send(channel.ChunkBody{Pages: []channel.Page{r.page(fmt.Sprint("/", n), crashPage(id, uint64(gen), n), channel.Changed), r.page("/same", long, channel.New)}})
			}
			r.put(channel.ChunkBody{Report: r.report(channel.Updated)})
		}
	}
	whole := func(a *Archive, channels ...channel.ID) {
		t.Helper()
		for _, id := range channels {
			for n := range 4 {
				url := fmt.Sprintf("http://site-%d.example/%d", id, n)
				if got, err := a.Get(ctx, url, time.Time{}); err != nil || string(got.Body) != crashPage(id, 3, n) {
					t.Fatalf("%s: %.40q, %v", url, got.Body, err)
				}
			}
		}
		clean(t, a)
	}
	whole(a, 1, 2, 3)
	r, _ := start(t, a, "p", 1, 4)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	d.segments.Crash()
	a = d.open(t)
	whole(a, 1, 2, 3)
	r.a = a
	if got, err := a.Put(ctx, "p", r.chunk(channel.ChunkBody{Report: r.report(channel.Updated)})); err != nil || got.Status != lease.Stored {
		t.Errorf("the crawl does not go on: %v, %v", got.Status, err)
	}
	before := a.Stats().Files
	if out, err := a.Tidy(ctx, Retention{Captures: 1}, 1); err != nil || out.Compacted.Files == 0 || out.Compacted.Moved == 0 {
		t.Fatalf("tidied %+v of %d segments, %v", out, before, err)
	}
	whole(a, 1, 2, 3)
	if n, err := a.Purge(ctx, hostsOf(t, "site-2.example")); err != nil || n != 5 {
		t.Fatalf("%d pages purged, %v", n, err)
	}
	if _, err := a.Compact(ctx, 0); err != nil {
		t.Fatal(err)
	}
	whole(a, 1, 3)
	if _, err := a.Get(ctx, "http://site-2.example/1", time.Time{}); !errors.Is(err, ErrNotFound) {
		t.Errorf("what was taken down: %v", err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	whole(d.open(t), 1, 3)
}
