package recrawlsim

// shown is the copies of a world whose pages are known at every moment: what each page showed when it was fetched. It takes the place of the Poisson
// processes, so that a run sees the very changes that a real network saw.
type shown struct {
	at     func(site, page int, step float64) uint64
	copies [][]uint64 // by site; nil: nothing of it was ever stored
	news   []bool     // by site: what was stored since its last crawl ended was new
}

func newShown(w *world) *shown {
	if w.scale == nil || w.scale.Sites == nil || w.scale.Shows == nil {
		return nil
	}
	return &shown{at: w.scale.Shows, copies: make([][]uint64, len(w.group)), news: make([]bool, len(w.group))}
}

// part takes in some pages of a site, those from first up to next, which were fetched one after the other and stored: all of a crawl, or what a peer had before it
// went.
func (s *shown) part(site int32, pages, first, next int, from, to float64) {
	if s.copies[site] == nil {
		s.copies[site] = make([]uint64, pages)
		s.news[site] = true
	}
	for page := first; page < next; page++ {
		now := s.at(int(site), page, from+(to-from)*float64(page-first+1)/float64(next-first))
		s.news[site] = s.news[site] || s.copies[site][page] != now
		s.copies[site][page] = now
	}
}

// ended tells whether any page of a crawl that has come to its end showed anything new.
func (s *shown) ended(site int32) (changed bool) {
	changed, s.news[site] = s.news[site], false
	return changed
}

// fresh says whether all pages of a site show what is stored of them. Until its first crawl ends it is not asked.
func (s *shown) fresh(site int, step float64) bool {
	for page, stored := range s.copies[site] {
		if s.at(site, page, step) != stored {
			return false
		}
	}
	return s.copies[site] != nil
}
