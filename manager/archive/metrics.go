package archive

import "github.com/prometheus/client_golang/prometheus"

// Collector exports Stats as metrics, all named shoal_archive_*.
func (a *Archive) Collector() prometheus.Collector { return collector{a} }

type collector struct{ a *Archive }

// metric is one exported figure.
type metric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	of   func(Stats) float64
}

func describe(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("shoal_archive_"+name, help, nil, nil)
}

var metrics = []metric{
	{describe("pages_total", "Payloads stored."), prometheus.CounterValue, func(s Stats) float64 { return float64(s.Pages) }},
	{describe("unchanged_total", "Visits that found what was stored."), prometheus.CounterValue, func(s Stats) float64 { return float64(s.Unchanged) }},
	{describe("chunks_total", "Chunks stored."), prometheus.CounterValue, func(s Stats) float64 { return float64(s.Chunks) }},
	{describe("payload_bytes_total", "Bytes of payloads stored."), prometheus.CounterValue, func(s Stats) float64 { return float64(s.Bytes) }},
	{describe("changes_total", "Changes of pages told in the feed."), prometheus.CounterValue, func(s Stats) float64 { return float64(s.Events) }},
	{describe("warc_files", "WARC files."), prometheus.GaugeValue, func(s Stats) float64 { return float64(s.Files) }},
	{describe("leases", "Leases that run."), prometheus.GaugeValue, func(s Stats) float64 { return float64(s.Leases) }},
	{describe("chunks_rejected_total", "Chunks not on the head of their channel, or from behind its fence."), prometheus.CounterValue, func(s Stats) float64 { return float64(s.Rejected) }},
	{describe("chunk_corrections_total", "What chunks said and the archive corrected: digests, times, counts, spellings, words, URLs beyond the to-do list."), prometheus.CounterValue, func(s Stats) float64 { return float64(s.Mended) }},
	{describe("pages_foreign_total", "Pages outside their channel's scope, dropped."), prometheus.CounterValue, func(s Stats) float64 { return float64(s.Foreign) }},
	{describe("pages_mismatched_total", "Pages said to be unchanged that are not stored so."), prometheus.CounterValue, func(s Stats) float64 { return float64(s.Mismatched) }},
	{describe("write_failures_total", "Writes that failed; nothing of them was acknowledged."), prometheus.CounterValue, func(s Stats) float64 { return float64(s.Failures) }},
	{describe("database_damaged", "1 when bytes of the archive's database are not what was written."), prometheus.GaugeValue, func(s Stats) float64 { return s.Damaged }},
	{describe("text_lag_changes", "Changes that text extraction has still to see."), prometheus.GaugeValue, func(s Stats) float64 { return float64(s.TextLag) }},
	{describe("text_lag_seconds", "Age of the oldest change that text extraction has still to see."), prometheus.GaugeValue, func(s Stats) float64 { return s.TextDelay.Seconds() }},
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
		out <- prometheus.MustNewConstMetric(m.desc, m.kind, m.of(s))
	}
}
