package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shoal/channel"
	"shoal/channel/badgerdb/tables"
	"shoal/internal/wire/uplink"
	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/schema"
	"shoal/manager/archive/warc"
)

// aged makes an archive in which two pages of two hosts change with each of ten hourly crawls, one never does and one is a copy.
func aged(t *testing.T, dir string) (*Archive, *clock) {
	cl := &clock{time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)}
	cfg := testConfig(dir)
	cfg.Clock, cfg.Roll = cl.Now, 6<<10
	a := open(t, cfg)
	for gen := channel.Gen(1); gen <= 10; gen++ {
		for id := channel.ID(1); id <= 2; id++ {
			r, _ := start(t, a, "p", id, gen)
			same := r.page("/same", "same "+long, channel.New)
			if gen > 1 {
				same.Change, same.Body = channel.Unchanged, nil
			}
			r.put(channel.ChunkBody{Pages: []channel.Page{same, r.page("/x", version(id, gen), channel.Changed)}, Report: r.report(channel.Updated)})
		}
		cl.now = cl.now.Add(time.Hour)
	}
	return a, cl
}

// version is long enough and compresses badly.
func version(id channel.ID, gen channel.Gen) string {
	var b strings.Builder
	for n := range 60 {
		h := channel.URLHash(fmt.Sprint(id, gen, n))
		fmt.Fprintf(&b, "%x ", h)
	}
	return fmt.Sprintf("version %d of %d ", gen, id) + b.String()
}

func dirSize(t *testing.T, a *Archive) (n int64) {
	t.Helper()
	for _, name := range warcFiles(t, a) {
		n += fileSize(t, name)
	}
	return n
}

func clean(t *testing.T, a *Archive) Verified {
	t.Helper()
	v, err := a.Verify(context.Background(), nil)
	if err != nil || v.Found != 0 {
		t.Fatalf("verify: %v, %v", v.Problems, err)
	}
	return v
}

// TestRetainCompact forgets old versions and makes their bytes free; what is kept can be read, also after a restart and a second time.
func TestRetainCompact(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	a, cl := aged(t, dir)
	v := clean(t, a)
	if v.Files < 3 || v.Captures != 40 {
		t.Fatalf("sample: %+v", v)
	}
	before := dirSize(t, a)
	for round, keep := range []int{3, 1} {
		if _, err := a.Retain(ctx, Retention{Captures: keep}); err != nil {
			t.Fatal(err)
		}
		if v = clean(t, a); v.Captures != 2*keep+4 { // of what is unchanged the first visit and the last
			t.Errorf("%d captures, want %d", v.Captures, 2*keep+4)
		}
		c, err := a.Compact(ctx, 1)
		if err != nil || c.Files == 0 || c.Freed == 0 {
			t.Fatalf("compact: %+v, %v", c, err)
		}
		clean(t, a)
		if round == 0 {
			if err := a.Close(); err != nil {
				t.Fatal(err)
			}
			a = open(t, a.cfg)
		}
		for id := channel.ID(1); id <= 2; id++ {
			host := fmt.Sprintf("http://site-%d.example", id)
			if got, err := a.Get(ctx, host+"/same", time.Time{}); err != nil || string(got.Body) != "same "+long || len(got.Links) != 2 {
				t.Errorf("unchanged page: %.20q, links %v, %v", got.Body, got.Links, err)
			}
			if got, err := a.Get(ctx, host+"/x", time.Time{}); err != nil || string(got.Body) != version(id, 10) || len(got.Links) != 2 {
				t.Errorf("last version: %.20q, %v", got.Body, err)
			}
			if got, err := a.Get(ctx, host+"/x", cl.now.Add(-9*time.Hour)); !errors.Is(err, ErrNotFound) {
				t.Errorf("old version: %.20q, %v", got.Body, err)
			}
		}
	}
	if after := dirSize(t, a); after > before/3 {
		t.Errorf("%d bytes of %d are left", after, before)
	}
	if c, err := a.Compact(ctx, 1); err != nil || c.Files > 1 {
		t.Errorf("nothing to do: %+v, %v", c, err)
	}
	r, _ := start(t, a, "p", 1, 11)
	r.put(channel.ChunkBody{Pages: []channel.Page{r.page("/copy", "same "+long, channel.New)}})
	if got, err := a.Get(ctx, r.url("/copy"), time.Time{}); err != nil || !got.Revisit || string(got.Body) != "same "+long {
		t.Errorf("copy of what was moved: %.20q, %v", got.Body, err)
	}
	var w bytes.Buffer
	if _, err := a.Export(ctx, &w, ExportOptions{Format: FormatJSON}); err != nil || strings.Count(w.String(), `"removed":true`) == 0 {
		t.Errorf("export after retention: %v", err)
	}
}

func TestRetainAgeAndFeed(t *testing.T) {
	ctx := context.Background()
	a, _ := aged(t, t.TempDir())
	_, first, err := a.Changes(ctx, "", 1)
	if err != nil {
		t.Fatal(err)
	}
	entries, _, err := a.Feed(ctx, "", MaxFeed)
	if err != nil {
		t.Fatal(err)
	}
	rule := Retention{Age: 150 * time.Minute, Feed: 150 * time.Minute}
	if _, err := a.Retain(ctx, Retention{Feed: rule.Feed}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := a.Changes(ctx, first, 10); err != nil {
		t.Errorf("changes whose text was never extracted are forgotten: %v", err)
	}
	for {
		if n, err := a.ExtractText(ctx); err != nil || n == 0 {
			break
		}
	}
	got, err := a.Retain(ctx, rule)
	if err != nil || got.Captures != 4*8-2 { // what brought a page that is unchanged since stays
		t.Errorf("retain: %+v, %v", got, err)
	}
	if _, _, err := a.Changes(ctx, first, 10); !errors.Is(err, ErrTrimmed) {
		t.Errorf("a cursor from before what is kept: %v", err)
	}
	if c, _, err := a.Changes(ctx, "", MaxFeed); err != nil || len(c) != 4 {
		t.Errorf("%d changes are left, %v", len(c), err)
	}
	if e, _, err := a.Feed(ctx, "", MaxFeed); err != nil || len(e) != len(entries) {
		t.Errorf("%d entries of %d that nobody acknowledged are left, %v", len(e), len(entries), err)
	}
	if err := a.Ack(ctx, entries[9].Cursor); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Retain(ctx, Retention{Feed: 150 * time.Minute}); err != nil {
		t.Fatal(err)
	}
	if e, _, err := a.Feed(ctx, entries[9].Cursor, MaxFeed); err != nil || len(e) != len(entries)-10 {
		t.Errorf("%d entries after the acknowledged ones, want %d, %v", len(e), len(entries)-10, err)
	}
}

// TestKeep forgets by itself what its rule does not keep, and gives the room back.
func TestKeep(t *testing.T) {
	dir := t.TempDir()
	a, cl := aged(t, dir)
	before := dirSize(t, a)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	cfg := testConfig(dir)
	cfg.Clock, cfg.Keep, cfg.KeepEvery = cl.Now, Retention{Captures: 1}, time.Millisecond
	a = open(t, cfg)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	size := func() (n int64) {
		files, err := os.ReadDir(filepath.Join(dir, "warc"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if info, err := f.Info(); err == nil { // it may be gone meanwhile
				n += info.Size()
			}
		}
		return n
	}
	for end := time.Now().Add(time.Minute); size() > before/2; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d bytes of %d are left", size(), before)
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	clean(t, a)
	if _, err := Open(t.Context(), Config{Dir: t.TempDir(), Verify: testVerify, Keep: Retention{Age: -1}}); err == nil {
		t.Error("a negative age is taken")
	}
}

// TestPurge takes a host down: it is in no file any more, the other is whole, and indexers are told.
func TestPurge(t *testing.T) {
	ctx := context.Background()
	a, _ := aged(t, t.TempDir())
	hosts, err := channel.ParseHosts("site-1.example")
	if err != nil {
		t.Fatal(err)
	}
	n, err := a.Purge(ctx, hosts)
	if err != nil || n != 2 {
		t.Fatalf("purge: %d, %v", n, err)
	}
	if c, err := a.Compact(ctx, 0); err != nil || c.Files == 0 { // whatever share is still needed
		t.Fatalf("compacted %+v, %v", c, err)
	}
	if c, err := a.Compact(ctx, 0); err != nil || c.Files != 0 {
		t.Fatalf("compacted again %+v, %v", c, err)
	}
	clean(t, a)
	if _, err := a.Get(ctx, "http://site-1.example/x", time.Time{}); !errors.Is(err, ErrNotFound) {
		t.Errorf("a page of the host: %v", err)
	}
	if got, err := a.Get(ctx, "http://site-2.example/same", time.Time{}); err != nil || string(got.Body) != "same "+long {
		t.Errorf("a page of the other that was stored with the first: %.20q, %v", got.Body, err)
	}
	var w bytes.Buffer
	if _, err := a.Export(ctx, &w, ExportOptions{Format: FormatWARC}); err != nil {
		t.Fatal(err)
	}
	sc := scanBytes(t, w.String())
	if changes := changesOf(t, a); !strings.HasSuffix(changes, "gone /same; gone /x") || sc != 1+2*11 {
		t.Errorf("changes %s, %d records", changes, sc)
	}
	if k, err := a.Known(ctx, 1, time.Time{}); err != nil || k.Pages != 0 {
		t.Errorf("known: %+v, %v", k, err)
	}
}

// TestRepair damages files in several ways: verify names it, repair forgets what cannot be read, the next crawl fetches it again.
func TestRepair(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for name, damage := range map[string]func(path string) error{
		"bytes in the middle": func(path string) error {
			b, err := os.ReadFile(path)
			if err == nil {
				clear(b[len(b)/3 : len(b)/2])
				err = os.WriteFile(path, b, 0o640)
			}
			return err
		},
		"cut mid-record": func(path string) error {
			st, err := os.Stat(path)
			if err == nil {
				err = os.Truncate(path, st.Size()/2)
			}
			return err
		},
		"gone": os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			a, _ := aged(t, t.TempDir())
			whole := clean(t, a)
			if err := a.Close(); err != nil {
				t.Fatal(err)
			}
			files, err := filepath.Glob(filepath.Join(filepath.Join(a.cfg.Dir, "warc"), "*"))
			if err != nil {
				t.Fatal(err)
			}
			if err := damage(files[0]); err != nil {
				t.Fatal(err)
			}
			a = open(t, a.cfg)
			v, err := a.Verify(ctx, nil)
			if err != nil || v.Found == 0 {
				t.Fatalf("verify of a damaged archive: %+v, %v", v.Problems, err)
			}
			if _, err := a.Compact(ctx, .5); name == "bytes in the middle" && !errors.Is(err, warc.ErrMalformed) {
				t.Errorf("compaction of what is damaged and needed: %v", err)
			}
			got, err := a.Repair(ctx)
			if err != nil || got.Captures == 0 {
				t.Fatalf("repair: %+v, %v", got, err)
			}
			for range 2 {
				v, err = a.Verify(ctx, nil)
				if err != nil || v.Captures != whole.Captures-got.Captures {
					t.Errorf("%d captures of %d, %d forgotten, %v", v.Captures, whole.Captures, got.Captures, err)
				}
				for _, p := range v.Problems {
					if name != "bytes in the middle" || p.File == "index" {
						t.Errorf("after the repair: %v", p)
					}
				}
				if err := a.Close(); err != nil {
					t.Fatal(err)
				}
				a = open(t, a.cfg)
			}
			if _, err := a.Compact(ctx, .01); err != nil {
				t.Errorf("compaction after the repair: %v", err)
			}
			v, err = a.Verify(ctx, nil)
			if err != nil || v.Captures != whole.Captures-got.Captures || v.Found != 0 {
				t.Errorf("after repair and compaction %d captures of %d, %d forgotten, %+v, %v", v.Captures, whole.Captures, got.Captures, v.Problems, err)
			}
			r, _ := start(t, a, "p", 1, 11)
			r.put(channel.ChunkBody{Pages: []channel.Page{r.page("/same", "same "+long, channel.Changed)}, Report: r.report(channel.Updated)})
			if c, err := a.Get(ctx, r.url("/same"), time.Time{}); err != nil || string(c.Body) != "same "+long {
				t.Errorf("fetched again: %.20q, %v", c.Body, err)
			}
		})
	}
}

// TestBackup backs up beside a crawl, restores elsewhere, and goes on there with the cursors of before.
func TestBackup(t *testing.T) {
	ctx := context.Background()
	a, cl := aged(t, t.TempDir())
	r, _ := start(t, a, "p", 1, 11)
	r.put(channel.ChunkBody{Pages: []channel.Page{r.page("/new", "new "+long, channel.New)}})
	_, cursor, err := a.Changes(ctx, "", MaxFeed)
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "backups", "one")
	if err := a.Backup(ctx, to); err != nil {
		t.Fatal(err)
	}
	if err := a.Backup(ctx, to); err == nil {
		t.Error("a backup was overwritten")
	}
	taken := t.TempDir()
	if err := a.Backup(ctx, taken); err == nil {
		t.Error("a backup was made in a folder that was there")
	}
	if left, err := os.ReadDir(taken); err != nil || len(left) > 0 {
		t.Errorf("in that folder are now %v, %v", left, err)
	}
	r.put(channel.ChunkBody{Pages: []channel.Page{r.page("/lost", "lost "+long, channel.New)}})

	dir := filepath.Join(t.TempDir(), "restored")
	if err := Restore(ctx, to, dir); err != nil {
		t.Fatal(err)
	}
	if err := Restore(ctx, to, dir); !errors.Is(err, ErrNotEmpty) {
		t.Errorf("restored over something: %v", err)
	}
	cfg := testConfig(dir)
	cfg.Clock = cl.Now
	b := open(t, cfg)
	clean(t, b)
	if got, err := b.Get(ctx, r.url("/new"), time.Time{}); err != nil || string(got.Body) != "new "+long {
		t.Errorf("page of before: %.20q, %v", got.Body, err)
	}
	if c, _, err := b.Changes(ctx, cursor, 10); err != nil || len(c) != 0 {
		t.Errorf("changes after the cursor: %v, %v", c, err)
	}
	r.a, r.said = b, nil // it has lost that
	c := r.chunk(channel.ChunkBody{})
	if got, err := b.Put(ctx, "p", c); err != nil || got.Seq != 11 {
		t.Errorf("a chunk on a head that was lost: %+v, %v", got, err)
	}
	got, err := b.Claim(ctx, "p", first(task(1, 11, cl.now.Add(time.Hour)))) // a claim that is repeated takes the next number
	if err != nil || got.Resume.Seq != 12 {
		t.Fatalf("claim: %+v, %v", got.Reply, err)
	}
	r.seq, r.head = got.Resume.Seq, got.Resume.Head
	r.put(channel.ChunkBody{Pages: []channel.Page{r.page("/lost", "lost "+long, channel.New)}})
	if c, _, err := b.Changes(ctx, cursor, 10); err != nil || len(c) != 1 || !strings.HasSuffix(c[0].URL, "/lost") {
		t.Errorf("changes after the cursor: %v, %v", c, err)
	}
	if err := os.Remove(filepath.Join(to, "backup.json")); err != nil {
		t.Fatal(err)
	}
	if err := Restore(ctx, to, filepath.Join(dir, "x")); !errors.Is(err, ErrNotBackup) {
		t.Errorf("restored half a backup: %v", err)
	}
}

func first(s channel.Signed, _ []byte) channel.Signed { return s }

// TestRebuild breaks the database: opening says what to do, and rebuilding makes a new one from the files.
func TestRebuild(t *testing.T) {
	ctx := context.Background()
	a, cl := aged(t, t.TempDir())
	changes, cursor, err := a.Changes(ctx, "", MaxFeed)
	if err != nil || len(changes) == 0 {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(filepath.Join(a.cfg.Dir, "state"), "MANIFEST"), []byte("no manifest"), 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(ctx, a.cfg); !errors.Is(err, ErrState) || !strings.Contains(err.Error(), "repair --rebuild") {
		t.Fatalf("opened a broken database: %v", err)
	}
	// A record that was being written when the process died.
	names := warcFiles(t, a)
	f, err := os.OpenFile(names[len(names)-1], os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte("\x1f\x8b\x08 half a record")); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := Rebuild(ctx, a.cfg)
	if err != nil || got.Pages != 4 || got.Captures != 40 || got.Damaged != 1 {
		t.Fatalf("rebuild: %+v, %v", got, err)
	}
	a = open(t, a.cfg)
	clean(t, a)
	if c, err := a.Get(ctx, "http://site-2.example/x", cl.now.Add(-5*time.Hour)); err != nil || string(c.Body) != version(2, 6) {
		t.Errorf("a version of before: %.20q, %v", c.Body, err)
	}
	if _, _, err := a.Changes(ctx, cursor, 10); !errors.Is(err, ErrCursor) {
		t.Errorf("a cursor of before: %v", err)
	}
	if got, want := changesOf(t, a), "created /same; created /x; created /same; created /x"; got != want {
		t.Errorf("changes %q, want %q", got, want)
	}
	r, c := start(t, a, "p", 1, 40)
	if c.Resume.Seq != 0 {
		t.Errorf("resume %+v", c.Resume)
	}
	r.put(channel.ChunkBody{Pages: []channel.Page{r.page("/x", version(1, 40), channel.Changed), r.page("/same", "same "+long, channel.New)}, Report: r.report(channel.Updated)})
	if got, want := changesOf(t, a), "created /same; created /x; created /same; created /x; changed /x"; got != want {
		t.Errorf("changes %q, want %q", got, want)
	}
	if k, err := a.Known(ctx, 1, time.Time{}); err != nil || k.Pages != 2 || len(k.Digests) != 2 {
		t.Errorf("known: %+v, %v", k, err)
	}
	clean(t, a)
}

// TestScrub turns one bit of a table: the open archive takes nothing more and says why, and a new start is refused, until the bit is back.
func TestScrub(t *testing.T) {
	ctx := context.Background()
	a, _ := aged(t, t.TempDir())
	if err := a.Close(); err != nil { // what was in memory is a table now
		t.Fatal(err)
	}
	names, err := filepath.Glob(filepath.Join(filepath.Join(a.cfg.Dir, "state"), "*.sst"))
	if err != nil || len(names) == 0 {
		t.Fatalf("tables %v, %v", names, err)
	}
	flip := func() {
		raw, err := os.ReadFile(names[0])
		if err != nil {
			t.Fatal(err)
		}
		raw[100] ^= 1
		f, err := os.OpenFile(names[0], os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt(raw[100:101], 100); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	cfg := a.cfg
	beside := cfg
	beside.Beside = func(context.Context) ([]Problem, error) { return []Problem{{File: "beside"}}, nil }
	b, err := Open(ctx, beside)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Scrub(ctx); err != nil || b.Trouble() != "" {
		t.Errorf("a sound archive: %v, %q", err, b.Trouble())
	}
	flip()
	if err := b.Scrub(ctx); !errors.Is(err, tables.ErrChanged) || !errors.Is(err, uplink.ErrLater) {
		t.Errorf("scrubbed: %v", err)
	}
	if v, err := b.Verify(ctx, nil); err != nil || v.Found != 2 || v.Problems[0].File != "state" || !strings.Contains(v.Problems[0].What, "table") || v.Problems[1].File != "beside" {
		t.Errorf("verified: %+v, %v", v.Problems, err)
	}
	if err := b.Backup(ctx, filepath.Join(t.TempDir(), "backup")); !errors.Is(err, tables.ErrChanged) {
		t.Errorf("backed up: %v", err)
	}
	if s := b.Trouble(); !strings.Contains(s, "repair --rebuild") || !strings.Contains(s, "table") {
		t.Errorf("trouble %q", s)
	}
	task, body := task(9, 90, cfg.Clock().Add(time.Hour))
	if err := b.Deposit(ctx, task, body); !errors.Is(err, uplink.ErrLater) {
		t.Errorf("taken in with a damaged table: %v", err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(ctx, cfg); !errors.Is(err, ErrState) || !strings.Contains(err.Error(), "repair --rebuild") {
		t.Errorf("opened with a damaged table: %v", err)
	}
	flip()
	clean(t, open(t, cfg))
}

// TestReadersOfAnOldSnapshot compacts while a reader is at work. Its records then lie in other files than its snapshot says, and it must find them all.
func TestReadersOfAnOldSnapshot(t *testing.T) {
	a, _ := aged(t, t.TempDir())
	if _, err := a.Retain(t.Context(), Retention{Captures: 3}); err != nil {
		t.Fatal(err)
	}
	seen := 0
	err := a.View(func(snap ledger.Snapshot) error {
		if c, err := a.Compact(t.Context(), 1); err != nil || c.Files == 0 || c.Moved == 0 {
			t.Fatalf("compact: %+v, %v", c, err)
		}
		return snap.Scan([]byte{schema.Capture}, nil, true, func(_, value []byte) (bool, error) {
			m := new(pb.Capture)
			if err := schema.Decode(value, m); err != nil {
				return false, err
			}
			seen++
			_, err := a.Locate(snap, schema.Location(m.At))
			return true, err
		})
	})
	if err != nil || seen != 10 {
		t.Errorf("%d captures found, %v", seen, err)
	}
}

// TestRetentionCountsVersions keeps the last two versions of a page, whatever number of visits saw them, and of each the visits
// that say whose it is and until when it was there.
func TestRetentionCountsVersions(t *testing.T) {
	a, cl, _ := strangers(t)
	begun := cl.now
	versions := [][]string{{"alice", "bob", "alice", "carol"}, {"bob", "said alice", "said alice", "carol", "alice"}, {"alice", "said bob", "said carol", "said bob"}}
	gen := channel.Gen(0)
	var last []time.Time // visits of the versions
	for n, visits := range versions {
		for _, who := range visits {
			gen++
			peer, said := strings.CutPrefix(who, "said ")
			cl.now = cl.now.Add(time.Hour)
			cl.crawl(t, a, peer, gen, func(r *runner) []channel.Page {
				p := r.page("/", version(1, channel.Gen(n)), channel.Changed)
				if said {
					p = channel.Page{URL: r.url("/"), Status: 304, Change: channel.Unchanged, Fetched: cl.now}
				}
				return []channel.Page{p}
			})
		}
		last = append(last, cl.now)
	}
	url := "http://site-1.example/"
	would, err := a.WouldForget(t.Context(), Retention{Captures: 2})
	if err != nil {
		t.Fatal(err)
	}
	out, err := a.Retain(t.Context(), Retention{Captures: 2})
	if err != nil || out.Captures != 13-5 || would != out {
		t.Errorf("%+v, %+v, %v", out, would, err)
	}
	for n, at := range last {
		c, err := a.Get(t.Context(), url, at)
		switch {
		case n == 0 && !errors.Is(err, ErrNotFound):
			t.Errorf("the first version is there: %v, %v", c.Fetched, err)
		case n > 0 && (err != nil || string(c.Body) != version(1, channel.Gen(n)) || !c.Fetched.Equal(at)):
			t.Errorf("version %d: %.20q of %v, %v", n, c.Body, c.Fetched.Sub(begun), err)
		}
	}
	if out, err = a.Retain(t.Context(), Retention{Captures: 2}); err != nil || out.Captures != 0 {
		t.Errorf("again %+v, %v", out, err)
	}
	// the second version is bob's, and carol has fetched it too: it outlives bob
	if _, err := a.Withdraw(t.Context(), "bob"); err != nil {
		t.Fatal(err)
	}
	if c, err := a.Get(t.Context(), url, last[1]); err != nil || string(c.Body) != version(1, 1) {
		t.Errorf("the second version without who brought it: %.20q, %v", c.Body, err)
	}
	clean(t, a)
}
