package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/internal/lab/pglab"
	"shoal/internal/lab/s3lab"
	"shoal/manager/archive"
	"shoal/manager/archive/bucket"
	"shoal/manager/archive/ledger"
)

// besides opens archives that share a database and a bucket, and run.
func besides(t *testing.T, db *pglab.Server, store *s3lab.Store, names ...string) (all []*archive.Archive) {
	t.Helper()
	for _, name := range names {
		place := Place{DB: db.URL(), Bucket: store.URL(), Writer: name}
		cfg := quick(t, place)
		cfg.Strays = 200 * time.Millisecond
		a, err := archive.Open(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { _ = a.Run(ctx) })
		t.Cleanup(func() {
			cancel()
			wg.Wait()
			_ = a.Close()
		})
		all = append(all, a)
	}
	return all
}

// payload is one of few, large enough to be stored once for all pages that have it.
func payload(n int) []byte { return bytes.Repeat(fmt.Appendf(nil, "<p>payload %d</p>", n), 500) }

// change has a channel's pages take some payloads, one after the other, each acknowledged. A crawl shows a page once, so that all pages are of the next crawl then.
func change(t *testing.T, a *archive.Archive, id channel.ID, steps []int, pages int) (now map[string]int) {
	ctx, peer := t.Context(), fmt.Sprint("peer", id)
	again := func(try func() (lease.Status, error), want lease.Status) bool {
		for {
			got, err := try()
			if err == nil && got == want {
				return true
			}
			if err == nil || !errors.Is(err, ledger.ErrStorage) || ctx.Err() != nil {
				t.Errorf("channel %d: %v, %v", id, got, err)
				return false
			}
		}
	}
	var found channel.Resume
	crawl := func(gen channel.Gen) bool {
		signed, body := crawlOf(id, gen)
		return again(func() (lease.Status, error) {
			if gen > 1 {
				if _, err := a.Release(ctx, peer, id, gen-1); err != nil {
					return 0, err
				}
			}
			if err := a.Deposit(ctx, signed, body); err != nil {
				return 0, err
			}
			c, err := a.Claim(ctx, peer, signed)
			found = c.Resume
			return c.Status, err
		}, lease.Granted)
	}
	now = map[string]int{}
	at := time.Now().Add(-time.Hour)
	gen, seq, prev := channel.Gen(0), uint64(0), [32]byte{}
	for n, p := range steps {
		if n%pages == 0 {
			if gen++; !crawl(gen) {
				return nil
			}
			seq, prev = found.Seq, found.Head
		}
		seq++
		url := fmt.Sprintf("http://site-%d.example/%d", id, n%pages)
		is := channel.Changed
		if n < pages {
			is = channel.New
		}
		chunk := channel.ChunkBody{Pages: []channel.Page{{URL: url, Fetched: at.Add(time.Duration(n) * time.Second), Status: 200, Change: is, Body: payload(p), Digest: channel.ContentDigest(payload(p)),
			Header: []byte("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n")}}}
		raw, err := channel.CompressBody(chunk.Marshal())
		if err != nil {
			t.Error(err)
			return nil
		}
		c := channel.Chunk{Channel: id, Gen: gen, Seq: seq, Prev: prev, Body: raw}
		prev = c.Hash()
		if !again(func() (lease.Status, error) {
			r, err := a.Put(ctx, peer, c)
			return r.Status, err
		}, lease.Stored) {
			return nil
		}
		now[url] = p
	}
	return now
}

// TestCompactBeside has two managers store pages that share few payloads, while both forget old versions and compact what is left, again and again: a
// payload whose last version was forgotten comes back at any moment. Whatever was acknowledged can be read at both, and on a machine without a copy.
func TestCompactBeside(t *testing.T) {
	db, store := pglab.Shared(t), s3lab.Start(t, s3lab.Options{})
	all := besides(t, db, store, "a", "b")
	const pages, steps = 3, 20
	var storing, tidying sync.WaitGroup
	some := func(n int) map[string]int {
		rng := rand.New(rand.NewPCG(uint64(n), 7))
		which := make([]int, steps)
		for i := range which {
			which[i] = rng.IntN(6)
		}
		return change(t, all[n%2], channel.ID(n+1), which, pages)
	}
	stored := make([]map[string]int, 4)
	for n := range stored {
		storing.Go(func() { stored[n] = some(n) })
	}
	ctx, stop := context.WithCancel(t.Context())
	var files [2]atomic.Int64
	for n, a := range all {
		tidying.Go(func() {
			for ctx.Err() == nil {
				out, err := a.Tidy(t.Context(), archive.Retention{Captures: 1}, 1)
				if files[n].Add(int64(out.Compacted.Files)); err != nil {
					t.Errorf("manager %d: %v", n, err)
					return
				}
				select { // the other one may have its turn
				case <-ctx.Done():
				case <-time.After(rand.N(300 * time.Millisecond)):
				}
			}
		})
	}
	storing.Wait()
	for !t.Failed() && (files[0].Load() == 0 || files[1].Load() == 0) { // both must have compacted while pages are stored
		stored = append(stored, some(len(stored)))
	}
	stop()
	tidying.Wait()
	if t.Failed() {
		return
	}
	last := besides(t, db, store, "c")[0] // has no copy
	for n, a := range append(all, last) {
		if v, err := a.Verify(t.Context(), nil); err != nil || v.Found > 0 { // it takes its turn, for which it reads what the others have stored
			t.Errorf("manager %d: problems %v, %v", n, v.Problems, err)
		}
		for _, now := range stored {
			for url, p := range now {
				if is, err := a.Get(t.Context(), url, time.Time{}); err != nil || !bytes.Equal(is.Body, payload(p)) {
					t.Errorf("manager %d: %s was acknowledged with payload %d: %.20q, %v", n, url, p, is.Body, err)
				}
			}
		}
	}
}

// TestStrays has objects lie in the bucket that were never committed, of a segment that is being written and of one that nobody knows, and a segment that is
// compacted away. A running manager removes them, and the writer of the segment goes on in another one.
func TestStrays(t *testing.T) {
	db, store := pglab.Shared(t), s3lab.Start(t, s3lab.Options{})
	all := besides(t, db, store, "a", "b")
	first := change(t, all[0], 1, []int{1}, 1)
	names, err := store.Objects()
	if err != nil {
		t.Fatal(err)
	}
	pages := func() (out []string) {
		names, err := store.Objects()
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range names {
			if strings.HasPrefix(n, "warc/") {
				out = append(out, n)
			}
		}
		return out
	}
	if len(pages()) != 1 {
		t.Fatal(names)
	}
	written := pages()[0]
	dir := written[:strings.LastIndexByte(written, '/')]
	put(t, store, dir+"/000000000000-0011223344556677.warc.gz")
	put(t, store, "warc/shoal-20260102030405-00777/000000000000-0011223344556677.warc.gz")
	for len(pages()) > 1 {
		if t.Context().Err() != nil {
			t.Fatalf("strays are left: %v", pages())
		}
		time.Sleep(10 * time.Millisecond)
	}
	if pages()[0] != written {
		t.Errorf("left is %v, want %s", pages(), written)
	}
	second := change(t, all[0], 2, []int{2}, 1) // it is refused once, and goes to another segment
	for _, n := range pages() {
		if n != written && strings.HasPrefix(n, dir) {
			t.Errorf("%s was added to a segment that was closed", n)
		}
	}
	for _, now := range []map[string]int{first, second} {
		for url, p := range now {
			if is, err := all[0].Get(t.Context(), url, time.Time{}); err != nil || !bytes.Equal(is.Body, payload(p)) {
				t.Errorf("%s: %.20q, %v", url, is.Body, err)
			}
		}
	}
	// All of the first segment is compacted away; its objects follow.
	change(t, all[1], 3, []int{3, 4}, 1)
	if _, err := all[1].Tidy(t.Context(), archive.Retention{Captures: 1}, 1); err != nil {
		t.Fatal(err)
	}
	for {
		known, err := all[1].Segments(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		strays, _ := all[1].Ledger.Closing.Strays()
		left, err := strays.Strays(t.Context(), known)
		if err != nil {
			t.Fatal(err)
		}
		if len(left) == 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// put writes an object, as a manager does that dies before it commits.
func put(t *testing.T, store *s3lab.Store, name string) {
	t.Helper()
	b, err := bucket.Open(t.Context(), bucket.Config{URL: store.URL()})
	if err == nil {
		err = b.Put(t.Context(), name, []byte("never committed"))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestTurns has two managers do what only one may do at a time, and one of them end while it is its turn.
func TestTurns(t *testing.T) {
	db, store := pglab.Shared(t), s3lab.Start(t, s3lab.Options{})
	all := besides(t, db, store, "a", "b")
	var working atomic.Int32
	var wg sync.WaitGroup
	for _, a := range all {
		wg.Go(func() {
			for range 4 {
				release, err := a.Ledger.Others.Turn(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				if n := working.Add(1); n != 1 {
					t.Errorf("%d at work at a time", n)
				}
				working.Add(-1)
				release()
			}
		})
	}
	wg.Wait()
	gone := besides(t, db, store, "c")[0]
	if _, err := gone.Ledger.Others.Turn(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	release, err := all[0].Ledger.Others.Turn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	release()
}

// TestWaitForAll has one manager wait for another one that is still making something.
func TestWaitForAll(t *testing.T) {
	db, store := pglab.Shared(t), s3lab.Start(t, s3lab.Options{})
	all := besides(t, db, store, "a", "b")
	asked, made := make(chan struct{}), make(chan struct{})
	release, err := all[0].Ledger.Others.Turn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	var once sync.Once
	all[1].Ledger.Others.Making(func() {
		once.Do(func() { close(asked) })
		<-made
	})
	waited := make(chan error, 1)
	go func() { waited <- all[0].Ledger.Others.WaitForAll(t.Context()) }()
	<-asked
	select {
	case err := <-waited:
		t.Fatalf("it did not wait: %v", err)
	default:
	}
	close(made)
	if err := <-waited; err != nil {
		t.Error(err)
	}
}
