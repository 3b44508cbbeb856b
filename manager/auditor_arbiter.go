package manager

import (
	"cmp"
	"context"
	"slices"
	"time"

	"shoal/channel"
	"shoal/internal/plain"
	"shoal/manager/archive"
	"shoal/manager/archive/evidence"
	"shoal/manager/trust/compare"
)

// visits are what the arbiter is to look at. To the dispatcher's machine a look is a visit of the host, as a task is: no peer is there at that time, and the
// host's delay is kept before and after it. There is one at a time. Owned by the loop.
type visits struct {
	waits   []*dispute
	now     *visit      // nil: none
	granted chan *visit // to the arbiter
}

// visit is one look at a page, from all vantages.
type visit struct {
	t    *dispute
	host *channel.Host // its record
	sent bool

	gap   time.Duration // between two requests to the host
	looks []look
}

// look is what came of one fetch.
type look struct {
	vantage int
	why     string // nothing came; empty: the page did
}

// sights are how the arbiter has fared from each vantage lately. Owned by the loop.
type sights []sight

type sight struct {
	hosts int    // in turn at which nothing came
	last  string // of these
	why   string
}

// Blind says that the arbiter sees nothing from a vantage.
type Blind struct {
	Vantage int    // 0: the manager's own place; else a proxy, in their order
	Hosts   int    // in turn at which nothing came
	Why     string // at the last of them
	All     bool   // so it is from each vantage
	Machine string // of the manager; empty: of this one
}

// blindFrom is how many hosts in turn must have shown nothing before it is rather the vantage that fails than the hosts.
const blindFrom = 4

// add takes in what came of the fetches of a visit, and counts those in vain.
func (all *sights) add(origin string, looks []look) (vain int64) {
	for _, l := range looks {
		for len(*all) <= l.vantage {
			*all = append(*all, sight{})
		}
		s := &(*all)[l.vantage]
		if l.why == "" {
			*s = sight{}
			continue
		}
		vain++
		if s.why = l.why; s.last != origin {
			s.hosts, s.last = s.hosts+1, origin
		}
	}
	return vain
}

// blind are the vantages from which nothing was seen lately.
func (all sights) blind() (out []Blind) {
	for i, s := range all {
		if s.hosts >= blindFrom {
			out = append(out, Blind{Vantage: i, Hosts: s.hosts, Why: s.why})
		}
	}
	for i := range out {
		out[i].All = len(out) == len(all)
	}
	return out
}

// Limits of visits.
const (
	maxDisputes = 512              // that wait for the arbiter
	visitWait   = 10 * time.Minute // until a host is free, after which its page is not looked at
	visitTime   = time.Minute      // of one visit
)

// add has the arbiter look at a page, if not too many wait.
func (v *visits) add(now time.Time, t *dispute) bool {
	if len(v.waits) >= maxDisputes {
		return false
	}
	t.until = now.Add(visitWait)
	v.waits = append(v.waits, t)
	return true
}

// addOnce is add of an audit, unless it waits here already.
func (v *visits) addOnce(now time.Time, t *dispute) {
	if !slices.ContainsFunc(v.waits, func(w *dispute) bool { return w.number == 0 && w.c == t.c }) {
		v.add(now, t)
	}
}

// visit begins the next look whose host is free. That the host must be left alone as long as the look may take is written before it begins, so that a manager
// that ends meanwhile leaves no peer in its way. Called on the loop before tasks are handed out, which would else take every host first.
func (au *auditor) visit(now time.Time) {
	for k := 0; k < len(au.visits.waits) && au.visits.now == nil; {
		t := au.visits.waits[k]
		key := channel.KeyOf(t.origin)
		if !au.tenancy.mine(key) { // another manager's by now: it opens the case again, or has read of the audit
			au.visits.waits = slices.Delete(au.visits.waits, k, k+1)
			delete(au.courts, t.number)
			continue
		}
		late := now.After(t.until) || au.isBlocked(t.origin)
		if !late && !au.machine.Visit(now, key) {
			k++
			continue
		}
		au.visits.waits = slices.Delete(au.visits.waits, k, k+1)
		if late {
			au.viewed(t, nil)
			continue
		}
		h, err := au.keep.hostRecord(t.origin)
		if err != nil {
			au.log.Warn("a contested page is not looked at", "url", t.url, "err", err)
			au.machine.Left(key, now)
			au.viewed(t, nil)
			continue
		}
		left(now, h, now.Add(visitTime))
		au.keep.savedAt = time.Time{}
		au.visits.now = &visit{t: t, host: h, gap: max(au.cfg.Gap, h.CrawlDelay)}
	}
}

// grant lets the arbiter begin once that is written. Called on the loop.
func (au *auditor) grant() {
	v := au.visits.now
	if v == nil || v.sent || au.keep.records[channel.KeyOf(v.t.origin)] == v.host {
		return
	}
	v.sent = true
	au.visits.granted <- v
}

// arbitrate has the arbiter look at contested pages until ctx ends.
func (au *auditor) arbitrate(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case v := <-au.visits.granted:
			limited, cancel := context.WithTimeout(ctx, visitTime)
			f := au.view(limited, v.t, v)
			cancel()
			au.post(ctx, func(now time.Time) {
				au.left(now, v)
				au.viewed(v.t, f)
			})
		}
	}
}

// left ends a visit: the host is left alone as after a crawl. Called on the loop.
func (au *auditor) left(now time.Time, v *visit) {
	au.visits.now = nil
	au.counts.Fetched += int64(len(v.looks))
	au.counts.Unseen += au.sights.add(v.t.origin, v.looks)
	next := now.Add(v.gap)
	au.machine.Left(channel.KeyOf(v.t.origin), next)
	h, err := au.keep.hostRecord(v.t.origin)
	if err != nil { // it is left alone for longer after a restart
		au.log.Debug("host not read", "host", v.t.origin, "err", err)
		return
	}
	au.leave(now, h, next)
}

// arbiterChecks has the arbiter make an audit that no peer can make, as where all peers are newcomers, if it is not busy. Called on the loop.
func (au *auditor) arbiterChecks(now time.Time, e *errand) {
	if au.cfg.Arbiter == nil || len(au.visits.waits)+len(e.pages) > maxDisputes/2 || !au.errands.spend(len(e.pages), e.fresh) {
		return
	}
	for _, w := range e.pages {
		au.visits.add(now, &dispute{wanted: w, origin: e.host})
	}
}

// viewed takes in what the arbiter has seen; nil: nothing. Called on the loop.
func (au *auditor) viewed(t *dispute, f *archive.EvidenceFetch) {
	if t.number != 0 {
		if f != nil {
			t.ruling.Arbiter, t.ruling.Modified, t.decides = f.Features(), f.Modified(), f
			t.sides = append(t.sides, testimony{evidence.Arbiter, f})
		}
		au.ready(t)
		return
	}
	if f == nil {
		return
	}
	au.clerk(t.c.Channel, "what the arbiter has seen is lost", func(ctx context.Context) error {
		contested, err := au.check(ctx, t.origin, t.wanted, f, au.arbiter)
		if err != nil || contested == nil {
			return err
		}
		contested.ruling.Arbiter, contested.ruling.Modified, contested.decides = contested.ruling.Checked, f.Modified(), f
		return au.rule(ctx, contested)
	})
}

// view fetches a page from all vantages. It returns what decides: a fetch that is like one of the sides, if no other is like the other side. nil: nothing came,
// or both sides were seen, which then differ by where they looked from. v notes what that took.
func (au *auditor) view(ctx context.Context, t *dispute, v *visit) (decides *archive.EvidenceFetch) {
	delivered, checked := t.ruling.Delivered, t.ruling.Checked
	if t.number == 0 {
		said, err := au.said(ctx, t.url, t.c.Accused, t.c.At)
		if err != nil {
			return nil
		}
		delivered = said.Features()
	}
	ch, err := au.cfg.Store.Channel(ctx, t.c.Channel)
	if err != nil { // without its settings what is seen could not be compared
		au.log.Debug("the arbiter does not look", "url", t.url, "err", err)
		return nil
	}
	var sawDelivered, sawChecked, first *archive.EvidenceFetch
	for i := range au.cfg.Arbiter.Vantages() {
		p, gap, err := au.cfg.Arbiter.Fetch(ctx, t.url, i, v.gap, ch.Settings)
		v.gap = max(v.gap, gap)
		if err != nil {
			v.looks = append(v.looks, look{i, plain.Error(err)})
			au.log.Debug("the arbiter has seen nothing", "url", t.url, "vantage", i, "err", err)
			continue
		}
		v.looks = append(v.looks, look{vantage: i})
		f := evidence.Of(&archive.Capture{URL: p.URL, Status: p.Status, Header: p.Header, Body: p.Body, Fetched: p.Fetched})
		f.Short, f.Raw = p.Truncated && p.Error != "", p.Digest
		seen := f.Features()
		first = cmp.Or(first, f)
		if alike(delivered, seen) {
			sawDelivered = cmp.Or(sawDelivered, f)
		}
		if alike(checked, seen) {
			sawChecked = cmp.Or(sawChecked, f)
		}
	}
	if sawDelivered != nil && sawChecked != nil {
		return nil
	}
	return cmp.Or(sawDelivered, sawChecked, first)
}

// alike tells whether two fetches saw the same.
func alike(a, b *compare.Features) bool {
	return a != nil && b != nil && (compare.Host{}).Compare(a, b).Verdict == compare.Same
}
