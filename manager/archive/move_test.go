package archive

import (
	"context"
	"slices"
	"testing"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/manager/archive/ledger/memledger"
	"shoal/manager/archive/warc/memory"
	"shoal/manager/trust"
)

// TestMove makes a directory's pages another channel's: that one knows them, the old one does not, and all are found as before.
func TestMove(t *testing.T) {
	cl := &clock{time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)}
	cfg := testConfig(t.TempDir())
	cfg.Clock = cl.Now
	a := open(t, cfg)
	r, _ := start(t, a, "p", 1, 1)
	r.put(channel.ChunkBody{Pages: []channel.Page{r.page("/", "home "+long, channel.New), r.page("/a", "a "+long, channel.New),
		r.page("/a/x", "x "+long, channel.New), r.page("/ab", "ab "+long, channel.New)}})
	cl.now = cl.now.Add(time.Hour)
	r.put(channel.ChunkBody{Pages: []channel.Page{r.page("/a/x", "x changed "+long, channel.Changed)}, Report: r.report(channel.Updated)})

	// What was not visited since is named, what waits longest first.
	if k, err := a.Known(t.Context(), 1, cl.now); err != nil || !slices.Equal(k.Missed, []string{r.url("/"), r.url("/a"), r.url("/ab")}) {
		t.Errorf("missed %v, %v", k.Missed, err)
	}
	scope := channel.Scope{Kind: channel.Directory, Host: "http://site-1.example", Dirs: []string{"/a/"}}
	m, err := scope.Compile()
	if err != nil {
		t.Fatal(err)
	}
	if n, err := a.Move(t.Context(), 1, 2, m); err != nil || n != 2 {
		t.Fatalf("%d pages moved, %v", n, err)
	}
	for id, want := range map[channel.ID]int{1: 2, 2: 2} {
		k, err := a.Known(t.Context(), id, cl.now)
		if err != nil || k.Pages != want || len(k.Digests) != want {
			t.Errorf("channel %d knows %d pages, %v", id, k.Pages, err)
		}
	}
	p, err := a.Page(t.Context(), r.url("/a/x"))
	if err != nil || p.Channel != 2 || p.Visits != 2 || len(p.History) == 0 {
		t.Errorf("a page that was moved: %+v, %v", p, err)
	}
	if got, err := a.Get(t.Context(), r.url("/a/x"), time.Time{}); err != nil || string(got.Body) != "x changed "+long {
		t.Errorf("its content: %.20q, %v", got.Body, err)
	}
	if p, err := a.Page(t.Context(), r.url("/ab")); err != nil || p.Channel != 1 {
		t.Errorf("a page that was not: %+v, %v", p, err)
	}
	clean(t, a)
}

// TestMoveBesideAnotherManager moves pages while another manager stores later versions, first of the channel that they leave, then of the one that they go to: none
// is lost, and none has two channels.
func TestMoveBesideAnotherManager(t *testing.T) {
	for name, id := range map[string]channel.ID{"from": 1, "to": 2} {
		t.Run(name, func(t *testing.T) {
			cl := &clock{time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)}
			cfg := testConfig("memory")
			cfg.Clock = cl.Now
			records, segments := memledger.New(), memory.New(memory.Config{})
			a := (&besides{Store: records}).open(t, cfg, segments)
			t.Cleanup(func() { a.Close() })
			r, _ := start(t, a, "p", 1, 1)
			r.put(channel.ChunkBody{Pages: []channel.Page{r.page("/a/1", "1 "+long, channel.New), r.page("/a/2", "2 "+long, channel.New)}, Report: r.report(channel.Updated)})
			cl.now = cl.now.Add(time.Hour)
			gen := channel.Gen(1)
			if id == 1 {
				gen = 2
			}
			task, body := taskOf(id, gen, "http://site-1.example", cl.now.Add(time.Hour))
			if err := a.Deposit(t.Context(), task, body); err != nil {
				t.Fatal(err)
			}
			c, err := a.Claim(t.Context(), "q", task)
			if err != nil || c.Status != lease.Granted {
				t.Fatal(c.Status, err)
			}
			late := &runner{t, a, "q", id, gen, c.Resume.Seq, c.Resume.Head, nil}
			store := &besides{Store: records}
			other := store.open(t, cfg, segments)
			store.do = func() {
				late.put(channel.ChunkBody{Pages: []channel.Page{r.page("/a/1", "1 changed "+long, channel.Changed)}, Report: late.report(channel.Updated)})
			}
			scope := channel.Scope{Kind: channel.Directory, Host: "http://site-1.example", Dirs: []string{"/a/"}}
			m, err := scope.Compile()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := other.Move(t.Context(), 1, 2, m); err != nil {
				t.Fatal(err)
			}
			for id, want := range map[channel.ID]int{1: 0, 2: 2} {
				if k, err := a.Known(t.Context(), id, cl.now); err != nil || k.Pages != want {
					t.Errorf("channel %d knows %d pages, want %d; %v", id, k.Pages, want, err)
				}
			}
			p, err := a.Page(t.Context(), r.url("/a/1"))
			if err != nil || p.Channel != 2 || !p.Fetched.Equal(cl.now) {
				t.Errorf("the page that was stored meanwhile: %+v, %v", p, err)
			}
		})
	}
}

// TestPardonAfterAMove gives back what was withdrawn of pages that have become two other channels' since, one of them half.
func TestPardonAfterAMove(t *testing.T) {
	a, cl, _ := strangers(t)
	j := newJudge(t, a, true, "alice", "mallory")
	paths := []string{"/a/1", "/a/2", "/b/1", "/b/2", "/c", "/d"}
	say := func(peer string, gen channel.Gen, body string) {
		cl.crawl(t, a, peer, gen, func(r *runner) (out []channel.Page) {
			for _, path := range paths {
				out = append(out, r.page(path, body+path, channel.Changed))
			}
			return out
		})
		j.deliver(cl, gen)
	}
	say("alice", 1, home)
	say("mallory", 2, news)
	mallory := trust.Peer(a.DelivererNumber("mallory"))
	settle := func(do func(context.Context, trust.Peer) error) {
		t.Helper()
		if err := do(t.Context(), mallory); err != nil {
			t.Fatal(err)
		}
		if err := a.Settle(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	settle(a.Suspend)
	for id, dirs := range map[channel.ID][]string{2: {"/a/"}, 3: {"/b/"}} {
		m, err := (&channel.Scope{Kind: channel.Directory, Host: "http://site-1.example", Dirs: dirs}).Compile()
		if err != nil {
			t.Fatal(err)
		}
		if n, err := a.Move(t.Context(), 1, id, m); err != nil || n != 2 {
			t.Fatalf("%d pages moved, %v", n, err)
		}
	}
	for _, path := range paths {
		if got := shown(t, a, "http://site-1.example"+path); got != home+path {
			t.Fatalf("suspended: %s shows %q", path, got)
		}
	}
	settle(a.Pardon)
	for _, path := range paths {
		p, err := a.Page(t.Context(), "http://site-1.example"+path)
		if err != nil || p.Digest != channel.ContentDigest([]byte(news+path)) {
			t.Errorf("pardoned: the state of %s is %+v, %v", path, p, err)
		}
		if got := shown(t, a, p.URL); got != news+path {
			t.Errorf("pardoned: %s shows %q", path, got)
		}
	}
	if all, err := a.Suspensions(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("%+v, %v", all, err)
	}
}
