package release

import (
	"cmp"
	"slices"
	"time"
)

// heardAgain is how much later a report that says nothing new counts as a change: others count a peer as here for reportLife after its last one.
const heardAgain = 24 * time.Hour

// mark is which change of a book a peer's report was, and of when that report is.
type mark struct {
	n  uint64
	at time.Time
}

// note numbers a report as the newest change, if it says anything new.
func (b *Book) note(r Report, news bool) {
	if before, known := b.marks[r.Peer]; known && !news && r.At.Sub(before.at) < heardAgain {
		return
	}
	b.last++
	b.marks[r.Peer] = mark{b.last, r.At}
}

// Since are the reports of which this book has learnt after a number of changes, at most some of them and in that order, and the number up to which they go.
func (b *Book) Since(n uint64, most int) (list []Report, next uint64) {
	if n >= b.last {
		return nil, b.last
	}
	for peer, m := range b.marks {
		if m.n > n {
			list = append(list, b.peers[peer])
		}
	}
	slices.SortFunc(list, func(x, y Report) int { return cmp.Compare(b.marks[x.Peer].n, b.marks[y.Peer].n) })
	if len(list) <= most {
		return list, b.last
	}
	list = list[:most]
	return list, b.marks[list[most-1].Peer].n
}

// Merge takes in what another manager's book says. Of two reports of a peer the later one counts. It returns whether the roll-out has stopped by that,
// and whether anything is new.
func (b *Book) Merge(list []Report) (stopped, news bool) {
	fell := false
	for _, r := range list {
		before, known := b.peers[r.Peer]
		r = clipped(r)
		if known && !r.At.After(before.At) {
			before.FellAt = fellAt(before, r)
			b.peers[r.Peer] = before
			if !same(r, before) { // the other one, whose clock may be ahead, has not taken what this book says
				b.note(before, true)
			}
			continue
		}
		fell = fell || !slices.Equal(r.Falls, before.Falls)
		news = true
		b.put(r)
		b.note(r, !same(r, before))
	}
	was := b.Rollout.Stopped
	if fell {
		b.judge()
	}
	return b.Rollout.Stopped != was, news
}
