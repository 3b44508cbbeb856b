// Package intake decides what of a chunk may be believed. A member can send anything that parses; nothing that it says is a fact until this package has
// bounded it by what the archive knows itself: the task that the manager signed, the archive's own clock, and the bytes that came.
//
// The archive calls Screen once for each chunk, before it writes anything. Screen corrects the chunk in place, and adds up what the claim has stored in a
// Sum, which the caller keeps with the channel. It refuses a chunk only for what no honest peer does; everything else it mends and counts, so that a peer
// with a wrong clock or an old version loses nothing.
//
// The package is pure. It does not compare a page with earlier versions of it (package pages does) and judges nobody (the caller counts Findings against
// the account that claimed).
package intake

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"shoal/channel"
)

// ErrBeyond is wrapped for a chunk that is more than its task allows. Its sender's claim ends.
var ErrBeyond = errors.New("intake: beyond the task")

// The kinds of ErrBeyond.
var (
	ErrBudget = fmt.Errorf("%w: too many pages", ErrBeyond)
	ErrPace   = fmt.Errorf("%w: too fast", ErrBeyond)
)

// Task is what the manager signed, as far as it bounds chunks.
type Task struct {
	Host      string // as channel.Scope.Host
	Scope     *channel.Matcher
	Budget    int           // pages; 0: as many as a channel may have
	PageBytes int           // of a page's body; 0: channel.MaxPage
	Gap       time.Duration // between two requests
	TextOnly  bool          // the peer sends a page's text only, so that its digest cannot be computed from what comes
	Claimed   time.Time     // by the archive's clock as it was then; zero: not known
	SetBack   time.Duration // how far that clock may have been set back since
	Before    int           // pages that earlier claims of the same crawl brought: who goes on reports them too
	Unpaced   bool          // pages may come faster than Gap allows, as in measurements, or how long ago the claim was made is not known
}

// Sum is what the chunks of one claim have brought. The zero Sum is that of the first claim of a crawl.
type Sum struct {
	Pages         int   // with a status or an error
	Answered      int   // of them with a status
	Bytes         int64 // of bodies
	Frontier      int   // URLs kept, by all claims of the crawl
	FrontierBytes int64 // of them
	Leads         int   // URLs of other sites kept, by all claims of the crawl
	LeadBytes     int64 // of them
	New           int
	Changed       int
	NearUnchanged int
	Unchanged     int
	Gone          int
	Wrong         int // findings that no honest peer causes
}

// Findings counts what Screen mended.
type Findings struct {
	Foreign   int // pages outside the task's scope, left out
	Spelling  int // URLs that are not canonical, left out
	Digests   int // digests that were not those of the body
	Times     int // times outside the claim
	Frontier  int // URLs left out of the to-do list, since it is full or they are out of scope
	Statuses  int // changes that do not fit their status
	Numbers   int // counts and sizes of a report that were not those stored
	Words     int // kinds of errors that peers do not have, texts that cannot be shown
	Truncated int // bodies beyond what the channel allows, cut
}

// Wrong counts the findings that no honest peer of any version causes, whatever its clock.
func (f *Findings) Wrong() int { return f.Foreign + f.Spelling + f.Digests + f.Statuses + f.Numbers }

// Limits on one claim.
const (
	pageSlack     = 8  // pages beyond the budget: robots.txt, sitemaps and retries are pages to some peers
	paceSlack     = 60 // pages that may come at once, whatever the gap: what a peer could not send for a while
	frontierLeast = 10_000
	frontierTimes = 8               // URLs kept for each page that the task may still fetch
	frontierBytes = 256             // for each URL, of all kept together: most are shorter than a hundred
	maxGap        = 5 * time.Minute // a peer keeps 30 s at most of what robots.txt asks for; its volunteer may ask for more
	maxRTT        = 30 * time.Second
	interSlack    = 1000            // links to other sites that any crawl may tell
	interOfPage   = 100             // for each page that it brought, so many more
	clockSlack    = 5 * time.Minute // that a peer's clock may be away
	lateSlack     = 7 * 24 * time.Hour
)

// frontierMost is how many URLs the to-do list of a task may have. A task that may fetch n pages has no use for a million URLs: the next crawl finds
// them again.
func (t *Task) frontierMost() int {
	if t.Budget <= 0 {
		return channel.MaxFrontier
	}
	return min(frontierLeast+frontierTimes*t.Budget, channel.MaxFrontier)
}

// FrontierRoom is how many more URLs to fetch are kept of a claim's chunks.
func (t *Task) FrontierRoom(sum *Sum) int { return max(t.frontierMost()-sum.Frontier, 0) }

// Screen corrects the body of a chunk that a peer sends at now, and adds it to sum. useful counts the pages that bring the channel forward, which a lease
// is lengthened for. After an error wrapping ErrBeyond sum is as it was.
func Screen(now time.Time, t *Task, sum *Sum, b *channel.ChunkBody) (useful int, found Findings, err error) {
	n := *sum
	kept := b.Pages[:0]
	for i := range b.Pages {
		p := b.Pages[i]
		if !t.belongs(p.URL, &found) {
			continue
		}
		t.page(now, &p, &found)
		n.add(&p)
		if p.Status != 0 && p.Change != channel.Errored {
			useful++
		}
		kept = append(kept, p)
	}
	if err := t.within(now, &n); err != nil {
		return 0, found, err
	}
	clear(b.Pages[len(kept):])
	b.Pages = kept
	b.Frontier = t.frontier(b.Frontier, &n, &found)
	if b.Report != nil {
		t.report(now, b.Report, &n, &found)
		useful++
	}
	n.Wrong += found.Wrong()
	*sum = n
	return useful, found, nil
}

// belongs reports whether a URL may be stored under the task.
func (t *Task) belongs(url string, found *Findings) bool {
	if canonical, err := channel.Canonical(url); err != nil || canonical != channel.Respell(url) { // the spelling of older peers is no wrong finding
		found.Spelling++
		return false
	}
	if channel.Origin(url) != t.Host || t.Scope != nil && !t.Scope.Contains(url) {
		found.Foreign++
		return false
	}
	return true
}

// page bounds one page.
func (t *Task) page(now time.Time, p *channel.Page, found *Findings) {
	if most := t.PageBytes; most > 0 && len(p.Body) > most {
		p.Body, p.Truncated = p.Body[:most], true
		found.Truncated++
	}
	// What it delivered is looked for from the claim on, when it is looked at again: a time before that would hide it.
	if f := clamp(p.Fetched, t.since(now), now); !f.Equal(p.Fetched) {
		if p.Fetched.IsZero() || p.Fetched.Before(now.Add(-lateSlack)) || p.Fetched.After(now.Add(clockSlack)) {
			found.Times++
		}
		p.Fetched = f
	}
	if p.RTT < 0 || p.RTT > maxRTT {
		p.RTT = 0
	}
	if plain := channel.PlainText(p.Error, channel.MaxText); plain != p.Error {
		p.Error = plain
		found.Words++
	}
	if len(p.Body) > 0 && !t.TextOnly {
		if d := channel.ContentDigest(p.Body); d != p.Digest {
			if p.Digest != 0 && !p.Truncated {
				found.Digests++
			}
			p.Digest = d
		}
	}
	t.change(p, found)
}

// change makes what a peer says of a page fit the status that it says.
func (t *Task) change(p *channel.Page, found *Findings) {
	was := p.Change
	switch {
	case p.Status == 0:
		p.Change = channel.Errored
	case p.Change == channel.Gone && p.Status != 404 && p.Status != 410:
		p.Change = channel.Errored
	case p.Status >= 400 && p.Change != channel.Gone:
		p.Change = channel.Errored
	case p.Status == 304 && p.Change != channel.Errored:
		p.Change = channel.Unchanged
	}
	if p.Change != was {
		found.Statuses++
	}
}

func clamp(t, least, most time.Time) time.Time {
	switch {
	case t.IsZero() || t.After(most):
		return most
	case t.Before(least):
		return least
	}
	return t
}

func (n *Sum) add(p *channel.Page) {
	n.Pages++
	n.Bytes += int64(len(p.Body))
	if p.Status == 0 {
		return
	}
	n.Answered++
	switch p.Change {
	case channel.New:
		n.New++
	case channel.Changed:
		n.Changed++
	case channel.NearUnchanged:
		n.NearUnchanged++
	case channel.Unchanged:
		n.Unchanged++
	case channel.Gone:
		n.Gone++
	}
}

// within refuses what is more than the task allows: pages, or their pace. Of each page there is no more than page allows, so that their bytes are bounded too.
func (t *Task) within(now time.Time, n *Sum) error {
	most := channel.MaxDone
	if t.Budget > 0 {
		most = t.Budget + t.Budget/8 + pageSlack
	}
	if n.Pages > most {
		return fmt.Errorf("%w: %d pages for a budget of %d", ErrBudget, n.Pages, t.Budget)
	}
	if t.Unpaced || t.Gap <= 0 || t.Claimed.IsZero() {
		return nil
	}
	took := max(now.Sub(t.Claimed), now.Round(0).Sub(t.Claimed.Round(0))) + t.SetBack // while this computer slept peers fetched on
	if took < 0 {                                                                     // a clock that was ahead dated the claim: how long ago it was made is not known
		return nil
	}
	if could := paceSlack + int(2*took/t.Gap); n.Pages > could {
		return fmt.Errorf("%w: %d pages in %v with %v between requests", ErrPace, n.Pages, took.Round(time.Millisecond), t.Gap)
	}
	return nil
}

// since is when the claim was made, or now if the clock was ahead then: nothing is dated later than now.
func (t *Task) since(now time.Time) time.Time {
	if t.Claimed.After(now) {
		return now
	}
	return t.Claimed
}

// frontier keeps of a to-do list what is in scope and what there is room for. A claim that has brought no page has found no links: whoever goes on would
// spend its whole budget on URLs that one member made up.
func (t *Task) frontier(in []channel.Frontier, n *Sum, found *Findings) []channel.Frontier {
	if n.Answered == 0 {
		found.Frontier += len(in)
		return in[:0]
	}
	most := t.frontierMost()
	kept := in[:0]
	for _, f := range in {
		if n.Frontier >= most || n.FrontierBytes+int64(len(f.URL)) > int64(min(most*frontierBytes, channel.MaxResume)) {
			found.Frontier++
			continue
		}
		if channel.Origin(f.URL) != t.Host || t.Scope != nil && !t.Scope.Contains(f.URL) {
			found.Frontier++
			continue
		}
		n.Frontier++
		n.FrontierBytes += int64(len(f.URL))
		kept = append(kept, f)
	}
	clear(in[len(kept):])
	return kept
}

// report replaces what a peer says of its crawl by what the archive knows of it.
func (t *Task) report(now time.Time, r *channel.Report, n *Sum, found *Findings) {
	since := t.since(now)
	began, ended := clamp(r.Started, since, now), clamp(r.Ended, since, now)
	if r.Started.IsZero() {
		began = since
	}
	if ended.Before(began) {
		began, ended = since, now
	}
	if r.Ended.After(now.Add(clockSlack)) || r.Started.After(now.Add(clockSlack)) {
		found.Times++
	}
	r.Started, r.Ended = began, ended
	if all := t.Before + n.Pages; r.Pages > all+all/8+pageSlack {
		found.Numbers++
	}
	r.Pages = n.Answered
	r.New, r.Changed, r.NearUnchanged, r.Unchanged, r.Gone = n.New, n.Changed, n.NearUnchanged, n.Unchanged, n.Gone
	// What was read from the network is more than what was sent on: headers, pages that did not change, and what was not kept.
	if most := n.Bytes + int64(n.Pages+pageSlack)*channel.MaxPage; r.BytesDown < 0 || r.BytesDown > most {
		r.BytesDown = n.Bytes
		found.Numbers++
	}
	if r.BytesUp < 0 || r.BytesUp > r.BytesDown+n.Bytes+1<<20 {
		r.BytesUp = n.Bytes
	}
	if r.Gap < 0 || r.Gap > maxGap {
		r.Gap = min(max(r.Gap, 0), maxGap)
		found.Numbers++
	}
	rest := channel.UsualRest
	if r.Outcome == channel.HostBlocked {
		rest = channel.MostRest
	}
	if r.Rest < 0 || r.Rest > rest {
		r.Rest = min(max(r.Rest, 0), rest)
		found.Numbers++
	}
	if r.RTT < 0 || r.RTT > maxRTT {
		r.RTT = 0
	}
	r.Left = min(r.Left, t.frontierMost())
	if most := interSlack + (t.Before+n.Answered)*interOfPage; len(r.Inter) > most {
		clear(r.Inter[most:])
		r.Inter = r.Inter[:most]
	}
	for i, u := range r.Inter {
		r.Inter[i] = channel.Respell(u)
	}
	// No wrong finding: peers of older versions wrote names of a few hosts in a form that nobody reads.
	r.Inter = slices.DeleteFunc(r.Inter, func(u string) bool { return !fetchable(u) })
	bytes := 0
	for i, u := range r.Inter { // peers stop there by themselves, and may come a little further where a name is respelt
		if bytes += len(u); bytes > channel.MaxReportURLs {
			clear(r.Inter[i:])
			r.Inter = r.Inter[:i]
			break
		}
	}
	for _, text := range []*string{&r.Reason, &r.Robots} {
		if plain := channel.PlainText(*text, maxReason); plain != *text {
			*text = plain
			found.Words++
		}
	}
	r.Errors = t.errors(r.Errors, n, found)
}

const maxReason = 200 // bytes of a reason that an operator is shown

// errors counts errors under kinds that peers have, no more of each than there can be.
func (t *Task) errors(in map[string]int, n *Sum, found *Findings) map[string]int {
	if len(in) == 0 {
		return nil
	}
	most := n.Pages*4 + t.frontierMost()
	out := make(map[string]int, len(in))
	for kind, count := range in {
		k := channel.ErrorKind(kind)
		if k != kind {
			found.Words++
		}
		if count > most {
			count = most
			found.Numbers++
		}
		out[k] = min(out[k]+max(count, 0), most)
	}
	return out
}
