package archive

import (
	"context"
	"crypto/sha256"
	"fmt"
	"hash/fnv"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/peer/crawl"
)

// changing is a site of pages that link to others. Of each hundred some change with each round, a few at each request.
type changing struct {
	round           atomic.Int64
	requests, whole atomic.Int64
	bytes           atomic.Int64
}

const (
	changingPages  = 300
	changeShare    = 5  // of a hundred, each round
	restlessShare  = 3  // of a hundred, at each request
	changingBroken = 10 // URLs that pages link to and that are not there
)

func (s *changing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n := s.requests.Add(1)
	var page int
	if _, err := fmt.Sscanf(r.URL.Path, "/%d", &page); err != nil && r.URL.Path != "/" || page >= changingPages {
		http.NotFound(w, r)
		return
	}
	version := int64(0)
	for round := s.round.Load(); round > 0 && version == 0; round-- {
		h := fnv.New64a()
		_, _ = fmt.Fprint(h, page, " ", round)
		if h.Sum64()%100 < changeShare {
			version = round
		}
	}
	if page%100 < restlessShare && page > 0 {
		version = -n
	}
	tag := fmt.Sprintf("\"%d-%d\"", page, version)
	w.Header().Set("ETag", tag)
	w.Header().Set("Content-Type", "text/html")
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	body := fmt.Sprintf("<title>%d</title><p>version %d of page %d. %s</p>", page, version, page, strings.Repeat("Some words that stay as they are. ", 60))
	for i := 1; i <= 10; i++ {
		body += fmt.Sprintf("<a href=/%d>%d</a> ", (page*3+i)%(changingPages+changingBroken), i)
	}
	s.whole.Add(1)
	s.bytes.Add(int64(len(body)))
	_, _ = w.Write([]byte(body))
}

// toArchive is a crawl's way to the archive.
type toArchive struct{ r *runner }

func (s toArchive) Put(_ context.Context, body []byte, _ bool) error {
	packed, err := channel.CompressBody(body)
	if err != nil {
		return err
	}
	c := channel.Chunk{Channel: s.r.id, Gen: s.r.gen, Seq: s.r.seq + 1, Prev: s.r.head, Body: packed}
	reply, err := s.r.a.Put(s.r.t.Context(), s.r.peer, c)
	if err != nil || reply.Status != lease.Stored {
		return fmt.Errorf("%v, %w", reply.Status, err)
	}
	s.r.seq, s.r.head = reply.Seq, reply.Head
	return nil
}

// honestRounds has peers crawl a site in turn, and counts what that costs once the archive knows the site. With strangers each peer has an account of its own.
func honestRounds(t *testing.T, strangers bool) (requests, whole, bytes int64) {
	t.Helper()
	cfg := testConfig(t.TempDir())
	if strangers {
		cfg.AccountOf = nil
	}
	cfg.Unpaced = true
	cl := &clock{now: time.Now().Truncate(time.Microsecond)}
	cfg.Clock = cl.Now
	a := open(t, cfg)
	peers := []string{"ann", "ben", "cat", "dan", "eve"}
	j := newJudge(t, a, true, peers...)
	site := &changing{}
	srv := httptest.NewServer(site)
	defer srv.Close()
	const warm, rounds = 6, 16
	for round := range rounds {
		site.round.Store(int64(round))
		if round == warm {
			site.requests.Store(0)
			site.whole.Store(0)
			site.bytes.Store(0)
		}
		cl.now = cl.now.Add(time.Hour)
		crawlSite(t, a, cl, srv.Listener.Addr().String(), peers[round%len(peers)], channel.Gen(round+1))
		if strangers {
			j.deliver(cl, channel.Gen(round+1))
		}
	}
	return site.requests.Load(), site.whole.Load(), site.bytes.Load()
}

// crawlSite has a peer do what a task says, as the manager makes it.
func crawlSite(t *testing.T, a *Archive, cl *clock, addr, peer string, gen channel.Gen) {
	t.Helper()
	k, err := a.Known(t.Context(), 1, cl.now.Add(-time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	host := "http://site-1.example"
	body := channel.Body{
		Scope: channel.Scope{Kind: channel.WholeHost, Host: host}, Seeds: []string{host + "/"}, Inter: k.Missed[:min(len(k.Missed), 16)],
		Digests: k.Digests, Validators: k.Validators, Importance: k.Importance, Contact: "https://example.org/",
	}
	raw := body.Marshal()
	h := channel.Header{
		Network: [32]byte{1}, Channel: 1, Gen: gen, Host: host, Pages: changingPages, Budget: 2 * changingPages, Issued: cl.now, Latest: cl.now.Add(time.Hour),
		BodySHA256: sha256.Sum256(raw), BodyBytes: len(raw), Archive: "archive",
	}
	signed := channel.Signed{Raw: h.Marshal(), Sig: []byte("good"), Delegation: []byte("d")}
	if err := a.Deposit(t.Context(), signed, raw); err != nil {
		t.Fatal(err)
	}
	c, err := a.Claim(t.Context(), peer, signed)
	if err != nil || c.Status != lease.Granted {
		t.Fatalf("%v, %v", c.Status, err)
	}
	cl.now = cl.now.Add(time.Minute)
	var d net.Dialer
	_, err = crawl.Run(t.Context(), crawl.Config{
		Header: h, Body: body, Resume: c.Resume, Sink: toArchive{&runner{t, a, peer, 1, gen, c.Resume.Seq, c.Resume.Head, nil}}, Spool: t.TempDir(),
		UserAgent: "Shoal/test (+http://contact.test/)", Peer: peer, Unpaced: true,
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) { return d.DialContext(ctx, "tcp", addr) },
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Where nobody lies, telling peers of verified versions alone, and all of what three accounts saw, costs no fetches: each change is fetched whole twice more, and that is all.
func TestTellingLittleCostsNoFetches(t *testing.T) {
	t.Parallel()
	all, allWhole, allBytes := honestRounds(t, false)
	few, fewWhole, fewBytes := honestRounds(t, true)
	t.Logf("told of all: %d requests, %d with content, %d bytes; of what is verified: %d, %d, %d", all, allWhole, allBytes, few, fewWhole, fewBytes)
	if float64(few) > 1.03*float64(all) {
		t.Errorf("%d requests, %d where all is told", few, all)
	}
	if fewWhole <= allWhole {
		t.Error("nothing was kept from the peers: this measures nothing")
	}
	if fewWhole > 3*allWhole {
		t.Errorf("%d pages with content, %d where all is told: more than each change three times", fewWhole, allWhole)
	}
}
