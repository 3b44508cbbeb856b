package pond

import (
	"math"
	"time"
)

// This file holds the latencies. Hosts and nodes lie around a few places of a plane, where distance is a round-trip
// time, and each has an access link. A node's TCP port identifies it, so that a dialler knows both ends from an
// address alone. The port decides the node's place too, unless Settle assigns it one.

type point struct{ x, y, h float64 } // milliseconds

// MinRTT and MaxRTT bound the round-trip time between any two places.
const (
	MinRTT = 2 * time.Millisecond
	MaxRTT = 200 * time.Millisecond
)

const (
	side    = 130.0 // of the plane, ms
	spread  = 4.0   // standard deviation around a place, ms
	minHigh = .7    // access link, ms
	maxHigh = 3.
)

// placeClusters chooses for each place the candidate that lies farthest from the earlier places.
func (w *World) placeClusters() {
	s := stream{w.hash(saltPlace)}
	for range w.cfg.Clusters {
		var best point
		far := -1.0
		for range 10 {
			c := point{x: s.unit() * side, y: s.unit() * side}
			d := math.Inf(1)
			for _, o := range w.clusters {
				d = min(d, math.Hypot(c.x-o.x, c.y-o.y))
			}
			if d > far {
				best, far = c, d
			}
		}
		w.clusters = append(w.clusters, best)
	}
}

func (w *World) placeAt(key uint64) point {
	s := stream{key}
	return s.around(w.clusters[s.intn(len(w.clusters))])
}

// around returns a random point near c.
func (s *stream) around(c point) point {
	r := spread * math.Sqrt(-2*math.Log(1-s.unit()))
	sin, cos := math.Sincos(2 * math.Pi * s.unit())
	return point{c.x + r*cos, c.y + r*sin, minHigh + (maxHigh-minHigh)*s.unit()}
}

func (w *World) hostPos(i int) point { return w.placeAt(w.hash(saltPlace, uint64(i), 1)) }

// nodePos returns the place of the node that listens on a port: the one that Settle assigned, or one derived from the
// port.
func (w *World) nodePos(port int) point {
	w.mu.RLock()
	at, ok := w.settled[port]
	w.mu.RUnlock()
	if ok {
		return at
	}
	return w.placeAt(w.hash(saltNode, uint64(port)))
}

// Settle makes the node that listens on a port the n-th node, so that it is at the same place in every run whatever
// its port. The places take turns: none gets a second node before each has one.
func (w *World) Settle(port, n int) {
	s := stream{w.hash(saltNode, uint64(n), 1)}
	at := s.around(w.clusters[n%len(w.clusters)])
	w.mu.Lock()
	defer w.mu.Unlock()
	w.settled[port] = at
}

func rtt(a, b point) time.Duration {
	ms := math.Hypot(a.x-b.x, a.y-b.y) + a.h + b.h
	return min(max(time.Duration(ms*float64(time.Millisecond)), MinRTT), MaxRTT)
}

// HostRTT returns the round-trip time between a host and the node that listens on a port.
func (w *World) HostRTT(nodePort, host int) time.Duration {
	return rtt(w.nodePos(nodePort), w.hosts[host].pos)
}

// NodeRTT returns the round-trip time between two nodes.
func (w *World) NodeRTT(portA, portB int) time.Duration {
	if portA == portB {
		return MinRTT
	}
	return rtt(w.nodePos(portA), w.nodePos(portB))
}
