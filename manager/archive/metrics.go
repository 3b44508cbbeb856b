package archive

import "github.com/prometheus/client_golang/prometheus"

// Collector exports Stats as metrics, all named shoal_archive_*.
func (a *Archive) Collector() prometheus.Collector { return collector{a} }

type collector struct{ a *Archive }

// metric is one exported figure.
type metric struct {
	desc   *prometheus.Desc
	kind   prometheus.ValueType
	of     func(Stats) float64
	labels []string
}

func describe(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("shoal_archive_"+name, help, nil, nil)
}

var pagesDesc = prometheus.NewDesc("shoal_archive_pages", "Pages that are there, by how far what they show is believed: provisional, verified, withdrawn. Counted from time to time.", []string{"state"}, nil)

var metrics = []metric{
	{describe("pages_total", "Payloads stored."), prometheus.CounterValue, func(s Stats) float64 { return float64(s.Pages) }, nil},
	{describe("unchanged_total", "Visits that found what was stored."), prometheus.CounterValue, func(s Stats) float64 { return float64(s.Unchanged) }, nil},
	{describe("chunks_total", "Chunks stored."), prometheus.CounterValue, func(s Stats) float64 { return float64(s.Chunks) }, nil},
	{describe("payload_bytes_total", "Bytes of payloads stored."), prometheus.CounterValue, func(s Stats) float64 { return float64(s.Bytes) }, nil},
	{describe("changes_total", "Changes of pages told in the feed."), prometheus.CounterValue, func(s Stats) float64 { return float64(s.Events) }, nil},
	{describe("warc_files", "WARC files."), prometheus.GaugeValue, func(s Stats) float64 { return float64(s.Files) }, nil},
	{describe("leases", "Leases that run."), prometheus.GaugeValue, func(s Stats) float64 { return float64(s.Leases) }, nil},
	{describe("chunks_rejected_total", "Chunks not on the head of their channel, or from behind its fence."), prometheus.CounterValue, func(s Stats) float64 { return float64(s.Rejected) }, nil},
	{describe("chunk_corrections_total", "What chunks said and the archive corrected: digests, times, counts, spellings, words, URLs beyond the to-do list."), prometheus.CounterValue, func(s Stats) float64 { return float64(s.Mended) }, nil},
	{describe("pages_foreign_total", "Pages outside their channel's scope, dropped."), prometheus.CounterValue, func(s Stats) float64 { return float64(s.Foreign) }, nil},
	{describe("pages_mismatched_total", "Pages said to be unchanged that are not stored so."), prometheus.CounterValue, func(s Stats) float64 { return float64(s.Mismatched) }, nil},
	{describe("records_unreadable_total", "Damaged records that the feed and exports left out, each time, and records that could not be read for their text."), prometheus.CounterValue, func(s Stats) float64 { return float64(s.Unreadable) }, nil},
	{describe("write_failures_total", "Writes that failed; nothing of them was acknowledged."), prometheus.CounterValue, func(s Stats) float64 { return float64(s.Failures) }, nil},
	{describe("write_wait_seconds", "For how long the oldest write goes on that has not ended."), prometheus.GaugeValue, func(s Stats) float64 { return s.WriteWait().Seconds() }, nil},
	{describe("database_damaged", "1 when bytes of the archive's database are not what was written."), prometheus.GaugeValue, func(s Stats) float64 { return s.Damaged }, nil},
	{describe("text_lag_changes", "Changes that text extraction has still to see."), prometheus.GaugeValue, func(s Stats) float64 { return float64(s.TextLag) }, nil},
	{describe("text_lag_seconds", "Age of the oldest change that text extraction has still to see."), prometheus.GaugeValue, func(s Stats) float64 { return s.TextDelay.Seconds() }, nil},
	{pagesDesc, prometheus.GaugeValue, func(s Stats) float64 { return float64(s.Provisional) }, []string{"provisional"}},
	{pagesDesc, prometheus.GaugeValue, func(s Stats) float64 { return float64(s.Verified) }, []string{"verified"}},
	{pagesDesc, prometheus.GaugeValue, func(s Stats) float64 { return float64(s.Withdrawn) }, []string{"withdrawn"}},
}

// Describe implements prometheus.Collector.
func (c collector) Describe(out chan<- *prometheus.Desc) {
	for _, m := range metrics {
		out <- m.desc
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) {
	s := c.a.Stats()
	for _, m := range metrics {
		out <- prometheus.MustNewConstMetric(m.desc, m.kind, m.of(s), m.labels...)
	}
}
