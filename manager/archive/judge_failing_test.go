package archive

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"shoal/channel"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/schema"
	"shoal/manager/trust"
)

// recordsOf dumps the records of all pages, and what their states describe.
func recordsOf(t *testing.T, a *Archive, paths int) (out []string) {
	t.Helper()
	for i := range paths {
		d, err := a.Record(t.Context(), 1, channel.URLHash(fmt.Sprintf("http://site-1.example/%d", i)))
		if err != nil {
			t.Fatal(err)
		}
		r := d.Record
		out = append(out, fmt.Sprintf("%v %x by %d seen %d, %v %x; last %d; shows %x", r.Cur.State, r.Cur.Digest, r.Cur.By, r.Cur.Seen(), r.Prev.State, r.Prev.Digest, r.LastBy, d.Digest))
	}
	return out
}

// A verdict of many pages that breaks off at any of its writes, since the disk fails or the process ends, is the same when it was repeated: each page counts
// once, and the feed tells of it once.
func TestVerdictBreaksOff(t *testing.T) {
	t.Parallel()
	const pages = 320 // two writes, and one that forgets the delivery
	crawls := []struct {
		peer string
		body func(i int) string
	}{
		{"alice", func(i int) string { return fmt.Sprint(home, i) }},
		{"mallory", func(i int) string { return fmt.Sprint(forge, i%2 == 0, i) }},
		{"bob", func(i int) string { return fmt.Sprint(home, i) }},
	}
	run := func(fail int) (records []string, told int) {
		d := newDiskless(t)
		d.cfg.AccountOf, d.cfg.NoText, d.cfg.Unpaced = nil, true, true
		cl := &clock{now: time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)}
		d.cfg.Clock = cl.Now
		a := d.open(t)
		cfg := trust.Default()
		cfg.Enforce = true
		for n, c := range crawls {
			cl.crawl(t, a, c.peer, channel.Gen(n+1), func(r *runner) (out []channel.Page) {
				for i := range pages {
					out = append(out, r.page(fmt.Sprint("/", i), c.body(i), channel.Changed))
				}
				return out
			})
			broke := false
			for done := false; !done; {
				m, err := trust.New(cfg, rand.New(rand.NewPCG(1, 2)))
				if err != nil {
					t.Fatal(err)
				}
				j := &judge{t, a, m}
				for i, p := range []string{"alice", "bob", "mallory"} {
					n := trust.Peer(a.DelivererNumber(p))
					m.Join(n, trust.Account(n), trust.Prefix(i+1))
					m.Vouch(n)
				}
				left := fail
				d.records.Fail = func(int) error {
					if left--; left == 0 && !broke {
						broke = true
						return errDiskGone
					}
					return nil
				}
				err = j.try(cl, channel.Gen(n+1))
				d.records.Fail = nil
				if done = err == nil; !done {
					if !errors.Is(err, errDiskGone) && !errors.Is(err, ErrStorage) {
						t.Fatal(err)
					}
					if err := a.Close(); err != nil {
						t.Fatal(err)
					}
					a = d.open(t)
				}
			}
		}
		err := a.Ledger.View(func(s ledger.Snapshot) error {
			left := 0
			err := s.Scan([]byte{schema.Delivered}, nil, false, func([]byte, []byte) (bool, error) { left++; return true, nil })
			if left != 0 {
				t.Errorf("broken at %d: %d chunks are still to be taken in", fail, left)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		changes, _, err := a.Changes(t.Context(), "", MaxFeed)
		if err != nil {
			t.Fatal(err)
		}
		return recordsOf(t, a, pages), len(changes)
	}
	want, events := run(0)
	for fail := 1; fail <= 3; fail++ {
		got, n := run(fail)
		if n != events {
			t.Errorf("broken at write %d the feed has %d entries, want %d", fail, n, events)
		}
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("broken at write %d: page %d is %s, want %s", fail, i, got[i], want[i])
			}
		}
	}
}

var errDiskGone = errors.New("test: the disk is gone")
