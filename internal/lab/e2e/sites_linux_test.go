package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"shoal/internal/lab/netlab"
	"shoal/internal/wire"
)

// place is a site with Web servers of its own and the peers near them.
type place struct {
	name  string
	where *netlab.Host   // where its Web servers are
	peers []*netlab.Host // one for each peer
	near  []netip.Addr   // addresses under which its peers are seen by its own servers
	ports []int          // of its servers, a host of the Web each
}

// lab is the manager, the places, and the visits that their Web servers saw.
type lab struct {
	t      *testing.T
	net    *netlab.Lab
	mgr    *process
	data   string // the manager's folder; empty: start makes one
	page   page
	client *http.Client
	// threads of each peer; 0: the program's default
	threads int
	dirs    map[*netlab.Host]string // of the peer of a home

	mu    sync.Mutex
	runs  map[*netlab.Host]*process // the peer of a home
	seen  map[string][]netip.Addr   // who fetched the first page of a host, by its origin
	marks map[marking]int           // packets that left the peers
}

// marking is what a router sees of a packet.
type marking struct {
	version, protocol byte
	le                bool // DSCP LE (RFC 8622)
}

func (m marking) String() string {
	return fmt.Sprintf("IPv%d %s", m.version, map[byte]string{6: "TCP", 17: "UDP"}[m.protocol])
}

// look records the mark of a packet that leaves a site, unless a Web server sent it.
func (l *lab) look(b []byte) {
	m := marking{version: b[0] >> 4}
	head, class := 40, b[0]<<4|b[1]>>4
	if m.protocol = b[6]; m.version == 4 {
		m.protocol, head, class = b[9], int(b[0]&15)*4, b[1]
	}
	if len(b) < head+4 || m.protocol != 6 && m.protocol != 17 {
		return
	}
	if port := int(b[head])<<8 | int(b[head+1]); port >= webPort && port < webPort+100 {
		return
	}
	if m.protocol == 6 && len(b) > head+13 && b[head+13]&4 != 0 {
		return // a reset: the system's own answer where a connection is no more
	}
	m.le = class>>2 == 1
	l.mu.Lock()
	defer l.mu.Unlock()
	l.marks[m]++
}

// marked checks that every packet of every peer is marked, over both versions of IP, TCP and QUIC.
func (l *lab) marked() {
	for _, m := range []marking{{4, 6, true}, {4, 17, true}, {6, 17, true}} { // IPv6 is spoken by QUIC only, which is dialled first
		l.mgr.until("has peers that speak "+m.String(), func() bool {
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.marks[m] > 0
		})
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for m, packets := range l.marks {
		l.t.Logf("%s: %d packets, DSCP LE: %v", m, packets, m.le)
		if !m.le {
			l.t.Errorf("%s: %d packets without DSCP LE", m, packets)
		}
	}
}

// webPort is the first port of a place's Web servers.
const webPort = 8610 // and a hundred more; all but one are ports where peers expect Web servers

// TestSites runs a network over three sites 20, 80 and 200 ms apart and two homes behind address translation, and
// loses one packet in two hundred between them. Tasks must land near their hosts, also at the homes, and go on after
// a site was cut off for a while.
func TestSites(t *testing.T) {
	drivesPrograms(t)
	peers, hosts := 3, 8
	if os.Getenv("SHOAL_SITES") == "1" {
		peers, hosts = 6, 40
	}
	n := netlab.Open(t, "tasks over real distances are")
	l := &lab{t: t, net: n, seen: map[string][]netip.Addr{}, marks: map[marking]int{}}
	boss := l.site("m", "11.0.9.1/24")
	var places []*place
	for i, name := range []string{"a", "b", "c"} {
		p := &place{name: name, where: l.site(name, fmt.Sprintf("11.0.%d.1/24", i+1))}
		if err := p.where.Also(fmt.Sprintf("2600:%d::1/64", i+1)); err != nil {
			t.Fatal(err)
		}
		for range peers {
			p.peers = append(p.peers, p.where)
		}
		p.near = []netip.Addr{p.where.Addr}
		places = append(places, p)
	}
	for i, name := range []string{"d", "e"} {
		router := l.site(name, fmt.Sprintf("11.0.%d.1/24", i+4))
		home, err := n.Home(router, name+"1", fmt.Sprintf("192.168.%d.2/24", i+4), netlab.SamePort)
		if err != nil {
			t.Fatal(err)
		}
		places = append(places, &place{name: name + ", behind address translation", where: router, peers: []*netlab.Host{home}, near: []netip.Addr{home.Addr}})
	}
	const loss = .005
	apart := func(i, j int, rtt time.Duration) { n.Distance(places[i].where, places[j].where, rtt, loss) }
	apart(0, 1, 20*time.Millisecond)
	apart(0, 2, 80*time.Millisecond)
	apart(1, 2, 200*time.Millisecond)
	for i := range places {
		n.Distance(places[i].where, boss, 30*time.Millisecond, loss)
		for j := 3; j < 5; j++ {
			if i != j {
				apart(i, j, 120*time.Millisecond)
			}
		}
	}
	n.Tap(func(from *netlab.Host, packet []byte) {
		if from != boss {
			l.look(packet)
		}
	})
	var origins []string
	for i, p := range places {
		k := hosts
		if i > 2 {
			k = 2
		}
		for h := range k {
			p.ports = append(p.ports, webPort+h)
			origins = append(origins, l.serve(p, webPort+h))
		}
	}
	l.start(boss, origins)
	dirs := l.join(places)
	l.mgr.until("knows all peers", func() bool { return l.page.overview().Peers == len(dirs) })

	ids := l.channels()
	for _, o := range origins {
		l.crawl(ids[o])
	}
	l.mgr.until("has every host crawled", func() bool { return l.updated(origins, 1) })
	sites, near, astray := l.landed(places)
	if !sites || !near && os.Getenv("SHOAL_SITES") == "1" {
		t.Errorf("%d tasks went astray", len(astray))
	} else if !near { // a home that joined seconds ago is not yet known to be the nearest to its two hosts
		l.mgr.until("has tasks land near when they are handed out again", func() bool {
			if _, near, astray = l.landed(places); near {
				return true
			}
			for _, o := range astray {
				l.crawl(ids[o])
			}
			time.Sleep(2 * time.Second)
			return false
		})
	}

	// While b is cut off, its tasks fail. Joined again, it takes tasks as before.
	b := places[1]
	one := ids[origin(places[0], places[0].ports[0])]
	l.mgr.until("has a task over", func() bool { d, err := l.page.channel(int(one)); return err == nil && !d.Row.Out })
	n.Cut(b.where, true)
	cut := time.Now()
	for _, port := range b.ports {
		l.crawl(ids[origin(b, port)])
	}
	l.crawl(one)
	l.mgr.until("goes on without the others", func() bool { return l.updatedSince(one, cut) })
	for _, port := range b.ports {
		if l.updatedSince(ids[origin(b, port)], cut) {
			t.Error("a site that was cut off brought something")
		}
	}
	n.Cut(b.where, false)
	joined := time.Now()
	asked := joined
	l.mgr.until("takes the others back", func() bool {
		if time.Since(asked) > 5*time.Second { // what others were given meanwhile failed
			asked = time.Now()
			for _, port := range b.ports {
				l.crawl(ids[origin(b, port)])
			}
		}
		for _, port := range b.ports {
			if l.updatedSince(ids[origin(b, port)], joined) {
				return true
			}
		}
		return false
	})
	l.status(places, dirs)
	l.marked()
}

func (l *lab) site(name, prefix string) *netlab.Host {
	l.t.Helper()
	h, err := l.net.Site(name, prefix)
	if err != nil {
		l.t.Fatal(err)
	}
	return h
}

func origin(p *place, port int) string { return fmt.Sprintf("http://%s:%d", p.where.Addr, port) }

// serve starts a Web host of one page that records its visitors.
func (l *lab) serve(p *place, port int) string {
	l.t.Helper()
	at := origin(p, port)
	ln, err := p.where.Listen("tcp", fmt.Sprintf("%s:%d", p.where.Addr, port))
	if err != nil {
		l.t.Fatal(err)
	}
	s := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			http.NotFound(w, r)
			return
		}
		if from, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
			l.mu.Lock()
			l.seen[at] = append(l.seen[at], from.Addr())
			l.mu.Unlock()
		}
		fmt.Fprintf(w, "<html><title>%s</title>a page of %s</html>", at, at)
	})}
	done := make(chan struct{})
	go func() { defer close(done); s.Serve(ln) }()
	l.t.Cleanup(func() { s.Close(); <-done })
	return at
}

// in runs a program on a host of the lab.
func (l *lab) in(h *netlab.Host, program string, args ...string) *process {
	return launch(l.t, program, h.Command(bin+"/"+program, args...))
}

func (l *lab) start(boss *netlab.Host, origins []string) {
	if l.data == "" {
		l.data = l.t.TempDir()
	}
	args := []string{"manager", "--data", l.data, "--listen", "/ip4/11.0.9.1/tcp/7785", "--page", "127.0.0.1:7780", "--contact", "http://contact.test/",
		"--arbiter", "off"} // these tests count who visits the sites
	for _, o := range origins {
		args = append(args, "--add", o+"/")
	}
	l.client = &http.Client{Timeout: time.Minute, Transport: &http.Transport{DialContext: boss.DialContext, DisableKeepAlives: true}}
	l.mgr = l.in(boss, "shoal", args...)
	l.page = pageOf(l.mgr, "Page ")
	l.page.client = l.client
}

// join starts the peers, which share one join string and nothing else. It returns their folders.
func (l *lab) join(places []*place) map[string]*netlab.Host {
	join := l.mgr.word("shoal-peer join ")
	dirs := map[string]*netlab.Host{}
	l.runs, l.dirs = map[*netlab.Host]*process{}, map[*netlab.Host]string{}
	args := []string{"run", "--web-at-home", "--no-low-priority", "--log-level", "warn"} // hosts and peers of a site have one address
	if l.threads > 0 {
		args = append(args, "--threads", fmt.Sprint(l.threads))
	}
	port := 7800
	for _, p := range places {
		for _, h := range p.peers {
			port++
			dir := l.t.TempDir()
			dirs[dir], l.dirs[h] = h, dir
			j := l.in(h, "shoal-peer", "join", "--yes", join, "--data", dir)
			<-j.done
			if j.cmd.ProcessState.ExitCode() != 0 {
				l.t.Fatalf("join: %s", j.said())
			}
			l.runs[h] = l.in(h, "shoal-peer", append(slices.Clone(args), "--data", dir, "--port", fmt.Sprint(port))...)
		}
	}
	return dirs
}

// channels returns the ids of the manager's channels by host.
func (l *lab) channels() map[string]uint64 {
	rows, err := l.page.rows()
	if err != nil {
		l.t.Fatal(err)
	}
	ids := map[string]uint64{}
	for _, r := range rows {
		ids["http://"+strings.TrimPrefix(r.Host, "http://")] = uint64(r.ID)
	}
	return ids
}

func (l *lab) crawl(id uint64) {
	l.t.Helper()
	l.post(fmt.Sprintf("/api/v1/channels/%d/crawl-now", id), "")
}

// add adds a channel while the manager runs.
func (l *lab) add(origin string) {
	l.t.Helper()
	l.post("/api/v1/channels/import?format=list", origin+"/\n")
}

func (l *lab) post(path, body string) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.page.base+path, strings.NewReader(body))
	if err != nil {
		l.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+l.page.token)
	res, err := l.client.Do(req)
	if err != nil {
		l.t.Fatal(err)
	}
	defer res.Body.Close()
	if b, _ := io.ReadAll(res.Body); res.StatusCode >= 300 && !strings.Contains(string(b), "being crawled already") {
		l.t.Fatalf("%s: %s %s", path, res.Status, b)
	}
}

// updated reports whether all of these hosts were brought up to date that many times.
func (l *lab) updated(origins []string, times int) bool {
	rows, err := l.page.rows()
	if err != nil {
		return false
	}
	visits := map[string]int{}
	for _, r := range rows {
		visits["http://"+strings.TrimPrefix(r.Host, "http://")] = r.Visits
	}
	for _, o := range origins {
		if visits[o] < times {
			return false
		}
	}
	return true
}

// updatedSince reports whether a task claimed after some time has brought a channel up to date. The schedule may have
// crawled it before that.
func (l *lab) updatedSince(id uint64, at time.Time) bool {
	d, err := l.page.channel(int(id))
	if err != nil {
		return false
	}
	claimed := map[uint64]bool{}
	for _, e := range d.Events {
		claimed[uint64(e.Gen)] = claimed[uint64(e.Gen)] || e.What == "claimed" && e.At.After(at)
	}
	for _, e := range d.Events {
		if e.What == "updated" && claimed[uint64(e.Gen)] {
			return true
		}
	}
	return false
}

// landed counts the hosts that a peer of their own place crawled last. all reports whether these are 95% of the
// hosts, at least one beside each home included. sites reports whether they are 90% of the hosts at the three sites,
// which are few outside `make sites`. astray names the other hosts.
func (l *lab) landed(places []*place) (sites, all bool, astray []string) {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	all = true
	near, tasks := 0, 0
	for i, p := range places {
		here := 0
		for _, port := range p.ports {
			who := l.seen[origin(p, port)]
			is := false
			for _, a := range p.near {
				is = is || len(who) > 0 && who[len(who)-1] == a
			}
			if is {
				here++
			} else {
				l.t.Logf("%s was crawled from %v", origin(p, port), who)
				astray = append(astray, origin(p, port))
			}
		}
		l.t.Logf("%s: %d of %d tasks landed near", p.name, here, len(p.ports))
		if i > 2 && here == 0 {
			l.t.Logf("%s: no task was taken there", p.name)
			all = false
		}
		if near, tasks = near+here, tasks+len(p.ports); i == 2 {
			sites = float64(near) >= .9*float64(tasks)
		}
	}
	return sites, all && float64(near) >= .95*float64(tasks), astray
}

// status checks what the peers behind address translation report about themselves.
func (l *lab) status(places []*place, dirs map[string]*netlab.Host) {
	hidden := map[*netlab.Host]bool{}
	for _, p := range places[3:] {
		hidden[p.peers[0]] = true
	}
	type status struct {
		Reach    wire.Reach
		Counters struct {
			Updated int `json:"tasks_updated"`
		}
	}
	for dir, h := range dirs {
		var st status
		l.mgr.until(fmt.Sprintf("has a peer at %s that knows how it is reached", h.Addr), func() bool {
			ask := l.in(h, "shoal-peer", "status", "--json", "--data", dir)
			<-ask.done
			st = status{}
			if json.Unmarshal(bytes.TrimSpace(ask.out.Bytes()), &st) != nil {
				return false
			}
			translated := strings.HasPrefix(st.Reach.NAT, wire.NATPlain)
			return translated == hidden[h] && (len(st.Reach.Relays) > 0) == hidden[h]
		})
		if hidden[h] {
			l.t.Logf("behind address translation: %+v, %d tasks done", st.Reach, st.Counters.Updated)
			if st.Counters.Updated == 0 {
				l.t.Error("a peer behind address translation has done no task")
			}
		}
	}
}
