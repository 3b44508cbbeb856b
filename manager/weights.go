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

// sizes are of all channels that were ever crawled, so that a size can be told in means. A crash undoes half a minute of it. Of several managers each counts what it
// takes in itself; what all have counted is of all channels, whoever has which.
type sizes struct {
	Sites int `json:"sites"`
	Pages int `json:"pages"` // of their stored copies

	others struct{ sites, pages int } // as other managers have counted, also those that have gone
}

// crawled takes in a crawl's pages.
func (z *sizes) crawled(l *channel.Learnt, pages int) {
	if l.Visits == 0 {
		z.Sites++
	}
	z.Pages += pages - l.Pages
}

// gone takes out a channel. Of several managers another one may have counted it in.
func (z *sizes) gone(l *channel.Learnt) {
	if l.Visits > 0 {
		z.Sites, z.Pages = z.Sites-1, z.Pages-l.Pages
	}
}

// back takes in again what gone took out.
func (z *sizes) back(l *channel.Learnt) {
	if l.Visits > 0 {
		z.Sites, z.Pages = z.Sites+1, z.Pages+l.Pages
	}
}

// mean is 0 while nothing is known.
func (z *sizes) mean() float32 {
	return float32(max(z.Pages+z.others.pages, 0)) / float32(max(z.Sites+z.others.sites, 1))
}

// add adds what a manager has kept.
func (z *sizes) add(b []byte) error {
	var one sizes
	if err := json.Unmarshal(b, &one); err != nil {
		return fmt.Errorf("the sizes of channels in the database are damaged: %w", err)
	}
	z.Sites, z.Pages = z.Sites+one.Sites, z.Pages+one.Pages
	return nil
}

// recallSizes reads what the managers before this one have counted.
func (c *core) recallSizes(ctx context.Context) error {
	all, err := c.kept(ctx, stateSizes)
	for _, b := range all {
		err = errors.Join(err, c.sizes.add(b))
	}
	return err
}

// hearSizes reads what other managers have counted.
func (t *tenancy) hearSizes(ctx context.Context) error {
	all, err := t.Shared.Others(ctx, stateSizes)
	if err != nil {
		return fmt.Errorf("read the sizes of other managers' channels: %w", err)
	}
	var sum sizes
	for _, b := range all {
		if err := sum.add(b); err != nil { // its own manager does not start
			t.log.Warn("sizes are told in means without another manager's channels", "err", err)
		}
	}
	return t.onLoop(ctx, func(time.Time) { t.sizes.others.sites, t.sizes.others.pages = sum.Sites, sum.Pages })
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

const weighBatch = 500 // channels read and written at a time

// weighAll does so for all channels, while the manager goes on. What it has weighed is durable: else a restart would have each channel count as before until its next crawl.
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
		var failed error
		err = u.onLoop(ctx, func(now time.Time) {
			weighed := channel.Advance{At: now}
			for i := range chs {
				if s, ok := u.table.Find(chs[i].ID); ok {
					u.weigh(s, Importance(&chs[i].Settings), chs[i].Learnt.Pages)
					f := u.sched.Facts(s)
					weighed.Edits = append(weighed.Edits, channel.Edit{ID: chs[i].ID, Facts: f.AppendState(nil)})
				}
			}
			if len(weighed.Edits) == 0 {
				return
			}
			ctx, cancel := context.WithTimeout(ctx, saveTimeout)
			defer cancel()
			failed = u.cfg.Store.Apply(ctx, u.epoch, weighed)
		})
		if err = errors.Join(err, failed); err != nil {
			return errors.Join(errors.New("not all channels are weighed anew; the rest will be after their next crawl"), err)
		}
	}
}
