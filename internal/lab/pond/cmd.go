package pond

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Cmd is `shoal pond`: a pond by itself, for any crawler.
type Cmd struct {
	Listen   string            `help:"Address to listen on." default:"127.0.0.1:7790" placeholder:"ADDR"`
	Seed     uint64            `help:"Seed; the same seed is the same Web." default:"1"`
	Hosts    int               `help:"Virtual hosts." default:"200"`
	Pages    int               `help:"Pages of all hosts together." default:"20000"`
	MaxHost  int               `help:"Pages of the largest host; 0: 2,000, or more where the pages need it." placeholder:"N"`
	Sizes    []int             `help:"Pages of each host in turn, instead of --hosts, --pages and --max-host." placeholder:"N"`
	Links    int               `help:"Links of an ordinary page." default:"20"`
	Bytes    int               `help:"Mean bytes of a page." default:"8000"`
	Static   bool              `help:"Nothing ever changes."`
	Plain    bool              `help:"No robots.txt, crawl-delay or sitemap anywhere."`
	Start    time.Time         `help:"When the pond's time began (RFC 3339), to go on where an earlier one stopped; default: now." placeholder:"TIME"`
	Nodes    []int             `help:"Ports of nodes, a manager or peers, that are at the same places in every run whatever their ports; others' places hang on their ports." placeholder:"PORT"`
	Bad      map[string]string `help:"Misbehaviour by host, as site-0003.pond.test=gzip-bomb; a bare number is a host too." placeholder:"HOST=MODE"`
	BadShare float64           `help:"Share of hosts that misbehave, each in its own way." placeholder:"0..1"`
	Modes    bool              `help:"List the misbehaviours and end."`
	JSON     bool              `name:"json" help:"Print the statistics as one JSON object at the end."`
}

// Run serves until ctx is done.
func (c *Cmd) Run(ctx context.Context, out, errw io.Writer) error {
	if c.Modes {
		for _, m := range Modes() {
			if _, err := fmt.Fprintln(out, m); err != nil {
				return err
			}
		}
		return nil
	}
	if c.Hosts < 1 || c.Pages < 1 {
		return fmt.Errorf("pond: --hosts %d, --pages %d: want 1 or more of each", c.Hosts, c.Pages)
	}
	cfg := Config{Seed: c.Seed, Hosts: c.Hosts, Pages: c.Pages, MaxHost: c.MaxHost, Sizes: c.Sizes, Links: c.Links, Bytes: c.Bytes, Static: c.Static,
		Plain: c.Plain, Start: c.Start, Nodes: c.Nodes, BadShare: c.BadShare, Bad: map[string]Mode{}}
	for h, m := range c.Bad {
		if !strings.HasSuffix(h, Suffix) {
			n, err := strconv.Atoi(h)
			if err != nil {
				return fmt.Errorf("%w: %q: say a number or a whole name such as site-0003%s", ErrNoHost, h, Suffix)
			}
			h = hostName(n)
		}
		cfg.Bad[h] = Mode(m)
	}
	w, err := NewWorld(cfg)
	if err != nil {
		return err
	}
	s, err := NewServer(w, c.Listen, nil)
	if err != nil {
		return err
	}
	largest := slices.MaxFunc(w.Hosts(), func(a, b Host) int { return a.Pages - b.Pages })
	fmt.Fprintf(errw, "pond: %d hosts, %d pages at %s until ctrl-C\n", len(w.Hosts()), w.cfg.Pages, s.Addr())
	fmt.Fprintf(errw, "  try:   curl --proxy http://%s http://%s/\n", s.Addr(), largest.Name)
	fmt.Fprintf(errw, "  about: http://%s/_pond/world  /_pond/hosts  /_pond/stats  /_pond/served?since=N  /_pond/page?url=URL&at=TIME  /_pond/ca (signs for https)\n", s.Addr())
	if err := s.Run(ctx); err != nil {
		return err
	}
	st := s.Stats()
	if c.JSON {
		b, err := json.Marshal(st)
		if err != nil {
			return fmt.Errorf("pond: statistics: %w", err)
		}
		_, err = fmt.Fprintf(out, "%s\n", b)
		return err
	}
	fmt.Fprintf(errw, "pond: %d requests, %d pages (%d not modified), %d violations, at most %d in flight to a host\n",
		st.Requests, st.Pages, st.NotModified, st.Violated, st.MaxInFlight)
	return nil
}
