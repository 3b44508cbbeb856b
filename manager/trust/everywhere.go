package trust

import "shoal/channel"

// A captcha, a wall or an error page is the same on all pages of a task. Such a delivery is held by itself, so that who forges like that is never shown; and so it counts
// little: honest peers meet a captcha in one task after the other.
const (
	everywhereFrom  = 3  // pages of a task that show the same, and did not before
	everywhereShare = .3 // times a charge for one of them, and what the task may add
)

// everywhere finds what most of some new versions show, and showed nothing like each other before: the fingerprint of their text, 0 if they are fewer than
// everywhereFrom. of returns the i-th of n new versions and the one before it; nil leaves it out.
func everywhere(n int, of func(i int) (now, before *Version)) uint64 {
	var most uint64
	votes := 0
	for i := range n { // the majority's, if there is one
		v, _ := of(i)
		switch {
		case v == nil || v.Shingle == 0:
		case votes == 0:
			most, votes = v.Shingle, 1
		case channel.Near(most, v.Shingle):
			votes++
		default:
			votes--
		}
	}
	var first *Version
	same := 0
	for i := range n {
		v, before := of(i)
		if v == nil || !channel.Near(most, v.Shingle) || before.State == None || channel.Near(before.Shingle, v.Shingle) {
			continue
		}
		if first == nil {
			first = before
		} else if channel.Near(first.Shingle, before.Shingle) {
			continue // pages that are alike anyway
		}
		same++
	}
	if same < everywhereFrom {
		return 0
	}
	return most
}

// seenEverywhere looks whether this delivery shows the same on pages that were different, and holds it then.
func (w *visit) seenEverywhere() {
	g := func(i int) *Page { return w.d.Pages[w.changed[i]].Page }
	w.everywhere = everywhere(len(w.changed), func(i int) (now, before *Version) {
		if p := g(i); p.Cur.By == w.d.Peer && p.Cur.At == w.at {
			return &p.Cur, &p.Prev
		}
		return nil, nil
	})
	for i := range w.changed {
		if p := g(i); w.m.cfg.Enforce && p.Cur.By == w.d.Peer && p.Cur.At == w.at && p.Cur.State == Provisional && p.Prev.State.Shown() && channel.Near(w.everywhere, p.Cur.Shingle) {
			p.Cur.State = Held
		}
	}
}

// saidEverywhere looks whether what this delivery contradicts was the same on pages that were different.
func (w *visit) saidEverywhere() {
	w.before = everywhere(len(w.d.Pages), func(i int) (now, before *Version) {
		s := &w.d.Pages[i]
		if g := s.Page; s.Digest != 0 && s.Digest != g.Cur.Digest && g.Cur.State != None {
			return &g.Cur, &g.Prev
		}
		return nil, nil
	})
}
