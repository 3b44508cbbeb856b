package e2e

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"shoal/internal/lab/netlab"
)

// TestPartition cuts a site off in the middle of a crawl there. The crawl must go on, because its Web host is on the
// same side, and so must the others' work. Once the sites are joined again, everything fetched must arrive, and
// nothing may have been fetched twice.
func TestPartition(t *testing.T) {
	drivesPrograms(t)
	t.Parallel()
	n := netlab.Open(t, "a crawl through a partition is")
	l := &lab{t: t, net: n, seen: map[string][]netip.Addr{}, marks: map[marking]int{}}
	boss := l.site("m", "11.0.9.1/24")
	var places []*place
	for i, name := range []string{"a", "b"} {
		p := &place{name: name, where: l.site(name, fmt.Sprintf("11.0.%d.1/24", i+1))}
		p.peers, p.near = []*netlab.Host{p.where}, []netip.Addr{p.where.Addr}
		n.Distance(p.where, boss, 20*time.Millisecond, 0)
		places = append(places, p)
	}
	a, b := places[0], places[1]
	n.Distance(a.where, b.where, 80*time.Millisecond, 0)
	small := l.serve(a, webPort)
	large := &library{pages: 8, hold: 2}
	large.serve(t, b.where, fmt.Sprintf("%s:%d", b.where.Addr, webPort))
	l.start(boss, []string{small})
	dirs := l.join(places)
	l.mgr.until("knows all peers", func() bool { return l.page.overview().Peers == len(dirs) })
	l.crawl(l.channels()[small])
	l.mgr.until("has the small host crawled", func() bool { return l.updated([]string{small}, 1) })
	l.add(large.origin)
	ids := l.channels()
	crawls := 1
	for {
		large.forget()
		l.crawl(ids[large.origin])
		l.mgr.until("has the large host's crawl begun", large.held)
		if large.fetched()[0].by == b.where.Addr {
			break
		}
		// A busy machine's distances mislead, so the task went to the other peer.
		large.open()
		l.mgr.until("has it end", func() bool { return l.updated([]string{large.origin}, crawls) })
		if crawls++; crawls > 10 {
			t.Fatal("the large host's crawls all went to the other site")
		}
	}
	n.Cut(b.where, true)
	large.open()
	cut := time.Now()
	l.crawl(ids[small])
	l.mgr.until("goes on without the others", func() bool { return l.updated([]string{small}, 2) })
	l.mgr.until("has a crawl go on beyond the partition", func() bool { return len(large.fetched()) == large.pages })
	if l.updated([]string{large.origin}, crawls) {
		t.Error("a crawl beyond the partition was reported through it")
	}
	n.Cut(b.where, false)
	joined := time.Now()
	l.mgr.until("gets what was crawled meanwhile", func() bool { return l.updated([]string{large.origin}, crawls) })
	t.Logf("parted for %v; reported %v after the sites were joined again", joined.Sub(cut).Round(10*time.Millisecond), time.Since(joined).Round(10*time.Millisecond))
	o := l.page.overview()
	l.mgr.until("has the pages of both hosts", func() bool { o = l.page.overview(); return o.Archived > int64(large.pages) })
	if o.Lapsed != 0 {
		t.Errorf("%d tasks lapsed", o.Lapsed)
	}
	if by := large.once(l); len(by) != 1 || by[0] != b.where.Addr {
		t.Errorf("the large host was crawled from %v", by)
	}
}

// library is a Web host of several pages that records who fetches them. It stops a crawl in the middle until it is
// opened.
type library struct {
	pages int
	hold  int // pages that it gives while it is not open
	// While it is not open it gives every page, and each leads to one more: a crawl goes on for as long as it may take, and no request waits.
	grows  bool
	origin string

	mu   sync.Mutex
	log  []loan
	gate chan struct{} // closed: open
	wait int           // requests that it holds

	linked map[string]bool // pages of a growing one, but the first
}

// loan is one fetch.
type loan struct {
	path string
	by   netip.Addr
	at   time.Time
}

func (s *library) serve(t *testing.T, on *netlab.Host, addr string) {
	t.Helper()
	s.origin = "http://" + addr
	s.forget()
	ln, err := on.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	web := &http.Server{ReadHeaderTimeout: time.Minute, Handler: s}
	done := make(chan struct{})
	go func() { defer close(done); web.Serve(ln) }()
	t.Cleanup(func() { web.Close(); <-done })
}

func (s *library) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/" && !strings.HasPrefix(r.URL.Path, "/p") {
		http.NotFound(w, r)
		return
	}
	from, _ := netip.ParseAddrPort(r.RemoteAddr) // the server's own word
	if !s.lend(r, from.Addr()) {
		return
	}
	fmt.Fprintf(w, "<html><title>%s</title>", r.URL.Path)
	if s.grows {
		for _, to := range s.next(r.URL.Path) {
			fmt.Fprintf(w, "<a href=%s>a page</a> ", to)
		}
		return
	}
	for i := range s.pages - 1 {
		fmt.Fprintf(w, "<a href=/p%d>page %d</a> ", i, i)
	}
}

// Shape of a growing library: so many pages are linked to from the first one, and each begins a row. No page is deeper than crawls go.
const (
	growRows = 12
	growDeep = 14
)

// next are the pages to which one of a growing library's leads.
func (s *library) next(path string) (to []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	open := false
	select {
	case <-s.gate:
		open = true
	default:
	}
	link := func(row, deep int) {
		at := fmt.Sprintf("/p%d-%d", row, deep)
		if s.linked[at] || !open {
			to = append(to, at)
		}
		if !open && !s.linked[at] {
			s.linked[at] = true
			s.pages++
		}
	}
	var row, deep int
	if n, _ := fmt.Sscanf(path, "/p%d-%d", &row, &deep); n < 2 {
		for row := range growRows {
			link(row, 0)
		}
	} else if deep < growDeep-1 {
		link(row, deep+1)
	}
	return to
}

// lend records a fetch once it need not wait any more. It records nothing if the client has gone meanwhile.
func (s *library) lend(r *http.Request, by netip.Addr) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if gate := s.gate; len(s.log) >= s.hold && !s.grows {
		s.wait++
		s.mu.Unlock()
		gone := false
		select {
		case <-gate:
		case <-r.Context().Done():
			gone = true
		}
		s.mu.Lock()
		if s.wait--; gone {
			return false
		}
	}
	s.log = append(s.log, loan{r.URL.Path, by, time.Now()})
	return true
}

// held reports whether a crawl has come to the point where it is stopped.
func (s *library) held() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wait > 0 || s.grows && len(s.log) >= s.hold
}

// open lets the crawls continue.
func (s *library) open() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.gate)
}

func (s *library) fetched() []loan {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.log)
}

// forget starts a new record.
func (s *library) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log, s.gate, s.linked = nil, make(chan struct{}), map[string]bool{}
}

// once checks that every page was fetched, and none twice, until the manager heard of the first crawl's end. It
// returns the clients. The next crawl may have begun since.
func (s *library) once(l *lab) (by []netip.Addr) {
	l.t.Helper()
	d, err := l.page.channel(int(l.channels()[s.origin]))
	if err != nil {
		l.t.Fatal(err)
	}
	var end time.Time
	for _, e := range d.Events { // the latest first
		if e.What == "updated" && e.At.After(s.fetched()[0].at) {
			end = e.At
		}
	}
	times := map[string]int{}
	for _, f := range s.fetched() {
		if f.at.After(end) {
			continue
		}
		times[f.path]++
		if !slices.Contains(by, f.by) {
			by = append(by, f.by)
		}
	}
	if len(times) != s.pages {
		l.t.Errorf("%d of %d pages were fetched until %v: %v", len(times), s.pages, end, s.fetched())
	}
	for path, k := range times {
		if k != 1 {
			l.t.Errorf("%s was fetched %d times: %v", path, k, s.fetched())
		}
	}
	return by
}
