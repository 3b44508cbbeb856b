package main

import (
	"context"
	"math"
	"testing"
	"time"

	"shoal/channel"
	"shoal/internal/lab/pond"
	"shoal/manager/archive"
)

// feedOf is an archive's feed of one batch.
type feedOf []archive.Change

func (f *feedOf) Changes(context.Context, string, int) ([]archive.Change, string, error) {
	list := *f
	*f = nil
	return list, "end", nil
}

// TestTruth stores every page of some hosts at one moment and asks later. The figures must be those of a comparison of
// every page, by hand.
func TestTruth(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	w, err := pond.NewWorld(pond.Config{Seed: 5, Hosts: 12, Pages: 300, Start: start})
	if err != nil {
		t.Fatal(err)
	}
	stored, later := start.Add(100*time.Second), start.Add(130*time.Second)
	tr := newTruth(w, func(h, p int, about time.Time) uint64 { return w.Version(h, p, about).Text })
	chs := pondChannels(w)
	for i := range chs {
		chs[i].ID, chs[i].State = channel.ID(i+1), channel.Active
	}
	chs[3].State, chs[4].Settings.Weight = channel.Paused, 9
	tr.readChannels(t.Context(), func(_ context.Context, after channel.ID, _ int) ([]channel.Channel, error) { return chs[after:], nil })
	var feed feedOf
	for h := range 8 { // the others were never crawled
		for p := range w.Hosts()[h].Pages {
			feed = append(feed, archive.Change{URL: w.URL(h, p), Status: 200, Fetched: stored})
		}
	}
	gone := w.URL(0, 0)
	feed = append(feed, archive.Change{URL: gone, Status: 404, Fetched: stored}, archive.Change{URL: "https://elsewhere.test/", Status: 200, Fetched: stored})
	tr.follow(t.Context(), &feed)

	var hosts, fresh, weight, freshWeight, pages, freshPages float64
	for h := range w.Hosts() {
		if h == 3 {
			continue
		}
		importance := 1.0
		if h == 4 {
			importance = 9
		}
		whole := h < 8
		for p := range w.Hosts()[h].Pages {
			pages++
			if h >= 8 || h == 0 && p == 0 {
				continue
			}
			if w.Version(h, p, stored).Text == w.Version(h, p, later).Text {
				freshPages++
			} else {
				whole = false
			}
		}
		hosts, weight = hosts+1, weight+importance
		if whole {
			fresh, freshWeight = fresh+1, freshWeight+importance
		}
	}
	tr.look(later, 1)
	got := tr.now()
	for what, x := range map[string][2]float64{"channels": {got.Channels, fresh / hosts}, "pages": {got.Pages, freshPages / pages}, "weight": {got.Weight, freshWeight / weight}} {
		if math.Abs(x[0]-x[1]) > 1e-9 || x[1] == 0 || x[1] == 1 {
			t.Errorf("%s: %v, by hand %v", what, x[0], x[1])
		}
	}
	var s summary
	tr.fill(&s)
	if s.TrueFreshness == nil || s.Channels != 0 || math.Abs(s.TrueFreshness.EstimateError-(1-fresh/hosts)) > .001 {
		t.Errorf("summary %+v", s.TrueFreshness)
	}
}
