package archive

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/manager/archive/warc"
)

// load is the chunks of one peer, built beforehand.
type load struct {
	peer   string
	signed channel.Signed
	body   []byte
	chunks []channel.Chunk
}

// pageText is n bytes that compress about as HTML does.
func pageText(rng *rand.Rand, n int) []byte {
	var b strings.Builder
	for b.Len() < n {
		fmt.Fprintf(&b, "<p class=\"x%d\">", rng.IntN(10))
		for range 12 {
			for range 2 + rng.IntN(7) {
				b.WriteByte("etaoinshrdlucmfw"[rng.IntN(16)])
			}
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "<a href=\"/page/%d\">next</a></p>\n", rng.IntN(1000))
	}
	return []byte(b.String()[:n])
}

func buildLoad(tb testing.TB, peers, chunks, pages, size int) []load {
	var out []load
	var mu sync.Mutex
	var wg sync.WaitGroup
	for p := range peers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			rng := rand.New(rand.NewPCG(1, uint64(p)))
			id := channel.ID(p + 1)
			l := load{peer: fmt.Sprint("peer", p)}
			l.signed, l.body = task(id, 1, time.Now().Add(time.Hour))
			var prev [32]byte
			for s := range chunks {
				var b channel.ChunkBody
				for n := range pages {
					text := pageText(rng, size)
					b.Pages = append(b.Pages, channel.Page{
						URL: fmt.Sprintf("http://site-%d.example/page/%d/%d", id, s, n), Fetched: time.Now(), Status: 200, Change: channel.New,
						Digest: channel.ContentDigest(text), Body: text,
						Header: []byte("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nETag: \"abc\"\r\nServer: pond\r\n\r\n"),
						Links:  []string{fmt.Sprintf("http://site-%d.example/page/%d/%d", id, s, n+1), fmt.Sprintf("http://site-%d.example/", id+1)},
					})
				}
				raw, err := channel.CompressBody(b.Marshal())
				if err != nil {
					panic(err)
				}
				c := channel.Chunk{Channel: id, Gen: 1, Seq: uint64(s + 1), Prev: prev, Body: raw}
				prev = c.Hash()
				l.chunks = append(l.chunks, c)
			}
			mu.Lock()
			out = append(out, l)
			mu.Unlock()
		}()
	}
	wg.Wait()
	return out
}

// ingestDir is set in the child process of BenchmarkIngest.
const ingestDir = "SHOAL_TEST_ARCHIVE_INGEST_DIR"

// write puts a load into a file, so that the process that is measured does not hold it.
func (l *load) write(dir string) error {
	f, err := os.Create(filepath.Join(dir, l.peer))
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	for n := -2; n < len(l.chunks); n++ {
		b := l.body
		switch {
		case n == -2:
			b = l.signed.Marshal()
		case n >= 0:
			b = l.chunks[n].Marshal()
		}
		if _, err := w.Write(binary.AppendUvarint(nil, uint64(len(b)))); err != nil {
			return err
		}
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	return errors.Join(w.Flush(), f.Close())
}

// next reads the next part of a load.
func next(r *bufio.Reader) ([]byte, error) {
	n, err := binary.ReadUvarint(r)
	if err != nil {
		return nil, err
	}
	b := make([]byte, n)
	_, err = io.ReadFull(r, b)
	return b, err
}

// ingestChild puts every load of a folder at once and prints how long it took and how much memory.
func ingestChild(dir string) error {
	ctx := context.Background()
	cfg := testConfig(filepath.Join(dir, "archive"))
	a, err := Open(ctx, cfg)
	if err != nil {
		return err
	}
	names, err := filepath.Glob(filepath.Join(dir, "peer*"))
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var run, wg sync.WaitGroup
	run.Go(func() { _ = a.Run(ctx) }) // extracts text beside
	var anon atomic.Int64
	run.Go(func() {
		for ctx.Err() == nil {
			anon.Store(max(anon.Load(), status("RssAnon")))
			time.Sleep(20 * time.Millisecond)
		}
	})
	begin := time.Now()
	errs := make(chan error, len(names))
	for _, name := range names {
		wg.Go(func() { errs <- ingestPeer(ctx, a, name) })
	}
	wg.Wait()
	took := time.Since(begin)
	s := a.Stats()
	stop()
	run.Wait()
	for range names {
		if err := <-errs; err != nil {
			return err
		}
	}
	fmt.Println("figures", s.Pages, took.Nanoseconds(), status("VmHWM"), anon.Load(), s.TextLag)
	return a.Close()
}

// status reads a figure in kB of this process; 0 where there is no /proc.
func status(name string) int64 {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	var n int64
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, name+":"); ok {
			_, _ = fmt.Sscan(v, &n)
		}
	}
	return n
}

func ingestPeer(ctx context.Context, a *Archive, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	r := bufio.NewReader(f)
	raw, err := next(r)
	if err != nil {
		return err
	}
	signed, err := channel.ParseSigned(raw)
	if err != nil {
		return err
	}
	body, err := next(r)
	if err != nil {
		return err
	}
	if err := a.Deposit(ctx, signed, body); err != nil {
		return err
	}
	peer := filepath.Base(name)
	if c, err := a.Claim(ctx, peer, signed); err != nil || c.Status != lease.Granted {
		return fmt.Errorf("claim: %v, %w", c.Status, err)
	}
	for {
		raw, err := next(r)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		c, err := channel.ParseChunk(raw)
		if err != nil {
			return err
		}
		if got, err := a.Put(ctx, peer, c); err != nil || got.Status != lease.Stored {
			return fmt.Errorf("put: %v, %w", got.Status, err)
		}
	}
}

// BenchmarkIngest stores pages of 8 kB from 50 peers at once, each acknowledged when durable, in chunks of half a MiB of content, in a
// process of its own that reads the load from files. Beside it text is extracted. It stands beside a baseline: the same bytes, packed
// and written to one file without index, sync or fence.
func BenchmarkIngest(b *testing.B) {
	const peers, pages, size = 50, 64, 8 << 10
	chunks := max(2, b.N/(peers*pages))
	dir := b.TempDir()
	for _, l := range buildLoad(b, peers, chunks, pages, size) {
		if err := l.write(dir); err != nil {
			b.Fatal(err)
		}
	}
	runtime.GC()
	b.ResetTimer()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), ingestDir+"="+dir)
	out, err := cmd.CombinedOutput()
	b.StopTimer()
	var stored, took, rss, anon, lag int64
	if _, scanErr := fmt.Sscanf(string(out), "figures %d %d %d %d %d", &stored, &took, &rss, &anon, &lag); err != nil || scanErr != nil {
		b.Fatalf("child: %v, %v\n%s", err, scanErr, out)
	}
	if want := int64(peers * chunks * pages); stored != want {
		b.Fatalf("%d pages stored of %d", stored, want)
	}
	b.ReportMetric(float64(stored)/(float64(took)/1e9), "pages/s")
	cpu := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	b.ReportMetric(float64(cpu.Microseconds())/float64(stored), "cpu-us/page")
	b.ReportMetric(float64(anon)/1024, "MiB-anon")
	b.ReportMetric(float64(rss)/1024, "MiB-rss")
	b.ReportMetric(float64(lag), "text-lag")
}

// BenchmarkPackOnly is the baseline of BenchmarkIngest: records are packed by two goroutines and go nowhere.
func BenchmarkPackOnly(b *testing.B) {
	pack, err := warc.NewCompressor(DefaultLevel)
	if err != nil {
		b.Fatal(err)
	}
	text := pageText(rand.New(rand.NewPCG(1, 1)), 8<<10)
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		var buf []byte
		for p.Next() {
			r := warc.Record{Type: warc.Response, URI: "http://example.org/", Date: time.Unix(1, 0), Head: warc.HTTPHeader(nil, 200, len(text)), Body: text}
			if buf, err = pack.Append(buf[:0], &r); err != nil {
				b.Error(err)
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pages/s")
}
