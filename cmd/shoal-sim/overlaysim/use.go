package overlaysim

import "time"

// use is what became of the time of the peers' threads while it was counted: goodput is the threads that are there, times the share that is busy, times the share of the
// pages that came into an update, over the time of a page.
type use struct {
	there, busy float64 // threads, summed over the minutes
	lost        float64 // pages that were fetched for nothing
}

// watch looks at the threads once a minute.
func (s *swarm) watch() {
	s.n.after(time.Minute, func() {
		for _, i := range s.n.ups() {
			if s.crawlers[i] == nil { // a swallower
				continue
			}
			s.use.look(s.crawlers[i].q.Running())
			s.bound.look(s, i)
			for _, f := range s.fires {
				f.use.look(f.runs(i))
			}
		}
		s.watch()
	})
}

func (u *use) look(running int) {
	u.there += threads
	u.busy += float64(running)
}

// tell fills a row in. good are the pages of updates, fetched all, by member.
func (u *use) tell(row *Row, good float64, fetched []float64) {
	all := 0.
	for _, pages := range fetched {
		all += pages
	}
	if u.there == 0 || all == 0 {
		return
	}
	row.Busy, row.PageMS = u.busy/u.there, u.busy*float64(time.Minute.Milliseconds())/all
	row.Wasted = u.lost / max(good+u.lost, 1)
}
