package archive

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"shoal/channel"
	"shoal/internal/lab/processor"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/schema"
	"shoal/manager/trust"
)

// BenchmarkJudge measures what it costs to judge deliveries: archives store the same crawls by turns, one of which also judges them, and the processor time of
// each is counted. A crawl is of 300 pages, by peers in turn, and a share of the pages has changed.
//
// A third archive shows what no judge can be below that keeps a record of each page: it reads and writes one of the size of a record for each of the visits that
// say something new of a page, the one that finds a new version and the two that corroborate it. It makes all of a crawl durable in one write.
func BenchmarkJudge(b *testing.B) {
	for _, changed := range []int{1, 5, 20} {
		b.Run(fmt.Sprintf("changed=%d%%", changed), func(b *testing.B) { benchJudge(b, changed) })
	}
}

const (
	judgedPages  = 300
	judgedPeers  = 4
	judgedCrawls = 30 // of one archive before it is the other one's turn
)

func benchJudge(b *testing.B, changed int) {
	off, on, least := newJudgeBench(b, changed, true), newJudgeBench(b, changed, false), newJudgeBench(b, changed, true)
	least.records = true
	var err error
	if on.m, err = trust.New(trust.Default(), rand.New(rand.NewPCG(1, 1))); err != nil {
		b.Fatal(err)
	}
	all := []*judgeBench{off, on, least}
	for _, j := range all {
		j.turn() // all is verified from now on, but for what changes
	}
	var spent [3]time.Duration
	n := 0
	for b.Loop() {
		for i, j := range all {
			spent[i] += j.turn()
		}
		n += judgedCrawls * judgedPages
	}
	plain, judged := spent[0], spent[1]
	b.ReportMetric(float64(plain.Nanoseconds())/1e3/float64(n), "us-stored/page")
	b.ReportMetric(float64((judged-plain).Nanoseconds())/1e3/float64(n), "us-judged/page")
	b.ReportMetric(100*(judged-plain).Seconds()/plain.Seconds(), "%-of-storing")
	b.ReportMetric(100*(spent[2]-plain).Seconds()/plain.Seconds(), "%-least")
}

// judgeBench is an archive that is crawled.
type judgeBench struct {
	b        *testing.B
	a        *Archive
	m        *trust.Machine // nil: nothing is judged
	cl       *clock
	rng      *rand.Rand
	changed  int
	bodies   [judgedPages]string
	versions [judgedPages]int
	seen     [judgedPages]int // visits since the page's last change
	records  bool             // the least that a judge reads and writes
	gen      channel.Gen
}

func newJudgeBench(b *testing.B, changed int, unjudged bool) *judgeBench {
	j := &judgeBench{b: b, cl: &clock{now: time.Now().Truncate(time.Microsecond)}, rng: rand.New(rand.NewPCG(2, 2)), changed: changed}
	cfg := testConfig(b.TempDir())
	cfg.AccountOf, cfg.Clock, cfg.Unjudged = nil, j.cl.Now, unjudged
	var err error
	if j.a, err = Open(b.Context(), cfg); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = j.a.Close() })
	for i := range j.bodies {
		j.bodies[i] = string(pageText(j.rng, 6000))
	}
	return j
}

// turn has some crawls stored, and tells the processor time of that.
func (j *judgeBench) turn() (spent time.Duration) {
	runtime.GC() // of what the other archive's turn has left
	for range judgedCrawls {
		peer, c := j.crawl()
		from := processor.Time(j.b)
		if _, err := j.a.Put(j.b.Context(), peer, c); err != nil {
			j.b.Fatal(err)
		}
		if j.m != nil {
			j.judge(peer)
		}
		if j.records {
			j.least()
		}
		spent += processor.Time(j.b) - from
	}
	return spent
}

// crawl makes what the next peer sends.
func (j *judgeBench) crawl() (peer string, c channel.Chunk) {
	j.gen++
	peer = fmt.Sprint("peer", j.gen%judgedPeers)
	j.cl.now = j.cl.now.Add(time.Minute)
	r, _ := start(j.b, j.a, peer, 1, j.gen)
	j.cl.now = j.cl.now.Add(time.Second)
	var all []channel.Page
	for i := range judgedPages {
		change := channel.Unchanged
		if j.gen == 1 {
			change = channel.New
		} else if j.rng.IntN(100) < j.changed {
			change = channel.Changed
			j.versions[i]++
		}
		if j.seen[i]++; change != channel.Unchanged {
			j.seen[i] = 0
		}
		p := r.page(fmt.Sprint("/", i), fmt.Sprintf("<p>%d %d</p>%s", i, j.versions[i], j.bodies[i]), change)
		if change == channel.Unchanged {
			p.Body, p.Header, p.Links = nil, nil, nil
		}
		all = append(all, p)
	}
	return peer, r.chunk(channel.ChunkBody{Pages: all, Report: r.report(channel.Updated)})
}

// judge does what the manager does with a delivery.
func (j *judgeBench) judge(peer string) {
	n := trust.Peer(j.a.DelivererNumber(peer))
	j.m.Join(n, trust.Account(n), trust.Prefix(n))
	j.m.Vouch(n)
	d, err := j.a.Delivery(j.b.Context(), 1, j.gen)
	if err != nil || d.Size() != judgedPages {
		j.b.Fatalf("%d pages, %v", d.Size(), err)
	}
	records := make([]Judged, len(d.Pages))
	td := trust.Delivery{Peer: d.Deliverer, Channel: 1, Domain: 1, At: d.Claimed, Pages: make([]trust.Seen, len(d.Pages)), Quiet: d.Quiet}
	for i := range d.Pages {
		p := &d.Pages[i]
		records[i] = Judged{Hash: p.Hash, Page: p.Record, Was: p.Record}
		td.Pages[i] = trust.Seen{URL: p.Hash, Page: &records[i].Page, Digest: p.Digest, Shingle: p.Shingle, Modified: p.Modified}
	}
	j.m.Deliver(j.cl.now, &td)
	if err := j.a.Judge(j.b.Context(), 1, &d, records); err != nil {
		j.b.Fatal(err)
	}
}

// leastRecord is about what a page's record has.
const leastRecord = 130

// least reads and writes a record of each page of which the last crawl says something new.
func (j *judgeBench) least() {
	var changes []ledger.Change
	err := j.a.Ledger.View(func(snap ledger.Snapshot) error {
		for i, n := range j.seen {
			if n > 2 {
				continue
			}
			record := make([]byte, leastRecord)
			key := schema.Key2(schema.Trust, 1, channel.URLHash(fmt.Sprint("/", i)))
			if _, err := snap.Get(key, func(v []byte) error { copy(record, v); return nil }); err != nil {
				return err
			}
			binary.BigEndian.PutUint64(record, uint64(j.gen))
			changes = append(changes, ledger.Change{Key: key, Value: record})
		}
		return nil
	})
	if err == nil {
		err = j.a.Ledger.Change(changes...)
	}
	if err != nil {
		j.b.Fatal(err)
	}
}
