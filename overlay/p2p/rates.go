package p2p

import (
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
	rateEvery = 15 * time.Second
	rateKept  = 20 // of them: five minutes
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
	r.rates.mu.Lock()
	defer r.rates.mu.Unlock()
	k := &r.rates.kept
	if n := len(*k); n == 0 || now.at.Sub((*k)[n-1].at) >= rateEvery {
		*k = append(*k, now)
		if len(*k) > rateKept {
			*k = append([]reading(nil), (*k)[1:]...)
		}
	}
	first := (*k)[0]
	over := now.at.Sub(first.at)
	if over < time.Second {
		return Rates{}
	}
	return Rates{Messages: float64(now.messages-first.messages) / over.Minutes(), Packets: float64(now.packets-first.packets) / over.Minutes(), Over: over}
}
