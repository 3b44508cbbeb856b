package archive

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/schema"
)

func hostsOf(t *testing.T, name string) channel.Hosts {
	t.Helper()
	h, err := channel.ParseHosts(name)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// crawled stores a page of a host.
func crawled(t *testing.T, a *Archive, id channel.ID, host string) *runner {
	t.Helper()
	r := &runner{t: t, a: a, peer: "p", id: id, gen: 1}
	s, raw := taskOf(id, 1, host, a.cfg.Clock().Add(time.Hour))
	if err := a.Deposit(context.Background(), s, raw); err != nil {
		t.Fatal(err)
	}
	if c, err := a.Claim(context.Background(), "p", s); err != nil || c.Status != lease.Granted {
		t.Fatalf("claim %d: %v, %v", id, c.Status, err)
	}
	p := r.page("/", fmt.Sprint(id, long), channel.New)
	p.URL = host + "/"
	r.put(channel.ChunkBody{Pages: []channel.Page{p}, Frontier: []channel.Frontier{{URL: host + "/next", Depth: 1}}})
	return r
}

// TestPurgePorts takes down what an operator names, and nothing else: a host on all ports, one port, one scheme.
func TestPurgePorts(t *testing.T) {
	all := []string{"http://z.example", "https://z.example", "http://z.example:8080", "https://z.example:8443", "http://z.example.org", "http://zz.example"}
	for name, gone := range map[string]int{"z.example": 4, "z.example:8080": 1, "https://z.example": 1, "www.z.example": 0} {
		a := open(t, testConfig(t.TempDir()))
		for i, host := range all {
			crawled(t, a, channel.ID(i+1), host)
		}
		h := hostsOf(t, name)
		n, err := a.Purge(t.Context(), h)
		if err != nil || n != gone {
			t.Errorf("%s: %d pages purged, %v, want %d", name, n, err, gone)
		}
		for _, host := range all {
			if _, err := a.Get(t.Context(), host+"/", time.Time{}); errors.Is(err, ErrNotFound) != h.Has(host) {
				t.Errorf("%s was purged; %s: %v", name, host, err)
			}
		}
		if changes := changesOf(t, a); strings.Count(changes, "gone") != gone || strings.Count(changes, "created") != len(all)-gone {
			t.Errorf("%s: the feed says %s", name, changes)
		}
	}
}

// TestPurgeGoesOn breaks a purge off after each of its writes, and purges again: nothing is left, and every page was told to be gone.
func TestPurgeGoesOn(t *testing.T) {
	for n := 1; ; n++ {
		ctx, cancel := context.WithCancel(t.Context())
		left := 0
		cfg := testConfig(t.TempDir())
		cfg.Clock = func() time.Time { // is asked on the way
			if left--; left == 0 {
				cancel()
			}
			return time.Now()
		}
		a := open(t, cfg)
		crawled(t, a, 1, "http://z.example")
		crawled(t, a, 2, "http://z.example:81")
		left = n
		_, broke := a.Purge(ctx, hostsOf(t, "z.example"))
		left = 0
		if _, err := a.Purge(t.Context(), hostsOf(t, "z.example")); err != nil {
			t.Fatal(err)
		}
		if changes := changesOf(t, a); strings.Contains(changes, "created") || strings.Count(changes, "gone") < 2 {
			t.Errorf("broken off after %d: %s", n, changes)
		}
		if c, err := a.Compact(t.Context(), 0); err != nil || c.Files != 1 || c.Moved != 0 {
			t.Errorf("compacted %+v, %v", c, err)
		}
		clean(t, a)
		cancel()
		if broke == nil {
			if n == 1 {
				t.Error("nothing broke off")
			}
			return
		}
	}
}

// TestForget calls a channel back: its holder is refused, and nothing that names its pages is kept.
func TestForget(t *testing.T) {
	a := open(t, testConfig(t.TempDir()))
	r := crawled(t, a, 1, "http://z.example")
	waits, raw := taskOf(1, 2, "http://z.example", time.Now().Add(time.Hour))
	if err := a.Deposit(t.Context(), waits, raw); err != nil {
		t.Fatal(err)
	}
	if err := a.Forget(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	c := r.chunk(channel.ChunkBody{Pages: []channel.Page{r.page("/next", "x", channel.New)}, Report: r.report(channel.Updated)})
	if got, err := a.Put(t.Context(), "p", c); err != nil || got.Status != lease.Fenced {
		t.Errorf("a chunk after that: %v, %v", got.Status, err)
	}
	if got, err := a.Claim(t.Context(), "q", waits); err != nil || got.Status != lease.Fenced || len(got.Body) > 0 {
		t.Errorf("a claim after that: %v, %d bytes, %v", got.Status, len(got.Body), err)
	}
	if err := a.Deposit(t.Context(), waits, raw); !errors.Is(err, ErrFenced) {
		t.Errorf("a deposit after that: %v", err)
	}
	if _, err := a.Purge(t.Context(), hostsOf(t, "z.example")); err != nil {
		t.Fatal(err)
	}
	for _, table := range []byte{schema.Deposit, schema.Resume, schema.Page, schema.History, schema.Links, schema.Rank, schema.Owner, schema.Inter, schema.Capture, schema.Text, schema.Content} {
		err := a.Ledger.View(func(s ledger.Snapshot) error {
			return s.Scan([]byte{table}, nil, false, func(key, _ []byte) (bool, error) {
				t.Errorf("%q is left", key)
				return true, nil
			})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
