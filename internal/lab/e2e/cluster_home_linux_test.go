package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"shoal/internal/lab/netlab"
	"shoal/internal/lab/pglab"
	"shoal/internal/lab/s3lab"
)

const (
	homesPort                = 7785             // of members
	homesHosts               = 60               // of the Web
	homesDirect, homesHidden = 5, 4             // peers
	homesEvery               = 2 * time.Second  // between two orders to crawl a host
	homesRest                = 25 * time.Second // after which peers count as settled: a home that was left sooner is sought later
	homesSlow                = 15 * time.Second // a peer that is not at another server by then says why
	homesMost                = time.Minute      // a peer that is not back by then is lost
)

// managedHomes is a network of three managers in sites of their own, of peers at two more sites, and of peers at homes behind routers that give each
// partner another port, so that others meet them at their home server alone.
type managedHomes struct {
	t        *testing.T
	net      *netlab.Lab
	quic     bool
	origins  []string
	asked    atomic.Int32 // the manager that orders go to
	db       string
	store    *s3lab.Store
	sites    []*netlab.Host // of the managers
	data     []string
	managers []*process
	pages    []page
	ids      []string // of the managers
	peers    []*process
	hidden   map[*process]bool // those at homes
}

// TestClusterHome kills the home of peers, and pulls the cable of another one, and measures when those peers are granted a claim, have a chunk acknowledged,
// and are met at another server again.
func TestClusterHome(t *testing.T) {
	if os.Getenv(clusterEnv) == "" {
		t.Skip("make cluster and make cluster-home run this")
	}
	for _, transport := range []string{"TCP", "QUIC"} {
		t.Run(transport, func(t *testing.T) {
			c := &managedHomes{t: t, net: netlab.Open(t, "peers whose home dies are"), quic: transport == "QUIC", hidden: map[*process]bool{}}
			c.open()
			c.work()
			c.settle()
			c.dies("kill -9", func(i int) { c.managers[i].kill() })
			for i, m := range c.managers {
				select {
				case <-m.done:
					c.start(i)
				default:
				}
			}
			c.settle()
			var dead int
			c.dies("its cable is pulled", func(i int) { dead = i; c.net.Cut(c.sites[i], true) })
			c.net.Cut(c.sites[dead], false)
		})
	}
}

// overQUIC has a host accept no TCP connection of members, so that they speak QUIC, which they try next.
func (c *managedHomes) overQUIC(at *netlab.Host) {
	rules := fmt.Sprintf("table inet homes { chain in { type filter hook input priority 0; tcp dport %d reject with tcp reset; }; }", homesPort)
	if out, err := at.Command("nft", rules).CombinedOutput(); err != nil {
		c.t.Fatalf("nft: %v: %s", err, out)
	}
}

func (c *managedHomes) site(name, prefix string) *netlab.Host {
	c.t.Helper()
	h, err := c.net.Site(name, prefix)
	if err != nil {
		c.t.Fatal(err)
	}
	return h
}

func (c *managedHomes) run(at *netlab.Host, program string, args ...string) *process {
	return launch(c.t, program, at.Command(filepath.Join(bin, program), args...))
}

// open starts everything.
func (c *managedHomes) open() {
	t := c.t
	c.db, c.store = pglab.Start(t, pglab.Options{}).URL(), s3lab.Start(t, s3lab.Options{})
	web := c.site("w", "11.0.9.1/24")
	for port := webPort; port < webPort+homesHosts; port++ {
		c.serve(web, port)
	}
	for i := range clusterManagers {
		h := c.site(fmt.Sprintf("m%d", i), fmt.Sprintf("11.0.%d.1/24", i+1))
		c.sites, c.data, c.managers, c.pages = append(c.sites, h), append(c.data, t.TempDir()), append(c.managers, nil), append(c.pages, page{})
		c.forward(h)
		if keys := filepath.Join(c.data[0], "backup-of-keys"); i > 0 {
			if i == 1 {
				run(t, "key", "backup", "--out", keys, "--data", c.data[0])
			}
			run(t, "key", "restore", "--another", keys, "--data", c.data[i])
		}
		c.start(i)
		c.managers[i].word("shoal-peer join ")
	}
	c.even()
	for _, p := range c.pages {
		for _, m := range p.overview().Managers {
			if m.Here {
				c.ids = append(c.ids, m.Peer)
			}
		}
	}
	join, direct, hidden := c.managers[0].word("shoal-peer join "), []func() *process(nil), []func() *process(nil)
	for i := range homesDirect {
		direct = append(direct, c.join(c.site(fmt.Sprintf("p%d", i), fmt.Sprintf("11.0.%d.1/24", 20+i)), join))
	}
	for i := range homesHidden {
		router := c.site(fmt.Sprintf("r%d", i), fmt.Sprintf("11.0.%d.1/24", 30+i))
		home, err := c.net.Home(router, fmt.Sprintf("h%d", i), fmt.Sprintf("192.168.%d.2/24", 30+i), netlab.OtherPort)
		if err != nil {
			t.Fatal(err)
		}
		hidden = append(hidden, c.join(home, join))
	}
	if c.quic { // who joins asks by TCP
		for _, h := range c.sites {
			c.overQUIC(h)
		}
	}
	for _, run := range direct {
		run()
	}
	for _, run := range hidden {
		c.hidden[run()] = true
	}
}

// serve serves a Web host of one page until the test ends.
func (c *managedHomes) serve(at *netlab.Host, port int) {
	origin := fmt.Sprintf("%s:%d", at.Addr, port)
	l, err := at.Listen("tcp", origin)
	if err != nil {
		c.t.Fatal(err)
	}
	c.origins = append(c.origins, "http://"+origin+"/")
	s := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "<html><title>%s</title>a page of %s</html>", origin, origin)
	})}
	done := make(chan struct{})
	go func() { defer close(done); s.Serve(l) }()
	c.t.Cleanup(func() { s.Close(); <-done })
}

// work has all channels crawled again and again until the test ends, by the order of a manager that is there.
func (c *managedHomes) work() {
	rows, err := c.pages[0].rows()
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	c.t.Cleanup(func() { cancel(); all.Wait() })
	for _, r := range rows { // beside each other: an order for a channel of a manager that is away takes long
		all.Go(func() {
			for ctx.Err() == nil {
				c.order(ctx, fmt.Sprintf("/api/v1/channels/%d/crawl-now", r.ID))
				time.Sleep(homesEvery)
			}
		})
	}
}

// order gives the manager that is asked an order. One that is refused is given again.
func (c *managedHomes) order(ctx context.Context, path string) {
	p := c.pages[c.asked.Load()]
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.base+path, nil)
	if err != nil {
		c.t.Error(err)
		return
	}
	req.Header.Set("Authorization", "Bearer "+p.token)
	if res, err := p.client.Do(req); err == nil {
		res.Body.Close()
	}
}

// forward has a site reach the object store under the address that it has outside the lab.
func (c *managedHomes) forward(at *netlab.Host) {
	u, err := url.Parse(c.store.URL())
	if err != nil {
		c.t.Fatal(err)
	}
	l, err := at.Listen("tcp", u.Host)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { l.Close() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", u.Host)
			if err != nil {
				in.Close()
				continue
			}
			for _, way := range [][2]net.Conn{{in, out}, {out, in}} {
				go func() {
					io.Copy(way[0], way[1])
					way[0].Close()
					way[1].Close()
				}()
			}
		}
	}()
}

func (c *managedHomes) start(i int) {
	listen := fmt.Sprintf("/ip4/%s/tcp/%d", c.sites[i].Addr, homesPort)
	args := []string{"manager", "--several", "--db", c.db, "--bucket", c.store.URL(), "--data", c.data[i], "--listen", listen,
		"--page", "127.0.0.1:7780", "--contact", "http://contact.test/", "--arbiter", "off", "--verbose"}
	if i == 0 && len(c.ids) == 0 {
		for _, o := range c.origins {
			args = append(args, "--add", o)
		}
	}
	c.managers[i] = c.run(c.sites[i], "shoal", args...)
	c.pages[i] = pageOf(c.managers[i], "Page ")
	c.pages[i].client = &http.Client{Timeout: time.Minute, Transport: &http.Transport{DialContext: c.sites[i].DialContext, DisableKeepAlives: true}}
}

// join has a host's peer join, and returns what starts it.
func (c *managedHomes) join(at *netlab.Host, join string) (run func() *process) {
	dir := c.t.TempDir()
	j := c.run(at, "shoal-peer", "join", "--yes", join, "--data", dir)
	if <-j.done; j.cmd.ProcessState.ExitCode() != 0 {
		c.t.Fatalf("join: %s", j.said())
	}
	args := []string{"run", "--port", strconv.Itoa(homesPort), "--data", dir, "--no-low-priority", "--log-level", "debug"}
	if !c.quic {
		args = append(args, "--no-quic")
	}
	return func() *process {
		if c.quic {
			c.overQUIC(at)
		}
		p := c.run(at, "shoal-peer", args...)
		c.peers = append(c.peers, p)
		return p
	}
}

// even waits until all managers share the partitions.
func (c *managedHomes) even() {
	c.t.Helper()
	for i, m := range c.managers {
		m.until("shares all partitions with the others", func() bool {
			list := c.pages[i].overview().Managers
			all := 0
			for _, x := range list {
				all += x.Partitions
			}
			return len(list) == len(c.managers) && all == 256
		})
	}
}

// settle waits until each peer has had a home for a while, crawls, and is met at its home if it is at a home behind a router.
func (c *managedHomes) settle() {
	c.t.Helper()
	c.even()
	began := time.Now()
	for _, p := range c.peers {
		p.within(2*time.Minute, "settles", func() bool {
			return p.home() != "" && p.first(began, "claim granted") > 0 && p.first(began, "chunk acknowledged") > 0 && (!c.hidden[p] || p.metAt() == p.home())
		})
	}
	time.Sleep(time.Until(began.Add(homesRest)))
}

// busiest is the manager that is home to most peers, those that others meet there above all, and its peers.
func (c *managedHomes) busiest() (manager int, peers []*process) {
	most := -1
	for i, id := range c.ids {
		n, at := 0, []*process(nil)
		for _, p := range c.peers {
			if p.home() != id {
				continue
			}
			at, n = append(at, p), n+1
			if c.hidden[p] {
				n += len(c.peers)
			}
		}
		if n > most {
			manager, peers, most = i, at, n
		}
	}
	return manager, peers
}

// dies has a manager at which others are met die, and measures what its peers do.
func (c *managedHomes) dies(how string, kill func(i int)) {
	c.t.Helper()
	dead, orphans := c.busiest()
	c.asked.Store(int32((dead + 1) % len(c.managers)))
	began := time.Now()
	kill(dead)
	const met = "met at the other server"
	type step struct {
		name string
		of   func(p *process) time.Duration
	}
	steps := []step{
		{"at another server", func(p *process) time.Duration { return p.first(began, "connected to the network") }},
		{"a claim is granted", func(p *process) time.Duration { return p.after(began, "connected to the network", "claim granted") }},
		{"a chunk is acknowledged", func(p *process) time.Duration {
			return p.after(began, "connected to the network", "chunk acknowledged")
		}},
		{met, func(p *process) time.Duration { return p.first(began, "others can meet this node") }},
	}
	for n, p := range orphans {
		kind := "direct"
		if c.hidden[p] {
			kind = "behind a router"
		}
		var said []string
		for _, s := range steps {
			if s.name == met && !c.hidden[p] {
				continue
			}
			var d time.Duration
			p.within(homesMost, s.name, func() bool { d = s.of(p); return d > 0 })
			said = append(said, fmt.Sprintf("%s %.1f s", s.name, d.Seconds()))
		}
		if p.first(began, "connected to the network") > homesSlow {
			for _, l := range p.since(began) {
				c.t.Log(l.at.Sub(began), l.text)
			}
		}
		c.t.Logf("%s, %d of %d peers (%s): %s", how, n+1, len(orphans), kind, strings.Join(said, ", "))
	}
	for _, p := range c.peers {
		for _, s := range p.interrupted(began) {
			c.t.Logf("%s, a peer whose home %s: %s", how, map[bool]string{true: "died", false: "stays"}[slices.Contains(orphans, p)], s)
		}
	}
}

// logged is a line of a program's log.
type logged struct {
	at   time.Time
	text string
}

// since reads what a program has logged since a moment.
func (p *process) since(began time.Time) (out []logged) {
	for _, l := range strings.Split(p.said(), "\n") {
		if rest, ok := strings.CutPrefix(l, "time="); ok {
			stamp, text, _ := strings.Cut(rest, " ")
			if at, err := time.Parse(time.RFC3339Nano, stamp); err == nil && !at.Before(began) {
				out = append(out, logged{at, text})
			}
		}
	}
	return out
}

// first is how long after a moment a program logged something first; 0: it has not.
func (p *process) first(began time.Time, what string) time.Duration {
	for _, l := range p.since(began) {
		if strings.Contains(l.text, what) {
			return l.at.Sub(began)
		}
	}
	return 0
}

// after is first for what was logged after something else.
func (p *process) after(began time.Time, first, then string) time.Duration {
	lead := p.first(began, first)
	if lead == 0 {
		return 0
	}
	if d := p.first(began.Add(lead), then); d > 0 {
		return lead + d
	}
	return 0
}

// home is the server at which a peer is; empty: none.
func (p *process) home() (id string) {
	for _, l := range p.since(time.Time{}) {
		if strings.Contains(l.text, "connection to the network's server is lost") {
			id = ""
		}
		if strings.Contains(l.text, "connected to the network") {
			id = l.word("server=")
		}
	}
	return id
}

// metAt is the server at which others can meet a peer; empty: none.
func (p *process) metAt() (id string) {
	for _, l := range p.since(time.Time{}) {
		if strings.Contains(l.text, "others can meet this node") {
			id = l.word("server=")
		}
	}
	return id
}

// word is what follows a mark.
func (l logged) word(mark string) string {
	_, rest, _ := strings.Cut(l.text, mark)
	word, _, _ := strings.Cut(rest, " ")
	return word
}

// interrupted says of claims and chunks that failed since a moment when those that waited longest came through.
func (p *process) interrupted(began time.Time) (out []string) {
	lines := p.since(began)
	for _, kind := range [][3]string{{"claims", "claim not answered", "claim granted"}, {"chunks", "chunk not acknowledged", "chunk acknowledged"}} {
		open, all, last := map[string]bool{}, map[string]bool{}, time.Duration(0)
		for _, l := range lines {
			task := l.word("host=") + " " + l.word("gen=")
			switch {
			case strings.Contains(l.text, kind[1]):
				open[task], all[task] = true, true
			case strings.Contains(l.text, kind[2]) && open[task]:
				delete(open, task)
				last = max(last, l.at.Sub(began))
			}
		}
		if len(all) > 0 {
			out = append(out, fmt.Sprintf("%d %s failed, the last of them that succeeded later did so after %.1f s, %d never did", len(all), kind[0], last.Seconds(), len(open)))
		}
	}
	return out
}
