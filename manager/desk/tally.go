package desk

import (
	"context"
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

// tallyMost is how many channels are looked through for a tally. Of more there is none; Rows finds them by state.
const tallyMost = 200_000

// tallies keeps the last tally.
type tallies struct {
	mu   sync.Mutex
	last Tally
	next time.Time
}

// Tally counts channels by state. Of many channels it may be some minutes old; of very many there is none, which is nil.
func (d *Desk) Tally(ctx context.Context) (Tally, error) {
	if d.m != nil && d.m.Overview().Channels > tallyMost {
		return nil, nil
	}
	d.tallies.mu.Lock()
	defer d.tallies.mu.Unlock()
	began := time.Now()
	if d.tallies.last != nil && began.Before(d.tallies.next) {
		return d.tallies.last, nil
	}
	t := Tally{}
	var part []channel.Channel
	flush := func() error {
		rows, err := d.rowsOf(ctx, part)
		for _, r := range rows {
			t[r.State]++
		}
		part = part[:0]
		return err
	}
	err := d.Each(ctx, "", func(ch *channel.Channel) error {
		if part = append(part, *ch); len(part) < batch {
			return nil
		}
		return flush()
	})
	if err == nil {
		err = flush()
	}
	if err != nil {
		return d.tallies.last, err
	}
	took := time.Since(began)
	d.tallies.last, d.tallies.next = t, began.Add(max(tallyFor, tallyRest*took))
	return t, nil
}
