package manager_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
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
)

const (
	lifePeers   = 16
	lifeCrawls  = 64 // at a time
	lifeVersion = 2  // versions of a page that are kept
	lifePage    = 1000
	lifeRate    = 700 // tasks a second, about what a busy machine does
	lifeLeast   = 300 // ticks of a week
)

// volunteers stand in for overlay and peers: they claim what is placed, and deliver the channel's page at once. Every second visit finds it changed.
type volunteers struct {
	archive *archive.Archive
	view    *overlay.View
	room    chan struct{}
	crawls  sync.WaitGroup
	failed  atomic.Int64
	why     atomic.Value // of the last failure
	pages   sync.Map     // channel.ID -> int: visits
}

func newVolunteers() *volunteers {
	var peers []overlay.PeerRecord
	for i := range lifePeers {
		peers = append(peers, overlay.PeerRecord{ID: overlay.ID(fmt.Sprint("peer-", i)), Load: overlay.Load{Threads: 32, Slots: 64}})
	}
	return &volunteers{view: overlay.ViewOf(time.Now(), peers), room: make(chan struct{}, lifeCrawls)}
}

func (v *volunteers) Coord() coords.Coord          { return coords.Coord{Err: 1} }
func (v *volunteers) View() *overlay.View          { return v.view }
func (v *volunteers) Delivered(overlay.ID)         {}
func (v *volunteers) Wasted(overlay.ID, time.Time) {}
func (v *volunteers) GaveBack(overlay.ID)          {}

func (v *volunteers) Survey(context.Context, string, coords.HostRecord, int) ([]coords.Sample, error) {
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
	was, _ := v.pages.Load(h.Channel)
	visits, _ := was.(int)
	v.pages.Store(h.Channel, visits+1)
	now := time.Now()
	page := channel.Page{URL: h.Host + "/", Status: 304, Change: channel.Unchanged, Fetched: now}
	report := channel.Report{Channel: h.Channel, Gen: h.Gen, Peer: peer, Outcome: channel.Updated, Started: now, Ended: now.Add(time.Millisecond), Pages: 1, BytesDown: lifePage}
	if visits%2 == 0 {
		page.Status, page.Change, page.Header = 200, channel.New, []byte("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n")
		page.Body = []byte(fmt.Sprintf("<title>%d of %d</title>", visits, h.Channel))
		for n := visits; len(page.Body) < lifePage; n = n*1103515245 + int(h.Channel) + 12345 {
			page.Body = strconv.AppendUint(append(page.Body, ' '), uint64(n), 36)
		}
		page.Digest = channel.ContentDigest(page.Body)
		report.New = 1
		if visits > 0 {
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

// life is a manager with its archive in a folder.
type life struct {
	m    *manager.Manager
	a    *archive.Archive
	v    *volunteers
	stop func() error
}

// openLife opens what is in a folder.
func openLife(dir string, channels int, v *volunteers) (*life, error) {
	keys, err := member.LoadOrCreate(dir+"/keys", time.Now())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	db, err := badgerdb.Open(ctx, badgerdb.Default(dir+"/db"))
	if err != nil {
		cancel()
		return nil, err
	}
	cfg := manager.Default()
	// A week is as many ticks as a pass over all channels takes at lifeRate, so that the next one begins when it ends.
	cfg.Tick, cfg.Gap = 10*time.Millisecond, time.Millisecond
	week := max(float64(channels)/lifeRate/cfg.Tick.Seconds(), lifeLeast)
	cfg.Options.MinTicks, cfg.Options.Initial, cfg.Options.Prior = 2, []float64{week}, recrawl.Prior(week, .5)
	cfg.Terms.Slack = time.Second
	verifier := member.NewVerifier(keys.Network)
	a, err := archive.Open(ctx, archive.Config{Dir: dir + "/archive", Terms: cfg.Terms, Verify: verifier.VerifyTask, Keep: archive.Retention{Captures: lifeVersion, Feed: 30 * time.Second},
		KeepEvery: 15 * time.Second})
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
// many versions kept as before, nothing may grow with the weeks but what is counted: files, memory, CPU time a task, the time of a start.
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
	channels, weeks := number(lifeChannelsEnv, 0), number(lifeWeeksEnv, 8)
	if channels == 0 {
		t.Skip("make life runs this")
	}
	dir, v := t.TempDir(), newVolunteers()
	l, err := openLife(dir, channels, v)
	if err != nil {
		t.Fatal(err)
	}
	for n := 0; n < channels; {
		var chs []channel.Channel
		for ; n < channels && len(chs) < 1000; n++ {
			host := fmt.Sprintf("https://host-%07d.example", n)
			chs = append(chs, channel.Channel{State: channel.Active, Added: time.Now(), Seeds: []string{host + "/"}, Scope: channel.Scope{Kind: channel.WholeHost, Host: host}})
		}
		if _, refused, err := l.m.AddChannels(t.Context(), chs); err != nil || len(refused) > 0 {
			t.Fatal(err, refused)
		}
	}
	t.Logf("%4s %9s %8s %8s %9s %9s %9s %7s", "week", "tasks", "tasks/s", "us/task", "db MB", "arch. MB", "heap MB", "start s")
	for week := 1; week <= weeks; week++ {
		began, cpu, before := time.Now(), cpuTime(t), l.m.Overview().Updates
		for l.m.Overview().Updates-before < int64(channels) {
			if n := v.failed.Load(); n > int64(channels)/100+10 {
				t.Fatalf("%d crawls failed, the last one: %v", n, v.why.Load())
			}
			time.Sleep(50 * time.Millisecond)
		}
		tasks, took, used := l.m.Overview().Updates-before, time.Since(began), cpuTime(t)-cpu
		var mem runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&mem)
		if err := l.stop(); err != nil {
			t.Fatal(err)
		}
		db, arch := sizeOf(t, dir+"/db"), sizeOf(t, dir+"/archive")
		began = time.Now()
		if l, err = openLife(dir, channels, v); err != nil {
			t.Fatal(err)
		}
		for l.m.Overview().Channels != channels {
			time.Sleep(time.Millisecond)
		}
		t.Logf("%4d %9d %8.0f %8.0f %9.1f %9.1f %9.1f %7.2f", week, tasks, float64(tasks)/took.Seconds(), float64(used.Microseconds())/float64(tasks), mb(db), mb(arch), mb(int64(mem.HeapAlloc)),
			time.Since(began).Seconds())
		t.Logf("     %s", parts(t, dir))
	}
	if err := l.stop(); err != nil {
		t.Fatal(err)
	}
}

func mb(n int64) float64 { return float64(n) / (1 << 20) }

// cpuTime is what this process has used so far.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

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
