package manager

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"shoal/manager/conduct"
	"shoal/manager/trust"
)

// metric is one exported figure of the overview.
type metric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	of   func(*Overview) float64
}

func figure(kind prometheus.ValueType, name, help string, of func(*Overview) float64) metric {
	return metric{prometheus.NewDesc("shoal_manager_"+name, help, nil, nil), kind, of}
}

var figures = []metric{
	figure(prometheus.GaugeValue, "channels", "Channels.", func(o *Overview) float64 { return float64(o.Channels) }),
	figure(prometheus.GaugeValue, "channels_never_crawled", "Channels that were not crawled yet.", func(o *Overview) float64 { return float64(o.Never) }),
	figure(prometheus.GaugeValue, "channels_discovered", "Channels that discovery has added.", func(o *Overview) float64 { return float64(o.Discovered) }),
	figure(prometheus.GaugeValue, "channels_due", "Channels that are due and wait for room or politeness.", func(o *Overview) float64 { return float64(o.Due) }),
	figure(prometheus.GaugeValue, "tasks_out", "Tasks that a peer has or may have.", func(o *Overview) float64 { return float64(o.Out) }),
	figure(prometheus.CounterValue, "tasks_submitted_total", "Tasks that were handed out; one that came to nothing counts again when it is handed out again.", func(o *Overview) float64 { return float64(o.Submitted) }),
	figure(prometheus.CounterValue, "tasks_accepted_total", "Tasks that a peer accepted.", func(o *Overview) float64 { return float64(o.Accepted) }),
	figure(prometheus.CounterValue, "tasks_refused_total", "Tasks that no peer could start in time.", func(o *Overview) float64 { return float64(o.Refused) }),
	figure(prometheus.CounterValue, "tasks_lapsed_total", "Tasks that came to nothing and were handed out again.", func(o *Overview) float64 { return float64(o.Lapsed) }),
	figure(prometheus.CounterValue, "audits_accepted_total", "Looks at stored pages that a peer accepted; they are not among the tasks.", func(o *Overview) float64 { return float64(o.Audits) }),
	figure(prometheus.CounterValue, "updates_total", "Reports that brought a channel up to date.", func(o *Overview) float64 { return float64(o.Updates) }),
	figure(prometheus.CounterValue, "pages_total", "Pages that reports told of.", func(o *Overview) float64 { return float64(o.Pages) }),
	figure(prometheus.CounterValue, "pages_unchanged_total", "Pages of these that were unchanged.", func(o *Overview) float64 { return float64(o.Unchanged) }),
	figure(prometheus.CounterValue, "crawled_bytes_total", "Bytes that peers have received from Web hosts.", func(o *Overview) float64 { return float64(o.BytesDown) }),
	figure(prometheus.GaugeValue, "peers", "Peers that take tasks.", func(o *Overview) float64 { return float64(o.Peers) }),
	figure(prometheus.GaugeValue, "threads", "Tasks that the peers offer to run at once.", func(o *Overview) float64 { return float64(o.Threads) }),
	figure(prometheus.CounterValue, "thread_seconds_total", "Time of these threads since the manager's start.", func(o *Overview) float64 { return o.Usage.Offered.Seconds() }),
	figure(prometheus.CounterValue, "thread_idle_seconds_total", "Of it, the time without a task.", func(o *Overview) float64 { return o.Usage.Idle.Seconds() }),
	figure(prometheus.CounterValue, "thread_missed_seconds_total", "Of the idle time, that in which a channel that may be crawled was missing or probably stale, and no peer had a free thread for it, or the strategy kept it waiting.", func(o *Overview) float64 { return o.Usage.Missed.Seconds() }),
	figure(prometheus.GaugeValue, "fresh_share", "Expected share of channels whose copy is current.", func(o *Overview) float64 { return o.Freshness }),
	figure(prometheus.GaugeValue, "lookup_hops_mean", "Mean hops of a lookup in the overlay; 0 for a task that the first peer offered it took.", func(o *Overview) float64 { return o.HopsMean }),
	figure(prometheus.GaugeValue, "rtt_chosen_ms", "Mean predicted round-trip time from the chosen peer to its host.", func(o *Overview) float64 { return o.RTTChosenMS }),
	figure(prometheus.GaugeValue, "rtt_random_ms", "The same from a random peer.", func(o *Overview) float64 { return o.RTTRandomMS }),
	figure(prometheus.CounterValue, "trust_deliveries_total", "Deliveries that were judged.", func(o *Overview) float64 { return float64(o.Trust.Counts.Deliveries) }),
	figure(prometheus.CounterValue, "trust_deliveries_lost_total", "Deliveries that could not be judged.", func(o *Overview) float64 { return float64(o.Trust.Counts.Lost) }),
	figure(prometheus.CounterValue, "trust_pages_total", "Pages that were judged.", func(o *Overview) float64 { return float64(o.Trust.Counts.Pages) }),
	figure(prometheus.CounterValue, "trust_pages_asked_total", "Pages that other peers were to look at again.", func(o *Overview) float64 { return float64(o.Trust.Errands.Asked) }),
	figure(prometheus.CounterValue, "trust_pages_answered_total", "Pages that other peers have looked at again.", func(o *Overview) float64 { return float64(o.Trust.Errands.Answered) }),
	figure(prometheus.CounterValue, "trust_pages_late_total", "Pages that no peer could look at in time.", func(o *Overview) float64 { return float64(o.Trust.Errands.Late) }),
	figure(prometheus.CounterValue, "trust_pages_dropped_total", "Pages that were not looked at again, as that would have been more than the share.", func(o *Overview) float64 { return float64(o.Trust.Errands.Dropped) }),
	figure(prometheus.CounterValue, "trust_contested_total", "Pages of which peers said different things.", func(o *Overview) float64 { return float64(o.Trust.Counts.Arbitrations) }),
	figure(prometheus.CounterValue, "trust_arbiter_fetches_total", "Pages that the manager fetched itself.", func(o *Overview) float64 { return float64(o.Trust.Counts.Fetched) }),
	figure(prometheus.CounterValue, "trust_arbiter_failed_total", "Of the pages that the manager fetched itself, those of which nothing came.", func(o *Overview) float64 { return float64(o.Trust.Counts.Unseen) }),
	figure(prometheus.CounterValue, "trust_charges_total", "Charges against peers.", func(o *Overview) float64 { return float64(o.Trust.Counts.Charges) }),
	figure(prometheus.CounterValue, "trust_suspensions_total", "Peers that were suspended.", func(o *Overview) float64 { return float64(o.Trust.Counts.Suspended) }),
	figure(prometheus.CounterValue, "trust_shadow_suspensions_total", "Charges in shadow after which a peer would have been suspended.", func(o *Overview) float64 { return float64(o.Trust.Counts.WouldSuspend) }),
	figure(prometheus.GaugeValue, "trust_decisions_failing", "Parts of suspensions and pardons that could not be carried out, and are tried again.", func(o *Overview) float64 { return float64(len(o.Trust.Undone)) }),
	figure(prometheus.GaugeValue, "trust_suspects", "Peers that are suspects by their scores.", func(o *Overview) float64 { return float64(o.Trust.Suspects) }),
	figure(prometheus.GaugeValue, "trust_channels_watched", "Channels on watch, as peers lost cases there.", func(o *Overview) float64 { return float64(o.Trust.Watched) }),
	figure(prometheus.GaugeValue, "trust_channels_to_be_seen", "Channels whose next crawls are for other peers, to see pages that are held.", func(o *Overview) float64 { return float64(o.Trust.Seen) }),
	figure(prometheus.GaugeValue, "trust_suspend_at", "Score at which a peer is suspended.", func(o *Overview) float64 { return o.Trust.Rules.T }),
	figure(prometheus.GaugeValue, "trust_enforced", "1 while scores count, 0 in shadow.", func(o *Overview) float64 {
		if o.Trust.Rules.Enforce {
			return 1
		}
		return 0
	}),
	figure(prometheus.GaugeValue, "blocked", "1 while nothing is handed out because of disk, database or feed.", func(o *Overview) float64 {
		if len(o.Blocking) > 0 {
			return 1
		}
		return 0
	}),
}

var (
	errorsDesc   = prometheus.NewDesc("shoal_manager_errors_total", "Errors, by kind.", []string{"kind"}, nil)
	intervalDesc = prometheus.NewDesc("shoal_manager_interval_seconds", "Recrawl interval, by group; 1 is the fastest.", []string{"group"}, nil)
	suspectsDesc = prometheus.NewDesc("shoal_manager_members_suspect", "Members that an operator should look at, by fault; see shoal peer conduct.", []string{"fault"}, nil)
	standingDesc = prometheus.NewDesc("shoal_manager_trust_peers", "Peers that have had a task, by standing.", []string{"standing"}, nil)
	groupDesc    = prometheus.NewDesc("shoal_manager_group_channels", "Channels, by group.", []string{"group"}, nil)
)

// Collector exports the overview as metrics, all named shoal_manager_*.
func (st *status) Collector() prometheus.Collector { return collector{st} }

type collector struct{ status *status }

// Describe implements prometheus.Collector.
func (c collector) Describe(out chan<- *prometheus.Desc) {
	for i := range figures {
		out <- figures[i].desc
	}
	out <- errorsDesc
	out <- intervalDesc
	out <- groupDesc
	out <- suspectsDesc
	out <- standingDesc
}

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) {
	o := c.status.Overview()
	for i := range figures {
		f := &figures[i]
		out <- prometheus.MustNewConstMetric(f.desc, f.kind, f.of(&o))
	}
	for kind, n := range o.Errors {
		out <- prometheus.MustNewConstMetric(errorsDesc, prometheus.CounterValue, float64(n), kind)
	}
	suspects := map[conduct.Fault]int{}
	for i := range o.Suspects {
		for _, f := range o.Suspects[i].Faults {
			suspects[f]++
		}
	}
	for _, f := range conduct.Faults() {
		out <- prometheus.MustNewConstMetric(suspectsDesc, prometheus.GaugeValue, float64(suspects[f]), string(f))
	}
	for s := trust.Newcomer; s <= trust.Banned; s++ {
		out <- prometheus.MustNewConstMetric(standingDesc, prometheus.GaugeValue, float64(o.Trust.Standings[s]), s.String())
	}
	for i, d := range o.Intervals {
		out <- prometheus.MustNewConstMetric(intervalDesc, prometheus.GaugeValue, d.Seconds(), strconv.Itoa(i+1))
	}
	for i, n := range o.GroupSizes {
		out <- prometheus.MustNewConstMetric(groupDesc, prometheus.GaugeValue, float64(n), strconv.Itoa(i+1))
	}
}
