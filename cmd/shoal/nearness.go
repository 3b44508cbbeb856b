package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"shoal/internal/lab/pond"
	"shoal/overlay"
)

// nearness compares where tasks landed with where a random peer and the nearest of all would have been, by the pond's true round-trip times.
type nearness struct {
	mu                      sync.Mutex
	chosen, random, nearest time.Duration
	n                       int64
}

func (n *nearness) placed(w *swimmers) func(string, overlay.Placed) {
	return func(host string, p overlay.Placed) {
		world := w.pond.World()
		i, ok := world.Host(strings.TrimPrefix(strings.TrimPrefix(host, "https://"), "http://"))
		w.mu.Lock()
		defer w.mu.Unlock()
		port, known := w.ports[string(p.Peer)]
		if !ok || !known {
			return
		}
		all, nearest := time.Duration(0), pond.MaxRTT
		for _, q := range w.ports {
			d := world.HostRTT(q, i)
			all, nearest = all+d, min(nearest, d)
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		n.chosen += world.HostRTT(port, i)
		n.random += all / time.Duration(len(w.ports))
		n.nearest += nearest
		n.n++
	}
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
