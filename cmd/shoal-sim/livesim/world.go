package livesim

import (
	"fmt"
	"math"
	"time"

	"shoal/internal/lab/pond"
)

// What a crawl costs in the pond beside its waits, about, where no run has told.
const (
	pageCost  = 5 * time.Millisecond   // beside wait and round trip: transfer, and the peer's own work
	taskStart = 100 * time.Millisecond // beside its pages: the claim, robots.txt, the report
	usualRTT  = 15 * time.Millisecond  // of a peer that a task lands at, for the need
	sitePages = 12
	smallSite = 3
	largest   = 64 // pages of a site: as many as a channel's first task may fetch
)

// cell is one run.
type cell struct {
	Strategy       string
	Load           float64
	Churn          bool
	Scene          string
	Seed           uint64
	Minutes        float64
	Cap            float64 // of strategies
	Alike          int     // forecasts beside the first one
	Weights        string  // that strategies look at
	Peers, Threads int
}

func (c *cell) name() string {
	s := fmt.Sprintf("%s, load %v, seed %d", c.Strategy, c.Load, c.Seed)
	if c.Churn {
		s += ", churn"
	}
	if c.Scene != "none" {
		s += ", " + c.Scene
	}
	return s
}

// world is the pond of a cell, with as many hosts as come nearest to its load. The same seed, load and peers make the same hosts.
func (c *cell) world(start time.Time, ports []int) (best *pond.World, err error) {
	off, hosts, tried := math.Inf(1), 4, map[int]bool{}
	for range worldTries {
		for tried[hosts] {
			hosts++
		}
		tried[hosts] = true
		w, err := pond.NewWorld(c.pond(hosts, start, ports))
		if err != nil {
			return nil, err
		}
		ratio := float64(c.Peers*c.Threads) / (c.Load * need(w))
		if d := math.Abs(math.Log(ratio)); d < off {
			best, off = w, d
		}
		hosts = max(int(math.Round(float64(hosts)*ratio)), 4)
	}
	return best, nil
}

const worldTries = 24 // sizes are dealt anew for each number of hosts, so that no number may be exact

func (c *cell) pond(hosts int, start time.Time, ports []int) pond.Config {
	mean := sitePages
	if c.Scene == "small" {
		mean = smallSite
	}
	return pond.Config{Seed: c.Seed, Hosts: hosts, Pages: hosts * mean, MaxHost: largest, Start: start, Nodes: ports}
}

// service is about how long a crawl of a host takes.
func service(h *pond.Host, c costs) time.Duration {
	return seconds(c.task) + time.Duration(h.Pages)*(max(pond.Gap, h.CrawlDelay)+seconds(c.page)+usualRTT)
}

// need is how many threads it takes to crawl every host once in the mean time between its changes.
func need(w *pond.World) (threads float64) {
	for i := range w.Hosts() {
		h := &w.Hosts()[i]
		threads += service(h, usualCosts).Seconds() / h.Interval.Seconds()
	}
	return threads
}

// firstPass is the least time in which the threads can crawl each of some hosts once, in seconds, where a page and a task cost so much.
func (c *cell) firstPass(hosts []pond.Host, cost costs) float64 {
	sum, most := 0., 0.
	for i := range hosts {
		s := service(&hosts[i], cost).Seconds()
		sum, most = sum+s, max(most, s)
	}
	return max(sum/float64(c.Peers*c.Threads), most)
}
