package recrawlsim

import (
	"math"
	"math/rand/v2"

	"shoal/recrawl"
)

// Row is the result of one run, as printed by --json. Arrays by group are fastest first, by quartile smallest channels first.
type Row struct {
	Case              string    `json:"case"`
	Strategy          string    `json:"strategy"`
	Rates             string    `json:"rates"`
	Mode              string    `json:"mode"`
	Weights           string    `json:"weights"`
	Cap               float64   `json:"cap"`
	Out               int       `json:"out"`
	Seed              uint64    `json:"seed"`
	Steps             int       `json:"steps"`
	Submitted         int64     `json:"submitted"`
	Accepted          int64     `json:"accepted"`
	Refused           int64     `json:"refused"`
	Updates           int64     `json:"updates"`
	Open              int64     `json:"open"` // accepted, and neither updated nor given up when the run ended
	Q                 float64   `json:"q"`
	Qw                float64   `json:"qw"`
	QQuartile         []float64 `json:"q_quartile"`
	Freshness         float64   `json:"freshness"`
	FreshnessW        float64   `json:"freshness_w"`
	FreshnessPages    float64   `json:"freshness_pages"`
	FreshnessQuartile []float64 `json:"freshness_quartile"`
	AgeMaxTau         float64   `json:"age_max_tau"`
	IntervalsMin      []float64 `json:"intervals_min"`
	SubmittedGroup    []int64   `json:"submitted_group"`
	QueueMean         float64   `json:"queue_mean"`
	LoadCV            float64   `json:"load_cv"`
	Migrations        int64     `json:"migrations"`
	Lapsed            int64     `json:"lapsed"`
	PagesPerMin       float64   `json:"pages_per_min"`
	KiBPerS           float64   `json:"kib_per_s"`
	PagesWasted       float64   `json:"pages_wasted"`
	PagesUseful       float64   `json:"pages_useful"`
	Seconds           float64   `json:"seconds"`
	FreshnessSettled  float64   `json:"freshness_settled"` // of a channel, after the first quarter
	SettledQuartile   []float64 `json:"freshness_settled_quartile"`
	Predicted         float64   `json:"predicted_freshness,omitempty"` // the same, by the strategy's plans in that time

	// What no schedule can exceed under this cap and number out; set by Command.Run.
	QBound         float64 `json:"q_bound,omitempty"`
	QwBound        float64 `json:"qw_bound,omitempty"`
	FreshnessBound float64 `json:"freshness_bound,omitempty"`
	// The same of FreshnessSettled, with peers as far from hosts as they are; and if the largest quartile is as fresh as here. Mode shoal only.
	SettledBound float64 `json:"freshness_settled_bound,omitempty"`
	LargeBound   float64 `json:"freshness_settled_bound_large,omitempty"`
	// And if each quartile is at least as fresh as fixed leaves it in a run beside this one; and the least that a quartile is here, times what it is there.
	KeptBound float64 `json:"freshness_settled_bound_kept,omitempty"`
	Keeps     float64 `json:"keeps_fixed,omitempty"`

	// Of mode shoal: the median round-trip time between a task's crawler and its host, in ms, and the share of a channel's tasks in turn that stay with one.
	RTT50  float64 `json:"rtt_ms_p50,omitempty"`
	Stayed float64 `json:"stayed,omitempty"`

	Landing *Landing `json:"-"` // of a world of known sites; nil: another
	Series  []Sample `json:"-"`
	w       *world
}

// SuccessAccepted is updates over accepted tasks.
func (r Row) SuccessAccepted() float64 { return ratio(float64(r.Updates), float64(r.Accepted)) }

// SuccessEnded is updates over accepted tasks that have ended.
func (r Row) SuccessEnded() float64 { return ratio(float64(r.Updates), float64(r.Accepted-r.Open)) }

// SuccessSubmitted is updates over submitted tasks.
func (r Row) SuccessSubmitted() float64 { return ratio(float64(r.Updates), float64(r.Submitted)) }

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// Sample is the state of a run over some minutes, for the figures.
type Sample struct {
	Minute      int // the last of them
	Queued      float64
	PagesPerMin float64
	Freshness   float64
	Alive       float64
	Updates     float64 // a minute
}

// metrics adds up what becomes of a run.
type metrics struct {
	w           *world
	submitted   int64
	submittedBy []int64
	accepted    int64
	refused     int64
	migrations  int64
	lapsed      int64
	of          []record
	early       []float64 // fresh in the first quarter
	pages       float64   // downloaded
	wasted      float64
	queued      float64 // sum over minutes of waiting tasks
	queuedEach  float64 // of waiting tasks a crawler that is there
	cv          float64
	cvN         int
	intervals   []float64 // sum over minutes
	series      []Sample
	sample      Sample
	sampled     float64 // pages when the sample began
	updatesAll  int64
	updatesThen int64
	landing     *landing // of a world of known sites; nil: another
	shown       *shown   // of a world whose pages are known; nil: changes come by chance
}

// record is what became of one channel. All of it lies together, since every update needs it.
type record struct {
	tau     float64
	fresh   float64 // minutes that its copy was fresh, in expectation
	last    int32   // minute of which its copy is; -1: none
	lag     int32   // minutes from then until the update that brought it
	updates int32
	ageMax  float32
}

func newMetrics(w *world) *metrics {
	n := len(w.group)
	m := &metrics{w: w, submittedBy: make([]int64, len(w.groups)), of: make([]record, n), intervals: make([]float64, len(w.groups))}
	for i, tau := range w.tau {
		m.of[i].tau, m.of[i].last = tau, -1
	}
	if w.scale != nil && w.scale.Sites != nil {
		m.landing, m.shown = newLanding(w), newShown(w)
	}
	return m
}

// update notes that a channel's copy is up to date and tells whether it had changed. Changes come by Poisson
// processes or are replayed.
func (m *metrics) update(minute int, channel int32, service float32, rng *rand.Rand) (changed bool) {
	of := &m.of[channel]
	of.updates++
	m.updatesAll++
	p := m.age(minute, channel)
	changed = p == 1 || p > 0 && rng.Float64() < p
	of.last = int32(minute)
	if m.w.scale != nil && m.w.scale.Sites != nil {
		of.lag = min(int32(service/2+.5), int32(minute))
		of.last -= of.lag
	}
	if m.shown != nil {
		return m.shown.ended(channel)
	}
	return changed
}

// age adds the time since the last update to the record and returns the probability that the channel changed in it.
func (m *metrics) age(minute int, channel int32) (changed float64) {
	of := &m.of[channel]
	if of.last < 0 { // never fresh so far
		of.ageMax = max(of.ageMax, float32(float64(minute)/of.tau))
		return 1
	}
	x := float64(minute-int(of.last)) / of.tau
	of.ageMax = max(of.ageMax, float32(x))
	if m.w.replays != nil {
		fresh, other := m.w.replays[channel].fresh(float64(of.last), float64(minute))
		of.fresh += fresh
		if other {
			changed = 1
		}
		return changed
	}
	changed = -math.Expm1(-x)
	of.fresh += of.tau * (changed + math.Expm1(-float64(of.lag)/of.tau))
	return changed
}

// settle notes how fresh channels were until now, the end of the first quarter.
func (m *metrics) settle(minute int) {
	m.early = make([]float64, len(m.of))
	for c := range m.of {
		of := &m.of[c]
		m.early[c] = of.fresh
		switch {
		case of.last < 0:
		case m.w.replays != nil:
			fresh, _ := m.w.replays[c].fresh(float64(of.last), float64(minute))
			m.early[c] += fresh
		default:
			m.early[c] += of.tau * (math.Expm1(-float64(of.lag)/of.tau) - math.Expm1(-float64(minute-int(of.last))/of.tau))
		}
	}
}

func (m *metrics) downloaded(_ int, pages float32) { m.pages += float64(pages) }

const (
	sampleSteps = 500
	loadSteps   = 100 // minutes between two looks at the load of all crawlers
)

func (m *metrics) minute(minute int, r *run) {
	if m.landing != nil {
		m.landing.see(minute, r)
	}
	q := float64(r.swarm.waiting())
	m.queued += q
	m.queuedEach += q / float64(max(r.aliveN, 1))
	for i, v := range r.intervals {
		m.intervals[i] += float64(v)
	}
	m.sample.Queued += q / sampleSteps
	m.sample.Alive += float64(r.aliveN) / sampleSteps
	if minute%loadSteps == loadSteps-1 {
		m.variation(r)
	}
	if minute%sampleSteps != sampleSteps-1 {
		return
	}
	m.sample.Minute = minute + 1
	m.sample.PagesPerMin = (m.pages - m.sampled) / sampleSteps
	m.sample.Updates = float64(m.updatesAll-m.updatesThen) / sampleSteps
	m.sampled, m.updatesThen = m.pages, m.updatesAll
	for c := range m.of {
		if of := &m.of[c]; of.last >= 0 {
			m.sample.Freshness += math.Exp(-float64(minute-int(of.last)) / of.tau)
		}
	}
	m.sample.Freshness /= float64(len(m.of))
	m.series = append(m.series, m.sample)
	m.sample = Sample{}
}

// variation adds the coefficient of variation of the tasks at the crawlers that are there.
func (m *metrics) variation(r *run) {
	var n, sum, squares float64
	for c, alive := range r.alive {
		if alive {
			l := float64(r.swarm.load(int32(c)))
			n, sum, squares = n+1, sum+l, squares+l*l
		}
	}
	if sum > 0 {
		mean := sum / n
		m.cv += math.Sqrt(max(squares/n-mean*mean, 0)) / mean
		m.cvN++
	}
}

func (m *metrics) row(r *run) Row {
	w := m.w
	steps := float64(w.steps)
	row := Row{Open: int64(r.swarm.open()), Case: r.cfg.Case, Strategy: r.cfg.Strategy, Rates: r.cfg.Rates, Mode: r.cfg.Mode, Weights: r.cfg.Weights, Cap: r.cfg.Cap, Out: r.cfg.Out,
		Seed: r.cfg.Seed, Steps: w.steps, Submitted: m.submitted, Accepted: m.accepted, Refused: m.refused, Migrations: m.migrations, Lapsed: m.lapsed,
		SubmittedGroup: m.submittedBy, QQuartile: make([]float64, 4), FreshnessQuartile: make([]float64, 4), SettledQuartile: make([]float64, 4), Series: m.series, w: w}
	var weights, pages float64
	var inQuartile [4]float64
	for c := range w.group {
		m.age(w.steps, int32(c))
		of := &m.of[c]
		row.Updates += int64(of.updates)
		weight := float64(recrawl.RankWeights.Of(0, 0, int(w.group[c]), len(w.groups)))
		q := float64(of.updates) / steps * w.tau[c]
		fresh := of.fresh / steps
		p := float64(w.pages[c])
		quartile := w.quartile[c]
		row.Q += q
		row.Qw += q * weight
		row.Freshness += fresh
		settled := (of.fresh - m.early[c]) / (steps - float64(w.steps/4))
		row.FreshnessSettled += settled
		row.FreshnessW += fresh * weight
		row.FreshnessPages += fresh * p
		row.QQuartile[quartile] += q
		row.FreshnessQuartile[quartile] += fresh
		row.SettledQuartile[quartile] += settled
		inQuartile[quartile]++
		weights += weight
		pages += p
		row.AgeMaxTau = max(row.AgeMaxTau, float64(of.ageMax))
	}
	n := float64(len(w.group))
	row.FreshnessSettled /= n
	row.Q, row.Qw, row.Freshness, row.FreshnessW, row.FreshnessPages = row.Q/n, row.Qw/n, row.Freshness/n, row.FreshnessW/weights, row.FreshnessPages/pages
	if m.landing != nil {
		row.Landing = m.landing.tell(r)
		if m.shown != nil {
			row.Freshness = row.Landing.Fresh
		}
	}
	for i := range 4 {
		row.QQuartile[i] = ratio(row.QQuartile[i], inQuartile[i])
		row.FreshnessQuartile[i] = ratio(row.FreshnessQuartile[i], inQuartile[i])
		row.SettledQuartile[i] = ratio(row.SettledQuartile[i], inQuartile[i])
	}
	if s, ok := r.swarm.(*shoal); ok {
		row.RTT50, row.Stayed = s.apart.median(), ratio(float64(s.apart.stayed), float64(s.apart.again))
	}
	row.QueueMean = m.queuedEach / steps
	row.LoadCV = ratio(m.cv, float64(m.cvN))
	row.PagesPerMin = m.pages / steps
	row.KiBPerS = row.PagesPerMin * pageKiB / 60
	row.PagesWasted = m.wasted
	row.PagesUseful = ratio(m.pages-m.wasted, m.pages)
	for g, n := range w.groups {
		row.IntervalsMin = append(row.IntervalsMin, ratio(float64(n)*steps, float64(m.submittedBy[g])))
	}
	return row
}
