package desk

import (
	"context"
	"errors"
	"fmt"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/manager"
	"shoal/recrawl"
)

// Channel reads one channel.
func (d *Desk) Channel(ctx context.Context, id channel.ID) (channel.Channel, error) {
	return d.store.Channel(ctx, id)
}

// Edit changes scope, seeds, settings and state of a channel; an error of change leaves it as it was.
func (d *Desk) Edit(ctx context.Context, id channel.ID, change func(*channel.Channel) error) (channel.Channel, error) {
	var refused error
	var before, after channel.Channel
	err := d.store.Update(ctx, d.epoch, id, func(ch *channel.Channel) {
		before = *ch
		if refused = change(ch); refused == nil {
			refused = errors.Join(d.checkOrder(ch.Settings.Order), d.checkGroup(ch.Settings.Group))
		}
		if refused == nil && ch.Scope.Host != before.Scope.Host {
			refused = fmt.Errorf("%w: a channel stays with its host: remove channel %d and add one of %s", ErrAsk, id, ch.Scope.Host)
		}
		if refused != nil {
			*ch = before
		}
		after = *ch
	})
	if err = errors.Join(refused, err); err != nil {
		return after, err
	}
	ctx, done := d.finish(ctx)
	defer done()
	if d.m == nil {
		return after, errors.Join(d.reweigh(ctx, &before, &after), wake(ctx, d, id))
	}
	return after, d.m.Edited(ctx, &before, &after)
}

// wake has a channel of a stopped manager wait no longer for that its last crawl failed, as a running one does.
func wake(ctx context.Context, d *Desk, id channel.ID) error {
	raw, err := d.store.Lease(ctx, id)
	if err != nil || len(raw) == 0 {
		return err
	}
	i, err := lease.ParseIssue(raw)
	if err != nil {
		return fmt.Errorf("channel %d: %w", id, err)
	}
	if i.Wake().IsZero() {
		return nil
	}
	return d.store.Apply(ctx, d.epoch, channel.Advance{Edits: []channel.Edit{{ID: id, Gen: i.Gen, Lease: i.Append(nil)}}})
}

// reweigh changes a channel's importance in what a stopped manager's scheduler knows of it.
func (d *Desk) reweigh(ctx context.Context, before, after *channel.Channel) error {
	b, was, now := after.Learnt.EstimatorBlob, manager.Importance(&before.Settings), manager.Importance(&after.Settings)
	if len(b) == 0 || now == was {
		return nil
	}
	var f recrawl.Facts
	if err := f.Restore(b); err != nil {
		return fmt.Errorf("channel %d: %w", after.ID, err)
	}
	f.Weight = f.Weighed() * now / was
	return d.store.Apply(ctx, d.epoch, channel.Advance{Edits: []channel.Edit{{ID: after.ID, Facts: f.AppendState(nil)}}})
}

// Pause stops handing a channel out, or goes on with it.
func (d *Desk) Pause(ctx context.Context, id channel.ID, paused bool) error {
	ctx, done := d.finish(ctx)
	defer done()
	if d.m != nil {
		if err := d.m.Pause(ctx, id, paused); err != nil {
			return err
		}
	} else if err := wake(ctx, d, id); err != nil {
		return err
	}
	return d.store.Update(ctx, d.epoch, id, func(ch *channel.Channel) {
		ch.State, ch.Reason = channel.Active, ""
		if paused {
			ch.State = channel.Paused
		}
	})
}

// CrawlNow has a channel crawled as soon as there is room.
func (d *Desk) CrawlNow(ctx context.Context, id channel.ID) error {
	if d.m == nil {
		return fmt.Errorf("%w: a channel is crawled now only by a running manager; start it with `%s`", ErrStopped, d.cfg.Starts)
	}
	return d.m.CrawlNow(ctx, id)
}

// Remove forgets a channel. What is out of it is called back, and comes to nothing; pages stay in the archive. Its host is left alone until the
// task that is out, if any, must have ended.
func (d *Desk) Remove(ctx context.Context, id channel.ID) error {
	ch, err := d.store.Channel(ctx, id)
	if err != nil {
		return err
	}
	ctx, done := d.finish(ctx)
	defer done()
	if d.m != nil {
		if err := d.m.Forget(ctx, &ch); err != nil {
			return err
		}
	}
	err = d.recall(ctx, id, ch.Scope.Host)
	if err == nil {
		err = d.store.Remove(ctx, d.epoch, id)
	}
	if err != nil && d.m != nil { // it is still in the database, as where the disk is full
		err = errors.Join(err, d.m.Kept(ctx, &ch))
	}
	return err
}
