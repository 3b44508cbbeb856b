package remote

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/internal/lab/pglab"
	"shoal/internal/lab/s3lab"
	"shoal/manager/archive"
	"shoal/manager/archive/ledger"
)

func TestMain(m *testing.M) { os.Exit(pglab.Run(m)) }

// TestNothingLost stores pages while writes of objects fail in every way, one in four, and PostgreSQL is killed again and again. Each page that was
// acknowledged must be there, on a machine that has no copy of anything, and once.
func TestNothingLost(t *testing.T) {
	db, store := pglab.Shared(t), s3lab.Start(t, s3lab.Options{})
	place := Place{DB: db.URL(), Bucket: store.URL()}
	a, err := archive.Open(t.Context(), quick(t, place))
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	chance := rand.New(rand.NewPCG(3, 4))
	store.Break(store.Puts(".warc.gz", func() s3lab.Fault {
		mu.Lock()
		defer mu.Unlock()
		faults := []s3lab.Fault{{Status: 500}, {Status: 503}, {Cut: 50}, {Silent: true}}
		if n := chance.IntN(4 * len(faults)); n < len(faults) {
			return faults[n]
		}
		return s3lab.Fault{}
	}))
	const peers, chunks = 8, 12
	stored := make(chan string, peers*chunks)
	var wg sync.WaitGroup
	for p := range peers {
		wg.Go(func() {
			if err := crawl(a, channel.ID(p+1), chunks, stored); err != nil {
				t.Error(err)
			}
		})
	}
	for round := range 3 {
		for len(stored) < (round+1)*peers*chunks/5 && !t.Failed() {
			time.Sleep(time.Millisecond)
		}
		db.Kill()
		if err := db.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	wg.Wait()
	close(stored)
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	store.Break(nil)
	b, err := archive.Open(t.Context(), quick(t, place))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	n := 0
	for url := range stored {
		n++
		if p, err := b.Get(t.Context(), url, time.Time{}); err != nil || string(p.Body) != bodyOf(url) {
			t.Errorf("%s was acknowledged: %.40q, %v", url, p.Body, err)
		}
	}
	v, err := b.Verify(t.Context(), nil)
	if err != nil || v.Found > 0 || v.Captures != n || n != peers*chunks {
		t.Errorf("%d pages acknowledged, %d captures, problems %v, %v", n, v.Captures, v.Problems, err)
	}
}

// quick is the configuration of a machine that has no copy of the archive. Its pages wait less for others than in earnest: a channel's test sends one
// after the other.
func quick(t *testing.T, place Place) archive.Config {
	cfg := place.Config(archive.Config{Dir: filepath.Join(t.TempDir(), "archive"), Unpaced: true, NoText: true, RankEvery: -1, Verify: trusting})
	cfg.Linger = 10 * time.Millisecond
	return cfg
}

func trusting(_ time.Time, s channel.Signed) (channel.Header, error) {
	return channel.ParseHeader(s.Raw)
}

func bodyOf(url string) string { return fmt.Sprintf("<p>What is at %s, and of it enough.</p>", url) }

// crawl sends a channel's chunks, a page each, each until it is acknowledged.
func crawl(a *archive.Archive, id channel.ID, chunks int, stored chan<- string) error {
	ctx, peer := context.Background(), fmt.Sprint("peer", id)
	again := func(try func() (lease.Status, error), want lease.Status) error {
		for {
			got, err := try()
			switch {
			case err == nil && got == want:
				return nil
			case err == nil:
				return fmt.Errorf("channel %d: %v", id, got)
			case !errors.Is(err, ledger.ErrStorage):
				return err
			}
			time.Sleep(time.Millisecond)
		}
	}
	signed, body := task(id)
	err := again(func() (lease.Status, error) {
		if err := a.Deposit(ctx, signed, body); err != nil {
			return 0, err
		}
		c, err := a.Claim(ctx, peer, signed)
		return c.Status, err
	}, lease.Granted)
	var prev [32]byte
	for s := uint64(1); s <= uint64(chunks) && err == nil; s++ {
		url := fmt.Sprintf("http://site-%d.example/%d", id, s)
		page := channel.ChunkBody{Pages: []channel.Page{{URL: url, Fetched: time.Now(), Status: 200, Change: channel.New, Body: []byte(bodyOf(url)), Digest: channel.ContentDigest([]byte(bodyOf(url))),
			Header: []byte("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n")}}}
		raw, cerr := channel.CompressBody(page.Marshal())
		if cerr != nil {
			return cerr
		}
		c := channel.Chunk{Channel: id, Gen: 1, Seq: s, Prev: prev, Body: raw}
		prev = c.Hash()
		if err = again(func() (lease.Status, error) {
			r, err := a.Put(ctx, peer, c)
			return r.Status, err
		}, lease.Stored); err == nil {
			stored <- url
		}
	}
	return err
}
