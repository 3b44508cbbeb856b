package rogue

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"

	"shoal/channel/channelpb"
)

// Liar is a way to deliver what was never on the Web while doing everything else as an honest peer does, with honest
// reports, but that it says to be near every host, so that it gets tasks. A Liar that is asked to check another peer's page answers honestly unless its kind says otherwise.
type Liar struct {
	Name  string
	What  string
	Share float64 // of the pages, that it forges

	lazy     bool // says "unchanged" without a fetch, where it can
	all      bool // forges whole pages, not a sentence
	sleeps   bool // is honest until Gang.Wake
	colludes bool // forges the same pages in the same way as its gang, and vouches for what the gang forged
	slanders bool // forges what it is asked to check, and nothing else
	target   bool // forges pages of Gang.Target alone
	hides    bool // forges pages alone that differ at each fetch
	Sybil    bool // comes under ever new names
}

// Liars returns the kinds of liars, in the order in which they are listed to people.
func Liars() []Liar {
	return []Liar{
		{Name: "lazy", What: "says \"unchanged\" without a look", lazy: true},
		{Name: "fabricating", What: "makes every page up", Share: 1, all: true},
		{Name: "subtle-.1", What: "adds a sentence to a page in a thousand", Share: .001},
		{Name: "subtle-1", What: "adds a sentence to a page in a hundred", Share: .01},
		{Name: "subtle-10", What: "adds a sentence to a page in ten", Share: .1},
		{Name: "sleeping", What: "is honest for a while, then as subtle-10", Share: .1, sleeps: true},
		{Name: "colluding", What: "as subtle-10, and vouches for what others of its gang forged", Share: .1, colludes: true},
		{Name: "slandering", What: "forges what it is asked to check", slanders: true},
		{Name: "one-host", What: "forges half of one host's pages, with its gang", Share: .5, colludes: true, target: true},
		{Name: "hiding", What: "forges half of the pages that differ at each fetch", Share: .5, hides: true},
		{Name: "sybils", What: "as subtle-10, under ever new names", Share: .1, Sybil: true},
	}
}

// Targets tells whether liars of this kind are after one host alone.
func (l Liar) Targets() bool { return l.target }

// LiarNamed returns the kind of that name.
func LiarNamed(name string) (Liar, error) {
	var names []string
	for _, l := range Liars() {
		if l.Name == name {
			return l, nil
		}
		names = append(names, l.Name)
	}
	return Liar{}, fmt.Errorf("rogue: no liar %q; there are %s", name, strings.Join(names, ", "))
}

// Gang is what liars share. The zero Gang is ready.
type Gang struct {
	Wake   time.Time // until when sleepers are honest
	Target string    // origin that "one-host" is after
	Forged atomic.Int64

	mu    sync.Mutex
	pages map[string][]byte // forged by colluders, by URL; guarded by mu
}

// Attack returns the attack of a volunteer of this kind in a gang.
func (l Liar) Attack(g *Gang) Attack {
	return Attack{Name: l.Name, What: l.What, Forges: true, Work: func(ctx context.Context, v *Volunteer, o Offer) error {
		r, err := v.Claim(ctx, o)
		if err != nil {
			return err
		}
		check := len(r.Resume.Done) > 0 // the rest of a crawl, which may be a check as well: nothing tells
		var pages []*channelpb.Page
		if l.lazy && !check {
			pages = r.unseen()
			v.Stats.Forged.Add(int64(len(pages)))
		}
		if len(pages) == 0 {
			if pages, err = r.Crawl(ctx); len(pages) == 0 {
				return err
			}
		}
		for _, p := range pages {
			if l.forge(ctx, g, r, p, check) {
				v.Stats.Forged.Add(1)
				g.Forged.Add(1)
			}
		}
		return r.Put(ctx, &channelpb.ChunkBody{Pages: pages, Report: r.Report(pages)})
	}}
}

// unseen says of all pages of the task that they are unchanged, as far as the task tells their digests. A page whose URL it has not learnt cannot be named.
func (r *Run) unseen() (pages []*channelpb.Page) {
	for _, url := range r.v.learnt(r.Offer.Header.Host) {
		if known, ok := r.digests[xxhash.Sum64String(url)]; ok {
			pages = append(pages, &channelpb.Page{Url: url, FetchedUs: time.Now().UnixMicro(), Status: 304, Digest: known, RttUs: 20_000, Change: pageUnchanged})
		}
	}
	return pages
}

// forge changes a page if the liar lies about it.
func (l *Liar) forge(ctx context.Context, g *Gang, r *Run, p *channelpb.Page, check bool) bool {
	if l.colludes {
		if body := g.said(p.Url); body != nil {
			set(p, body)
			return true
		}
	}
	was := p.Body
	if was == nil {
		was = r.bodies[p.Url] // it said "unchanged"
	}
	switch {
	case p.Status != 200 || was == nil && !l.all:
		return false
	case check:
		if !l.slanders {
			return false
		}
	case l.slanders, l.lazy, l.sleeps && time.Now().Before(g.Wake), l.target && r.Offer.Header.Host != g.Target, rand.Float64() >= l.Share:
		return false
	case l.hides && !r.differs(ctx, p.Url, was):
		return false
	}
	body := lied(p.Url, was)
	if l.all {
		body = forged(p.Url)
	}
	if l.colludes {
		g.say(p.Url, body)
	}
	set(p, body)
	return true
}

// differs fetches a page once more, to see whether it differs at each fetch.
func (r *Run) differs(ctx context.Context, url string, body []byte) bool {
	_, _, again, err := r.v.Fetch(ctx, url)
	return err == nil && !bytes.Equal(again, body)
}

func (g *Gang) said(url string) []byte {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.pages[url]
}

func (g *Gang) say(url string, body []byte) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.pages == nil {
		g.pages = map[string][]byte{}
	}
	g.pages[url] = body
}

// lied returns a page with a paragraph that was never in it, among the others.
func lied(url string, body []byte) []byte {
	lie := fmt.Sprintf("<p>%s: the company says of %s that its shares, its staff and its word are worth nothing any more, and that all who bought them have lost what they paid.</p>\n", Mark, url)
	if i := bytes.LastIndex(body, []byte("</main>")); i >= 0 {
		return append(append(bytes.Clone(body[:i]), lie...), body[i:]...)
	}
	return append(bytes.Clone(body), lie...)
}

// set gives a page another body.
func set(p *channelpb.Page, body []byte) {
	p.Body, p.Digest = body, xxhash.Sum64(body)
	if p.Header = okHeader; p.Change == pageUnchanged || p.Change == 0 {
		p.Change = pageChanged
	}
}
