package archive

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"shoal/channel"
	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/evidence"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/ledger/memledger"
	"shoal/manager/archive/pages"
	"shoal/manager/archive/schema"
	"shoal/manager/archive/warc"
	"shoal/manager/archive/warc/memory"
	"shoal/manager/trust"
)

// besides is a ledger in memory to which another manager writes just before this one does.
type besides struct {
	*memledger.Store
	on   []byte // key of a record: just before it is written; nil: any is
	once sync.Once
	do   func()

	fails   func() bool // whether a write fails
	failure error       // how; nil: the database is away
	name    string      // among the managers
	gone    []string    // managers
}

var _ ledger.Follower = (*besides)(nil) // else it is taken for a ledger that no other manager writes to

func (s *besides) Several() bool                           { return true }
func (s *besides) Hear(func([]ledger.Write))               {}
func (s *besides) ShutOut(context.Context, []string) error { return nil }
func (s *besides) Sync(context.Context) error              { return nil }
func (s *besides) Out() error                              { return nil }
func (s *besides) End()                                    {}
func (s *besides) Newest(context.Context) (uint32, error)  { return 0, nil }
func (s *besides) Name() string                            { return cmp.Or(s.name, "own") }
func (s *besides) Writes(_ context.Context, name string) (bool, error) {
	return !slices.Contains(s.gone, name), nil
}
func (s *besides) First(context.Context) (bool, error)         { return true, nil }
func (s *besides) Pass(context.Context, []byte) error          { return nil }
func (s *besides) Behind(context.Context, []byte) (int, error) { return 0, nil }

func (s *besides) Commit(writes []ledger.Write) ([]error, error) {
	if s.do != nil && slices.ContainsFunc(writes, func(w ledger.Write) bool {
		return s.on == nil || slices.ContainsFunc(w.Changes, func(c ledger.Change) bool { return bytes.Equal(c.Key, s.on) })
	}) {
		s.once.Do(s.do)
	}
	if s.fails != nil && s.fails() {
		return nil, cmp.Or(s.failure, ledger.ErrAway)
	}
	return s.Store.Commit(writes)
}

func (s *besides) open(t *testing.T, cfg Config, segments *memory.Store) *Archive {
	t.Helper()
	if err := cfg.validate(); err != nil {
		t.Fatal(err)
	}
	pack, err := warc.NewCompressor(1)
	if err != nil {
		t.Fatal(err)
	}
	a, err := assemble(t.Context(), cfg, pack, s, segments)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestPurgeBesideAnotherManager takes a host down while another manager makes the texts of its pages: no text is left.
func TestPurgeBesideAnotherManager(t *testing.T) {
	records, segments := memledger.New(), memory.New(memory.Config{})
	a := (&besides{Store: records}).open(t, testConfig("memory"), segments)
	t.Cleanup(func() { a.Close() })
	r, _ := start(t, a, "p", 1, 1)
	r.put(channel.ChunkBody{Pages: []channel.Page{r.page("/", long, channel.New)}, Report: r.report(channel.Updated)})
	store := &besides{Store: records}
	other := store.open(t, testConfig("memory"), segments)
	store.do = func() {
		if n, err := a.Purge(t.Context(), hostsOf(t, "site-1.example")); n != 1 || err != nil {
			t.Errorf("took down %d pages, %v", n, err)
		}
	}
	for n := 1; n > 0; { // twice: of what was there, and then
		var err error
		if n, err = other.ExtractText(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	err := records.View(func(snap ledger.Snapshot) error {
		return snap.Scan([]byte{schema.Text}, nil, false, func(key, _ []byte) (bool, error) {
			t.Errorf("there is a text %x of what was taken down", key)
			return true, nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestPurgeOfAPeerBesideAnotherManager purges what a peer delivered while another manager makes the texts of its pages: no text of them is left, and it makes the
// others when the purge is done.
func TestPurgeOfAPeerBesideAnotherManager(t *testing.T) {
	records, segments := memledger.New(), memory.New(memory.Config{})
	cfg := testConfig("memory")
	cfg.AccountOf = nil
	cl := &clock{now: time.Now().Truncate(time.Microsecond)}
	cfg.Clock = cl.Now
	a := (&besides{Store: records}).open(t, cfg, segments)
	t.Cleanup(func() { a.Close() })
	for i, peer := range []string{"alice", "mallory"} {
		cl.crawl(t, a, peer, channel.Gen(i+1), func(r *runner) []channel.Page {
			return []channel.Page{r.page("/"+peer, long+peer, channel.New)}
		})
	}
	store := &besides{Store: records}
	other := store.open(t, cfg, segments)
	purged, texts := false, func() (n int) {
		err := records.View(func(snap ledger.Snapshot) error {
			return snap.Scan([]byte{schema.Text}, nil, false, func([]byte, []byte) (bool, error) { n++; return true, nil })
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	store.do = func() { // the texts are made, and not stored yet
		w, err := a.Withdraw(t.Context(), "mallory")
		if purged = true; w.Captures != 1 || err != nil {
			t.Errorf("purged %+v, %v", w, err)
		}
	}
	store.on = schema.ProgressKey(schema.Texts)
	for n := 1; n > 0; {
		var err error
		if n, err = other.ExtractText(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := texts(); n != 1 || !purged {
		t.Errorf("%d texts, want that of alice's page; purged: %t", n, purged)
	}
}

// TestANicknameIsTakenOnce has two managers give two accounts the same nickname at the same moment: the second is told that it is taken.
func TestANicknameIsTakenOnce(t *testing.T) {
	records, segments := memledger.New(), memory.New(memory.Config{})
	a := (&besides{Store: records}).open(t, testConfig("memory"), segments)
	t.Cleanup(func() { a.Close() })
	store := &besides{Store: records}
	other := store.open(t, testConfig("memory"), segments)
	for _, account := range []string{"alice", "bob"} {
		changes, err := ledger.Put(nil, schema.CreditKey(schema.Week(time.Now()), a.DelivererNumber(account), 0), &pb.Credit{Pages: 1})
		if err == nil {
			err = a.Ledger.Change(changes...)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	store.do = func() {
		if err := a.SetProfile("alice", pages.Profile{Nickname: "Ali", Public: true}); err != nil {
			t.Error(err)
		}
	}
	if err := other.SetProfile("bob", pages.Profile{Nickname: "ali", Public: true}); !errors.Is(err, ErrProfile) {
		t.Errorf("the nickname is taken twice: %v", err)
	}
	if err := other.SetProfile("bob", pages.Profile{Nickname: "Bob", Public: true}); err != nil {
		t.Error(err)
	}
}

// TestOneRoomForAllManagers has two managers of an archive keep evidence: together they keep as much as one may.
func TestOneRoomForAllManagers(t *testing.T) {
	records, segments := memledger.New(), memory.New(memory.Config{})
	cfg := testConfig("memory")
	cfg.EvidenceBytes = 1 << 20
	noise := make([]byte, 60_000) // a share is 65,536
	rand.NewChaCha8([32]byte{}).Read(noise)
	next := uint64(0)
	keep := func(a *Archive) {
		t.Helper()
		next++
		about := trust.Case{URL: next, Channel: channel.ID(next), Domain: next, Accused: trust.Peer(next), Accuser: trust.Peer(next + 1<<20)}
		n, err := a.Evidence.Open(t.Context(), about, "http://site-1.example/", &evidence.Fetch{Status: 200, Body: noise})
		if err == nil {
			err = a.Evidence.Close(t.Context(), n)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	both := []*Archive{(&besides{Store: records}).open(t, cfg, segments), (&besides{Store: records, name: "other"}).open(t, cfg, segments)}
	t.Cleanup(func() { both[0].Close() })
	for _, a := range both {
		keep(a)
	}
	for _, a := range both {
		for range 16 {
			keep(a)
		}
	}
	all, _, err := both[0].Evidence.List(t.Context(), 0)
	sum := int64(0)
	for _, c := range all {
		sum += c.Bytes
	}
	if most := cfg.EvidenceBytes + 2*cfg.EvidenceBytes/16; err != nil || sum > most || sum < cfg.EvidenceBytes/2 {
		t.Errorf("%d cases hold %d bytes of %d, %v", len(all), sum, cfg.EvidenceBytes, err)
	}
}

// TestTextsAreMadeOnce has two managers make the texts of the same pages: what one of them works on, the other leaves alone, until it is gone.
func TestTextsAreMadeOnce(t *testing.T) {
	records, segments := memledger.New(), memory.New(memory.Config{})
	cfg := testConfig("memory")
	now := time.Now()
	cfg.Clock = func() time.Time { return now }
	one, two := &besides{Store: records, name: "one"}, &besides{Store: records, name: "two"}
	a, b := one.open(t, cfg, segments), two.open(t, cfg, segments)
	t.Cleanup(func() { a.Close(); b.Close() })
	r, _ := start(t, a, "p", 1, 1)
	var all []channel.Page
	for _, path := range []string{"/", "/a", "/b"} {
		all = append(all, r.page(path, long+path, channel.New))
	}
	r.put(channel.ChunkBody{Pages: all, Report: r.report(channel.Updated)})
	step := func(a *Archive, want int) {
		t.Helper()
		if n, err := a.ExtractText(t.Context()); n != want || err != nil {
			t.Errorf("made texts of %d changes, %v; want %d", n, err, want)
		}
	}
	failed := false
	one.do = func() { // its texts are made
		step(b, 0)
		failed = true
	}
	sum := sha256.Sum256([]byte(long + "/a"))
	one.on = schema.PayloadKey(schema.Text, sum[:])
	one.fails = func() bool { return failed } // and are not stored
	if _, err := a.ExtractText(t.Context()); err == nil {
		t.Error("a failed write is no error")
	}
	now = now.Add(time.Hour)
	step(b, 0) // it may be slow
	two.gone = []string{"one"}
	step(b, 3)
	step(b, 0)
	if s := b.Stats(); s.TextLag != 0 {
		t.Errorf("%d texts are to be made", s.TextLag)
	}
}

// TestTextsOfATrimmedFeed has a manager die with the first lot after a time in which no texts were made, and the feed was trimmed: another one makes its texts.
func TestTextsOfATrimmedFeed(t *testing.T) {
	records, segments := memledger.New(), memory.New(memory.Config{})
	cfg := testConfig("memory")
	now := time.Now()
	cfg.Clock = func() time.Time { return now }
	one, two := &besides{Store: records, name: "one"}, &besides{Store: records, name: "two", gone: []string{"one"}}
	a, b := one.open(t, cfg, segments), two.open(t, cfg, segments)
	t.Cleanup(func() { a.Close(); b.Close() })
	r, _ := start(t, a, "p", 1, 1)
	r.put(channel.ChunkBody{Pages: []channel.Page{r.page("/", long, channel.New), r.page("/a", long+"a", channel.New)}, Report: r.report(channel.Updated)})
	if err := records.View(func(snap ledger.Snapshot) error {
		return snap.Scan([]byte{schema.Changes}, nil, false, func(key, _ []byte) (bool, error) {
			trimmed, err := ledger.Put([]ledger.Change{{Key: bytes.Clone(key)}}, schema.TrimKey(schema.Changes), &pb.Progress{Seq: schema.Number(key, 0)})
			if err == nil {
				err = a.Ledger.Change(trimmed...)
			}
			return false, err // the first one alone
		})
	}); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(long + "a"))
	one.on = schema.PayloadKey(schema.Text, sum[:])
	dead := false
	one.do = func() { dead = true }
	one.fails = func() bool { return dead }
	if _, err := a.ExtractText(t.Context()); err == nil {
		t.Fatal("it has not died")
	}
	now = now.Add(time.Hour)
	if _, err := b.ExtractText(t.Context()); err != nil {
		t.Fatal(err)
	}
	if has, err := storedNow(records, one.on); !has || err != nil {
		t.Errorf("the text was made: %t, %v", has, err)
	}
}

func storedNow(s ledger.Store, key []byte) (has bool, err error) {
	err = s.View(func(snap ledger.Snapshot) (err error) {
		has, err = snap.Get(key, func([]byte) error { return nil })
		return err
	})
	return has, err
}

// TestRevisionsBesideAnotherManager has another manager store a chunk of a channel just before this one changes its pages: what that chunk says of them stays, and
// so does the change.
func TestRevisionsBesideAnotherManager(t *testing.T) {
	ctx := context.Background()
	for name, c := range map[string]struct {
		before, do func(a *Archive, by trust.Peer) error
		want       string
	}{
		"suspend": {
			before: func(a *Archive, by trust.Peer) error { return a.Suspend(ctx, by) },
			do:     func(a *Archive, _ trust.Peer) error { return a.Settle(ctx) },
			want:   home,
		},
		"pardon": {
			before: func(a *Archive, by trust.Peer) error {
				return errors.Join(a.Suspend(ctx, by), a.Settle(ctx), a.Pardon(ctx, by))
			},
			do:   func(a *Archive, _ trust.Peer) error { return a.Settle(ctx) },
			want: forge,
		},
		"purge": {
			before: func(*Archive, trust.Peer) error { return nil },
			do: func(a *Archive, _ trust.Peer) error {
				_, err := a.Withdraw(ctx, "mallory")
				return err
			},
			want: home,
		},
	} {
		t.Run(name, func(t *testing.T) {
			store, a, cl := shared(t)
			j := newJudge(t, a, true, "alice", "mallory")
			for i, body := range []string{home, forge} {
				cl.crawl(t, a, []string{"alice", "mallory"}[i], channel.Gen(i+1), func(r *runner) []channel.Page {
					return []channel.Page{r.page("/", body, channel.Changed)}
				})
				j.deliver(cl, channel.Gen(i+1))
			}
			by := trust.Peer(a.DelivererNumber("mallory"))
			if err := c.before(a, by); err != nil {
				t.Fatal(err)
			}
			store.on, store.do = thePage, func() { store.chunk(t) }
			if err := c.do(a, by); err != nil {
				t.Fatal(err)
			}
			if p := store.page(t); p.Size != toldSize {
				t.Errorf("the page is %v, want one of %d bytes", p, toldSize)
			}
			if got := shown(t, a, "http://site-1.example/"); got != c.want {
				t.Errorf("the page shows %q", got)
			}
		})
	}
}

// TestChunkBesideAnotherManager has another manager suspend a peer just before this one stores a visit that saw its page: the page does not come back.
func TestChunkBesideAnotherManager(t *testing.T) {
	store, a, cl := shared(t)
	j := newJudge(t, a, true, "alice", "bob", "mallory")
	for i, body := range []string{home, forge} {
		cl.crawl(t, a, []string{"alice", "mallory"}[i], channel.Gen(i+1), func(r *runner) []channel.Page {
			return []channel.Page{r.page("/", body, channel.Changed)}
		})
		j.deliver(cl, channel.Gen(i+1))
	}
	cfg := testConfig("memory")
	cfg.Clock = cl.Now
	other := (&besides{Store: store.Store}).open(t, cfg, memory.New(memory.Config{}))
	t.Cleanup(func() { other.Close() })
	store.on, store.do = thePage, func() {
		if err := errors.Join(other.Suspend(t.Context(), trust.Peer(a.DelivererNumber("mallory"))), other.Settle(t.Context())); err != nil {
			t.Error(err)
		}
	}
	cl.crawl(t, a, "bob", 3, func(r *runner) []channel.Page {
		return []channel.Page{{URL: "http://site-1.example/", Status: 304, Change: channel.Unchanged, Fetched: cl.now}}
	})
	if p := store.page(t); p.Digest != channel.ContentDigest([]byte(home)) || p.LastBy != a.DelivererNumber("bob") {
		t.Errorf("the page is %v, want alice's version, which bob has visited", p)
	}
}

// TestPardonBesideAnotherManager has another manager pardon a peer while this one withdraws what it delivered: the pardon stands, and all is given back.
func TestPardonBesideAnotherManager(t *testing.T) {
	store, a, cl := shared(t)
	j := newJudge(t, a, true, "alice", "mallory")
	for i, body := range []string{home, forge} {
		cl.crawl(t, a, []string{"alice", "mallory"}[i], channel.Gen(i+1), func(r *runner) []channel.Page {
			return []channel.Page{r.page("/", body, channel.Changed)}
		})
		j.deliver(cl, channel.Gen(i+1))
	}
	cfg := testConfig("memory")
	cfg.Clock = cl.Now
	other := (&besides{Store: store.Store}).open(t, cfg, memory.New(memory.Config{}))
	t.Cleanup(func() { other.Close() })
	by := trust.Peer(a.DelivererNumber("mallory"))
	if err := a.Suspend(t.Context(), by); err != nil {
		t.Fatal(err)
	}
	store.on, store.do = schema.Key(schema.Suspension, uint64(by)), func() {
		if err := other.Pardon(t.Context(), by); err != nil {
			t.Error(err)
		}
	}
	if err := a.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left, err := a.Suspensions(t.Context()); err != nil || len(left) > 0 {
		t.Errorf("%+v, %v; want none: it was pardoned", left, err)
	}
	if got := shown(t, a, "http://site-1.example/"); got != forge {
		t.Errorf("the page shows %q", got)
	}
}

// toldSize is what the other manager's chunk tells of thePage.
const toldSize = 12345

var thePage = schema.Key2(schema.Page, 1, channel.URLHash("http://site-1.example/"))

// shared is an archive whose ledger another manager writes to as well.
func shared(t *testing.T) (*besides, *Archive, *clock) {
	cfg := testConfig("memory")
	cfg.AccountOf = nil
	cl := &clock{now: time.Now().Truncate(time.Microsecond)}
	cfg.Clock = cl.Now
	store := &besides{Store: memledger.New()}
	a := store.open(t, cfg, memory.New(memory.Config{}))
	t.Cleanup(func() { a.Close() })
	return store, a, cl
}

func (s *besides) read(t *testing.T, key []byte, m proto.Message) {
	t.Helper()
	err := s.View(func(snap ledger.Snapshot) error {
		_, err := ledger.Get(snap, key, m)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (s *besides) page(t *testing.T) *pb.Page {
	p := new(pb.Page)
	s.read(t, thePage, p)
	return p
}

// chunk stores what another manager does when it stores a chunk with thePage.
func (s *besides) chunk(t *testing.T) {
	var c pb.Channel
	p := s.page(t)
	s.read(t, schema.Key(schema.Channel, 1), &c)
	p.Size, c.Near = toldSize, c.Near+1
	changes, err := ledger.Put(nil, thePage, p)
	if err == nil {
		changes, err = ledger.Put(changes, schema.Key(schema.Channel, 1), &c)
	}
	if err == nil {
		_, err = s.Store.Commit([]ledger.Write{{Changes: changes}})
	}
	if err != nil {
		t.Error(err)
	}
}

// TestJudgeBesideAnotherManager has another manager store a chunk of the channel while this one judges a delivery. What that chunk says of the page stays, and
// so does what was judged.
func TestJudgeBesideAnotherManager(t *testing.T) {
	store, a, cl := shared(t)
	peers := []string{"alice", "bob", "carol"}
	j := newJudge(t, a, true, peers...)
	for i, peer := range peers {
		gen := channel.Gen(i + 1)
		change := channel.Unchanged
		if i == 0 {
			change = channel.New
		}
		cl.crawl(t, a, peer, gen, func(r *runner) []channel.Page { return []channel.Page{r.page("/", home, change)} })
		if i == len(peers)-1 { // now the page is settled, and says so
			store.do = func() { store.chunk(t) }
		}
		j.deliver(cl, gen)
	}
	if p := store.page(t); p.Size != toldSize || p.Settled == 0 || p.Settled != p.Digest {
		t.Errorf("the page is %v, want one of %d bytes that is settled", p, toldSize)
	}
	if got := j.record("/"); got != "verified+2 none" {
		t.Errorf("its record is %s", got)
	}
}
