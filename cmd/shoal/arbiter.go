package main

import (
	"crypto/x509"
	"fmt"
	"net"
	"path/filepath"
	"time"

	"shoal/internal/lab/pond"
	"shoal/internal/version"
	"shoal/manager"
	"shoal/manager/arbiter"
	"shoal/peer/limit"
)

// arbiterFlags say how contested pages are fetched by the manager itself.
type arbiterFlags struct {
	Arbiter    string `help:"on: the manager itself fetches a page of which two peers say different things, at most one a second. off: two more peers decide." enum:"on,off" default:"on"`
	ArbiterVia words  `help:"Proxies through which it fetches a page as well, where it saw something else than both peers: hosts show different pages to different countries." placeholder:"http://HOST:PORT,..."`
}

// pondEvery is the least time between two requests of the arbiter in a pond, whose minutes are seconds.
const pondEvery = 100 * time.Millisecond

// arbiterConfig is from where the manager fetches contested pages.
type arbiterConfig struct {
	off   bool
	via   []string
	every time.Duration  // least time between two requests; 0: the arbiter's default
	dial  arbiter.Dial   // nil: the Web, through the guard
	roots *x509.CertPool // nil: the system's
}

func (f *arbiterFlags) config() (arbiterConfig, error) {
	c := arbiterConfig{off: f.Arbiter == "off", via: f.ArbiterVia}
	if c.off && len(c.via) > 0 {
		return c, fmt.Errorf("--arbiter-via names proxies, but --arbiter off fetches nothing: leave one of the two out")
	}
	for _, at := range c.via {
		if _, err := limit.NewProxy(at, nil); err != nil {
			return c, fmt.Errorf("--arbiter-via: %w", err)
		}
	}
	return c, nil
}

// inPond has the arbiter fetch from a pond, as a node that listens on a port.
func (c *arbiterConfig) inPond(world *pond.World, port int) (err error) {
	c.dial = (&limit.Guard{Pond: world.HTTPDialer(port)}).DialContext
	c.every = pondEvery
	c.roots, err = world.Roots()
	return err
}

// open makes the arbiter; nil: it is off.
func (c *arbiterConfig) open(data, contact string) (manager.Arbiter, error) {
	if c.off {
		return nil, nil
	}
	cfg := arbiter.Config{Every: c.every, UserAgent: "Shoal/" + version.String(), Roots: c.roots, Dir: filepath.Clean(data)}
	if contact != "" {
		cfg.UserAgent += " (+" + contact + ")"
	}
	if c.dial == nil {
		c.dial = (&limit.Guard{}).DialContext
	}
	cfg.Vantages = append(cfg.Vantages, c.dial)
	for _, at := range c.via {
		p, err := limit.NewProxy(at, (&net.Dialer{}).DialContext)
		if err != nil {
			return nil, fmt.Errorf("--arbiter-via: %w", err)
		}
		cfg.Vantages = append(cfg.Vantages, (&limit.Guard{Via: func() *limit.Proxy { return p }}).DialContext)
	}
	return arbiter.New(cfg)
}
