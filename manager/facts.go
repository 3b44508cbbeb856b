package manager

import (
	"context"
	"fmt"
	"time"

	"shoal/channel"
	"shoal/recrawl"
)

// ReadFacts reads from a database what a plan needs, without taking the channels over: f is called with every channel that is crawled, what the scheduler knew of it
// when it last wrote, and the present tick.
func ReadFacts(ctx context.Context, st Store, step time.Duration, now time.Time, f func(tick recrawl.Tick, ch channel.Channel, facts recrawl.Facts) error) error {
	epoch, err := st.State(ctx, stateEpoch)
	if err != nil {
		return fmt.Errorf("read the scheduler's epoch: %w", err)
	}
	clock := recrawl.Clock{Epoch: now, Step: step}
	if epoch != nil {
		if err := clock.Epoch.UnmarshalBinary(epoch); err != nil {
			return fmt.Errorf("the scheduler's epoch in the database is damaged: %w", err)
		}
	}
	const batch = 1000
	for after := channel.ID(0); ; {
		chs, err := st.List(ctx, after, batch)
		if err != nil {
			return fmt.Errorf("read channels: %w", err)
		}
		if len(chs) == 0 {
			return nil
		}
		for _, ch := range chs {
			after = ch.ID
			if ch.State != channel.Active {
				continue
			}
			facts := recrawl.Facts{Est: recrawl.DefaultOptions().Prior}
			if len(ch.Learnt.EstimatorBlob) > 0 {
				if err := facts.Restore(ch.Learnt.EstimatorBlob); err != nil {
					return fmt.Errorf("channel %d: %w", ch.ID, err)
				}
			}
			if facts.Weight == 0 {
				facts.Weight = ch.Settings.Weight
			}
			if err := f(clock.At(now), ch, facts); err != nil {
				return err
			}
		}
	}
}
