package manager

import "fmt"

// Sequencers are the queues that tasks come from, as in section 3 of Edwards, McCurley, Tomlin, "An Adaptive Model for Optimizing
// Performance of an Incremental Web Crawler" (WWW 2001): what is wanted now before everything else, then by a probabilistic choice channels never
// crawled or those that were, each in the strategy's order, one channel of a host at a time. The scheduler holds the last two, so that an operator's
// share holds among ten million as among ten.
type Sequencers struct {
	// Given is the operator's share of new channels while old ones wait too; 0: the strategy's word.
	Given float64 `json:"given"`
	// By says who decides: operator, strategy, or order if the strategy has no share either and its order holds alone.
	By string `json:"by"`
	// Ratio is the share in force; 0 with order.
	Ratio float64 `json:"ratio"`

	NowWaits int   `json:"now_waits"` // asked for now, or to be handed out again
	NewWaits int   `json:"new_waits"` // due and never crawled
	OldWaits int   `json:"old_waits"`
	NowTaken int64 `json:"now_taken"` // since the manager started
	NewTaken int64 `json:"new_taken"`
	OldTaken int64 `json:"old_taken"`
	// Sites is how many Web hosts have a task out, one channel of each: the active list.
	Sites int `json:"active_sites"`
}

// Mixed says in words how new and old channels are mixed.
func (q Sequencers) Mixed() string {
	who := map[string]string{"operator": "as an operator set it", "strategy": "as the strategy says"}[q.By]
	if who == "" {
		return "in the strategy's order, none before the other for being new"
	}
	return fmt.Sprintf("%.4g%% new while both wait, %s", 100*q.Ratio, who)
}

func (u *tuning) sequencers() Sequencers {
	n := u.machine.Counts()
	q := Sequencers{Given: u.choice.NewShare, By: "order", NowWaits: u.machine.Immediate(), NewWaits: u.sched.ReadyNew(), NowTaken: n.Now, NewTaken: n.New, OldTaken: n.Old, Sites: u.machine.Hosts()}
	q.OldWaits = u.sched.Ready() - q.NewWaits
	if share, ok := u.sched.Share(q.Given); ok {
		q.Ratio, q.By = share, "strategy"
		if q.Given > 0 {
			q.By = "operator"
		}
	}
	return q
}

// checkShare refuses what is no share.
func checkShare(v float64) error {
	if !(v >= 0 && v < 1) {
		return fmt.Errorf("%w: new channels get %v of the room: want at least 0 (as the strategy says) and less than 1", ErrAsk, v)
	}
	return nil
}
