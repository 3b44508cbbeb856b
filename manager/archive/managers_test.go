package archive

import (
	"context"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"shoal/channel"
	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/ledger/memledger"
	"shoal/manager/archive/schema"
	"shoal/manager/archive/warc"
	"shoal/manager/archive/warc/memory"
)

// besides is a ledger in memory to which another manager writes just before this one does.
type besides struct {
	*memledger.Store
	once sync.Once
	do   func()
}

func (s *besides) Several() bool                                { return true }
func (s *besides) Hear(func([]ledger.Write))                    {}
func (s *besides) ShutOut(context.Context, []string) error      { return nil }
func (s *besides) Sync(context.Context) error                   { return nil }
func (s *besides) Name() string                                 { return "own" }
func (s *besides) Writes(context.Context, string) (bool, error) { return true, nil }
func (s *besides) First(context.Context) (bool, error)          { return true, nil }
func (s *besides) Pass(context.Context, []byte) error           { return nil }
func (s *besides) Behind(context.Context, []byte) (int, error)  { return 0, nil }

func (s *besides) Commit(writes []ledger.Write) ([]error, error) {
	if s.do != nil {
		s.once.Do(s.do)
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

// TestJudgeBesideAnotherManager has another manager store a chunk of the channel while this one judges a delivery. What that chunk says of the page stays, and
// so does what was judged.
func TestJudgeBesideAnotherManager(t *testing.T) {
	cfg := testConfig("memory")
	cfg.AccountOf = nil
	cl := &clock{now: time.Now().Truncate(time.Microsecond)}
	cfg.Clock = cl.Now
	store := &besides{Store: memledger.New()}
	a := store.open(t, cfg, memory.New(memory.Config{}))
	t.Cleanup(func() { a.Close() })
	peers := []string{"alice", "bob", "carol"}
	j := newJudge(t, a, true, peers...)
	page := schema.Key2(schema.Page, 1, channel.URLHash("http://site-1.example/"))
	read := func(key []byte, m proto.Message) {
		t.Helper()
		err := store.View(func(snap ledger.Snapshot) error {
			_, err := ledger.Get(snap, key, m)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	const size = 12345 // that the other manager's chunk tells
	for i, peer := range peers {
		gen := channel.Gen(i + 1)
		change := channel.Unchanged
		if i == 0 {
			change = channel.New
		}
		cl.crawl(t, a, peer, gen, func(r *runner) []channel.Page { return []channel.Page{r.page("/", home, change)} })
		if i == len(peers)-1 { // now the page is settled, and says so
			store.do = func() {
				var p pb.Page
				var c pb.Channel
				read(page, &p)
				read(schema.Key(schema.Channel, 1), &c)
				p.Size, c.Near = size, c.Near+1
				changes, err := ledger.Put(nil, page, &p)
				if err == nil {
					changes, err = ledger.Put(changes, schema.Key(schema.Channel, 1), &c)
				}
				if err == nil {
					_, err = store.Store.Commit([]ledger.Write{{Changes: changes}})
				}
				if err != nil {
					t.Error(err)
				}
			}
		}
		j.deliver(cl, gen)
	}
	var p pb.Page
	read(page, &p)
	if p.Size != size || p.Settled == 0 || p.Settled != p.Digest {
		t.Errorf("the page is %v, want one of %d bytes that is settled", &p, size)
	}
	if got := j.record("/"); got != "verified+2 none" {
		t.Errorf("its record is %s", got)
	}
}
