package peer

import (
	"cmp"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Site is what was fetched of one Web site.
type Site struct {
	Site   string    `json:"site"` // host, with its port if that is not the usual one
	Pages  int       `json:"pages"`
	Failed int       `json:"failed,omitempty"` // without a response
	Bytes  int64     `json:"bytes"`
	First  time.Time `json:"first"`
	Last   time.Time `json:"last"`
}

// Bounds of the totals.
const (
	maxSites   = 100_000 // told apart; the rest is "other"
	OtherSites = "other" // the name of those that are not told apart
)

// Sites returns the totals of the wanted lines by site, those with the most pages first, and how many sites there are.
func (j *Journal) Sites(w Want) (list []Site, all int, err error) {
	newest := w.Newest
	w.Newest = 0
	totals := map[string]*Site{}
	err = j.each(&w, func(e *Entry) bool {
		name := SiteOf(e.URL)
		t := totals[name]
		if t == nil && len(totals) >= maxSites {
			name = OtherSites
			t = totals[name]
		}
		if t == nil {
			t = &Site{Site: name, First: e.At}
			totals[name] = t
		}
		if e.Status == 0 {
			t.Failed++
		} else {
			t.Pages++
		}
		t.Bytes += int64(e.Bytes)
		if e.At.Before(t.First) {
			t.First = e.At
		}
		if e.At.After(t.Last) {
			t.Last = e.At
		}
		return true
	})
	if err != nil {
		return nil, 0, err
	}
	sorted := slices.SortedFunc(maps.Values(totals), func(a, b *Site) int {
		return cmp.Or(cmp.Compare(b.Pages, a.Pages), cmp.Compare(b.Bytes, a.Bytes), strings.Compare(a.Site, b.Site))
	})
	if newest > 0 && len(sorted) > newest {
		sorted = sorted[:newest]
	}
	for _, s := range sorted {
		list = append(list, *s)
	}
	return list, len(totals), nil
}

// SiteOf returns the site of a URL, as the record of fetches names it.
func SiteOf(at string) string {
	u, err := url.Parse(at)
	if err != nil || u.Host == "" {
		return at
	}
	return strings.ToLower(u.Host)
}
