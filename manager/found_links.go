package manager

import (
	"context"
	"fmt"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/manager/archive"
	"shoal/recrawl"
)

// discover routes inter-site URLs to the channels that hold them; what no channel holds is kept as a candidate.
func (le *learner) discover(from recrawl.Slot, urls []string) {
	if le.cfg.Discover == DiscoverOff {
		return
	}
	for _, u := range urls {
		origin, err := (&channel.Found{URL: u}).Origin()
		if err != nil { // the database refuses it, with all that is written beside it
			continue
		}
		id, more := le.table.First(channel.KeyOf(origin))
		if id == 0 {
			if len(le.keep.pending.found) < maxFound && !le.isBlocked(origin) && le.reaches(origin) {
				le.keep.pending.found = append(le.keep.pending.found, channel.Found{URL: u, From: le.table.ID(from)})
			}
			continue
		}
		if more { // the one whose directory it lies in, if any
			if id = le.keep.pending.holders[u]; id == 0 {
				continue
			}
		}
		le.linkTo(id, u)
	}
}

// readHolders reads which channels hold the inter-site URLs of a stretch of the feed, where their hosts have several: at once, since the loop waits for it.
func (le *learner) readHolders(ctx context.Context, entries []archive.Entry, into *effects) error {
	if le.cfg.Discover == DiscoverOff {
		return nil
	}
	into.holders = map[string]channel.ID{}
	var urls []string
	for i := range entries {
		if entries[i].Event.Kind != lease.Reported || entries[i].Report == nil {
			continue
		}
		for _, u := range entries[i].Report.Inter {
			origin, err := (&channel.Found{URL: u}).Origin()
			if err != nil {
				continue
			}
			if _, more := le.table.First(channel.KeyOf(origin)); !more {
				continue
			}
			if _, twice := into.holders[u]; !twice && len(urls) < maxHeld {
				into.holders[u] = 0
				urls = append(urls, u)
			}
		}
	}
	if len(urls) == 0 {
		return nil
	}
	ids, err := le.cfg.Store.Holders(ctx, urls)
	if err != nil {
		return fmt.Errorf("read which channels hold %d URLs that were found: %w", len(urls), err)
	}
	for i, id := range ids {
		into.holders[urls[i]] = id
	}
	return nil
}

// reaches reports whether peers can fetch from an origin.
func (le *learner) reaches(origin string) bool {
	return le.cfg.Reach == nil || le.cfg.Reach(origin) == nil
}

// linkTo gives a URL to a channel; the database bounds and deduplicates what is kept.
func (le *learner) linkTo(id channel.ID, u string) {
	inter := le.keep.pending.inter
	if n := len(inter[id]); n >= channel.MaxInter || n == 0 && len(inter) >= maxLinked {
		return
	}
	inter[id] = append(inter[id], u)
	le.linked(id, 1)
}

// linked counts what is known of a channel that may never have been crawled: larger sites go first.
func (le *learner) linked(id channel.ID, n int) {
	if s, ok := le.table.Find(id); ok && n > 0 {
		le.table.SetLinks(s, le.table.Links(s)+n)
		le.sched.Found(s)
	}
}

// Bounds of what one stretch of the feed brings.
const (
	maxFound  = 4096   // URLs of unknown hosts
	maxLinked = 20_000 // channels to which links were found
	maxHeld   = 32_768 // URLs to hosts with several channels
)
