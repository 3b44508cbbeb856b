package judge

import (
	"context"
	"maps"
	"net/url"
	"slices"
)

// visit is a page in a second, as the index tells times.
type visit struct{ url, at string }

// known notes channels that were ever updated. They are durable: only an operator may end them.
func (j *Judge) known(rows []row) {
	for _, r := range rows {
		if r.Updates > 0 {
			j.crawled[r.ID] = r.Host
		}
	}
}

// vanished judges those that two lists in a row lack, when all is calm: one list is read in parts, while others come and go.
func (j *Judge) vanished(before, now []row) {
	there := map[int64]bool{}
	for _, r := range slices.Concat(before, now) {
		there[r.ID] = true
	}
	for _, id := range slices.Sorted(maps.Keys(j.crawled)) {
		n, ok := j.number[bare(j.crawled[id])]
		if !there[id] && ok && !j.removed[n] {
			j.breach(Lost, "channel %d (%s) is gone, and nobody removed it", id, j.crawled[id])
		}
	}
}

// fromPond are the URLs of pages that the pond has, with their captures in the order of their times.
type fromPond map[string]*kept

type kept struct {
	page     pageKey
	captures []capture
}

// whole judges the hosts of which each crawl fetches all pages: their one channel is all of them, and no member lied about them. before are the channels as they were
// before the index was read, which is of.
func (j *Judge) whole(before []row, of fromPond) {
	was := map[int64]int{}
	for _, r := range before {
		was[r.ID] = r.Updates
	}
	visits := map[int]map[int]int{} // captures by host and page
	for _, s := range of {
		if visits[s.page.host] == nil {
			visits[s.page.host] = map[int]int{}
		}
		visits[s.page.host][s.page.page] += len(s.captures)
	}
	for _, r := range j.rowsNow {
		n, ok := j.number[bare(r.Host)]
		if !ok || j.bad[n] != "" || j.parted[n] || j.lied[n] || j.hosts[n].Pages > j.cfg.Whole {
			continue
		}
		h := j.hosts[n]
		var stored, fetched []int // how often, by page; the rarest first
		for p := range h.Pages {
			stored = append(stored, visits[n][p])
			fetched = append(fetched, len(j.answers[pageKey{n, p}]))
		}
		slices.Sort(stored)
		slices.Sort(fetched)
		if r.Updates >= sureWhole && stored[0] == 0 {
			j.breach(Lost, "channel %d (%s) has %d updates; of its %d pages the archive has %d", r.ID, r.Host, r.Updates, h.Pages, len(visits[n]))
		}
		if j.removed[n] || j.renamed[n] { // the channel's count began anew; another channel may be of the same pages, and a name server may have led elsewhere
			continue
		}
		// A crawl stores each page once, whoever goes on with it; one may be under way.
		if r.Updates < stored[0]-1 {
			j.breach(Miscounted, "channel %d (%s) has %d updates; the archive has each of its pages %d times or more", r.ID, r.Host, r.Updates, stored[0])
		}
		// Each update takes a visit of each page, but for one that a fault kept from reaching the host. What came to nothing has fetched the first pages alone.
		spare := min(max(h.Pages/spareShare, 1), h.Pages-1)
		astray := 0
		if j.cfg.Astray != nil {
			astray = j.cfg.Astray(h.Name)
		}
		if u := r.Updates; u-u/spareCrawls > fetched[spare]+astray {
			j.breach(Miscounted, "channel %d (%s) has %d updates; of its %d pages %d were fetched no more than %d times", r.ID, r.Host, u, h.Pages, spare+1, fetched[spare])
		}
		if u := was[r.ID]; u-u/spareCrawls > stored[spare]+astray {
			j.breach(Lost, "channel %d (%s) had %d updates; of its %d pages the archive has %d no more than %d times", r.ID, r.Host, u, h.Pages, spare+1, stored[spare])
		}
	}
}

const (
	sureWhole   = 2  // updates of a host after which each of its pages was stored: a fault may have kept one crawl from some
	spareShare  = 4  // one in so many pages may have been visited less often than there were updates, and one at least
	spareCrawls = 10 // one in so many crawls may have missed more
)

// untold checks that the feed told each version of a page that the index has: who follows it has what the archive has.
func (j *Judge) untold(of fromPond) {
	told, turned := map[visit]bool{}, map[string]bool{}
	for _, c := range j.told {
		told[visit{c.URL, c.Fetched.UTC().Format(stamp)}] = true
		turned[c.URL] = turned[c.URL] || c.Event == "withdrawn"
	}
	for u, s := range of {
		if _, down := j.down(u); down || turned[u] || j.parted[s.page.host] || slices.ContainsFunc(s.captures, func(c capture) bool { return c.lie }) {
			continue
		}
		for i, c := range s.captures {
			if len(j.could(c.at)) == 1 && j.differs(s.captures[:i], c) && !told[visit{u, c.at.Format(stamp)}] {
				j.breach(Lost, "the index has a version of %s, fetched at %s, that the feed never told", u, c.at.Format(stamp))
			}
		}
	}
}

// differs reports whether a capture has surely another content than the one before it.
func (j *Judge) differs(before []capture, c capture) bool {
	last := len(before) - 1
	if last < 0 {
		return true
	}
	b := before[last]
	if last > 0 && before[last-1].at.Equal(b.at) { // which of a second came last is not known
		return false
	}
	return b.Digest != c.Digest && !b.at.Equal(c.at) && len(j.could(b.at)) == 1
}

// remains checks that no page is told to be gone that the pond has: it takes none away.
func (j *Judge) remains() {
	for _, c := range j.told {
		if c.Event != "gone" || j.takenBack(c) || j.misbehaves(c.URL) {
			continue
		}
		u, err := url.Parse(c.URL)
		if err != nil {
			continue
		}
		n, ok := j.number[u.Hostname()]
		if ok && j.hosts[n].Name == u.Hostname() && !j.lied[n] {
			j.breach(Lost, "the feed told at %s that %s is gone; the pond has it", c.Fetched.Format(stamp), c.URL)
		}
	}
}

// older reads one version of each page that is not the newest.
func (j *Judge) older(ctx context.Context, of fromPond) error {
	versions := map[string]version{}
	for u, s := range of {
		var past []version
		for _, c := range s.captures {
			if c.lie || c.State == withdrawn { // what a page showed while that was believed is not known
				past = nil
				break
			}
			if last := len(past) - 1; last >= 0 && past[last].at.Equal(c.at) {
				past[last].digests = append(past[last].digests, c.Digest)
			} else {
				past = append(past, version{c.at, []string{c.Digest}})
			}
		}
		if _, down := j.down(u); down || len(past) < 2 {
			continue
		}
		versions[u] = past[(s.page.host+s.page.page)%(len(past)-1)] // another one of each page
	}
	return readEach(ctx, j, versions)
}
