package archive

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"shoal/channel"
	"shoal/manager/archive/warc"
)

// flips are pages that become what they were before: their contents are found by digest, also in records that nothing refers to any more.
func (r *runner) flip(n int) channel.ChunkBody {
	var b channel.ChunkBody
	for i := range 4 {
		b.Pages = append(b.Pages, r.page(fmt.Sprint("/", i), version(r.id+channel.ID(i), channel.Gen(n%3)), channel.Changed))
	}
	return b
}

// TestUpkeepBesideChunks forgets, compacts and verifies without a break while chunks come in: nothing that was acknowledged is lost, and
// nothing is called damaged that is not.
func TestUpkeepBesideChunks(t *testing.T) {
	cfg := testConfig(t.TempDir())
	cfg.Roll = 256 << 10
	a := open(t, cfg)
	ctx := context.Background()
	var peers sync.WaitGroup
	stop := make(chan struct{})
	for id := channel.ID(1); id <= 2; id++ {
		r, _ := start(t, a, fmt.Sprint("peer ", id), id, 1)
		peers.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
					r.put(r.flip(n))
				}
			}
		})
	}
	rewritten := 0
	for range 6 {
		until := a.Stats().Chunks + 6 // so that there is something to forget
		for a.Stats().Chunks < until && !t.Failed() {
			time.Sleep(time.Millisecond)
		}
		if _, err := a.Retain(ctx, Retention{Captures: 1}); err != nil {
			t.Error(err)
		}
		c, err := a.Compact(ctx, 1)
		if err != nil {
			t.Error(err)
		}
		rewritten += c.Files
		clean(t, a)
	}
	close(stop)
	peers.Wait()
	clean(t, a)
	if rewritten < 3 {
		t.Errorf("%d files were rewritten", rewritten)
	}
}

// amidFS calls back when a file that is there is opened: compaction has begun to read it.
type amidFS struct {
	warc.FS
	opened func()
}

func (f *amidFS) Open(name string, write bool) (warc.File, error) {
	if f.opened != nil && !write {
		do := f.opened
		f.opened = nil
		do()
	}
	return f.FS.Open(name, write)
}

// worthCompacting is an archive with a file of which little is needed.
func worthCompacting(t *testing.T) (*Archive, *runner, *amidFS) {
	t.Helper()
	fsys := &amidFS{FS: warc.OS{}}
	cfg := testConfig(t.TempDir())
	cfg.FS = fsys
	a := open(t, cfg)
	r, _ := start(t, a, "p", 1, 1)
	for n := range 3 {
		r.put(r.flip(n))
	}
	if _, err := a.Retain(t.Context(), Retention{Captures: 1}); err != nil {
		t.Fatal(err)
	}
	return a, r, fsys
}

// TestCompactKeepsWhatComesBack has a page become what it once was while the record of that is being compacted away.
func TestCompactKeepsWhatComesBack(t *testing.T) {
	a, r, fsys := worthCompacting(t)
	fsys.opened = func() { r.put(r.flip(0)) }
	if c, err := a.Compact(t.Context(), 1); err != nil || c.Files != 1 {
		t.Fatalf("compacted %+v, %v", c, err)
	}
	clean(t, a)
	got, err := a.Get(t.Context(), r.url("/0"), r.a.cfg.Clock())
	if err != nil || string(got.Body) != version(1, 0) {
		t.Errorf("the page that came back: %.20q, %v", got.Body, err)
	}
}

// TestWorkIsTold has a compaction stand still while it reads a file, and a verification wait for its end: both are told, and then neither.
func TestWorkIsTold(t *testing.T) {
	a, _, fsys := worthCompacting(t)
	if w := a.Stats().Work; w != nil {
		t.Errorf("at work before: %v", w)
	}
	reads, goOn := make(chan struct{}), make(chan struct{})
	fsys.opened = func() { close(reads); <-goOn }
	var both sync.WaitGroup
	both.Go(func() {
		if _, err := a.Compact(t.Context(), 1); err != nil {
			t.Error(err)
		}
	})
	<-reads
	both.Go(func() { clean(t, a) })
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if w := a.Stats().Work; w != nil && len(w.Waiting) > 0 || time.Now().After(deadline) {
			break
		}
	}
	w := a.Stats().Work
	if w == nil || w.All == 0 || w.Done != 0 {
		t.Fatalf("at work: %+v", w)
	}
	want := fmt.Sprintf("compaction since %s, reading files (0.0 of %.1f MB); waiting for its turn: verification", w.Since.UTC().Format("15:04:05 UTC"), float64(w.All)/1e6)
	if got := w.String(); got != want {
		t.Errorf("at work: %q, want %q", got, want)
	}
	close(goOn)
	both.Wait()
	if w := a.Stats().Work; w != nil {
		t.Errorf("at work after it: %v", w)
	}
}
