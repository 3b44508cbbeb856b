// Package coords places peers and Web hosts in Vivaldi network coordinates, so that the round-trip time between two of them can be
// predicted without measuring it. It guards hashicorp/serf/coordinate against lying neighbours and fits a coordinate to a Web host,
// which runs none of our code, from the round-trip times that several peers measured to it.
//
// It is pure: no clock, no global randomness, no goroutines. It is not for choosing peers; package overlay does that.
package coords

import "time"

// Dims is the dimension of the Euclidean part of a coordinate.
const Dims = 8

// Coord is a network coordinate. All lengths are milliseconds of round-trip time.
type Coord struct {
	Vec    [Dims]float64 `json:"coordinates_ms"`
	Height float64       `json:"height_ms"` // access-link delay, never negative
	Adjust float64       `json:"adjust_ms"` // local adjustment term of Vivaldi
	Err    float64       `json:"error"`     // confidence: 0.05 (sure) to 1.5 (a stranger)
}

// Sample is one measured round-trip time from a peer to a Web host, with the coordinate that the peer had then.
type Sample struct {
	Vantage string // peer id of the vantage point
	At      Coord  // its coordinate when it measured
	RTT     time.Duration
	When    int64 // Unix seconds
}

// MaxSamples bounds HostRecord.Samples.
const MaxSamples = 32

// MaxBest bounds HostRecord.Best.
const MaxBest = 8

// HostRecord is what is known of where a Web host is. Samples are stored, not a fitted coordinate: a stored coordinate ages within
// an hour as the peers' coordinates drift, re-solving from samples does not.
type HostRecord struct {
	Samples []Sample
	Best    []string // peer ids of the nearest vantage points, nearest first
	Anycast bool     // near from everywhere (a CDN): place by load only
}
