package main

import (
	"sync"
	"time"
)

// speed is what the sockets carried lately.
type speed struct {
	Down  float64 `json:"down_bytes_per_s"`
	Up    float64 `json:"up_bytes_per_s"`
	OverS float64 `json:"over_s"` // seconds that it is the mean of
}

// speedOver is how many readings, a second apart, a speed is the mean of.
const speedOver = 10

// speedLately is the same for a peer that fetches nothing.
const speedLately = 2

// speeds keep the last readings of a meter.
type speeds struct {
	mu   sync.Mutex
	read []reading // the oldest first
}

type reading struct {
	at             time.Time
	received, sent int64
}

// note takes a reading.
func (s *speeds) note(at time.Time, received, sent int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.read) > speedOver {
		s.read = append(s.read[:0], s.read[1:]...)
	}
	s.read = append(s.read, reading{at, received, sent})
}

func (s *speeds) last() speed { return s.over(speedOver) }

// lately is what was carried in the last seconds, for a peer that rests: a longer mean would still show what came before the rest.
func (s *speeds) lately() speed { return s.over(speedLately) }

func (s *speeds) over(readings int) speed {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.read) < 2 {
		return speed{}
	}
	a, b := s.read[max(0, len(s.read)-1-readings)], s.read[len(s.read)-1]
	over := b.at.Sub(a.at).Seconds()
	if over <= 0 {
		return speed{}
	}
	return speed{Down: float64(b.received-a.received) / over, Up: float64(b.sent-a.sent) / over, OverS: over}
}
