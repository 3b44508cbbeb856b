package manager

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"shoal/channel"
	"shoal/manager/dispatch"
	"shoal/recrawl"
)

// stateWhole names what the database keeps of channels of which a whole crawl is to begin, and stateAsked of those that an operator has asked for: a restart orders
// those anew.
const (
	stateWhole = "whole-crawls"
	stateAsked = "asked-crawls"
)

const (
	mostWhole     = 1 << 16         // channels of which a whole crawl is to begin; of more the next crawl comes when it is due
	wholeEvery    = 5 * time.Second // between two writes of what has begun meanwhile
	withdrawnNote = "something that was crawled of it was withdrawn"
	askedNote     = "asked for by an operator"
	anewNote      = "asked for by an operator: a peer that has the task and has not begun loses it"
)

// wholes are channels that are to be crawled before they are due: of whole, something that was crawled of them does not count any more, and the crawl has no generation
// yet; of asked, an operator wants it. Owned by the loop.
type wholes struct {
	name    string // of what the database keeps
	of      map[channel.ID]wholeCrawl
	given   map[channel.ID]time.Time // those of channels that other managers get: they read it until then
	changed bool                     // since it was written
	written time.Time                // last
	read    bool                     // some were read, and are to be looked at

	recalled bool // those of before this manager's start were read; owned by who takes partitions
}

func newWholes(name string) wholes { return wholes{name: name, of: map[channel.ID]wholeCrawl{}} }

// wholeCrawl is one that is to begin.
type wholeCrawl struct {
	ordered bool // else it follows the crawl that is under way
	gen     channel.Gen
}

// add notes one, unless there are too many.
func (w *wholes) add(id channel.ID, c wholeCrawl) {
	if _, known := w.of[id]; known || len(w.of) < mostWhole {
		w.of[id], w.changed = c, true
	}
}

// skipped notes that a channel has a higher generation without having begun: an audit has taken it.
func (w *wholes) skipped(id channel.ID, from, to channel.Gen) {
	if c, known := w.of[id]; known && c.ordered && from != 0 && c.gen == from {
		w.of[id] = wholeCrawl{true, to}
	}
}

// drop forgets one.
func (w *wholes) drop(id channel.ID) {
	if _, known := w.of[id]; known {
		delete(w.of, id)
		w.changed = true
	}
}

// wholeGiven is for how long it is kept which channels are to be crawled whole that another manager gets.
const wholeGiven = time.Minute

// give has who takes a channel go on with its whole crawl.
func (w *wholes) give(id channel.ID, now time.Time) {
	if _, known := w.of[id]; !known {
		return
	}
	w.drop(id)
	maps.DeleteFunc(w.given, func(_ channel.ID, until time.Time) bool { return !until.After(now) })
	if w.given == nil {
		w.given = map[channel.ID]time.Time{}
	}
	if len(w.given) < mostWhole {
		w.given[id] = now.Add(wholeGiven)
	}
}

// state is the stored form.
func (w *wholes) state(now time.Time) (b []byte) {
	all := slices.AppendSeq(slices.Collect(maps.Keys(w.of)), func(yield func(channel.ID) bool) {
		for id, until := range w.given {
			if _, twice := w.of[id]; until.After(now) && !twice && !yield(id) {
				return
			}
		}
	})
	slices.Sort(all)
	for _, id := range all {
		b = binary.BigEndian.AppendUint64(b, uint64(id))
	}
	return b
}

// takeIn adds those of a stored state.
func (w *wholes) takeIn(b []byte) error {
	if len(b)%8 != 0 {
		return fmt.Errorf("manager: whole crawls in %d bytes", len(b))
	}
	for ; len(b) > 0; b = b[8:] {
		id := channel.ID(binary.BigEndian.Uint64(b))
		if _, known := w.of[id]; !known {
			w.add(id, wholeCrawl{})
			w.read = true
		}
	}
	return nil
}

// CrawlWhole has channels crawled as soon as there is room of which something that was crawled does not count any more. Of one that is being crawled, or whose crawl
// broke off, a whole crawl follows the present one, which leaves out what peers have delivered for it already. When it returns that is durable.
func (ro *roster) CrawlWhole(ctx context.Context, ids ...channel.ID) error {
	var failed []error
	for _, id := range ids {
		if err := ro.crawlNow(ctx, id, true); err != nil {
			failed = append(failed, fmt.Errorf("channel %d: %w", id, err))
		}
	}
	err := ro.onLoop(ctx, func(now time.Time) { failed = append(failed, ro.keepWhole(ctx, now)) })
	return errors.Join(append(failed, err)...)
}

// ordered are the crawls that were ordered.
func (c *core) ordered() [2]*wholes { return [2]*wholes{&c.whole, &c.asked} }

// keepWhole writes which channels are to be crawled whole, or because an operator has asked for it, if that has changed. Called on the loop.
func (c *core) keepWhole(ctx context.Context, now time.Time) error {
	var all []error
	for _, w := range c.ordered() {
		if w.changed {
			all = append(all, c.keepOrdered(ctx, now, w))
		}
	}
	return errors.Join(all...)
}

func (c *core) keepOrdered(ctx context.Context, now time.Time, w *wholes) error {
	w.written = now
	ctx, cancel := context.WithTimeout(ctx, saveTimeout)
	defer cancel()
	if err := c.cfg.Store.PutState(ctx, c.epoch, w.name, w.state(now)); err != nil {
		return fmt.Errorf("write which channels are to be crawled (%s): %w", w.name, err)
	}
	w.changed = len(w.given) > 0 && slices.ContainsFunc(slices.Collect(maps.Values(w.given)), now.Before) // until none is given any more
	return nil
}

// keepWholes is keepWhole now and then.
func (c *core) keepWholes(ctx context.Context, now time.Time) {
	for _, w := range c.ordered() {
		if !w.changed || now.Sub(w.written) < wholeEvery {
			continue
		}
		if err := c.keepOrdered(ctx, now, w); err != nil {
			c.log.Warn("a restart may forget crawls that were asked for, or order some anew that have begun", "err", err)
		}
	}
}

// readWhole goes on with those of the manager before this one.
func (c *core) readWhole(ctx context.Context) error {
	for _, w := range c.ordered() {
		all, err := c.kept(ctx, w.name)
		if err != nil {
			return fmt.Errorf("read which channels are to be crawled (%s): %w", w.name, err)
		}
		for _, b := range all {
			c.tookWhole(w, b)
		}
	}
	return nil
}

// inheritWhole goes on with those of other managers, when this one takes partitions of theirs, and with its own of before its start. Those of channels that it does
// not have are left out then.
func (c *core) inheritWhole(ctx context.Context) error {
	for _, w := range c.ordered() {
		all, err := c.tenancy.Shared.Others(ctx, w.name)
		if err != nil {
			return fmt.Errorf("read which channels are to be crawled (%s): %w", w.name, err)
		}
		if !w.recalled {
			own, err := c.tenancy.Shared.State(ctx, w.name)
			if err != nil {
				return fmt.Errorf("read which channels are to be crawled (%s): %w", w.name, err)
			}
			all = append(all, own)
		}
		err = c.onLoop(ctx, func(time.Time) {
			w.recalled = true
			for _, b := range all {
				c.tookWhole(w, b)
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *core) tookWhole(w *wholes, b []byte) {
	if err := w.takeIn(b); err != nil {
		c.log.Warn("channels that were to be crawled at once are crawled when they are due", "state", w.name, "err", err)
	}
}

// crawlAsked has the crawls begin that an operator has asked for before this manager had their channels, and forgets those that have ended.
func (le *learner) crawlAsked(now time.Time) {
	le.asked.read = false
	for id, w := range le.asked.of {
		s, ok := le.table.Find(id)
		if ok && w.ordered && dispatch.Asked(le.machine, s) {
			continue // it waits for room, is being crawled, or came to nothing and is to be crawled again
		}
		if !ok || w.ordered || le.machine.IsOut(s) || le.machine.Blocked(le.table.Host(s)) != "" {
			le.asked.drop(id)
			continue
		}
		if err := le.machine.CrawlNow(now, s); err != nil {
			le.log.Warn("a channel is not crawled before it is due", "channel", id, "err", err)
			le.asked.drop(id)
			continue
		}
		le.asked.add(id, wholeCrawl{ordered: true})
		le.event(s, now, le.machine.Gen(s), "crawl now", "", askedNote)
	}
}

// crawlWhole has the whole crawls begin that are to follow crawls which have ended, and forgets those that have begun: their generation is durable.
func (le *learner) crawlWhole(now time.Time) {
	le.whole.read = false
	for id, w := range le.whole.of {
		s, ok := le.table.Find(id)
		gen := channel.Gen(0)
		if ok {
			gen = le.machine.Gen(s)
		}
		switch {
		case ok && !w.ordered && gen != 0, ok && w.ordered && gen == w.gen && gen != 0:
			continue // the crawl before goes on, or this one waits for room
		case !ok || w.ordered || le.sched.Facts(s).Flags&recrawl.Paused != 0 || le.machine.Blocked(le.table.Host(s)) != "":
			le.whole.drop(id)
			continue
		}
		if err := le.machine.CrawlNow(now, s); err != nil {
			le.log.Warn("a channel is not crawled again before it is due", "channel", id, "err", err)
			le.whole.drop(id)
			continue
		}
		le.whole.add(id, wholeCrawl{true, le.machine.Gen(s)})
		le.event(s, now, le.machine.Gen(s), "crawl now", "", withdrawnNote)
	}
}
