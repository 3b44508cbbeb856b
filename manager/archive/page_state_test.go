package archive

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// TestPageState looks at what is kept of pages that change with every crawl, and of one that never does.
func TestPageState(t *testing.T) {
	ctx := context.Background()
	a, cl := aged(t, t.TempDir())
	p, err := a.Page(ctx, "http://site-1.example/x")
	if err != nil || p.Visits != 10 || p.Changes != 9 || len(p.History) != 10 || p.Gone || p.ETag != `"/x"` || p.Mime != "text/html" || p.Channel != 1 {
		t.Errorf("page that changes: %+v, %v", p, err)
	}
	if !p.Fetched.Equal(cl.now.Add(-time.Hour)) || !p.History[0].Fetched.Equal(p.Changed) || p.History[9].Fetched != p.First || p.History[0].Digest != p.Digest {
		t.Errorf("times: %+v", p)
	}
	p, err = a.Page(ctx, "http://site-2.example/same")
	if err != nil || p.Visits != 10 || p.Changes != 0 || len(p.History) != 1 || p.Size != len("same "+long) {
		t.Errorf("page that never changes: %+v, %v", p, err)
	}
	if _, err := a.Page(ctx, "http://site-2.example/never"); !errors.Is(err, ErrNotFound) {
		t.Errorf("page that never was: %v", err)
	}
}

// TestCollector registers the metrics and finds the figures in them.
func TestCollector(t *testing.T) {
	a, _ := aged(t, t.TempDir())
	r := prometheus.NewPedanticRegistry()
	if err := r.Register(a.Collector()); err != nil {
		t.Fatal(err)
	}
	families, err := r.Gather()
	if err != nil || len(families) != len(metrics)-2 { // of pages there are three, by state
		t.Fatalf("%d metrics, %v", len(families), err)
	}
	got := map[string]float64{}
	for _, f := range families {
		m := f.GetMetric()[0]
		got[strings.TrimPrefix(f.GetName(), "shoal_archive_")] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
	}
	if got["pages_total"] != 21 || got["unchanged_total"] != 19 || got["chunks_total"] != 20 || got["changes_total"] != 22 || got["text_lag_changes"] != 22 {
		t.Errorf("figures %v", got)
	}
}
