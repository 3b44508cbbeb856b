package recrawlsim

// shown is the copies of a world whose pages are known at every moment: what each page showed when it was fetched. It takes the place of the Poisson
// processes, so that a run sees the very changes that a real network saw.
type shown struct {
	at     func(site, page int, step float64) uint64
	copies [][]uint64 // by site; nil: it was never crawled
}

func newShown(w *world) *shown {
	if w.scale == nil || w.scale.Sites == nil || w.scale.Shows == nil {
		return nil
	}
	return &shown{at: w.scale.Shows, copies: make([][]uint64, len(w.group))}
}

// crawled takes in a crawl, whose pages were fetched one after the other, and tells whether any of them showed anything new.
func (s *shown) crawled(site int32, pages int, from, to float64) (changed bool) {
	old := s.copies[site]
	if old == nil {
		s.copies[site] = make([]uint64, pages)
	}
	for page := range s.copies[site] {
		now := s.at(int(site), page, from+(to-from)*float64(page+1)/float64(pages))
		changed = changed || s.copies[site][page] != now
		s.copies[site][page] = now
	}
	return changed || old == nil
}

// fresh says whether all pages of a site show what is stored of them.
func (s *shown) fresh(site int, step float64) bool {
	for page, stored := range s.copies[site] {
		if s.at(site, page, step) != stored {
			return false
		}
	}
	return s.copies[site] != nil
}
