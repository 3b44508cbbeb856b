package livesim

// Row is the outcome of one run. Shares are averages over its time.
type Row struct {
	Strategy string  `json:"strategy"`
	Load     float64 `json:"load"`
	Churn    bool    `json:"churn"`
	Scene    string  `json:"scene"`
	Seed     uint64  `json:"seed"`
	Minutes  float64 `json:"minutes"`
	Cap      float64 `json:"cap"`
	Weights  string  `json:"weights"` // that strategies look at: pages or equal
	*Measured
	FirstPassLeastS  float64 `json:"first_pass_least_s"`
	PageMS           float64 `json:"page_ms"` // what a page took beside wait and round trip, and
	TaskMS           float64 `json:"task_ms"` // a task beside its pages and the ways to the manager; the simulator is told both
	SimFresh         float64 `json:"sim_fresh"`
	SimFreshWeight   float64 `json:"sim_fresh_weight"`  // by importance
	SimFreshBySize   float64 `json:"sim_fresh_by_size"` // of channels, each counting as many as it has pages, as strategies weigh them by default
	SimUpdatesPerMin float64 `json:"sim_updates_per_min"`
	SimPagesPerMin   float64 `json:"sim_pages_per_min"`
	SimFreshSteady   float64 `json:"sim_fresh_steady"`
	SimSteady90S     float64 `json:"sim_steady90_s"`
	SimFirstPassS    float64 `json:"sim_first_pass_s"`
	SimIdleShare     float64 `json:"sim_idle_share"`
	SimRTTChosenMS   float64 `json:"sim_rtt_chosen_ms"`
	SimRTTBoundMS    float64 `json:"sim_rtt_bound_ms"`
	*Range
	*Burst

	foretold []sample // freshness and threads' time, by second
}

// Measured is what only a network that ran can tell: a forecast alone leaves all of it out.
type Measured struct {
	FreshTrue       float64 `json:"fresh_true"`        // of channels
	FreshTruePages  float64 `json:"fresh_true_pages"`  // of pages
	FreshTrueWeight float64 `json:"fresh_true_weight"` // of channels, by importance
	FreshEstimate   float64 `json:"fresh_estimate"`    // what the manager thought
	FreshSteady     float64 `json:"fresh_true_steady"` // of channels, in the second half
	Steady90S       float64 `json:"steady90_s"`        // seconds until nine tenths of that; -1: never
	FirstPassS      float64 `json:"first_pass_s"`      // seconds until every channel was crawled once; -1: not in the time
	StartS          float64 `json:"start_s"`           // seconds from a peer's start until its threads were there, on average; the times above have it in them
	UpdatesPerMin   float64 `json:"updates_per_min"`
	PagesPerMin     float64 `json:"pages_per_min"`
	PagesWasted     int64   `json:"pages_wasted"` // fetched by crawls, and never at the archive
	Refused         int64   `json:"refused"`
	Lapsed          int64   `json:"lapsed"`
	IdleShare       float64 `json:"idle_share"`            // thread time idle while something was missing or stale
	IdleFirst       float64 `json:"idle_share_first_pass"` // the same, until every channel was crawled once
	IdleAll         float64 `json:"idle_share_all"`        // thread time without a task, for whatever reason
	RTTChosenMS     float64 `json:"rtt_chosen_ms"`
	RTTNearestMS    float64 `json:"rtt_nearest_ms"`
	RTTBoundMS      float64 `json:"rtt_bound_ms"` // the least mean with which the peers could do what they did; 0: not known, as what was measured does not fit into their time

	series []sample
}

// Range is what forecasts foretell that differ from each other by less than a run measures; without --alike it is left out.
type Range struct {
	SimFreshLeast   float64 `json:"sim_fresh_least"`
	SimFreshMost    float64 `json:"sim_fresh_most"`
	SimUpdatesLeast float64 `json:"sim_updates_per_min_least"`
	SimUpdatesMost  float64 `json:"sim_updates_per_min_most"`
}

// Burst is what became of channels that came in the middle of a run; other runs leave it out.
type Burst struct {
	AtS        float64  `json:"burst_s"`                // when they came
	PassS      *float64 `json:"burst_pass_s,omitempty"` // seconds from then until every channel was crawled once; -1: not in the time; left out of a forecast alone
	PassLeastS float64  `json:"burst_pass_least_s"`     // what the threads need for the new ones
	SimPassS   float64  `json:"sim_burst_pass_s"`
}
