package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
)

// pageSize is the size of the pieces in which a system writes unsynced files.
const pageSize = 4 << 10

// diskFolder is the files of a folder, of each what is before the hole at its end.
type diskFolder struct {
	files map[string][]byte
	sizes map[string]int64
}

// mostWritten bounds what is written of one file here. Badger makes files as long as they may ever be.
const mostWritten = 4 << 20

// readFilled reads a file up to the hole at its end.
func readFilled(t *testing.T, name string) ([]byte, error) {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, mostWritten))
	if err != nil {
		return nil, err
	}
	if len(b) == mostWritten && len(bytes.Trim(b[len(b)-pageSize:], "\x00")) > 0 {
		t.Fatalf("%s has more than %d bytes", name, mostWritten)
	}
	return b, nil
}

// readFolder reads Badger's files at one moment: those of its memory tables first, so that what a table refers to is in the value log that is
// read after it, and all of them again where tables were compacted meanwhile.
func readFolder(t *testing.T, dir string) diskFolder {
	t.Helper()
	for {
		f := diskFolder{map[string][]byte{}, map[string]int64{}}
		manifest, err := os.ReadFile(filepath.Join(dir, manifestFile))
		if err != nil {
			t.Fatal(err)
		}
		whole := true
		for _, pattern := range []string{"*.mem", "*"} {
			names, err := filepath.Glob(filepath.Join(dir, pattern))
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range names {
				base := filepath.Base(name)
				if _, ok := f.files[base]; ok || base == "LOCK" {
					continue
				}
				b, err := readFilled(t, name)
				info, serr := os.Stat(name)
				if err != nil || serr != nil { // it was removed
					whole = false
					break
				}
				f.files[base], f.sizes[base] = b, info.Size()
			}
		}
		if again, err := os.ReadFile(filepath.Join(dir, manifestFile)); whole && err == nil && bytes.Equal(manifest, again) {
			return f
		}
	}
}

const powerCuts = 12

const manifestFile = "MANIFEST"

// torn is what a power failure may leave of a file that was a when last synced, and is b: each page that differs, for itself, is there or not.
func torn(rng *rand.Rand, a, b []byte) []byte {
	out := bytes.Clone(b)
	for at := 0; at < len(a) && at < len(b); at += pageSize {
		end := min(at+pageSize, len(a), len(b))
		if !bytes.Equal(a[at:end], b[at:end]) && rng.IntN(2) == 0 {
			copy(out[at:end], a[at:end])
		}
	}
	return out
}

// afterPower is what a power failure may leave of Badger's folder: b is how it was then, a how it was when the last call was answered. A
// value log is synced before the table that refers to it is written; a manifest, when tables change.
func afterPower(rng *rand.Rand, a, b diskFolder) diskFolder {
	out, wrote := diskFolder{map[string][]byte{}, b.sizes}, !bytes.Equal(a.files[manifestFile], b.files[manifestFile])
	for name, now := range b.files {
		wrote = wrote || strings.HasSuffix(name, ".mem") && !bytes.Equal(a.files[name], now)
	}
	for _, name := range sorted(b.files) {
		old, known := a.files[name]
		kind := filepath.Ext(name)
		if out.files[name] = b.files[name]; known && (kind == ".mem" || kind == ".vlog" && !wrote) {
			out.files[name] = torn(rng, old, b.files[name])
		}
	}
	return out
}

// TestPowerFails cuts the power in the middle of a chunk, again and again with the same data: of WARC files and database alike each
// page that was not synced is there or is not. What was acknowledged is there; the chunk is stored whole or not at all, and can be sent
// again either way.
func TestPowerFails(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 3))
	dir := t.TempDir()
	disk := newFaultFS()
	cfg := testConfig(dir)
	cfg.FS, cfg.NoText = disk, true
	a := open(t, cfg)
	r, _ := start(t, a, "p", 1, 1)
	body := func(seq uint64) channel.ChunkBody {
		b := channel.ChunkBody{}
		for n := range 40 {
			b.Pages = append(b.Pages, r.page(fmt.Sprintf("/%d/%d", seq, n), crashPage(1, seq, n), channel.New))
		}
		return b
	}
	lost, kept, half, last := 0, 0, 0, 8*time.Millisecond
	for round := range powerCuts {
		for range 1 + rng.IntN(2) {
			r.put(body(r.seq + 1))
		}
		chunk := r.chunk(body(r.seq + 1))
		before, synced := readFolder(t, filepath.Join(dir, "state")), disk.synced()
		answered := make(chan error, 1)
		var took atomic.Int64 // until the answer; zero: there is none yet
		go func() {
			began := time.Now()
			_, err := a.Put(ctx, "p", chunk)
			took.Store(int64(time.Since(began)))
			answered <- err
		}()
		if rng.IntN(4) > 0 { // after the pages are synced, else before or while they are
			for disk.synced() == synced {
				time.Sleep(100 * time.Microsecond)
			}
		}
		time.Sleep(time.Duration(rng.Int64N(int64(3 * last / 2)))) // the moment: not hoping, choosing
		known := took.Load() > 0                                   // that it is stored
		then := readFolder(t, filepath.Join(dir, "state"))
		disk.mu.Lock()
		tails := map[string]int64{}
		for name, at := range disk.unsynced {
			tails[name] = at
		}
		disk.mu.Unlock()
		if err := <-answered; err != nil { // the machine is off by then, so the answer is lost
			t.Fatal(err)
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		last = time.Duration(took.Load())
		left := then
		if !known {
			left = afterPower(rng, before, then)
		}
		if err := os.RemoveAll(filepath.Join(dir, "state")); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(filepath.Join(dir, "state"), 0o700); err != nil {
			t.Fatal(err)
		}
		for name, b := range left.files {
			at := filepath.Join(dir, "state", name)
			if err := errors.Join(os.WriteFile(at, b, 0o600), os.Truncate(at, left.sizes[name])); err != nil {
				t.Fatal(err)
			}
		}
		for name, at := range tails {
			info, err := os.Stat(name)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(name, at+rng.Int64N(info.Size()-at+1)); err != nil {
				t.Fatal(err)
			}
		}

		a = open(t, cfg)
		r.a = a
		stored := 0
		for n := range 40 {
			if got, err := a.Get(ctx, r.url(fmt.Sprintf("/%d/%d", r.seq+1, n)), time.Time{}); err == nil {
				if string(got.Body) != crashPage(1, r.seq+1, n) {
					t.Fatalf("round %d: a torn page is served: %.40q", round, got.Body)
				}
				stored++
			}
		}
		switch stored {
		case 0:
			lost++
		case 40:
			kept++
		default:
			half++
		}
		if known && stored < 40 {
			t.Fatalf("round %d: %d pages of an acknowledged chunk are there", round, stored)
		}
		got, err := a.Put(ctx, "p", chunk)
		if err != nil || got.Status != lease.Stored || got.Seq != r.seq+1 {
			t.Fatalf("round %d: the chunk again: %+v, %v", round, got, err)
		}
		r.seq, r.head = got.Seq, got.Head
	}
	told := map[string]int{}
	for cursor := ""; ; {
		changes, next, err := a.Changes(ctx, cursor, 1000)
		if err != nil {
			t.Fatal(err)
		}
		if cursor = next; len(changes) == 0 {
			break
		}
		for _, c := range changes {
			told[c.URL]++
		}
	}
	for seq := uint64(1); seq <= r.seq; seq++ {
		for n := range 40 {
			url := r.url(fmt.Sprintf("/%d/%d", seq, n))
			if got, err := a.Get(ctx, url, time.Time{}); err != nil || string(got.Body) != crashPage(1, seq, n) || told[url] != 1 {
				t.Fatalf("%s: %.40q, told %d times, %v", url, got.Body, told[url], err)
			}
		}
	}
	clean(t, a)
	t.Logf("of %d chunks on their way %d were lost, %d stored, %d in part to be seen", powerCuts, lost, kept, half)
}
