package crawl

import (
	"sync"
	"time"

	"shoal/peer/crawl/robots"
)

// Robots keeps the rules of hosts' robots.txt from one crawl to the next, for as long as RFC 9309 allows (section 2.4). It does not keep
// failures: those hosts are asked again. It is safe for concurrent use.
type Robots struct {
	mu   sync.Mutex
	kept map[string]said // by origin
}

type said struct {
	rules   *robots.Rules
	verdict string
	product string
	at      time.Time
}

// Bounds of Robots.
const (
	maxRobots      = 1000     // origins
	maxRobotsBytes = 16 << 10 // longest file whose rules are kept
)

// NewRobots returns an empty Robots.
func NewRobots() *Robots { return &Robots{kept: map[string]said{}} }

func (c *Robots) get(origin, product string, now time.Time) (said, bool) {
	if c == nil {
		return said{}, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.kept[origin]
	return s, ok && s.product == product && aged(s.at, now) < robotsLife
}

// aged is how much time lies between two readings of the clock. While a computer sleeps the monotonic one may stand still, so that the other one counts if it says more.
func aged(from, to time.Time) time.Duration {
	return max(to.Sub(from), to.Round(0).Sub(from.Round(0)))
}

func (c *Robots) put(origin string, s said, bytes int) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.kept, origin)
	if bytes > maxRobotsBytes {
		return
	}
	if len(c.kept) >= maxRobots { // drop an expired entry, or else any
		for o, old := range c.kept {
			if delete(c.kept, o); aged(old.at, s.at) < robotsLife {
				break
			}
		}
	}
	c.kept[origin] = s
}
