package ledger

import (
	"shoal/channel"
	"shoal/manager/archive/intake"
)

// Retold is how many pages of a chunk are otherwise than their peer could tell. It has no fingerprints. Of a version that one account alone has seen it was told
// no digest either: to such a peer each page is new, however often it was crawled.
type Retold struct {
	Near int // told as changed, and hardly are
	// Told as new, and stored before: as they are now, hardly otherwise, otherwise.
	Same, Hardly, Other int
}

// correct puts into a claim's sum, into what the crawl has brought so far, and into the report if the chunk has it, what the peer could not tell. Near is for the
// report, which may come later.
func (t Retold) correct(sum *intake.Sum, tally *crawlTally, r *channel.Report) {
	move := func(fresh, same, hardly, other *int) {
		*fresh = max(*fresh-t.Same-t.Hardly-t.Other, 0)
		*same, *hardly, *other = *same+t.Same, *hardly+t.Hardly, *other+t.Other
	}
	move(&sum.New, &sum.Unchanged, &sum.NearUnchanged, &sum.Changed)
	move(&tally.fresh, &tally.same, &tally.nearUnchanged, &tally.changed)
	if r != nil {
		move(&r.New, &r.Unchanged, &r.NearUnchanged, &r.Changed)
	}
}
