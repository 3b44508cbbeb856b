package crawl

import (
	"time"
)

// stopPatience is how long a crawl that is told to stop waits for the present response.
const stopPatience = 2 * time.Second

// keepCheckpoints puts checkpoints when they are due and watches for Stop while the session waits for the host. It returns when quit is closed.
func (s *session) keepCheckpoints(quit <-chan struct{}) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	stop := s.cfg.Stop
	var enough <-chan time.Time
	for {
		select {
		case <-quit:
			return
		case <-stop:
			stop, enough = nil, time.After(stopPatience)
			continue
		case <-enough:
			s.cancel(errStop)
			continue
		case <-s.cfg.Flush:
			if s.spool.checkpoint() != nil {
				s.cancel(errStop) // the session asks the spool why
			}
		case <-s.spool.news:
		case <-s.spool.broken:
			s.cancel(errStop)
			return
		case <-timer.C:
		}
		timer.Reset(s.spool.tend())
	}
}
