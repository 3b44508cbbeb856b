// Package pond is a synthetic Web: many virtual hosts on one loopback port, with links, robots.txt, sitemaps, pages
// that change by known processes, realistic distances, and misbehaviour on demand. `shoal up` crawls it when it is
// given no URL, and every test that needs a Web uses it.
//
// The pond says nothing about how the real Web behaves. Only commands and tests may import this package.
//
// Invariants: a World is a pure function of its Config, so two processes with the same Config see the same Web. A
// page's content is a pure function of (seed, page, version), and its version of (seed, page, whole seconds since
// Config.Start). Nothing is stored per page. The server reads the clock only to know the current second.
//
// Host sizes follow a power law. The shares of fast and slow hosts are those of Table 1 in Xu, Zhang, Zhang, Fang,
// "Scale-Adaptable Recrawl Strategies for DHT-Based Distributed Web Crawling System" (NPC 2010).
package pond

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Suffix ends every host name of a pond.
const Suffix = ".pond.test"

// Limits of a Config.
const (
	MaxHosts = 1_000_000
	MaxPages = 1 << 30
)

// Errors of this package.
var (
	ErrConfig  = errors.New("pond: bad config")
	ErrNoHost  = errors.New("pond: no such host")
	ErrNotPond = errors.New("pond: address is outside the pond")
	ErrMode    = errors.New("pond: unknown misbehaviour")
)

// Config describes a World completely. GET /_pond/world returns its JSON form.
type Config struct {
	Seed     uint64          `json:"seed"`
	Hosts    int             `json:"hosts"`               // virtual hosts; 0: 200
	Pages    int             `json:"pages"`               // pages of all hosts together, with "/" and without robots.txt and disallowed pages; 0: 20,000
	MaxHost  int             `json:"max_host"`            // pages of the largest host; 0: 2,000
	Sizes    []int           `json:"sizes,omitempty"`     // pages of each host in turn, which override Hosts, Pages and MaxHost; none: a power law
	Links    int             `json:"links"`               // links of an ordinary page; 0: 20
	Bytes    int             `json:"bytes"`               // mean size of a page; 0: 8,000
	Clusters int             `json:"clusters"`            // places around which hosts and nodes gather; 0: 6
	Start    time.Time       `json:"start"`               // when the pond's time began, whole seconds; zero: now, by NewServer
	Static   bool            `json:"static,omitempty"`    // nothing ever changes
	Plain    bool            `json:"plain,omitempty"`     // no robots.txt, no crawl-delay, no sitemaps: every page is allowed
	Nodes    []int           `json:"nodes,omitempty"`     // ports of the nodes that are placed in turn, as Settle places them; other nodes' ports decide
	BadShare float64         `json:"bad_share,omitempty"` // share of hosts that misbehave, each in its own way; 0: none
	Bad      map[string]Mode `json:"bad,omitempty"`       // misbehaviour by host name
	Trouble  Trouble         `json:"trouble,omitzero"`    // what makes honest visitors see different things
	Addr     string          `json:"addr,omitempty"`      // where it is served; set by NewServer
}

// Default returns the Config of `shoal up`'s pond.
func Default() Config {
	return Config{Hosts: 200, Pages: 20_000, MaxHost: 2000, Links: 20, Bytes: 8000, Clusters: 6}
}

// withDefaults replaces zero fields with their defaults.
func (c Config) withDefaults() Config {
	d := Default()
	fill := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	if n := len(c.Sizes); n > 0 {
		c.Hosts, c.Pages, c.MaxHost = n, 0, slices.Max(c.Sizes)
		for _, s := range c.Sizes {
			c.Pages += min(max(s, 0), MaxPages)
		}
	}
	fill(&c.Hosts, d.Hosts)
	fill(&c.Pages, max(d.Pages, c.Hosts))
	fill(&c.MaxHost, max(d.MaxHost, (c.Pages+c.Hosts-1)/c.Hosts))
	fill(&c.Links, d.Links)
	fill(&c.Bytes, d.Bytes)
	fill(&c.Clusters, d.Clusters)
	c.Start = c.Start.Truncate(time.Second)
	return c
}

// Validate reports what is wrong with a Config. Zero fields mean their defaults.
func (c Config) Validate() error {
	c = c.withDefaults()
	switch {
	case c.Hosts < 1 || c.Hosts > MaxHosts:
		return fmt.Errorf("%w: hosts %d: must be 1 to %d", ErrConfig, c.Hosts, MaxHosts)
	case c.Pages < c.Hosts || c.Pages > MaxPages:
		return fmt.Errorf("%w: pages %d: must be at least one a host (%d) and at most %d", ErrConfig, c.Pages, c.Hosts, MaxPages)
	case c.MaxHost < 1 || c.MaxHost*c.Hosts < c.Pages:
		return fmt.Errorf("%w: %d hosts of at most %d pages cannot hold %d pages", ErrConfig, c.Hosts, c.MaxHost, c.Pages)
	case c.Links < 2 || c.Links > 10_000:
		return fmt.Errorf("%w: links %d: must be 2 to 10,000", ErrConfig, c.Links)
	case c.Bytes < 500 || c.Bytes > 1<<20:
		return fmt.Errorf("%w: bytes %d: must be 500 to %d", ErrConfig, c.Bytes, 1<<20)
	case c.Clusters < 1 || c.Clusters > 1000:
		return fmt.Errorf("%w: clusters %d: must be 1 to 1,000", ErrConfig, c.Clusters)
	case !(c.BadShare >= 0 && c.BadShare <= 1):
		return fmt.Errorf("%w: share of bad hosts %v: must be 0 to 1", ErrConfig, c.BadShare)
	}
	if err := c.Trouble.validate(); err != nil {
		return err
	}
	for i, n := range c.Sizes {
		if n < 1 || n > MaxPages {
			return fmt.Errorf("%w: host %d of %d pages: must be 1 to %d", ErrConfig, i, n, MaxPages)
		}
	}
	for h, m := range c.Bad {
		if !m.Known() {
			return fmt.Errorf("%w %q for host %s", ErrMode, m, h)
		}
	}
	return nil
}

// classes are the mean change intervals of hosts, fastest first: the mean time between changes anywhere on a host of
// the class.
var classes = [...]time.Duration{20 * time.Second, 40 * time.Second, 80 * time.Second, 160 * time.Second, 320 * time.Second}

// classShare of hosts, fastest first.
var classShare = [...]float64{543. / 16000, 3954. / 16000, 7149. / 16000, 3816. / 16000, 538. / 16000}

// Host holds the fixed properties of one virtual host.
type Host struct {
	Name       string
	Pages      int           // 0 is "/"; all can be reached by links from it
	Class      int           // 0 is the fastest
	Interval   time.Duration // mean time between changes of the host as a whole; 0: never
	CrawlDelay time.Duration // 0: none
	Robots     bool          // has a robots.txt
	Private    bool          // robots.txt disallows /private/, to which pages link
	Sitemap    bool
	Validators bool // ETag and Last-Modified
	first      int  // number of its first page among all pages
	weights    float64
	pos        point
}

// World is a synthetic Web. Any number of goroutines may use it.
type World struct {
	cfg      Config
	hosts    []Host
	byName   map[string]int
	clusters []point
	addr     atomic.Pointer[netip.AddrPort]
	mu       sync.RWMutex
	bad      map[int]Mode  // guarded by mu
	settled  map[int]point // nodes by port, guarded by mu
}

// NewWorld builds the World of a Config.
func NewWorld(cfg Config) (*World, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	w := &World{cfg: cfg, byName: make(map[string]int, cfg.Hosts), bad: map[int]Mode{}, settled: map[int]point{}}
	w.placeClusters()
	sizes := cfg.Sizes
	if len(sizes) == 0 {
		sizes = hostSizes(cfg)
		shuffle(sizes, w.hash(saltSize))
	}
	class := hostClasses(cfg.Hosts)
	shuffle(class, w.hash(saltClass))
	w.hosts = make([]Host, cfg.Hosts)
	first := 0
	for i := range w.hosts {
		h := w.buildHost(i, sizes[i], class[i])
		h.first = first
		first += h.Pages
		w.hosts[i] = h
		w.byName[h.Name] = i
	}
	for i := range w.hosts {
		if w.unit(saltBad, uint64(i)) < cfg.BadShare {
			w.bad[i] = modes[w.hash(saltBad, uint64(i), 1)%uint64(len(modes))]
		}
	}
	for i, port := range cfg.Nodes {
		w.Settle(port, i)
	}
	for name, m := range cfg.Bad {
		if err := w.Misbehave(name, m); err != nil {
			return nil, err
		}
	}
	if cfg.Addr != "" {
		ap, err := netip.ParseAddrPort(cfg.Addr)
		if err != nil {
			return nil, fmt.Errorf("%w: addr %q: %w", ErrConfig, cfg.Addr, err)
		}
		w.addr.Store(&ap)
	}
	return w, nil
}

func hostName(i int) string { return fmt.Sprintf("site-%04d%s", i, Suffix) }

func (w *World) buildHost(i, size, class int) Host {
	n := uint64(i)
	h := Host{Name: hostName(i), Pages: size, Class: class, Interval: classes[class], pos: w.hostPos(i),
		Validators: w.unit(saltHost, n, 4) < 0.8}
	if w.cfg.Static {
		h.Interval = 0
	}
	if !w.cfg.Plain {
		h.Robots = w.unit(saltHost, n, 0) < 0.8
		h.Private = h.Robots && w.unit(saltHost, n, 1) < 0.4
		h.Sitemap = w.unit(saltHost, n, 2) < 0.3
		if h.Robots && w.unit(saltHost, n, 3) < 0.05 {
			h.CrawlDelay = time.Duration(3+w.hash(saltHost, n, 5)%8) * 100 * time.Millisecond // 0.3 to 1 s
		}
	}
	for p := range size {
		h.weights += w.changeWeight(i, p)
	}
	return h
}

// Config returns the Config of the World with its defaults filled in and, once it is served, its address.
func (w *World) Config() Config {
	c := w.cfg
	if a := w.addr.Load(); a != nil {
		c.Addr = a.String()
	}
	w.mu.RLock()
	defer w.mu.RUnlock()
	if len(w.bad) > 0 {
		c.Bad = make(map[string]Mode, len(w.bad))
		for i, m := range w.bad {
			c.Bad[w.hosts[i].Name] = m
		}
	}
	return c
}

// Hosts returns the hosts. The slice belongs to the World.
func (w *World) Hosts() []Host { return w.hosts }

// Host finds a host by name, with or without a port.
func (w *World) Host(name string) (int, bool) {
	if i := strings.LastIndexByte(name, ':'); i >= 0 {
		name = name[:i]
	}
	i, ok := w.byName[strings.ToLower(name)]
	return i, ok
}

// Misbehave sets a host's mode from now on. The empty Mode makes it good again.
func (w *World) Misbehave(host string, m Mode) error {
	i, ok := w.Host(host)
	if !ok {
		return fmt.Errorf("%w: %q", ErrNoHost, host)
	}
	if m != "" && !m.Known() {
		return fmt.Errorf("%w %q; known: %s", ErrMode, m, strings.Trim(fmt.Sprint(Modes()), "[]"))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if m == "" {
		delete(w.bad, i)
	} else {
		w.bad[i] = m
	}
	return nil
}

// Mode returns a host's current mode.
func (w *World) Mode(host int) Mode {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.bad[host]
}

// URL returns the URL of a page.
func (w *World) URL(host, page int) string { return w.Origin(host) + w.Path(host, page) }

// Origin returns the origin of a host. It is https if the host's mode is one of TLS or HTTP/2.
func (w *World) Origin(host int) string {
	if w.Mode(host).Secure() {
		return "https://" + w.hosts[host].Name
	}
	return "http://" + w.hosts[host].Name
}

// hostSizes are the quantiles of a power law between 1 and MaxHost whose exponent makes the sum right.
func hostSizes(cfg Config) []int {
	n, top := cfg.Hosts, float64(cfg.MaxHost)
	at := func(a float64, sizes []int) int {
		sum := 0
		for i := range n {
			u := (float64(i) + .5) / float64(n)
			// density ~ x^-a between 1 and top+1
			var x float64
			if math.Abs(a-1) < 1e-9 {
				x = math.Pow(top+1, u)
			} else {
				x = math.Pow(1+u*(math.Pow(top+1, 1-a)-1), 1/(1-a))
			}
			s := min(max(int(x), 1), cfg.MaxHost)
			if sizes != nil {
				sizes[i] = s
			}
			sum += s
		}
		return sum
	}
	lo, hi := -50.0, 50.0 // the sum falls as the exponent grows
	for range 100 {
		if mid := (lo + hi) / 2; at(mid, nil) > cfg.Pages {
			lo = mid
		} else {
			hi = mid
		}
	}
	sizes := make([]int, n)
	sum := at(hi, sizes)
	for i := n - 1; sum != cfg.Pages; i = (i + n - 1) % n { // the rest, largest hosts first
		if sum < cfg.Pages && sizes[i] < cfg.MaxHost {
			d := min(cfg.MaxHost-sizes[i], max(1, (cfg.Pages-sum)/n))
			sizes[i] += d
			sum += d
		} else if sum > cfg.Pages && sizes[i] > 1 {
			sizes[i]--
			sum--
		}
	}
	return sizes
}

// hostClasses assigns the classes by their shares, rounded so that the total fits.
func hostClasses(n int) []int {
	out := make([]int, 0, n)
	cum := 0.0
	for c, s := range classShare {
		cum += s
		for len(out) < n && float64(len(out))+.5 < cum*float64(n) {
			out = append(out, c)
		}
	}
	for len(out) < n {
		out = append(out, 2)
	}
	return out
}

// Path returns the path of a page. The pages of a host form a tree with fan children per directory; a page with
// children is a directory.
func (w *World) Path(host, page int) string {
	n := w.hosts[host].Pages
	var buf [96]byte
	return string(w.appendPath(buf[:0], host, page, n))
}

// fan is the number of children of a directory.
const fan = 16

var sections = [...]string{"news", "people", "products", "archive", "research", "help", "music", "travel", "notes", "images", "books",
	"events", "reports", "teams", "recipes", "forum"}

func (w *World) appendPath(b []byte, host, page, n int) []byte {
	if page == 0 {
		return append(b, '/')
	}
	parent := (page - 1) / fan
	b = w.appendPath(b, host, parent, n)
	if page*fan+1 < n { // has children
		if parent == 0 {
			b = append(b, sections[(uint64(host)+uint64(page))%uint64(len(sections))]...)
		} else {
			b = append(b, "part"...)
		}
		b = append(b, '-')
		b = strconv.AppendInt(b, int64(page), 10)
		return append(b, '/')
	}
	if w.hash(saltPath, uint64(host), uint64(page))%10 == 0 {
		b = append(b, "view?id="...)
		return strconv.AppendInt(b, int64(page), 10)
	}
	b = append(b, "item-"...)
	b = strconv.AppendInt(b, int64(page), 10)
	return append(b, ".html"...)
}

// Lookup returns the page of a path and query.
func (w *World) Lookup(host int, path string) (page int, ok bool) {
	if path == "/" {
		return 0, true
	}
	s := strings.TrimSuffix(strings.TrimSuffix(path, "/"), ".html")
	i := strings.LastIndexAny(s, "-=")
	if i < 0 {
		return 0, false
	}
	page, err := strconv.Atoi(s[i+1:])
	if err != nil || page < 1 || page >= w.hosts[host].Pages || w.Path(host, page) != path {
		return 0, false
	}
	return page, true
}

// Target is the page that a link leads to.
type Target struct{ Host, Page int }

// Links returns the links of a page, each once: its children, its parent, "/", pages of its host, and now and then a
// page elsewhere.
func (w *World) Links(host, page int) []Target {
	h := &w.hosts[host]
	out := make([]Target, 0, w.cfg.Links+fan)
	add := func(t Target) {
		if t != (Target{host, page}) && !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	for c := page*fan + 1; c <= page*fan+fan && c < h.Pages; c++ {
		add(Target{host, c})
	}
	if page > 0 {
		add(Target{host, (page - 1) / fan})
		add(Target{host, 0})
	}
	key := uint64(h.first + page)
	outside := int(w.hash(saltLink, key, 1) % 4) // 0 to 3, so 1.5 on average
	for i := 0; len(out) < w.cfg.Links-outside && i < 2*w.cfg.Links && h.Pages > 1; i++ {
		// Popular pages are near the front.
		u := w.unit(saltLink, key, uint64(i), 2)
		add(Target{host, int(u * u * float64(h.Pages))})
	}
	for i := range outside {
		t := w.pageAt(int(w.unit(saltLink, key, uint64(i), 3) * float64(w.cfg.Pages)))
		if w.unit(saltLink, key, uint64(i), 4) < .7 {
			t.Page = 0
		}
		add(t)
	}
	return out
}

// pageAt returns the n-th page of the World.
func (w *World) pageAt(n int) Target {
	i, found := slices.BinarySearchFunc(w.hosts, n, func(h Host, n int) int { return h.first - n })
	if !found {
		i--
	}
	return Target{i, n - w.hosts[i].first}
}
