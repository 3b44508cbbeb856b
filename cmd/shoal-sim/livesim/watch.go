package livesim

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"shoal/internal/lab/pond"
)

// sample is the network at one moment. Sums are since the start.
type sample struct {
	at                                     float64 // seconds since the peers began
	fresh, freshPages, freshWeight, thinks float64
	updates, pages, refused, lapsed        float64
	never                                  float64 // channels never crawled
	threads, idle, missed                  float64 // thread seconds: offered, idle, idle while something was stale
	placed, chosen, nearest                float64 // tasks, and round trips in seconds
	stored, unchanged                      float64 // pages at the archive
	checked, ruled                         float64 // pages that were looked at again: by other peers, by the manager
}

// fields are the manager's metrics that a sample is made of.
func (s *sample) fields() map[string]*float64 {
	return map[string]*float64{
		`shoal_pond_fresh_true_share{by="channel"}`: &s.fresh, `shoal_pond_fresh_true_share{by="page"}`: &s.freshPages,
		`shoal_pond_fresh_true_share{by="weight"}`: &s.freshWeight, "shoal_manager_fresh_share": &s.thinks,
		"shoal_manager_updates_total": &s.updates, "shoal_manager_pages_total": &s.pages, "shoal_manager_tasks_refused_total": &s.refused,
		"shoal_manager_tasks_lapsed_total": &s.lapsed, "shoal_manager_channels_never_crawled": &s.never,
		"shoal_manager_thread_seconds_total": &s.threads, "shoal_manager_thread_idle_seconds_total": &s.idle, "shoal_manager_thread_missed_seconds_total": &s.missed,
		"shoal_archive_pages_total": &s.stored, "shoal_archive_unchanged_total": &s.unchanged,
		"shoal_manager_trust_pages_answered_total": &s.checked, "shoal_manager_trust_arbiter_fetches_total": &s.ruled,
		"shoal_pond_placed_total": &s.placed, `shoal_pond_placed_rtt_seconds_total{peer="chosen"}`: &s.chosen, `shoal_pond_placed_rtt_seconds_total{peer="nearest"}`: &s.nearest,
	}
}

// readMetrics reads a sample in Prometheus' text form.
func readMetrics(r io.Reader) (s sample, err error) {
	want := s.fields()
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		name, value, ok := cutLast(lines.Text(), " ")
		to := want[name]
		if !ok || to == nil {
			continue
		}
		if *to, err = strconv.ParseFloat(value, 64); err != nil {
			return s, fmt.Errorf("metric %s: %w", name, err)
		}
		delete(want, name)
	}
	if err := lines.Err(); err != nil {
		return s, fmt.Errorf("the manager's metrics: %w", err)
	}
	for name := range want {
		return s, fmt.Errorf("the manager has no metric %s: are shoal and shoal-sim of one version?", name)
	}
	return s, nil
}

func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

const mostMetrics = 4 << 20 // bytes of an answer

var client = http.Client{Timeout: 10 * time.Second}

func get(ctx context.Context, url string, read func(io.Reader) error) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, res.Status)
	}
	return read(io.LimitReader(res.Body, mostMetrics))
}

// watched is what was seen of a network.
type watched struct {
	series []sample
	served []visits      // by host
	last   []pond.Served // the last page of each host
	since  uint64        // number of the last answer of the pond that was read
	over   float64       // seconds between two pages of a crawl beyond the host's wait, summed
	steps  int           // and how many
}

// visits are the crawls of a host: of each, "/" is fetched first, and once.
type visits struct{ tasks, pages int }

// watch looks each second until the time is over.
func (n *network) watch(ctx context.Context, begun time.Time) (w *watched, err error) {
	w = &watched{served: make([]visits, len(n.world.Hosts())), last: make([]pond.Served, len(n.world.Hosts()))}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var late misses
	for {
		select {
		case <-ctx.Done():
			return w, nil
		case <-tick.C:
		}
		if err := n.ended(); err != nil {
			return nil, err
		}
		err := n.look(context.WithoutCancel(ctx), w, begun)
		if late.giveUp(time.Now(), err, len(w.series) > 0) {
			return nil, err
		}
	}
}

// misses are looks in a row that failed: on a busy machine an answer may come too late, which must not end a run of hours.
type misses struct{ since time.Time } // zero: the last one succeeded

const patience = time.Minute // for which looks may fail once one has succeeded

// giveUp takes in how a look has ended, and reports whether there should be no other one.
func (m *misses) giveUp(now time.Time, err error, seen bool) bool {
	switch {
	case err == nil:
		m.since = time.Time{}
		return false
	case !seen: // the programs may be of another version
		return true
	case m.since.IsZero():
		m.since = now
	}
	return now.Sub(m.since) >= patience
}

func (n *network) look(ctx context.Context, w *watched, begun time.Time) error {
	if err := get(ctx, n.page+"/metrics", func(r io.Reader) error {
		s, err := readMetrics(r)
		if err != nil {
			return err
		}
		s.at = time.Since(begun).Seconds()
		w.series = append(w.series, s)
		return nil
	}); err != nil {
		return err
	}
	return n.follow(ctx, w)
}

// follow reads what the pond has served since the last look.
func (n *network) follow(ctx context.Context, w *watched) error {
	for {
		var part []pond.Served
		err := get(ctx, fmt.Sprintf("http://%s/_pond/served?since=%d", n.addr, w.since), func(r io.Reader) error { return json.NewDecoder(r).Decode(&part) })
		if err != nil {
			return fmt.Errorf("what the pond has served: %w", err)
		}
		if len(part) == 0 {
			return nil
		}
		for _, s := range part {
			w.take(s, max(pond.Gap, n.world.Hosts()[s.Host].CrawlDelay))
		}
		w.since = part[len(part)-1].N
	}
}

// take takes in an answer of the pond, of a host with some wait. Of pages on different connections nothing follows: between them came another peer, as to look whether the first one lied.
func (w *watched) take(s pond.Served, wait time.Duration) {
	v, last := &w.served[s.Host], w.last[s.Host]
	v.pages++
	gap := s.When.Sub(last.When) - wait
	if w.last[s.Host] = s; s.Page == 0 {
		v.tasks++
	} else if v.tasks > 0 && s.From == last.From && gap < longestStep {
		w.over, w.steps = w.over+max(gap, 0).Seconds(), w.steps+1
	}
}

// longestStep bounds the time between two pages that counts: in a longer one the crawl has stopped, and another one has gone on with it.
const longestStep = 5 * time.Second

// fill sums a run up.
func (w *watched) fill(row *Row) {
	row.Measured = &Measured{series: w.series}
	first, last := w.series[0], w.series[len(w.series)-1]
	steady, half, before := 0., 0., 0.
	row.FirstPassS, row.Steady90S = -1, -1
	for _, s := range w.series {
		d := s.at - before
		before = s.at
		row.FreshTrue += d * s.fresh / last.at
		row.FreshTruePages += d * s.freshPages / last.at
		row.FreshTrueWeight += d * s.freshWeight / last.at
		row.FreshEstimate += d * s.thinks / last.at
		if s.at > last.at/2 {
			steady, half = steady+d*s.fresh, half+d
		}
		if s.never == 0 && row.FirstPassS < 0 {
			row.FirstPassS, row.IdleFirst = s.at, s.missed/max(s.threads, 1)
		}
	}
	if row.FirstPassS < 0 {
		row.IdleFirst = last.missed / max(last.threads, 1)
	}
	row.FreshSteady = steady / half
	if i := slices.IndexFunc(w.series, func(s sample) bool { return s.fresh >= .9*row.FreshSteady }); i >= 0 {
		row.Steady90S = w.series[i].at
	}
	minutes := last.at / 60
	row.UpdatesPerMin, row.PagesPerMin = (last.updates-first.updates)/minutes, (last.pages-first.pages)/minutes
	row.Refused, row.Lapsed = int64(last.refused), int64(last.lapsed)
	row.IdleShare, row.IdleAll = last.missed/max(last.threads, 1), last.idle/max(last.threads, 1)
	row.RTTChosenMS, row.RTTNearestMS = 1000*last.chosen/max(last.placed, 1), 1000*last.nearest/max(last.placed, 1)
	for _, v := range []*float64{&row.FreshTrue, &row.FreshTruePages, &row.FreshTrueWeight, &row.FreshEstimate, &row.FreshSteady, &row.IdleShare, &row.IdleFirst, &row.IdleAll} {
		*v = round(*v, 4)
	}
	for _, v := range []*float64{&row.UpdatesPerMin, &row.PagesPerMin, &row.RTTChosenMS, &row.RTTNearestMS, &row.FirstPassS, &row.Steady90S} {
		*v = round(*v, 1)
	}
}

// passAfter is how many seconds after a moment every channel had been crawled once; -1: it was not in the time.
func (w *watched) passAfter(from float64) float64 {
	seen := false // the new channels: the manager's metrics may be a moment old
	for _, s := range w.series {
		seen = seen || s.at > from && s.never > 0
		if seen && s.never == 0 {
			return round(s.at-from, 1)
		}
	}
	return -1
}
