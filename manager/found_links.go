package manager

import (
	"context"
	"fmt"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/manager/archive"
	"shoal/recrawl"
)

// discover routes inter-site URLs to the channels that hold them. One on a host without channels is kept as a candidate. One on a host that has channels, but
// outside of their directories, is forgotten: an operator has chosen what is crawled of that host.
func (le *learner) discover(from recrawl.Slot, urls []string) {
	if le.cfg.Discover == DiscoverOff {
		return
	}
	own := le.table.ID(from)
	for _, u := range urls {
		origin, err := (&channel.Found{URL: u}).Origin()
		if err != nil { // the database refuses it, with all that is written beside it
			continue
		}
		id, asked := le.keep.pending.holders[u]
		switch {
		case id == own, id == 0 && le.listed(origin): // what the channel's own filters leave out; what is in no directory
		case id != 0:
			le.linkTo(id, u)
		case !asked && le.mayHold(origin, own): // more than maxHeld
		case len(le.keep.pending.found) < maxFound && le.keep.pending.room < maxFoundRoom && !le.isBlocked(origin) && le.reaches(origin):
			le.keep.pending.found = append(le.keep.pending.found, channel.Found{URL: u, From: own})
			le.keep.pending.room += len(origin) + foundRoom
		}
	}
}

// listed reports whether the loop has channels of an origin.
func (le *learner) listed(origin string) bool {
	id, _ := le.table.First(channel.KeyOf(origin))
	return id != 0
}

// mayHold reports whether another channel than the one that found a URL may hold it, so that the database must be asked.
func (le *learner) mayHold(origin string, own channel.ID) bool {
	key := channel.KeyOf(origin)
	id, more := le.table.First(key)
	return more || id != 0 && id != own || !le.tenancy.mine(key)
}

// readHolders reads which channels hold the inter-site URLs of a stretch of the feed: at once, since the loop waits for it.
func (le *learner) readHolders(ctx context.Context, entries []archive.Entry, into *effects) error {
	if le.cfg.Discover == DiscoverOff {
		return nil
	}
	into.holders = map[string]channel.ID{}
	var urls []string
	for i := range entries {
		e := &entries[i]
		if _, ours := le.table.Find(e.Channel); !ours || e.Event.Kind != lease.Reported || e.Report == nil {
			continue
		}
		for _, u := range e.Report.Inter {
			origin, err := (&channel.Found{URL: u}).Origin()
			if err != nil || !le.mayHold(origin, e.Channel) {
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
	maxFound = 4096 // URLs of unknown hosts
	// A database in a folder takes 1.2 MB in one write. Names of hosts may have 253 bytes; of 25, which is usual, maxFound fit.
	maxFoundRoom = 640 << 10
	foundRoom    = 96     // bytes of a record beside its host's name
	maxLinked    = 20_000 // channels to which links were found
	maxHeld      = 32_768 // URLs to hosts that have channels
)
