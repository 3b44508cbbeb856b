// Package recrawlsim is the experiment on recrawl strategies: section 4 of Xu, Zhang, Zhang, Fang, "Scale-Adaptable Recrawl Strategies
// for DHT-Based Distributed Web Crawling System" (NPC 2010), over many simulated minutes, and sweeps beyond it.
//
// It runs the product's own recrawl.Scheduler and strategies. In mode shoal it also runs the product's peer/queue, channel/lease and the
// overlay's order of placing; in mode paper it models the paper's fire-and-forget crawler, which is nowhere else. Placing knows the
// truth about who is near and alive; gossip is the overlay's own simulation.
//
// Same Config, same Row to the last digit: each purpose has its own random source, churn and hosts do not depend on the strategy.
package recrawlsim

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"shoal/internal/sim"
	"shoal/recrawl"
)

// ErrConfig says that a Config cannot be run.
var ErrConfig = errors.New("sim: bad configuration")

// Config is one run.
type Config struct {
	Case     string // of Cases
	Strategy string // of recrawl.Names
	Rates    string // known or learnt change rates
	Mode     string // paper or shoal
	Weights  string // equal, rank or pages: what a channel counts for the strategy
	Seed     uint64
	Steps    int     // minutes; 0: the case's own
	Cap      float64 // upper limit of a channel's recrawl rate, times its change rate; 0: none
	Out      int     // tasks that a channel may have out; 0: any number
	Params   recrawl.Params
	Points   []sim.Point // latency embedding; nil: synthetic, from Seed

	Managers int       // that share the channels and the swarm, mode shoal only; 0: one
	Quotas   bool      // they move quotas between them; else each asks for what it thinks right
	Apart    bool      // a channel's tasks in turn go to different crawlers where another one is about as near, mode shoal only
	Channels int       // 0: the case's own, kept in proportion by groups
	Crawlers int       // 0: the case's own
	Load     float64   // change rates are multiplied by it; 0: 1
	Churn    sim.Churn // zero: the paper's
	Pages    float64   // mean pages of a channel; 0: 8738
	Changes  []History // real change histories to replay; nil: Poisson processes
	Scale    *Scale    // a swarm of another kind, mode shoal only; nil: the paper's
}

// Move is a peer that comes, or goes: with a word, or without one.
type Move struct {
	Step   int
	Peer   int32
	Polite bool
}

// Scale describes a small and fast swarm, such as one on loopback, in steps that stand for any length of time.
type Scale struct {
	Step         time.Duration // length of a step; zero: a minute
	Tau          []float64     // change intervals by group, fastest first
	Groups       []int         // channels by group
	Threads      int           // of a peer
	Queue        int
	Gap          float64 // politeness wait before each page
	Page         float64 // what a page costs beside it
	Assumed      float64 // what peers take a page for until they have learnt it; 0: what it costs
	Pages        int     // of every channel
	Start        float64 // what a task costs beside its pages: claim, robots.txt, report
	Term         float64 // of a lease
	Slack        float64 // added to the wait for a claim; 0: lease.Default's
	Backoff      float64 // after a handing-out that came to nothing
	MaxBackoff   float64 // after several; 0: ten times as long
	Checkpoint   float64 // between two chunks
	Room         bool    // the manager hands out no more than threads and a fifth of the queues hold
	WaitLimitMin float64 // a task may wait at least so long
	// Prior is the estimate for a channel that was never crawled, as all are at first; groups are given, rates
	// learnt. The zero Estimate: as Rates says.
	Prior    recrawl.Estimate
	MinTicks int // between two tasks of a channel

	// Sites are the channels one by one, instead of Groups, Pages and Gap; all of them are unknown at first, their groups too. RTT then is the round-trip
	// time between each site and each peer, in steps. A site's pages are fetched one after the other, so that its copy is half as old as the crawl
	// took when that ends.
	Sites []Site
	RTT   [][]float32
	// Claims is what each peer's tasks cost beside Start: the claim and the report take a round trip to the manager each. nil: nothing. Until step Come nobody is there.
	Claims []float32
	Come   int
	// Links are the sites that each site's pages link to, one for each URL: a manager knows of a site that was never crawled how many of its URLs crawled sites link
	// to. nil: how many pages it has.
	Links [][]int32
	// Shows is what a page of a site shows at a step: two numbers differ if the contents do. nil: a site changes by a Poisson process of its group's interval,
	// and not page by page.
	Shows func(site, page int, step float64) uint64
	// Moves are when peers come and go, in their order, each peer in turn the one and the other; nil: all come at the start, and then as Churn says.
	Moves []Move
	// Keeps has a peer that was killed go on with its tasks when it is there again, as peers do that start in the same folder.
	Keeps bool
	// Late sites, the last ones, become channels at step Burst only, all at once; 0: all are there from the start.
	Late, Burst int
}

// Site is a channel of a Scale.
type Site struct {
	Group  int // of Scale.Tau
	Pages  int
	Gap    float64 // politeness wait before each page, in steps
	Weight float64 // importance that an operator gives it; 0: 1
}

// importance is its weight, as a manager takes it.
func (s *Site) importance() float64 { return cmp.Or(s.Weight, 1) }

// check names what is wrong with a Scale.
func (s *Scale) check(crawlers int) error {
	groups := s.Groups
	if s.Sites != nil {
		groups = s.siteGroups()
	}
	if len(s.Tau) == 0 || len(s.Tau) != len(groups) || s.Threads < 1 || s.Queue < 0 || !(s.Gap+s.Page > 0) || s.Pages < 1 && s.Sites == nil || !(s.Term > 0) || !(s.Checkpoint > 0) {
		return fmt.Errorf("%w: scale %+v", ErrConfig, *s)
	}
	if len(s.RTT) != len(s.Sites) {
		return fmt.Errorf("%w: scale of %d sites with the distances of %d", ErrConfig, len(s.Sites), len(s.RTT))
	}
	if s.Late < 0 || s.Late > 0 && s.Late >= len(s.Sites) || s.Burst < 0 {
		return fmt.Errorf("%w: scale of %d sites, of which %d come at step %d", ErrConfig, len(s.Sites), s.Late, s.Burst)
	}
	for i, v := range s.Sites {
		if v.Group < 0 || v.Group >= len(s.Tau) || v.Pages < 1 || !(v.Gap >= 0) || !(v.Weight >= 0) || math.IsInf(v.Weight, 0) || len(s.RTT[i]) != crawlers {
			return fmt.Errorf("%w: site %d of the scale: %+v, distances to %d of %d peers", ErrConfig, i, v, len(s.RTT[i]), crawlers)
		}
	}
	return nil
}

// siteGroups counts the sites by group.
func (s *Scale) siteGroups() []int {
	n := make([]int, len(s.Tau))
	for _, v := range s.Sites {
		if v.Group >= 0 && v.Group < len(n) {
			n[v.Group]++
		}
	}
	return n
}

// experiment is what a case stands for.
type experiment struct {
	name     string
	groups   []int     // channels by group, fastest first
	tau      []float64 // change intervals by group, minutes
	crawlers int
	steps    int
	outage   [2]int // minutes between which most crawlers stay away; 0, 0: never
	copies   int    // crawlers at each crawler point
}

var (
	recGroups = []int{543, 3954, 7149, 3816, 538}
	rucGroups = []int{546, 3850, 7256, 3763, 585}
)

var experiments = []experiment{
	{name: "rec", groups: recGroups, tau: []float64{60, 120, 240, 480, 960}, crawlers: 1400, steps: 100_000, copies: 10},
	{name: "ruc", groups: rucGroups, tau: []float64{120, 240, 480, 960, 1920}, crawlers: 2800, steps: 100_000, copies: 20},
	{name: "ruc-literal", groups: rucGroups, tau: []float64{60, 120, 240, 480, 960}, crawlers: 2800, steps: 100_000, copies: 20},
	{name: "shock", groups: rucGroups, tau: []float64{120, 240, 480, 960, 1920}, crawlers: 2800, steps: 60_000, copies: 20, outage: [2]int{20_000, 40_000}},
}

// Cases are the names of the cases.
func Cases() []string {
	var names []string
	for _, e := range experiments {
		names = append(names, e.name)
	}
	return names
}

func findCase(name string) (experiment, bool) {
	for _, e := range experiments {
		if e.name == name {
			return e, true
		}
	}
	return experiment{}, false
}

// Limits of what a run may ask for.
const (
	MaxSteps    = 10_000_000
	MaxChannels = 20_000_000
	MaxCrawlers = 1_000_000
	MaxManagers = 64
	meanPages   = sim.MeanPages
	maxPages    = sim.MaxPages
)

// Validate names the first bad field.
func (c Config) Validate() error {
	one := func(what, got string, want ...string) error {
		if slices.Contains(want, got) {
			return nil
		}
		return fmt.Errorf("%w: unknown %s %q: want one of %s", ErrConfig, what, got, strings.Join(want, ", "))
	}
	number := func(what string, v, lo, hi float64) error {
		if v >= lo && v <= hi {
			return nil
		}
		return fmt.Errorf("%w: %s %v: want %v to %s", ErrConfig, what, v, lo, thousands(hi))
	}
	if err := errors.Join(
		one("case", c.Case, Cases()...), one("rates", c.Rates, "known", "learnt"), one("mode", c.Mode, "paper", "shoal"),
		one("weights", c.Weights, "equal", "rank", "pages"), one("strategy", c.Strategy, recrawl.Names()...),
		number("steps", float64(c.Steps), 0, MaxSteps), number("cap", c.Cap, 0, 1e6), number("out", float64(c.Out), 0, 255),
		number("channels", float64(c.Channels), 0, MaxChannels), number("crawlers", float64(c.Crawlers), 0, MaxCrawlers),
		number("load", c.Load, 0, 1000), number("pages", c.Pages, 0, maxPages), number("life", c.Churn.Life, 0, 1e9),
		number("life spread", c.Churn.LifeSpread, 0, 1e9), number("gap", c.Churn.Gap, 0, 1e9), number("gap spread", c.Churn.GapSpread, 0, 1e9),
		number("polite share", c.Churn.Polite, 0, 1),
	); err != nil {
		return err
	}
	if c.Scale != nil {
		if c.Mode != "shoal" {
			return fmt.Errorf("%w: a scale is for mode shoal, not %s", ErrConfig, c.Mode)
		}
		if err := c.Scale.check(c.scaled().crawlers); err != nil {
			return err
		}
	}
	if c.Managers > MaxManagers || c.Managers < 0 || c.Managers > 1 && (c.Mode != "shoal" || c.Scale != nil) {
		return fmt.Errorf("%w: %d managers in mode %s: want up to %d, mode shoal and no other scale", ErrConfig, c.Managers, c.Mode, MaxManagers)
	}
	if c.Mode == "shoal" && c.Out > 1 {
		return fmt.Errorf("%w: out %d: in mode shoal a channel has at most one task out", ErrConfig, c.Out)
	}
	if c.Apart && (c.Mode != "shoal" || c.Scale != nil) {
		return fmt.Errorf("%w: tasks in turn apart in mode %s: want mode shoal and no other scale", ErrConfig, c.Mode)
	}
	if math.IsNaN(c.Cap) {
		return fmt.Errorf("%w: cap is no number", ErrConfig)
	}
	return c.Params.Validate()
}

// scaled is the case with the Config's own numbers of things put in.
func (c Config) scaled() experiment {
	e, _ := findCase(c.Case)
	if c.Steps > 0 {
		e.steps = c.Steps
	}
	e.tau = slices.Clone(e.tau)
	if c.Scale != nil {
		e.tau, e.groups = slices.Clone(c.Scale.Tau), c.Scale.Groups
		if c.Scale.Sites != nil {
			e.groups = c.Scale.siteGroups()
		}
	}
	if c.Load > 0 {
		for i := range e.tau {
			e.tau[i] /= c.Load
		}
	}
	if c.Channels > 0 {
		groups := make([]int, len(e.groups))
		total, left := 0, c.Channels
		for _, n := range e.groups {
			total += n
		}
		for i, n := range e.groups {
			groups[i] = int(int64(n) * int64(c.Channels) / int64(total))
			left -= groups[i]
		}
		groups[len(groups)/2] += left
		e.groups = groups
	}
	if c.Crawlers > 0 {
		e.crawlers = c.Crawlers
	}
	return e
}
