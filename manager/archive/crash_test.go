package archive

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/internal/wire/uplink"
	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/schema"
	"shoal/manager/archive/warc"
)

// crashDir is set in the child process of TestSIGKILL.
const crashDir = "SHOAL_TEST_ARCHIVE_CRASH_DIR"

// crashSmall makes its database write tables and compact them soon.
const crashSmall = "SHOAL_TEST_ARCHIVE_SMALL"

func TestMain(m *testing.M) {
	if dir := os.Getenv(crashDir); dir != "" {
		crashChild(dir)
		os.Exit(0)
	}
	if dir := os.Getenv(settleDir); dir != "" {
		settleChild(dir)
		os.Exit(0)
	}
	if dir := os.Getenv(purgeDir); dir != "" {
		purgeChild(dir)
		os.Exit(0)
	}
	if dir := os.Getenv(ingestDir); dir != "" {
		if err := ingestChild(dir); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// crashPage is the content of page n of a channel in a test that crashes.
func crashPage(id channel.ID, seq uint64, n int) string {
	return fmt.Sprintf("channel %d chunk %d page %d ", id, seq, n) + strings.Repeat("some text ", 30)
}

// crashChild puts chunks from eight peers until it is killed, and prints each as soon as it was acknowledged.
func crashChild(dir string) {
	cfg := testConfig(dir)
	if os.Getenv(crashSmall) != "" {
		cfg.memTable = 1 << 20
	}
	a, err := Open(context.Background(), cfg)
	if err != nil {
		fmt.Println("error", err)
		return
	}
	var out sync.Mutex
	var wg sync.WaitGroup
	for id := channel.ID(1); id <= 8; id++ {
		wg.Add(1)
		go func() {
			defer wg.Done()
			if err := crashRunner(a, id, &out); err != nil {
				out.Lock()
				fmt.Println("error", err)
				out.Unlock()
			}
		}()
	}
	wg.Wait()
}

// fenceOf reads a channel's fence as it is stored.
func fenceOf(a *Archive, id channel.ID) (f lease.Fence, err error) {
	err = a.Ledger.View(func(s ledger.Snapshot) error {
		var m pb.Channel
		found, err := ledger.Get(s, schema.Key(schema.Channel, uint64(id)), &m)
		if found {
			f, err = lease.ParseFence(m.Fence)
		}
		return err
	})
	return f, err
}

func crashRunner(a *Archive, id channel.ID, out *sync.Mutex) error {
	ctx := context.Background()
	fence, err := fenceOf(a, id)
	if err != nil {
		return err
	}
	gen := fence.Gen + 1
	if fence.Running() { // of the process that was killed
		if _, err := a.Release(ctx, "p", id, gen-1); err != nil {
			return err
		}
	}
	signed, body := task(id, gen, time.Now().Add(time.Hour))
	err = a.Deposit(ctx, signed, body)
	if fenced := (*FencedError)(nil); errors.As(err, &fenced) { // the process was killed between deposit and claim
		gen = fenced.Highest + 1
		signed, body = task(id, gen, time.Now().Add(time.Hour))
		err = a.Deposit(ctx, signed, body)
	}
	if err != nil {
		return err
	}
	c, err := a.Claim(ctx, "p", signed)
	if err != nil || c.Status != lease.Granted {
		return fmt.Errorf("claim: %v, %w", c.Status, err)
	}
	seq, head := c.Resume.Seq, c.Resume.Head
	for {
		b := channel.ChunkBody{}
		for n := range 5 {
			text := crashPage(id, seq+1, n)
			b.Pages = append(b.Pages, channel.Page{
				URL: fmt.Sprintf("http://site-%d.example/%d/%d", id, seq+1, n), Fetched: time.Now(), Status: 200, Change: channel.New,
				Digest: channel.ContentDigest([]byte(text)), Header: []byte("HTTP/1.1 200 OK\r\n\r\n"), Body: []byte(text),
			})
		}
		raw, err := channel.CompressBody(b.Marshal())
		if err != nil {
			return err
		}
		chunk := channel.Chunk{Channel: id, Gen: gen, Seq: seq + 1, Prev: head, Body: raw}
		r, err := a.Put(ctx, "p", chunk)
		if err != nil || r.Status != lease.Stored {
			return fmt.Errorf("put: %v, %w", r.Status, err)
		}
		seq, head = r.Seq, r.Head
		out.Lock()
		fmt.Println("ack", id, seq)
		out.Unlock()
	}
}

// TestSIGKILL kills a process that stores chunks at random moments, again and again with the same data: everything acknowledged is
// there, every record can be read, and the feed tells of each page exactly once.
func TestSIGKILL(t *testing.T) {
	t.Parallel()
	rounds := 3
	if s := os.Getenv("SHOAL_CRASHES"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		rounds = n
	}
	dir := t.TempDir()
	seed := time.Now().UnixNano()
	t.Logf("seed %d, %d rounds", seed, rounds)
	rng := rand.New(rand.NewPCG(uint64(seed), 0))
	acked := map[channel.ID]uint64{}
	for round := range rounds {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), crashDir+"="+dir)
		pipe, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(pipe)
		stop := 1 + rng.IntN(60)
		for n := 0; lines.Scan(); n++ {
			var id channel.ID
			var seq uint64
			if _, err := fmt.Sscanf(lines.Text(), "ack %d %d", &id, &seq); err != nil {
				t.Errorf("round %d: child says %q", round, lines.Text())
				break
			}
			acked[id] = max(acked[id], seq)
			if n == stop { // what is still in the pipe was acknowledged too
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		if t.Failed() {
			return
		}
		checkCrashed(t, dir, acked)
	}
}

func checkCrashed(t *testing.T, dir string, acked map[channel.ID]uint64) {
	t.Helper()
	ctx := context.Background()
	a := open(t, testConfig(dir))
	told := map[string]int{}
	for cursor := ""; ; {
		changes, next, err := a.Changes(ctx, cursor, 1000)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range changes {
			told[c.URL]++
		}
		if cursor = next; len(changes) == 0 {
			break
		}
	}
	for id, seq := range acked {
		for s := uint64(1); s <= seq; s++ {
			for n := range 5 {
				url := fmt.Sprintf("http://site-%d.example/%d/%d", id, s, n)
				if told[url] != 1 {
					t.Fatalf("%s is in the feed %d times", url, told[url])
				}
				if n > 0 && s < seq || s+20 < seq {
					continue // one page of each of the last chunks, all of the very last; earlier rounds have read the others
				}
				got, err := a.Get(ctx, url, time.Time{})
				if err != nil || string(got.Body) != crashPage(id, s, n) {
					t.Fatalf("acknowledged page %s: %.30q, %v", url, got.Body, err)
				}
			}
		}
	}
	for _, name := range warcFiles(t, a) {
		scanFile(t, name)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
}

// faultFS fails the n-th write or sync, and forgets at a crash what was not synced.
type faultFS struct {
	warc.OS
	mu       sync.Mutex
	writes   int // until a write fails; negative: never
	syncs    int
	half     bool // the write that fails leaves half of its bytes
	unsynced map[string]int64
}

var errDisk = errors.New("test: no space left on device")

type faultFile struct {
	warc.File
	fs   *faultFS
	name string
}

func newFaultFS() *faultFS { return &faultFS{writes: -1, syncs: -1, unsynced: map[string]int64{}} }

func (f *faultFS) Open(name string, create bool) (warc.File, error) {
	file, err := f.OS.Open(name, create)
	if err != nil {
		return nil, err
	}
	return &faultFile{file, f, name}, nil
}

func (f *faultFile) WriteAt(b []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if _, ok := f.fs.unsynced[f.name]; !ok {
		f.fs.unsynced[f.name] = off
	}
	if f.fs.writes == 0 {
		if f.fs.half {
			n, _ := f.File.WriteAt(b[:len(b)/2], off)
			return n, errDisk
		}
		return 0, errDisk
	}
	f.fs.writes--
	return f.File.WriteAt(b, off)
}

func (f *faultFile) Sync() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if f.fs.syncs == 0 {
		return errDisk
	}
	f.fs.syncs--
	delete(f.fs.unsynced, f.name)
	return f.File.Sync()
}

// synced counts the syncs so far.
func (f *faultFS) synced() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return -f.syncs
}

// forget drops what was not synced, as a power failure does.
func (f *faultFS) forget(t *testing.T) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, size := range f.unsynced {
		if err := os.Truncate(name, size); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
}

// TestDiskFaults fails the n-th write or the n-th sync, for every n, cuts the power or goes on: what was acknowledged is there, what
// was not can be sent again, and the archive works when the disk does.
func TestDiskFaults(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for _, kind := range []string{"write", "half a write", "sync"} {
		for _, power := range []bool{false, true} {
			for nth := range 6 {
				t.Run(fmt.Sprintf("%s %d, power cut %v", kind, nth, power), func(t *testing.T) {
					disk := newFaultFS()
					disk.half = kind == "half a write"
					if kind == "sync" {
						disk.syncs = nth
					} else {
						disk.writes = nth
					}
					cfg := testConfig(t.TempDir())
					cfg.FS = disk
					a := open(t, cfg)
					r, _ := start(t, a, "p", 1, 1)
					var failed *channel.Chunk
					acked := uint64(0)
					for n := range 6 {
						c := r.chunk(channel.ChunkBody{Pages: []channel.Page{r.page(fmt.Sprint("/", n), crashPage(1, r.seq+1, 0), channel.New)}})
						got, err := a.Put(ctx, "p", c)
						if err != nil {
							if !errors.Is(err, ErrStorage) || !errors.Is(err, errDisk) {
								t.Fatalf("put: %v", err)
							}
							failed = &c
							break
						}
						r.seq, r.head, acked = got.Seq, got.Head, got.Seq
					}
					if failed == nil {
						if nth < 6 {
							t.Fatal("nothing failed")
						}
						return
					}
					if power {
						if err := a.Close(); err != nil {
							t.Fatal(err)
						}
						disk.forget(t)
					}
					disk.mu.Lock()
					disk.writes, disk.syncs = -1, -1
					disk.mu.Unlock()
					if power {
						a = open(t, cfg)
						r.a = a
					}
					if got, err := a.Put(ctx, "p", *failed); err != nil || got.Status != lease.Stored || got.Seq != acked+1 {
						t.Fatalf("the chunk again, when the disk works: %v, %v", got, err)
					}
					for n := range acked + 1 {
						got, err := a.Get(ctx, r.url(fmt.Sprint("/", n)), time.Time{})
						if err != nil || string(got.Body) != crashPage(1, n+1, 0) {
							t.Errorf("page %d: %.30q, %v", n, got.Body, err)
						}
					}
					if err := a.Close(); err != nil {
						t.Fatal(err)
					}
					for _, name := range warcFiles(t, a) {
						scanFile(t, name)
					}
					open(t, cfg)
				})
			}
		}
	}
}

// smallDisk says how much room there is.
type smallDisk struct {
	warc.OS
	free atomic.Int64
}

func (d *smallDisk) Free(string) (int64, error) { return d.free.Load(), nil }

// TestDiskFull takes no new work when the disk is full, says so, answers what it has, ends leases, and goes on when there is room.
func TestDiskFull(t *testing.T) {
	ctx := context.Background()
	disk := &smallDisk{}
	disk.free.Store(1 << 40)
	cl := &clock{time.Unix(1_700_000_000, 0)}
	cfg := testConfig(t.TempDir())
	cfg.FS, cfg.Clock, cfg.Own = disk, cl.Now, cl.Now
	a := open(t, cfg)
	r, _ := start(t, a, "p", 1, 1)
	r.put(channel.ChunkBody{Pages: []channel.Page{r.page("/", long, channel.New)}})
	if s := a.Trouble(); s != "" {
		t.Errorf("trouble without any: %s", s)
	}
	full := func(free int64) {
		disk.free.Store(free)
		cl.now = cl.now.Add(time.Second) // look again at once
	}
	full(DefaultMinFree - 1)
	c := r.chunk(channel.ChunkBody{Pages: []channel.Page{r.page("/a", "a"+long, channel.New)}})
	if _, err := a.Put(ctx, "p", c); !errors.Is(err, ErrFull) || !errors.Is(err, uplink.ErrLater) {
		t.Errorf("put: %v", err)
	}
	s, body := task(2, 1, cl.now.Add(time.Hour))
	if err := a.Deposit(ctx, s, body); !errors.Is(err, ErrFull) {
		t.Errorf("deposit: %v", err)
	}
	if got := a.Trouble(); !strings.Contains(got, "make room") {
		t.Errorf("trouble: %q", got)
	}
	if got, err := a.Get(ctx, r.url("/"), time.Time{}); err != nil || string(got.Body) != long {
		t.Errorf("get: %.20q, %v", got.Body, err)
	}
	cl.now = cl.now.Add(time.Hour)
	if err := a.Expire(ctx); err != nil {
		t.Errorf("lease expiry: %v", err)
	}
	full(1 << 40)
	if got, err := a.Put(ctx, "p", c); err != nil || got.Status != lease.Stored {
		t.Errorf("put when there is room: %v, %v", got, err)
	}
	if got, want := feedOf(t, a), "claimed 1.1 p; lapsed 1.1 p; brought 1.1 p"; got != want {
		t.Errorf("feed %q, want %q", got, want)
	}
}

// TestReadOnly says what to do about a folder that cannot be written.
func TestReadOnly(t *testing.T) {
	if os.Geteuid() == 0 {
		file := t.TempDir() + "/file" // nothing stops root but this
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(context.Background(), testConfig(file)); err == nil {
			t.Error("opened a file as a folder")
		}
		return
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(context.Background(), testConfig(dir)); err == nil || !strings.Contains(err.Error(), "give the folder to this user") {
		t.Errorf("opened a folder that cannot be written: %v", err)
	}
}
