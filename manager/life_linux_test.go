package manager_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"shoal/channel"
	"shoal/channel/badgerdb"
	"shoal/channel/lease"
	"shoal/coords"
	"shoal/internal/lab/processor"
	"shoal/internal/member"
	"shoal/manager"
	"shoal/manager/archive"
	"shoal/overlay"
	"shoal/recrawl"
)

// The settings of `make life`.
const (
	lifeChannelsEnv = "SHOAL_LIFE_CHANNELS"
	lifeWeeksEnv    = "SHOAL_LIFE_WEEKS"
	lifeRateEnv     = "SHOAL_LIFE_RATE" // tasks a second: as many as the machine can do, or weeks are not alike
	lifeDirEnv      = "SHOAL_LIFE_DIR"  // where the life is kept, so that it can be gone on with; empty: it is not
)

const (
	lifePeers    = 16
	lifeCrawls   = 64 // at a time
	lifeVersions = 2  // of a page that are kept
	lifePage     = 1000
	lifeLeast    = 300 // ticks of a week
	lifeSteps    = 8   // of a week, in each of which a page changes or does not
	lifeTick     = 10 * time.Millisecond
	lifeHour     = 1. / 42 // of a week: what happens each four hours
	lifeRoll     = 2 << 20 // bytes of a WARC file: as many of them as a large archive has
	lifeFirst    = 1000    // channels added at a time
)

// volunteers stand in for overlay and peers: they claim what is placed, and deliver the channel's page at once. A page changes once a week on average, by
// chance, so that all weeks are alike.
type volunteers struct {
	archive *archive.Archive
	view    *overlay.View
	room    chan struct{}
	crawls  sync.WaitGroup
	failed  atomic.Int64
	why     atomic.Value // of the last failure
	clock   lifeClock
	week    time.Duration
}

// lifeClock goes on where the life's last process stopped it.
type lifeClock struct{ began, real time.Time }

func (c lifeClock) Now() time.Time { return c.began.Add(time.Since(c.real)) }

func newVolunteers(clock lifeClock, week time.Duration) *volunteers {
	var peers []overlay.PeerRecord
	for i := range lifePeers {
		peers = append(peers, overlay.PeerRecord{ID: overlay.ID(fmt.Sprint("peer-", i)), Load: overlay.Load{Threads: 32, Slots: 64}})
	}
	return &volunteers{view: overlay.ViewOf(clock.Now(), peers), room: make(chan struct{}, lifeCrawls), clock: clock, week: week}
}

// version counts a page's changes in its life.
func (v *volunteers) version(id channel.ID, now time.Time) (changes uint64) {
	steps := uint64(now.Sub(lifeEpoch) * lifeSteps / v.week)
	for step := range steps {
		if rand.New(rand.NewPCG(uint64(id), step)).Float64() < -math.Expm1(-1./lifeSteps) {
			changes++
		}
	}
	return changes
}

// lifeEpoch is when every life begins.
var lifeEpoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func (v *volunteers) Coord() coords.Coord          { return coords.Coord{Err: 1} }
func (v *volunteers) View() *overlay.View          { return v.view }
func (v *volunteers) Delivered(overlay.ID)         {}
func (v *volunteers) Wasted(overlay.ID, time.Time) {}
func (v *volunteers) GaveBack(overlay.ID)          {}

func (v *volunteers) Survey(context.Context, overlay.Survey, coords.HostRecord) ([]coords.Sample, error) {
	return []coords.Sample{{Vantage: "peer-0", RTT: 10 * time.Millisecond, At: coords.Coord{Err: .1}}}, nil
}

func (v *volunteers) Place(_ context.Context, signed channel.Signed, h channel.Header, _ coords.HostRecord, _ overlay.Named) (overlay.Placed, error) {
	peer := fmt.Sprint("peer-", uint64(h.Channel)%lifePeers)
	v.crawls.Go(func() {
		v.room <- struct{}{}
		defer func() { <-v.room }()
		if err := v.crawl(peer, signed, h); err != nil && !errors.Is(err, archive.ErrClosed) {
			v.failed.Add(1)
			v.why.Store(err)
		}
	})
	return overlay.Placed{Peer: overlay.ID(peer), Start: time.Now(), Hops: 2, RTT: 5 * time.Millisecond, RandomRTT: 50 * time.Millisecond}, nil
}

func (v *volunteers) crawl(peer string, signed channel.Signed, h channel.Header) error {
	ctx := context.Background()
	c, err := v.archive.Claim(ctx, peer, signed)
	if err != nil {
		return err
	}
	if c.Status == lease.Late {
		return nil // the machine is busy; it is handed out again
	}
	if c.Status != lease.Granted {
		return fmt.Errorf("claim: %v", c.Status)
	}
	task, err := channel.ParseBody(c.Body)
	if err != nil {
		return err
	}
	now := v.clock.Now()
	html := v.page(h.Channel, now)
	page := channel.Page{URL: h.Host + "/", Status: 304, Change: channel.Unchanged, Fetched: now}
	report := channel.Report{Channel: h.Channel, Gen: h.Gen, Peer: peer, Outcome: channel.Updated, Started: now, Ended: now.Add(time.Millisecond), Pages: 1, BytesDown: lifePage}
	if digest := channel.ContentDigest(html); len(task.Digests) == 0 || task.Digests[0].Content != digest {
		page.Status, page.Change, page.Header = 200, channel.New, []byte("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n")
		page.Body, page.Digest = html, digest
		report.New = 1
		if len(task.Digests) > 0 {
			page.Change, report.New, report.Changed = channel.Changed, 0, 1
		}
	} else {
		report.Unchanged = 1
	}
	body := channel.ChunkBody{Pages: []channel.Page{page}, Report: &report}
	raw, err := channel.CompressBody(body.Marshal())
	if err != nil {
		return err
	}
	r, err := v.archive.Put(ctx, peer, channel.Chunk{Channel: h.Channel, Gen: h.Gen, Seq: c.Seq + 1, Prev: c.Head, Body: raw})
	if err == nil && r.Status != lease.Stored {
		err = fmt.Errorf("chunk: %v", r.Status)
	}
	return err
}

// page is what a channel's page shows.
func (v *volunteers) page(id channel.ID, now time.Time) []byte {
	version := v.version(id, now)
	body := fmt.Appendf(nil, "<title>%d of %d</title>", version, id)
	for r := rand.New(rand.NewPCG(uint64(id), version)); len(body) < lifePage; {
		body = strconv.AppendUint(append(body, ' '), r.Uint64(), 36)
	}
	return body
}

// life is a manager with its archive in a folder.
type life struct {
	m    *manager.Manager
	a    *archive.Archive
	v    *volunteers
	stop func() error
}

// openLife opens what is in a folder.
func openLife(dir string, v *volunteers) (*life, error) {
	keys, err := member.LoadOrCreate(dir+"/keys", v.clock.Now())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	hour := time.Duration(float64(v.week) * lifeHour)
	stored := badgerdb.Default(dir + "/db")
	stored.ScrubEvery, stored.ScrubRate = hour, 0
	db, err := badgerdb.Open(ctx, stored)
	if err != nil {
		cancel()
		return nil, err
	}
	cfg := manager.Default()
	cfg.Tick, cfg.Gap, cfg.Now = lifeTick, time.Millisecond, v.clock.Now
	week := float64(v.week / lifeTick)
	cfg.Options.MinTicks, cfg.Options.Initial, cfg.Options.Prior = 2, []float64{week}, recrawl.Prior(week, .5)
	cfg.Terms.Slack = time.Second
	verifier := member.NewVerifier(keys.Network)
	a, err := archive.Open(ctx, archive.Config{Dir: dir + "/archive", Terms: cfg.Terms, Verify: verifier.VerifyTask, Clock: v.clock.Now, Own: v.clock.Now, Roll: lifeRoll,
		Keep: archive.Retention{Captures: lifeVersions, Feed: v.week / 7}, KeepEvery: hour, CheckEvery: hour})
	if err != nil {
		cancel()
		return nil, errors.Join(err, db.Close())
	}
	v.archive = a
	cfg.Store, cfg.Archive, cfg.Evidence, cfg.Swarm, cfg.Sign, cfg.Network, cfg.ArchiveID = db, a, a.Evidence, v, keys.Authority.SignHeader, keys.Network, "archive"
	m, err := manager.New(ctx, cfg)
	if err != nil {
		cancel()
		return nil, errors.Join(err, a.Close(), db.Close())
	}
	var runs, stores sync.WaitGroup
	actx, stopArchive := context.WithCancel(context.Background())
	runs.Go(func() { _ = m.Run(ctx) })
	stores.Go(func() { _ = a.Run(actx) })
	return &life{m: m, a: a, v: v, stop: func() error {
		cancel()
		runs.Wait()
		v.crawls.Wait()
		stopArchive()
		stores.Wait()
		return errors.Join(a.Close(), db.Close())
	}}, nil
}

// TestLife lets a manager and its archive live for eight weeks, in each of which every channel is crawled once, and starts them anew after each. With as
// many versions kept as before, nothing may grow with the weeks but what is counted: files, memory, CPU time a task, the time of a start. See grown.
func TestLife(t *testing.T) {
	number := func(env string, otherwise int) int {
		s := os.Getenv(env)
		if s == "" {
			return otherwise
		}
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			t.Fatalf("%s=%s: want a whole number", env, s)
		}
		return n
	}
	channels, weeks, rate := number(lifeChannelsEnv, 0), number(lifeWeeksEnv, 8), number(lifeRateEnv, 700)
	if channels == 0 {
		t.Skip("make life runs this")
	}
	dir := os.Getenv(lifeDirEnv)
	if dir == "" {
		dir = t.TempDir()
	}
	lived, last, at, err := readLife(dir)
	if err != nil {
		t.Fatal(err)
	}
	first, clock := last+1, lifeClock{began: lifeEpoch.Add(at), real: time.Now()}
	v := newVolunteers(clock, max(time.Duration(float64(channels)/float64(rate)*float64(time.Second)), lifeLeast*lifeTick))
	l, err := openLife(dir, v)
	if err != nil {
		t.Fatal(err)
	}
	for n := l.m.Overview().Channels; n < channels; {
		var chs []channel.Channel
		for ; n < channels && len(chs) < lifeFirst; n++ {
			host := fmt.Sprintf("https://host-%07d.example", n)
			chs = append(chs, channel.Channel{State: channel.Active, Added: clock.Now(), Seeds: []string{host + "/"}, Scope: channel.Scope{Kind: channel.WholeHost, Host: host}})
		}
		if _, refused, err := l.m.AddChannels(t.Context(), chs); err != nil || len(refused) > 0 {
			t.Fatal(err, refused)
		}
	}
	t.Logf("%4s %9s %8s %8s %9s %9s %9s %7s", "week", "tasks", "tasks/s", "us/task", "db MB", "arch. MB", "heap MB", "start s")
	for week := first; week <= weeks; week++ {
		began, cpu, before := time.Now(), processor.Time(t), l.m.Overview().Updates
		for l.m.Overview().Updates-before < int64(channels) {
			if n := v.failed.Load(); n > int64(channels)/100+10 {
				t.Fatalf("%d crawls failed, the last one: %v", n, v.why.Load())
			}
			time.Sleep(50 * time.Millisecond)
		}
		tasks, took, used := l.m.Overview().Updates-before, time.Since(began), processor.Time(t)-cpu
		var mem runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&mem)
		if err := l.stop(); err != nil {
			t.Fatal(err)
		}
		db, arch := sizeOf(t, dir+"/db"), sizeOf(t, dir+"/archive")
		began = time.Now()
		if l, err = openLife(dir, v); err != nil {
			t.Fatal(err)
		}
		for l.m.Overview().Channels != channels {
			time.Sleep(time.Millisecond)
		}
		w := lifeWeek{cpu: float64(used.Microseconds()) / float64(tasks), db: mb(db), archive: mb(arch), heap: mb(int64(mem.HeapAlloc)), start: time.Since(began).Seconds()}
		lived = append(lived, w)
		t.Logf("%4d %9d %8.0f %8.0f %9.1f %9.1f %9.1f %7.2f", week, tasks, float64(tasks)/took.Seconds(), w.cpu, w.db, w.archive, w.heap, w.start)
		t.Logf("     %s", parts(t, dir))
		if err := w.keep(dir, week, clock.Now().Sub(lifeEpoch)); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.stop(); err != nil {
		t.Fatal(err)
	}
	if len(lived) < lifeJudged {
		t.Logf("this life is not judged: %d of its weeks were measured, %d are needed", len(lived), lifeJudged)
	}
	for _, what := range grown(lived) {
		t.Error(what)
	}
}

// lifeWeek is what a week took: microseconds of processor time a task, MiB of files and memory, seconds of the start after it.
type lifeWeek struct{ cpu, db, archive, heap, start float64 }

// lifeFile has a line for each week of a life that is kept: its number, the life's age in nanoseconds, and what it took. A life from before that has its last week alone,
// without what it took.
const lifeFile = "week"

// keep adds a week to a life.
func (w lifeWeek) keep(dir string, week int, age time.Duration) error {
	f, err := os.OpenFile(filepath.Join(dir, lifeFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	raw, err := io.ReadAll(f)
	if err == nil && len(raw) > 0 && raw[len(raw)-1] != '\n' { // of a life from before
		_, err = f.WriteString("\n")
	}
	if err == nil {
		_, err = fmt.Fprintln(f, week, int64(age), w.cpu, w.db, w.archive, w.heap, w.start)
	}
	return errors.Join(err, f.Close())
}

// readLife reads what weeks of a life took, the number of the last one, and the life's age then. A folder without a life has none.
func readLife(dir string) (weeks []lifeWeek, last int, age time.Duration, err error) {
	raw, err := os.ReadFile(filepath.Join(dir, lifeFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, 0, nil
	}
	for line := range strings.Lines(string(raw)) {
		var w lifeWeek
		n, _ := fmt.Sscan(line, &last, &age, &w.cpu, &w.db, &w.archive, &w.heap, &w.start)
		switch n {
		case 2:
		case 7:
			weeks = append(weeks, w)
		default:
			return nil, 0, 0, fmt.Errorf("%s is no file of a life: %q", filepath.Join(dir, lifeFile), line)
		}
	}
	return weeks, last, age, err
}

// lifeJudged is how many weeks must have been measured.
const lifeJudged = 6

// grown tells what the last three weeks took more of than the second to the fourth. In the first week nothing is forgotten yet. Medians are compared, since files go up
// and down as the databases merge their tables. A life of less than six weeks tells nothing.
func grown(weeks []lifeWeek) (all []string) {
	if len(weeks) < lifeJudged {
		return nil
	}
	early, late := weeks[1:4], weeks[len(weeks)-3:]
	for _, v := range []struct {
		what        string
		of          func(lifeWeek) float64
		times, more float64 // that are allowed
	}{
		{"us of processor time a task", func(w lifeWeek) float64 { return w.cpu }, 1.5, 0},
		{"MiB of the channel database", func(w lifeWeek) float64 { return w.db }, 1.25, 100},
		{"MiB of the archive", func(w lifeWeek) float64 { return w.archive }, 1.25, 200}, // Badger's tables, at most: see decision 0045
		{"MiB of memory", func(w lifeWeek) float64 { return w.heap }, 1.25, 32},
		{"s of a start", func(w lifeWeek) float64 { return w.start }, 1.5, 2},
	} {
		before, after := middle(early, v.of), middle(late, v.of)
		if most := before*v.times + v.more; after > most {
			all = append(all, fmt.Sprintf("%.1f %s in the last three weeks, %.1f in the second to the fourth; %.1f are allowed", after, v.what, before, most))
		}
	}
	return all
}

// middle is the median of three weeks.
func middle(weeks []lifeWeek, of func(lifeWeek) float64) float64 {
	var all []float64
	for _, w := range weeks {
		all = append(all, of(w))
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// TestGrowthIsFound shows grown the life of decision 0045, and the same with one thing that grows by a fifth each week.
func TestGrowthIsFound(t *testing.T) {
	life := func() []lifeWeek {
		return []lifeWeek{{906, 2.9, 10.9, 49.2, .56}, {1543, 4.7, 26.1, 50.1, 1.17}, {1212, 6.4, 35.1, 45.5, .12}, {1777, 8.2, 27.5, 47.9, .1}, {1101, 9.8, 23.7, 44.3, .16}, {1318, 4.7, 30.3, 47, .13},
			{1336, 6.5, 39.6, 56, .1}, {1156, 8.3, 46.6, 47.9, .11}}
	}
	if all := grown(life()); len(all) > 0 {
		t.Errorf("of a life in which nothing grew: %v", all)
	}
	for what, of := range map[string]func(*lifeWeek) (*float64, float64){
		"processor": func(w *lifeWeek) (*float64, float64) { return &w.cpu, 1000 }, "channel database": func(w *lifeWeek) (*float64, float64) { return &w.db, 200 },
		"archive": func(w *lifeWeek) (*float64, float64) { return &w.archive, 400 }, "memory": func(w *lifeWeek) (*float64, float64) { return &w.heap, 100 },
		"start": func(w *lifeWeek) (*float64, float64) { return &w.start, 3 },
	} {
		weeks := life()
		for i := range weeks {
			v, first := of(&weeks[i])
			*v = first * math.Pow(1.2, float64(i))
		}
		if all := grown(weeks); len(all) != 1 || !strings.Contains(all[0], what) {
			t.Errorf("%s grew: %v", what, all)
		}
	}
	if all := grown(life()[:5]); all != nil {
		t.Errorf("of five weeks: %v", all)
	}
}

// TestLifeGoesOn runs a life week by week, each in a process of its own, which knows of the weeks before only what its folder has: it is judged as one that was run at once.
func TestLifeGoesOn(t *testing.T) {
	dir := t.TempDir()
	if weeks, last, age, err := readLife(dir); len(weeks) != 0 || last != 0 || age != 0 || err != nil {
		t.Fatalf("a new life: %v, %d, %v, %v", weeks, last, age, err)
	}
	for week := 1; week <= 8; week++ {
		w := lifeWeek{cpu: 1000, db: 5.5, archive: 300 * math.Pow(1.2, float64(week)), heap: 50, start: .123}
		if err := w.keep(dir, week, time.Duration(week)*time.Hour+1); err != nil {
			t.Fatal(err)
		}
		weeks, last, age, err := readLife(dir)
		if err != nil || len(weeks) != week || weeks[week-1] != w || last != week || age != time.Duration(week)*time.Hour+1 {
			t.Fatalf("after week %d: %v, %d, %v, %v", week, weeks, last, age, err)
		}
	}
	weeks, _, _, _ := readLife(dir)
	if all := grown(weeks); len(all) != 1 || !strings.Contains(all[0], "MiB of the archive") {
		t.Errorf("an archive that grew: %v", all)
	}

	old := t.TempDir() // of a version that kept no more
	if err := os.WriteFile(filepath.Join(old, lifeFile), []byte("4 143000000000"), 0o600); err != nil {
		t.Fatal(err)
	}
	weeks, last, age, err := readLife(old)
	if err != nil || len(weeks) != 0 || last != 4 || age != 143*time.Second {
		t.Fatalf("an old life: %v, %d, %v, %v", weeks, last, age, err)
	}
	if err := (lifeWeek{cpu: 1}).keep(old, 5, 150*time.Second); err != nil {
		t.Fatal(err)
	}
	if weeks, last, age, err = readLife(old); err != nil || len(weeks) != 1 || last != 5 || age != 150*time.Second {
		t.Fatalf("an old life that went on: %v, %d, %v, %v", weeks, last, age, err)
	}
	if err := os.WriteFile(filepath.Join(old, lifeFile), []byte("five\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := readLife(old); err == nil {
		t.Error("what is no life is one")
	}
}

func mb(n int64) float64 { return float64(n) / (1 << 20) }

// sizeOf is what files below a folder take of the disk.
func sizeOf(t *testing.T, dir string) (bytes int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			bytes += info.Sys().(*syscall.Stat_t).Blocks * 512
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return bytes
}

// parts lists what the folders of a life take.
func parts(t *testing.T, dir string) string {
	t.Helper()
	var out []string
	for _, top := range []string{"db", "archive"} {
		entries, err := os.ReadDir(filepath.Join(dir, top))
		if err != nil {
			t.Fatal(err)
		}
		byKind, files := map[string]int64{}, map[string]int{}
		for _, e := range entries {
			kind := filepath.Ext(e.Name())
			if e.IsDir() {
				kind = e.Name()
				byKind[kind] += sizeOf(t, filepath.Join(dir, top, e.Name()))
			} else if info, err := e.Info(); err == nil {
				byKind[kind] += info.Sys().(*syscall.Stat_t).Blocks * 512
			}
			files[kind]++
		}
		for kind, n := range byKind {
			if n > 1<<20 {
				out = append(out, fmt.Sprintf("%s/%s %.1f MB in %d", top, kind, mb(n), files[kind]))
			}
		}
	}
	return strings.Join(out, ", ")
}
