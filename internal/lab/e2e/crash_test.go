package e2e

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	mrand "math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"shoal/channel"
	"shoal/channel/badgerdb"
	"shoal/channel/lease"
	"shoal/internal/lab/pond"
	"shoal/manager/archive"
)

// The crash test (make crash) kills a whole manager, archive included, at random moments of its start and of its
// work, while peers claim, send chunks and report, and an operator asks for crawls. After each kill it checks the
// disk:
//
//   - every page of every acknowledged chunk is there, byte for byte, and exactly once in the change feed;
//   - every channel has as many updates as the archive's feed has reports up to the stored cursor, and each
//     generation has reported at most once;
//   - the manager waits for every claimed task, and has a time at which it looks again for every offered one;
//   - every record of every WARC file can be read, and a read from a running manager never returns half a page;
//   - what the operator's interface acknowledged is there.
//
// Peers drop some tasks without a word. The leases of these must lapse in time. At the end, when the manager is left
// alone, other peers must crawl what was claimed.
const (
	crashesEnv   = "SHOAL_CRASHES"
	crashHosts   = 300
	crashPeers   = 3
	crashThreads = 48
	crashLease   = 4 * time.Second
	crashWait    = 5 * time.Minute  // longest wait of a task for its start, or for the next handing-out; two minutes is the longest interval
	crashLate    = 90 * time.Second // beyond the lease, on a machine with much else to do
)

func TestCrash(t *testing.T) {
	t.Parallel()
	rounds := 6
	if os.Getenv("CI") == "true" && !underRace { // the race detector's run kills no other processes than the plain one
		rounds = 20
	}
	if s := os.Getenv(crashesEnv); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatalf("%s=%s: %v", crashesEnv, s, err)
		}
		rounds = n
	}
	seed := time.Now().UnixNano()
	t.Logf("seed %d, %d kills", seed, rounds)
	c := &crash{t: t, data: t.TempDir(), rng: mrand.New(mrand.NewPCG(uint64(seed), 1)), acked: map[string]string{}, told: map[string]int{},
		updates: map[channel.ID]int{}, reported: map[lease1]bool{}, added: map[string]bool{}, claims: map[channel.ID]claim1{}}
	c.servePond()
	c.start()
	c.join()
	for n := range rounds {
		c.moment()
		c.manager.kill()
		c.look(n%10 == 9)
		if t.Failed() {
			return
		}
		c.start()
	}
	c.recrawled()
	c.manager.end()
	c.look(true)
	c.mu.Lock()
	defer c.mu.Unlock()
	total := 0
	for _, n := range c.updates {
		total += n
	}
	t.Logf("%d pages acknowledged and there, %d updates, %d claims of which %d lapsed, at most %v after their term; %d operator's changes",
		len(c.checked), total, c.nClaims, c.nLapsed, c.latest.Round(time.Millisecond), len(c.added))
	if len(c.checked) < 20*rounds || total < 2*rounds {
		t.Errorf("%d pages and %d updates over %d kills: there was no load", len(c.checked), total, rounds)
	}
}

// crash is one run. Fields below mu are shared with peers and operator.
type crash struct {
	t        *testing.T
	data     string
	rng      *mrand.Rand
	pond     string
	listen   string
	pageAddr string
	manager  *process
	peers    []*volunteer
	page     page
	starts   []time.Time

	// What the disk has shown so far.
	changes  string // cursor
	feed     string // cursor
	told     map[string]int
	updates  map[channel.ID]int // by the feed, up to the manager's cursor
	reported map[lease1]bool
	claims   map[channel.ID]claim1 // the last one, until it ended
	open     map[channel.ID]int    // updates that those with running leases will have
	checked  []string              // acknowledged pages that were found
	nClaims  int
	nLapsed  int
	latest   time.Duration // beyond the term

	mu     sync.Mutex
	acked  map[string]string // pages by URL that were acknowledged and not yet looked for
	chunks map[lease1]time.Time
	acks   int             // chunks
	added  map[string]bool // channels
	calm   bool            // no task is dropped any more
}

// lease1 is one handing-out.
type lease1 struct {
	id  channel.ID
	gen channel.Gen
}

type claim1 struct {
	gen channel.Gen
	at  time.Time
}

func (c *crash) servePond() {
	w, err := pond.NewWorld(pond.Config{Seed: 5, Hosts: crashHosts, Pages: crashHosts, Plain: true})
	if err != nil {
		c.t.Fatal(err)
	}
	s, err := pond.NewServer(w, "", nil)
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, drain := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Run(ctx) }()
	c.t.Cleanup(func() {
		drain()
		if err := <-served; err != nil {
			c.t.Error(err)
		}
	})
	c.pond = s.Addr().String()
	c.listen, c.pageAddr = fmt.Sprint(unusedPort(c.t)), fmt.Sprint(unusedPort(c.t))
}

// start starts the manager and does not wait for it, except for the first time.
func (c *crash) start() {
	c.t.Helper()
	c.starts = append(c.starts, time.Now())
	c.introduce()
	c.manager = start(c.t, "shoal", "manager", "--data", c.data, "--listen", "/ip4/127.0.0.1/tcp/"+c.listen, "--page", "127.0.0.1:"+c.pageAddr,
		"--pond", c.pond, "--lease", crashLease.String())
	if len(c.starts) == 1 {
		c.page = pageOf(c.manager, "Page ")
	}
}

// introduce stores the peers' addresses where a manager that stops normally stores them, so that the load begins with
// the start and not when the peers have come back by themselves.
func (c *crash) introduce() {
	c.t.Helper()
	type member struct {
		ID    string   `json:"id"`
		Addrs []string `json:"addrs"`
	}
	var all []member
	for _, v := range c.peers {
		all = append(all, member{v.node.ID().String(), v.node.Addrs()})
	}
	b, err := json.Marshal(all)
	if err != nil {
		c.t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(c.data, "overlay"), 0o700); err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(c.data, "overlay", "members.json"), b, 0o600); err != nil {
		c.t.Fatal(err)
	}
}

// moment waits for the moment to kill: some time of the start, or, more often, some acknowledgement.
func (c *crash) moment() {
	c.t.Helper()
	if c.rng.IntN(4) == 0 {
		time.Sleep(time.Duration(c.rng.Int64N(int64(time.Second))))
		return
	}
	acks := func() int {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.acks
	}
	enough := acks() + 1 + c.rng.IntN(60)
	for end := time.Now().Add(patience); acks() < enough; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			c.t.Fatalf("no chunk comes any more:\n%s", c.manager.said())
		}
	}
}

// look checks what a killed manager has left.
func (c *crash) look(all bool) {
	c.t.Helper()
	a, err := archive.Open(c.t.Context(), archive.Config{Dir: filepath.Join(c.data, "archive"), NoText: true,
		Verify: func(time.Time, channel.Signed) (channel.Header, error) {
			return channel.Header{}, errors.New("takes no tasks")
		}})
	if err != nil {
		c.t.Fatalf("what was left of the archive cannot be opened: %v", err)
	}
	defer func() {
		if err := a.Close(); err != nil {
			c.t.Error(err)
		}
	}()
	cfg := badgerdb.Default(filepath.Join(c.data, "channels"))
	db, err := badgerdb.Open(c.t.Context(), cfg)
	if err != nil {
		c.t.Fatalf("what was left of the channel database cannot be opened: %v", err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			c.t.Error(err)
		}
	}()
	c.lookForPages(a)
	c.countUpdates(a, db)
	c.openClaims(a)
	if all {
		v, err := a.Verify(c.t.Context(), nil)
		if err != nil || v.Found > 0 {
			c.t.Errorf("%d problems in the archive: %v %v", v.Found, v.Problems[:min(len(v.Problems), 5)], err)
		}
	}
}

// lookForPages checks that every acknowledged page is there, byte for byte, and exactly once in the feed.
func (c *crash) lookForPages(a *archive.Archive) {
	for {
		changes, next, err := a.Changes(c.t.Context(), c.changes, 1000)
		if err != nil {
			c.t.Fatal(err)
		}
		if c.changes = next; len(changes) == 0 {
			break
		}
		for _, ch := range changes {
			if c.told[ch.URL]++; c.told[ch.URL] > 1 {
				c.t.Errorf("%s is told %d times", ch.URL, c.told[ch.URL])
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for url, body := range c.acked {
		if c.told[url] != 1 {
			c.t.Errorf("acknowledged page %s is told %d times", url, c.told[url])
		}
		got, err := a.Get(c.t.Context(), url, time.Time{})
		if err != nil || string(got.Body) != body {
			c.t.Errorf("acknowledged page %s: %.40q, %v", url, got.Body, err)
		}
		c.checked = append(c.checked, url)
	}
	clear(c.acked)
}

// countUpdates compares the archive's feed with the manager's records, up to the cursor in the manager's database.
func (c *crash) countUpdates(a *archive.Archive, db *badgerdb.DB) {
	ctx := c.t.Context()
	applied, err := db.Cursor(ctx, "archive")
	if err != nil {
		c.t.Fatal(err)
	}
	for !beforeAll(applied) && c.feed != applied {
		entries, next, err := a.Feed(ctx, c.feed, 1)
		if err != nil || len(entries) == 0 && next != applied {
			c.t.Fatalf("the manager's cursor is not in the feed: %v", err)
		}
		c.feed = next
		for _, e := range entries {
			c.entry(e)
		}
	}
	found := map[string]bool{}
	for after := channel.ID(0); ; {
		chs, err := db.List(ctx, after, 500)
		if err != nil {
			c.t.Fatal(err)
		}
		if len(chs) == 0 {
			break
		}
		for _, ch := range chs {
			after = ch.ID
			found[ch.Scope.Host] = true
			c.held(db, ch.ID)
			if ch.Learnt.Visits != c.updates[ch.ID] {
				c.t.Errorf("channel %d has %d updates, the feed has %d reports of it", ch.ID, ch.Learnt.Visits, c.updates[ch.ID])
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for host := range c.added {
		if !found[host] {
			c.t.Errorf("channel %s was acknowledged and is gone", host)
		}
	}
}

// beforeAll reports whether a cursor is before every entry: it is empty, or was got from a feed that was.
func beforeAll(cursor string) bool {
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	return err == nil && (len(b) == 0 || len(b) >= 8 && binary.BigEndian.Uint64(b[len(b)-8:]) == 0)
}

// held checks that the manager's record of a channel agrees with the archive's feed up to the cursor. A task that
// runs by one must run by the other, so that its lease will end it. A task that is offered, or waits to be, has a
// time at which it is handed out again.
func (c *crash) held(db *badgerdb.DB, id channel.ID) {
	raw, err := db.Lease(c.t.Context(), id)
	if err != nil {
		c.t.Fatal(err)
	}
	if len(raw) == 0 {
		return // never handed out
	}
	i, err := lease.ParseIssue(raw)
	if err != nil {
		c.t.Fatalf("lease of channel %d: %v", id, err)
	}
	claim, claimed := c.claims[id]
	switch {
	case i.Phase == lease.Leased && (!claimed || claim.gen != i.Live):
		c.t.Errorf("channel %d: generation %d is leased, and nobody has claimed it (%d)", id, i.Live, claim.gen)
	case i.Phase != lease.Leased && claimed:
		c.t.Errorf("channel %d: generation %d was claimed, the manager has it as %v: nobody waits for its end", id, claim.gen, i.Phase)
	case i.Phase == lease.Placing || i.Phase == lease.Awaited || i.Phase == lease.Pausing:
		if at := i.Deadline(); at.IsZero() || at.After(time.Now().Add(crashWait)) {
			c.t.Errorf("channel %d: generation %d is %v until %v: nobody would look for it", id, i.Gen, i.Phase, at)
		}
	}
}

// openClaims notes the claims whose leases run, by the whole feed, including entries that the manager has not taken
// in. Their channels must be crawled in the end.
func (c *crash) openClaims(a *archive.Archive) {
	entries, _, err := a.Feed(c.t.Context(), c.feed, archive.MaxFeed)
	if err != nil {
		c.t.Fatal(err)
	}
	visits := maps.Clone(c.updates)
	c.open = map[channel.ID]int{}
	for id := range c.claims {
		c.open[id] = visits[id] + 1
	}
	for _, e := range entries {
		delete(c.open, e.Channel)
		switch e.Event.Kind {
		case lease.Reported:
			visits[e.Channel]++
		case lease.Claimed, lease.Revived:
			c.open[e.Channel] = visits[e.Channel] + 1
		}
	}
}

// entry follows the leases of one channel through the feed.
func (c *crash) entry(e archive.Entry) {
	key := lease1{e.Channel, e.Event.Gen}
	held := c.claims[e.Channel]
	switch e.Event.Kind {
	case lease.Claimed, lease.Revived:
		c.nClaims++
		c.claims[e.Channel] = claim1{e.Event.Gen, e.When}
		return
	case lease.Reported:
		if c.reported[key] {
			c.t.Errorf("channel %d, generation %d reported twice", key.id, key.gen)
		}
		c.reported[key] = true
		if e.Report.Outcome == channel.Updated {
			c.updates[e.Channel]++
		}
	case lease.Lapsed:
		c.nLapsed++
		if held.gen == key.gen {
			c.late(key, held, e.When)
		}
	}
	delete(c.claims, e.Channel)
}

// late checks that a lease ended within its term, counted from the last chunk, the claim or the last start, whichever
// was latest.
func (c *crash) late(key lease1, held claim1, ended time.Time) {
	since := held.at
	c.mu.Lock()
	if at := c.chunks[key]; at.After(since) {
		since = at
	}
	c.mu.Unlock()
	for _, s := range c.starts {
		if s.After(since) && s.Before(ended) {
			since = s
		}
	}
	over := ended.Sub(since) - crashLease
	c.latest = max(c.latest, over)
	if over > crashLate {
		c.t.Errorf("channel %d, generation %d was lost for %v, its lease is %v", key.id, key.gen, ended.Sub(since), crashLease)
	}
}

// recrawled leaves the manager alone. Some peer must crawl what was claimed at the last kill, even if the claiming
// peer dropped it.
func (c *crash) recrawled() {
	c.t.Helper()
	c.mu.Lock()
	c.calm = true
	c.mu.Unlock()
	var missing []string
	defer func() {
		if c.t.Failed() {
			c.t.Log(strings.Join(missing, "\n"))
		}
	}()
	c.manager.within(crashWait, "crawls again what was claimed when it was killed", func() bool {
		time.Sleep(time.Second / 10) // not to be a load
		rows, err := c.page.rows()
		missing = missing[:0]
		for _, r := range rows {
			if r.Visits < c.open[r.ID] {
				missing = append(missing, fmt.Sprintf("channel %d: %d updates of %d, %s %s, out %v, last %s %s, due in %v", r.ID, r.Visits, c.open[r.ID], r.State, r.Reason, r.Out, r.Last,
					r.Error, time.Until(r.Due).Round(time.Second)))
			}
		}
		return err == nil && len(rows) > 0 && len(missing) == 0
	})
}

// ask sends a request to the operator's interface and reports whether it succeeded.
func (c *crash) ask(path, body string) bool {
	ctx, cancel := context.WithTimeout(c.t.Context(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.page.base+"/api/v1"+path, strings.NewReader(body))
	if err != nil {
		c.t.Error(err)
		return false
	}
	req.Header.Set("Authorization", "Bearer "+c.page.token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return false // it is dead
	}
	defer res.Body.Close()
	var b bytes.Buffer
	_, err = b.ReadFrom(res.Body)
	return err == nil && res.StatusCode == http.StatusOK
}

// operate asks for crawls, adds channels and reads pages until ctx ends.
func (c *crash) operate(ctx context.Context) {
	for n := 0; ctx.Err() == nil && !c.isCalm(); {
		if c.ask(fmt.Sprintf("/channels/%d/crawl-now", 1+mrand.IntN(crashHosts)), "") {
			n++
		}
		if n%50 == 1 {
			host := fmt.Sprintf("http://added-%d.pond.test", n)
			if c.ask("/channels/import?format=list", host+"/\n") {
				c.mu.Lock()
				c.added[host] = true
				c.mu.Unlock()
			}
		}
		if n%5 == 0 {
			c.readOne(ctx)
		}
		select {
		case <-ctx.Done():
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// readOne reads an acknowledged page from the running manager: all of it or nothing.
func (c *crash) readOne(ctx context.Context) {
	c.mu.Lock()
	url, want := "", ""
	for url, want = range c.acked {
		break
	}
	c.mu.Unlock()
	if url == "" {
		return
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.page.base+"/api/v1/archive/page?url="+url, nil)
	if err != nil {
		c.t.Error(err)
		return
	}
	req.Header.Set("Authorization", "Bearer "+c.page.token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return
	}
	defer res.Body.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(res.Body); err != nil {
		return
	}
	if res.StatusCode == http.StatusOK && b.String() != want || res.StatusCode == http.StatusNotFound {
		c.t.Errorf("page %s was acknowledged; asked for it, the manager says %s: %.60q", url, res.Status, b.String())
	}
}

// words returns text that does not compress.
func words(n int) string {
	b := make([]byte, n)
	rand.Read(b)
	return fmt.Sprintf("%x", b)
}
