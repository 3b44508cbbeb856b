package manager

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"shoal/channel"
	"shoal/recrawl"
)

// stateSizes names what the database keeps of channels' sizes.
const stateSizes = "manager/sizes"

// sizes are of all channels that were ever crawled, so that a size can be told in means. A crash undoes half a minute of it.
type sizes struct {
	Sites int `json:"sites"`
	Pages int `json:"pages"` // of their stored copies
}

// crawled takes in a crawl's pages.
func (z *sizes) crawled(l *channel.Learnt, pages int) {
	if l.Visits == 0 {
		z.Sites++
	}
	z.Pages += pages - l.Pages
}

// gone takes out a channel.
func (z *sizes) gone(l *channel.Learnt) {
	if l.Visits > 0 {
		z.Sites, z.Pages = max(z.Sites-1, 0), max(z.Pages-l.Pages, 0)
	}
}

// mean is 0 while nothing is known.
func (z *sizes) mean() float32 {
	return float32(max(z.Pages, 0)) / float32(max(z.Sites, 1))
}

// read takes them from the database.
func (z *sizes) read(ctx context.Context, st Store) error {
	b, err := st.State(ctx, stateSizes)
	if err != nil || b == nil {
		return err
	}
	if err := json.Unmarshal(b, z); err != nil {
		return fmt.Errorf("the sizes of channels in the database are damaged: %w", err)
	}
	return nil
}

// keep writes them.
func (z *sizes) keep(ctx context.Context, st Store, e channel.Epoch) error {
	b, err := json.Marshal(z)
	if err != nil {
		return err
	}
	return st.PutState(ctx, e, stateSizes, b)
}

// Importance is what an operator says of a channel; 1 if nothing.
func Importance(c *channel.Settings) float32 {
	if c.Weight > 0 {
		return c.Weight
	}
	return 1
}

// weigh gives a channel its weight by its own importance and the weights in force. Called on the loop.
func (u *tuning) weigh(s recrawl.Slot, own float32, pages int) {
	g := u.sched.Groups().K()
	group := min(int(u.sched.Facts(s).Group), g-1)
	u.sched.Weigh(s, own*u.limits.Weights.Of(float32(pages), u.sizes.mean(), group, g))
}

const weighBatch = 500 // channels read at a time

// weighAll does so for all channels, while the manager goes on.
func (u *tuning) weighAll(ctx context.Context) error {
	for after := channel.ID(0); ; {
		chs, err := u.cfg.Store.List(ctx, after, weighBatch)
		if err != nil {
			return fmt.Errorf("read channels: %w", err)
		}
		if len(chs) == 0 {
			return nil
		}
		after = chs[len(chs)-1].ID
		err = u.onLoop(ctx, func(time.Time) {
			for i := range chs {
				if s, ok := u.table.Find(chs[i].ID); ok {
					u.weigh(s, Importance(&chs[i].Settings), chs[i].Learnt.Pages)
				}
			}
		})
		if err != nil {
			return errors.Join(errors.New("not all channels are weighed anew; the rest will be after their next crawl"), err)
		}
	}
}
