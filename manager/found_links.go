package manager

import (
	"context"

	"shoal/channel"
	"shoal/recrawl"
)

// discover routes inter-site URLs to the channels that hold them; what no channel holds is kept as a candidate.
func (le *learner) discover(from recrawl.Slot, urls []string) {
	if le.cfg.Discover == DiscoverOff {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), saveTimeout)
	defer cancel()
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
			if id, err = le.cfg.Store.Lookup(ctx, u); err != nil {
				continue
			}
		}
		le.linkTo(id, u)
	}
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
)
