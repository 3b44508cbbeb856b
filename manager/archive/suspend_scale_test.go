package archive

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"shoal/channel"
	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/pages"
	"shoal/manager/archive/schema"
	"shoal/manager/trust"
)

// settleDir is set in the child process of TestSuspensionOutlivesKills.
const settleDir = "SHOAL_TEST_ARCHIVE_SETTLE_DIR"

// settleChild does what was asked for, until it is killed.
func settleChild(dir string) {
	a, err := Open(context.Background(), testConfig(dir))
	if err == nil {
		fmt.Println("open")
		err = a.Settle(context.Background())
	}
	if err == nil {
		err = a.Close()
	}
	if err != nil {
		fmt.Println("error", err)
		return
	}
	fmt.Println("done")
}

// purgeDir is set in the child process of TestPurgeOutlivesKills.
const purgeDir = "SHOAL_TEST_ARCHIVE_PURGE_DIR"

// purgeChild goes on with a purge, as an archive does that runs, until it is done or killed.
func purgeChild(dir string) {
	cfg := testConfig(dir)
	ctx, stop := context.WithCancel(context.Background())
	most := uint64(0)
	cfg.OnWithdrawn = func([]channel.ID) { stop() }
	a, err := Open(ctx, cfg)
	if err != nil {
		fmt.Println("error", err)
		return
	}
	fmt.Println("open")
	ended := make(chan struct{})
	go func() { defer close(ended); _ = a.Run(ctx) }()
	for look := time.NewTicker(100 * time.Millisecond); ctx.Err() == nil; {
		select {
		case <-look.C:
			var mem runtime.MemStats
			runtime.ReadMemStats(&mem)
			most = max(most, mem.HeapInuse)
			if a.Withdrawing() == nil { // it was done when the child before was killed
				stop()
			}
		case <-ctx.Done():
		}
	}
	<-ended
	if err := a.Close(); err != nil {
		fmt.Println("error", err)
	}
	fmt.Println("heap", most>>20, "MB at most")
	fmt.Println("done")
}

// manyPages stores pages of channels of 100 pages each: alice's and, an hour later, another version of mallory's of all but every tenth of them.
func manyPages(t testing.TB, a *Archive, n int) (mallory trust.Peer) {
	t.Helper()
	one, _ := start(t, a, "alice", 1<<40, 1)
	one.put(channel.ChunkBody{Pages: []channel.Page{one.page("/", home, channel.New)}, Report: one.report(channel.Updated)})
	two, _ := start(t, a, "mallory", 1<<40+1, 1)
	two.put(channel.ChunkBody{Pages: []channel.Page{two.page("/", forge, channel.New)}, Report: two.report(channel.Updated)})
	alice := trust.Peer(a.DelivererNumber("alice"))
	mallory = trust.Peer(a.DelivererNumber("mallory"))
	old, forged := captureIn(t, a, one.url("/")), captureIn(t, a, two.url("/"))
	old.State, forged.State = 0, 0
	b := a.Batch()
	put := func(key []byte, m proto.Message) {
		c, err := ledger.Put(nil, key, m)
		if err != nil {
			t.Fatal(err)
		}
		b.Add(c...)
		if err := b.FlushFull(); err != nil {
			t.Fatal(err)
		}
	}
	at := time.Now().Add(-2 * time.Hour).Truncate(time.Second)
	for i := range n {
		id := uint64(i/100 + 1)
		url := manyURL(i)
		h := channel.URLHash(url)
		version := func(c *pb.Capture, by trust.Peer, when time.Time, state trust.State) *pb.Version {
			return &pb.Version{Digest: c.Digest, By: uint64(by), At: when.Unix(), State: uint32(state), FetchedUs: when.UnixMicro()}
		}
		r := &pb.Trust{Cur: version(old, alice, at, trust.Verified), LastBy: uint64(alice), LastAt: at.Unix(), Shows: old.Digest}
		r.Cur.Also = []uint64{7}
		m := &pb.Page{Url: url, Channel: id, FirstUs: at.UnixMicro(), FetchedUs: at.UnixMicro(), ChangedUs: at.UnixMicro(), Visits: 1, Status: 200, Digest: old.Digest, Sha256: old.Sha256, Deliverer: uint64(alice)}
		put(pages.CaptureKey(url, at), old)
		if i%10 != 0 {
			later := at.Add(time.Hour)
			r.Prev, r.Cur = r.Cur, version(forged, mallory, later, trust.Provisional)
			r.LastBy, r.LastAt, r.Shows = uint64(mallory), later.Unix(), forged.Digest
			m.Digest, m.Sha256, m.Deliverer, m.FetchedUs, m.Visits = forged.Digest, forged.Sha256, uint64(mallory), later.UnixMicro(), 2
			put(pages.CaptureKey(url, later), forged)
		}
		put(schema.Key2(schema.Page, id, h), m)
		put(schema.Key2(schema.Trust, id, h), r)
		b.Add(ledger.Change{Key: schema.Key(schema.Owner, h), Value: binary.BigEndian.AppendUint64(nil, id)})
	}
	if err := b.Flush(); err != nil {
		t.Fatal(err)
	}
	return mallory
}

func manyURL(i int) string { return fmt.Sprintf("http://site-%d.example/page/%d", i/100+1, i) }

// captureIn reads the only capture of a URL.
func captureIn(t testing.TB, a *Archive, url string) *pb.Capture {
	t.Helper()
	m := new(pb.Capture)
	err := a.Ledger.View(func(s ledger.Snapshot) error {
		prefix := append([]byte{schema.Capture}, pages.SURT(url)...)
		return s.Scan(append(prefix, 0), nil, true, func(_, value []byte) (bool, error) { return true, schema.Decode(value, m) })
	})
	if err != nil || m.At == nil {
		t.Fatal(m, err)
	}
	return m
}

// shownBy counts the pages by who delivered what their state describes.
func shownBy(t testing.TB, a *Archive, n int, mallory trust.Peer) (forged, other int) {
	t.Helper()
	err := a.Ledger.View(func(s ledger.Snapshot) error {
		m := new(pb.Page)
		return s.Scan([]byte{schema.Page}, nil, true, func(key, value []byte) (bool, error) {
			m.Reset()
			if err := schema.Decode(value, m); err != nil {
				return false, err
			}
			switch {
			case schema.Number(key, 0) >= 1<<40:
			case m.Deliverer == uint64(mallory):
				forged++
			default:
				other++
			}
			return true, nil
		})
	})
	if err != nil || forged+other != n {
		t.Fatalf("%d and %d pages of %d, %v", forged, other, n, err)
	}
	return forged, other
}

// A suspension and its pardon that are killed again and again come to the same as ones that are not.
func TestSuspensionOutlivesKills(t *testing.T) {
	t.Parallel()
	if testing.Short() || runtime.GOOS == "windows" {
		t.Skip("kills processes")
	}
	const n = 4000
	dir := t.TempDir()
	cfg := testConfig(dir)
	cfg.AccountOf = nil
	a := open(t, cfg)
	mallory := manyPages(t, a, n)
	rng := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		ask    func() error
		forged int
	}{
		{func() error { return a.Suspend(t.Context(), mallory) }, 0},
		{func() error { return a.Pardon(t.Context(), mallory) }, n * 9 / 10},
	} {
		if err := c.ask(); err != nil {
			t.Fatal(err)
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		kills := 0
		for !settleOnce(t, dir, time.Duration(5+rng.IntN(60))*time.Millisecond, kills < 6) {
			kills++
		}
		a = open(t, cfg)
		if all, err := a.Suspensions(t.Context()); err != nil || len(all) > 1 || len(all) == 1 && (!all[0].Done || all[0].Pages != n*9/10+1) { // and the one page of its own
			t.Errorf("after %d kills: %+v, %v", kills, all, err)
		}
		if forged, _ := shownBy(t, a, n, mallory); forged != c.forged {
			t.Errorf("after %d kills %d pages show what mallory delivered, want %d", kills, forged, c.forged)
		}
		withdrawn := 0
		changes, _, err := a.Changes(t.Context(), "", 3*n)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range changes {
			if e.Event == pages.Withdrawn {
				withdrawn++
			}
		}
		if withdrawn != n*9/10+1 { // each page once, whatever was killed
			t.Errorf("after %d kills %d pages were told as withdrawn", kills, withdrawn)
		}
	}
}

// A purge that is killed again and again takes all back that its deliverer brought, and the versions before return as current. SHOAL_PAGES makes it large.
func TestPurgeOutlivesKills(t *testing.T) {
	t.Parallel()
	if testing.Short() || runtime.GOOS == "windows" {
		t.Skip("kills processes")
	}
	n := many(t)
	dir := t.TempDir()
	cfg := testConfig(dir)
	cfg.AccountOf = nil
	a := open(t, cfg)
	mallory := manyPages(t, a, n)
	if _, err := a.StartWithdraw(t.Context(), "mallory"); err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	rng, kills, begun := rand.New(rand.NewPCG(3, 4)), 0, time.Now()
	for !childOnce(t, purgeDir, dir, time.Duration(5+rng.IntN(60))*time.Millisecond*time.Duration(max(n/4000, 1)), kills < 6) {
		kills++
	}
	t.Logf("purge of %d pages with %d kills in %v", n, kills, time.Since(begun).Round(time.Millisecond))
	a = open(t, cfg)
	if forged, other := shownBy(t, a, n, mallory); forged != 0 || other != n {
		t.Errorf("after %d kills %d pages show what mallory delivered, and %d another version", kills, forged, other)
	}
	if w := a.Withdrawing(); w != nil {
		t.Errorf("after %d kills it is not done: %+v", kills, w)
	}
}

// settleOnce has a child process settle, and kills it after a while, unless it is done before. It reports whether it was done.
func settleOnce(t *testing.T, dir string, after time.Duration, kill bool) bool {
	t.Helper()
	return childOnce(t, settleDir, dir, after, kill)
}

// childOnce is settleOnce for what the child process of a variable does.
func childOnce(t *testing.T, what, dir string, after time.Duration, kill bool) bool {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), what+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		switch text := lines.Text(); {
		case text == "open" && kill:
			time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
		case text == "done":
			done = true
		case strings.HasPrefix(text, "error"):
			t.Error(text)
		case strings.HasPrefix(text, "heap"):
			t.Log(text)
		}
	}
	_ = cmd.Wait() // it was killed, or is done
	return done
}

// TestSuspendMany withdraws and gives back what one peer delivered of very many pages: SHOAL_PAGES of them.
func TestSuspendMany(t *testing.T) {
	t.Parallel()
	n := many(t)
	cfg := testConfig(t.TempDir())
	cfg.AccountOf = nil
	told := 0
	cfg.OnWithdrawn = func(ids []channel.ID) { told = len(ids) }
	a := open(t, cfg)
	mallory := manyPages(t, a, n)
	settle := func(ask func(context.Context, trust.Peer) error) func() error {
		return func() error { return firstError(ask(t.Context(), mallory), a.Settle(t.Context())) }
	}
	step(t, a, n, mallory, "suspend", settle(a.Suspend), 0)
	if told != (n+99)/100+1 {
		t.Errorf("%d channels are to be crawled first", told)
	}
	step(t, a, n, mallory, "pardon", settle(a.Pardon), n*9/10)
}

// TestPurgeMany does so with a purge.
func TestPurgeMany(t *testing.T) {
	t.Parallel()
	n := many(t)
	cfg := testConfig(t.TempDir())
	cfg.AccountOf = nil
	a := open(t, cfg)
	mallory := manyPages(t, a, n)
	step(t, a, n, mallory, "purge", func() error {
		out, err := a.Withdraw(t.Context(), "mallory")
		if err == nil && (out.Captures != n*9/10+1 || len(out.Channels) != (n+99)/100+1) {
			err = fmt.Errorf("%d captures of %d channels", out.Captures, len(out.Channels))
		}
		return err
	}, 0)
}

// many is how many pages there are to be.
func many(t *testing.T) int {
	t.Helper()
	s := os.Getenv("SHOAL_PAGES")
	if s == "" {
		return 3000
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// step does something, says what it cost, and counts what is shown after it.
func step(t *testing.T, a *Archive, n int, mallory trust.Peer, what string, f func() error, want int) {
	t.Helper()
	begun := time.Now()
	if err := f(); err != nil {
		t.Fatal(what, err)
	}
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	t.Logf("%s: %d pages in %v, heap %d MB", what, n, time.Since(begun).Round(time.Millisecond), mem.HeapInuse>>20)
	if forged, _ := shownBy(t, a, n, mallory); forged != want {
		t.Errorf("%s: %d pages show what mallory delivered, want %d", what, forged, want)
	}
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
