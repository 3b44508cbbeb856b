package desk

import (
	"context"
	"maps"
	"sync"
	"time"

	"shoal/channel"
)

// Tally is how many channels are in each state.
type Tally map[string]int

// A tally looks through all channels. It is taken anew once tallyFor has passed, and tallyRest times what it took.
const (
	tallyFor  = 5 * time.Second
	tallyRest = 20
)

// A tally of a running manager's very many channels is taken by and by: each call of Tally goes on where the one before stopped.
const (
	tallyMost = 200_000                // channels that one call looks through, however long that takes
	tallyPart = 200 * time.Millisecond // for which a call looks on where there are more
)

// tallies keeps the last tally, and the one that is being taken.
type tallies struct {
	mu   sync.Mutex
	last Tally // nil: none was finished yet
	next time.Time

	part   Tally // nil: none is being taken
	after  channel.ID
	looked int
	took   time.Duration
}

// Tally counts channels by state. Of many channels it may be some minutes old. It is nil while the first one of very many is being taken.
func (d *Desk) Tally(ctx context.Context) (Tally, error) {
	t, looked, err := d.tally(ctx)
	if looked > 0 {
		t = nil
	}
	return t, err
}

// tally is Tally, or what is counted so far while there is none: looked is how many channels that are then.
func (d *Desk) tally(ctx context.Context) (t Tally, looked int, err error) {
	part := time.Duration(0)
	if d.m != nil && allChannels(d) > tallyMost {
		part = tallyPart
	}
	return d.tallies.count(ctx, part, d.store.List, d.rowsOf)
}

// known is the last tally that was finished; nil: there is none.
func (k *tallies) known() Tally {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.last
}

// count goes on counting: to the end, or for part if that is not 0.
func (k *tallies) count(ctx context.Context, part time.Duration, list func(ctx context.Context, after channel.ID, n int) ([]channel.Channel, error),
	rowsOf func(context.Context, []channel.Channel) ([]Row, error)) (t Tally, looked int, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	began := time.Now()
	if k.last != nil && began.Before(k.next) {
		return k.last, 0, nil
	}
	if k.part == nil {
		k.part, k.after, k.looked, k.took = Tally{}, 0, 0, 0
	}
	for more := true; more; {
		if more, err = k.batch(ctx, list, rowsOf); err != nil {
			return k.last, 0, err
		}
		if took := time.Since(began); part > 0 && took >= part && more {
			k.took += took
			if k.last != nil {
				return k.last, 0, nil
			}
			return maps.Clone(k.part), k.looked, nil
		}
	}
	k.took += time.Since(began)
	k.last, k.part, k.next = k.part, nil, time.Now().Add(max(tallyFor, tallyRest*k.took))
	return k.last, 0, nil
}

// batch counts the next channels; false: there are none.
func (k *tallies) batch(ctx context.Context, list func(ctx context.Context, after channel.ID, n int) ([]channel.Channel, error),
	rowsOf func(context.Context, []channel.Channel) ([]Row, error)) (bool, error) {
	chs, err := list(ctx, k.after, batch)
	if err != nil || len(chs) == 0 {
		return false, err
	}
	var there []channel.Channel
	for i := range chs {
		if chs[i].State != channel.Removed {
			there = append(there, chs[i])
		}
	}
	rows, err := rowsOf(ctx, there)
	if err != nil {
		return false, err
	}
	for i := range rows {
		k.part[rows[i].State]++
	}
	k.after = chs[len(chs)-1].ID
	k.looked += len(there)
	return true, nil
}
