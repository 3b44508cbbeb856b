package ordersim

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"shoal/channel/order"
	"shoal/internal/datafile"
)

// ErrInput says what is wrong with a graph or a setting.
var ErrInput = errors.New("ordersim: bad input")

// Limits of a graph file.
const (
	MaxLine = 16 << 10 // bytes
	MaxArcs = 1 << 30
)

// LoadConfig says how to read a graph that names no sites and no seeds.
type LoadConfig struct {
	SitePages int     // mean pages of a site where URLs are unknown: sites are runs of numbers; 0: 100
	Seeds     float64 // share of the sites whose first page is a seed; 0: .1
	Seed      uint64
}

// Load reads a graph: lines "from to" of page numbers or of URLs, or Kleinberg's "n number URL" and "e from to"; "#" begins a comment;
// gzip is recognised. A file names pages in one of both ways. Links from a page to itself and links said twice are dropped.
func Load(name string, r io.Reader, c LoadConfig) (Web, error) {
	fill(&c.SitePages, 100)
	fill(&c.Seeds, .1)
	if c.SitePages < 1 {
		return Web{}, fmt.Errorf("%w: --site-pages %d: want 1 or more, or 0 for 100", ErrInput, c.SitePages)
	}
	if !(c.Seeds > 0 && c.Seeds <= 1) {
		return Web{}, fmt.Errorf("%w: --seeds %v: want a share above 0, at most 1, or 0 for 0.1", ErrInput, c.Seeds)
	}
	br, err := datafile.Unpacked(r)
	if err != nil {
		return Web{}, fmt.Errorf("%w: graph %s: %w", ErrInput, name, err)
	}
	p := parser{byURL: map[string]uint32{}}
	sc := bufio.NewScanner(br)
	sc.Buffer(make([]byte, 4096), MaxLine)
	line := 0
	for sc.Scan() && sc.Err() == nil { // before the error there may be a piece of a line
		line++
		if err := p.line(line, sc.Text()); err != nil {
			return Web{}, fmt.Errorf("%w: graph %s, line %d: %w", ErrInput, name, line, err)
		}
	}
	if err := sc.Err(); err != nil {
		return Web{}, fmt.Errorf("%w: graph %s, after line %d: %w", ErrInput, name, line, err)
	}
	if p.pages == 0 {
		return Web{}, fmt.Errorf("%w: graph %s has no pages", ErrInput, name)
	}
	if err := p.doubled(); err != nil {
		return Web{}, fmt.Errorf("%w: graph %s: %w", ErrInput, name, err)
	}
	return p.web(name, c)
}

type parser struct {
	pages    int
	from, to []uint32
	urls     []string // by number, "" where unknown
	byURL    map[string]uint32
	named    int
	doubles  [][2]uint32 // pages of one URL
	numbers  int         // first line that names pages by numbers; 0: none
	names    int         // and by URLs
}

// doubled refuses a URL that stands at two pages, where links say that one of them matters: nothing tells which of the two an earlier crawl
// means. Other spellings of a URL are other pages here, as real graphs have http://host and http://host/ both, each with links of its own.
func (p *parser) doubled() error {
	if len(p.doubles) == 0 {
		return nil
	}
	linked := make([]bool, p.pages)
	for i := range p.from {
		linked[p.from[i]], linked[p.to[i]] = true, true
	}
	for _, d := range p.doubles {
		if linked[d[0]] || linked[d[1]] {
			return fmt.Errorf("pages %d and %d have the same URL %s: give each URL one number", d[0], d[1], p.urls[d[1]])
		}
	}
	return nil
}

// one refuses a file that names pages now by numbers, now by URLs: the numbers that URLs get would be those of other pages.
func (p *parser) one(line int, url bool) error {
	first, other, here, there := &p.numbers, p.names, "number", "URL"
	if url {
		first, other, here, there = &p.names, p.numbers, there, here
	}
	if *first == 0 {
		*first = line
	}
	if other > 0 {
		return fmt.Errorf("a page by its %s, where line %d has one by its %s: name all pages by numbers, or all by URLs", here, other, there)
	}
	return nil
}

func (p *parser) line(n int, s string) error {
	f := strings.Fields(s)
	if len(f) == 0 || strings.HasPrefix(f[0], "#") {
		return nil
	}
	switch {
	case f[0] == "n" && len(f) == 3:
		if err := p.one(n, false); err != nil {
			return err
		}
		i, err := p.number(f[1])
		if err != nil {
			return err
		}
		p.name(i, f[2])
		return nil
	case f[0] == "e" && len(f) == 3:
		f = f[1:]
	case len(f) != 2:
		return fmt.Errorf("%d fields, want two pages", len(f))
	}
	if len(p.from) >= MaxArcs {
		return fmt.Errorf("more than %d links", MaxArcs)
	}
	u, err := p.page(n, f[0])
	if err != nil {
		return err
	}
	v, err := p.page(n, f[1])
	if err != nil {
		return err
	}
	p.from, p.to = append(p.from, u), append(p.to, v)
	return nil
}

// page is a number, or a URL that gets one.
func (p *parser) page(line int, s string) (uint32, error) {
	if !strings.Contains(s, "://") {
		i, err := p.number(s)
		if err != nil {
			return 0, err
		}
		return i, p.one(line, false)
	}
	if err := p.one(line, true); err != nil {
		return 0, err
	}
	if i, ok := p.byURL[s]; ok {
		return i, nil
	}
	i, err := p.number(strconv.Itoa(p.pages))
	if err != nil {
		return 0, err
	}
	p.name(i, s)
	return i, nil
}

func (p *parser) number(s string) (uint32, error) {
	i, err := strconv.ParseUint(s, 10, 32)
	if err != nil || i >= order.MaxPages {
		return 0, fmt.Errorf("page %q is no number below %d and no URL", s, order.MaxPages)
	}
	p.pages = max(p.pages, int(i)+1)
	return uint32(i), nil
}

func (p *parser) name(i uint32, url string) {
	for len(p.urls) <= int(i) {
		p.urls = append(p.urls, "")
	}
	if p.urls[i] == "" {
		p.named++
	}
	if other, ok := p.byURL[url]; ok && other != i {
		p.doubles = append(p.doubles, [2]uint32{other, i})
	}
	p.urls[i] = url
	p.byURL[url] = i
}

func (p *parser) web(name string, c LoadConfig) (Web, error) {
	w := Web{Name: name, Graph: simple(p.pages, p.from, p.to)}
	rng := rand.New(rand.NewPCG(c.Seed, 0x10ad))
	var homes []int
	if p.named == p.pages {
		w.URLs = p.urls
		w.Site, w.Dynamic, homes = byHost(p.urls)
		w.Sites = len(homes)
	} else {
		sizes := siteSizes(rng, p.pages, max(p.pages/c.SitePages, 1), p.pages)
		w.Sites = len(sizes)
		at := 0
		for s, n := range sizes {
			homes = append(homes, at)
			for range n {
				w.Site = append(w.Site, order.Site(s))
			}
			at += n
		}
	}
	w.seed(rng, homes, c.Seeds)
	return w, nil
}

// simple builds a graph without loops and doubles.
func simple(n int, from, to []uint32) order.Graph {
	raw, err := order.NewGraph(n, from, to)
	if err != nil {
		panic(err) // number() has checked every end
	}
	g := order.Graph{Offsets: make([]uint64, 1, n+1), Arcs: raw.Arcs[:0]}
	for p := range n {
		row := raw.Links(order.Page(p))
		slices.Sort(row)
		for i, q := range row {
			if int(q) != p && (i == 0 || q != row[i-1]) {
				g.Arcs = append(g.Arcs, q)
			}
		}
		g.Offsets = append(g.Offsets, uint64(len(g.Arcs)))
	}
	return g
}

// byHost puts pages into sites by the host of their URL. A site's home is its page with the shortest URL.
func byHost(urls []string) (site []order.Site, dynamic []bool, homes []int) {
	byName := map[string]order.Site{}
	for i, u := range urls {
		host := u
		if _, rest, ok := strings.Cut(u, "://"); ok {
			host = rest
		}
		if end := strings.IndexAny(host, "/?#"); end >= 0 {
			host = host[:end]
		}
		host = strings.ToLower(host)
		s, ok := byName[host]
		if !ok {
			s = order.Site(len(homes))
			byName[host] = s
			homes = append(homes, i)
		} else if len(u) < len(urls[homes[s]]) {
			homes[s] = i
		}
		site = append(site, s)
		dynamic = append(dynamic, order.Dynamic(u))
	}
	return site, dynamic, homes
}
