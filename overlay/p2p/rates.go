package p2p

import (
	"slices"
	"sync"
	"time"
)

// Rates are what a member costs its router, over the last minutes.
type Rates struct {
	Messages float64 // sent a minute, answers too
	Packets  float64 // a minute, both ways; wire.Node.Packets says what counts as one
	Over     time.Duration
}

const (
	rateEvery = 15 * time.Second // between two readings at least; at rest more
	rateOver  = 5 * time.Minute
)

// rates keeps what the counters stood at.
type rates struct {
	mu   sync.Mutex
	kept []reading
}

type reading struct {
	at                time.Time
	messages, packets int64
}

// rate reads the counters and compares them with those of some minutes ago.
func (r *Runner) rate() Rates {
	in, out := r.cfg.Wire.Packets()
	now := reading{time.Now(), r.sent.Load(), in + out}
	return r.rates.since(now)
}

// since compares a reading with the youngest that is as old as rateOver, or the oldest.
func (r *rates) since(now reading) Rates {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.kept); n == 0 || now.at.Sub(r.kept[n-1].at) >= rateEvery {
		r.kept = append(r.kept, now)
	}
	old := 0
	for old+1 < len(r.kept) && now.at.Sub(r.kept[old+1].at) >= rateOver {
		old++
	}
	r.kept = slices.Delete(r.kept, 0, old)
	first := r.kept[0]
	over := now.at.Sub(first.at)
	if over < time.Second {
		return Rates{}
	}
	return Rates{Messages: float64(now.messages-first.messages) / over.Minutes(), Packets: float64(now.packets-first.packets) / over.Minutes(), Over: over}
}
