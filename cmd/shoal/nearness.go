package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"shoal/internal/lab/pond"
	"shoal/overlay"
)

// nearness compares where tasks landed with where a random peer and the nearest of all would have been, by the pond's true round-trip times.
type nearness struct {
	mu                      sync.Mutex
	chosen, random, nearest time.Duration
	n                       int64
}

// placed is called for every task that a peer accepted. ports tells the peers' ports by id, by which the pond knows where they are; it is not called
// twice at a time.
func (n *nearness) placed(world *pond.World, ports func() map[string]int) func(string, overlay.Placed) {
	return func(host string, p overlay.Placed) {
		i, ok := world.Host(strings.TrimPrefix(strings.TrimPrefix(host, "https://"), "http://"))
		n.mu.Lock()
		defer n.mu.Unlock()
		all := ports()
		port, known := all[string(p.Peer)]
		if !ok || !known {
			return
		}
		sum, nearest := time.Duration(0), pond.MaxRTT
		for _, q := range all {
			d := world.HostRTT(q, i)
			sum, nearest = sum+d, min(nearest, d)
		}
		n.chosen += world.HostRTT(port, i)
		n.random += sum / time.Duration(len(all))
		n.nearest += nearest
		n.n++
	}
}

// portsOf are the ports of the peers in a view.
func portsOf(v *overlay.View) map[string]int {
	ports := map[string]int{}
	for i := range v.Peers {
		if p := &v.Peers[i]; p.Load.Threads > 0 {
			if port := tcpPort(p.Addrs); port != 0 {
				ports[string(p.ID)] = port
			}
		}
	}
	return ports
}

// register exports the sums.
func (n *nearness) register(reg *prometheus.Registry) error {
	locked := func(of func() float64) func() float64 {
		return func() float64 {
			n.mu.Lock()
			defer n.mu.Unlock()
			return of()
		}
	}
	all := []prometheus.Collector{prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "shoal_pond_placed_total", Help: "Tasks that a peer accepted."},
		locked(func() float64 { return float64(n.n) }))}
	for who, of := range map[string]*time.Duration{"chosen": &n.chosen, "nearest": &n.nearest, "random": &n.random} {
		all = append(all, prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "shoal_pond_placed_rtt_seconds_total",
			Help: "Round-trip times of these tasks' peers to their hosts.", ConstLabels: prometheus.Labels{"peer": who}}, locked(func() float64 { return of.Seconds() })))
	}
	for _, c := range all {
		if err := reg.Register(c); err != nil {
			return fmt.Errorf("metrics: %w", err)
		}
	}
	return nil
}

func (n *nearness) fill(s *summary) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.n == 0 {
		return
	}
	nearest := round1(n.mean(n.nearest))
	s.RTTChosenMS, s.RTTRandomMS, s.RTTNearestMS = round1(n.mean(n.chosen)), round1(n.mean(n.random)), &nearest
}

// mean is that of all tasks, in milliseconds.
func (n *nearness) mean(sum time.Duration) float64 {
	return float64(sum) / float64(n.n) / float64(time.Millisecond)
}

// tell says it in a line; nothing where no task was placed.
func (n *nearness) tell(w io.Writer) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.n > 0 {
		fmt.Fprintf(w, "Round trip from a task's peer to its host: %.0f ms on average; from the nearest of all peers it would be %.0f, from one at random %.0f.\n",
			n.mean(n.chosen), n.mean(n.nearest), n.mean(n.random))
	}
}

func round1(f float64) float64 {
	v, _ := strconv.ParseFloat(strconv.FormatFloat(f, 'f', 1, 64), 64)
	return v
}
