package ledger

import (
	"fmt"
	"slices"

	"shoal/channel"
	"shoal/manager/archive/intake"
	"shoal/manager/conduct"
)

// Retold is how many pages of a chunk are otherwise than their peer could tell. It has no fingerprints. Of a version that one account alone has seen it was told
// no digest either: to such a peer each page is new, however often it was crawled.
type Retold struct {
	Near int // told as changed, and hardly are
	// Told as new, and stored before: as they are now, hardly otherwise, otherwise.
	Same, Hardly, Other int
	// Told as unchanged, and not stored so. They bring nothing: not even a visit.
	Unfounded []Unfounded
}

// Unfounded is a page that was said to be unchanged, and is not stored so.
type Unfounded struct {
	channel.PageDigest      // what was said; Content 0: no digest was named
	Near               bool // it was said to be nearly unchanged
	Form               bool // it is stored so, but for its form: its text, where pages are kept as they come now, or the other way round
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
	near := 0
	for _, u := range t.Unfounded {
		if u.Near {
			near++
		}
	}
	strike := func(pages, same, hardly *int) {
		*pages, *same, *hardly = max(*pages-len(t.Unfounded), 0), max(*same-len(t.Unfounded)+near, 0), max(*hardly-near, 0)
	}
	strike(&sum.Answered, &sum.Unchanged, &sum.NearUnchanged)
	strike(&tally.pages, &tally.same, &tally.nearUnchanged)
	if r != nil {
		strike(&r.Pages, &r.Unchanged, &r.NearUnchanged)
	}
}

// tellUnfounded counts against a claim, and tells of its peer, what that said to be unchanged of which its task knows nothing: the peer made it up. One that the task told was
// right then, and the page has become another version since, as by a ruling. It returns those that brought nothing: of what is stored in another form, the task asked for no more.
func tellUnfounded(l *Ledger, id channel.ID, gen channel.Gen, c *channelState, all []Unfounded) ([]Unfounded, error) {
	if len(all) == 0 {
		return nil, nil
	}
	d, err := l.deposit(id, gen)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrStorage, err)
	}
	body, err := channel.ParseBody(d.body)
	if err != nil {
		return nil, fmt.Errorf("%w: channel %d, generation %d: %w", ErrBadTask, id, gen, err)
	}
	made := 0
	out := all[:0]
	for _, u := range all {
		told := func(k channel.PageDigest) bool {
			return k.URL == u.URL && (u.Near || u.Content == 0 || u.Content == k.Content)
		}
		asked := func(v channel.Validator) bool { return v.URL == u.URL && u.Content == 0 }
		switch known := slices.ContainsFunc(body.Digests, told) || slices.ContainsFunc(body.Validators, asked); {
		case known && u.Form:
			continue
		case !known && !u.Near:
			made++
		}
		out = append(out, u)
	}
	c.claim.Wrong += made
	l.counters.mended.Add(uint64(made))
	l.deed(c.peer, conduct.Digests, made)
	return out, nil
}
