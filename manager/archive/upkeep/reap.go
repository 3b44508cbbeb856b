package upkeep

import (
	"context"
	"slices"
	"time"

	"shoal/manager/archive/ledger"
	"shoal/manager/archive/segment"
)

// DefaultStrays is how long an object stays that nothing refers to.
const DefaultStrays = time.Hour

// reapLooks is how often strays are looked for within the time that they stay.
const reapLooks = 4

// keepReaping removes objects that nothing refers to, when they have been so for long: what was written and never committed, and segments that were
// compacted, which another manager may still read.
func (u *Upkeep) keepReaping(ctx context.Context) {
	strays, has := u.ledger.Closing.Strays()
	if !has {
		return
	}
	r := reaper{u: u, strays: strays, seen: map[string]time.Time{}}
	t := time.NewTicker(u.cfg.Strays / reapLooks)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		n, err := r.reap(ctx)
		if err != nil && ctx.Err() == nil {
			u.cfg.Log.Warn("objects that nothing refers to were not removed, will try again", "err", err)
		} else if n > 0 {
			u.cfg.Log.Info("objects that nothing referred to were removed", "objects", n)
		}
	}
}

// reaper removes strays.
type reaper struct {
	u      *Upkeep
	strays ledger.Strays
	seen   map[string]time.Time // since when each stray is one, by this process: no other clock counts
}

// reap looks for strays, and removes those that have been so for long enough. Their segments are closed first, so that a program that was only slow cannot
// commit them afterwards; all programs have read that, and that compacted segments are gone, before an object is removed.
func (r *reaper) reap(ctx context.Context) (removed int, err error) {
	u := r.u
	if chosen, err := u.ledger.Others.Chosen(ctx); err != nil || !chosen {
		clear(r.seen)
		return 0, err
	}
	if err := u.ledger.Closing.Prune(ctx); err != nil {
		return 0, err
	}
	due, err := r.due(ctx)
	if err != nil || len(due) == 0 {
		return 0, err
	}
	release, err := u.turns.turn(ctx, reaping)
	if err != nil {
		return 0, err
	}
	defer release()
	var ids []uint32
	for _, s := range due {
		ids = append(ids, s.Segment)
	}
	slices.Sort(ids)
	if err := u.ledger.Closing.Close(slices.Compact(ids)); err != nil {
		return 0, err
	}
	if err := u.ledger.Others.WaitForAll(ctx); err != nil {
		return 0, err
	}
	if due, err = r.due(ctx); err != nil {
		return 0, err
	}
	for _, s := range due {
		if !slices.Contains(ids, s.Segment) {
			continue // it became due meanwhile
		}
		if err := r.strays.Discard(ctx, s); err != nil {
			return removed, err
		}
		delete(r.seen, s.Name)
		removed++
	}
	return removed, nil
}

// due lists the strays, and returns those that have been so for long.
func (r *reaper) due(ctx context.Context) (due []segment.Stray, err error) {
	known, err := r.u.ledger.Segments(ctx)
	if err != nil {
		return nil, err
	}
	all, err := r.strays.Strays(ctx, known)
	if err != nil {
		return nil, err
	}
	now, is := time.Now(), map[string]bool{}
	for _, s := range all {
		is[s.Name] = true
		if since, ok := r.seen[s.Name]; !ok {
			r.seen[s.Name] = now
		} else if now.Sub(since) >= r.u.cfg.Strays {
			due = append(due, s)
		}
	}
	for name := range r.seen {
		if !is[name] {
			delete(r.seen, name)
		}
	}
	return due, nil
}
