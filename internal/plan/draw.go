package plan

import (
	"fmt"
	"math"
)

// drawCapacities shows what capacities buy.
func drawCapacities(dir string, r Report) error {
	var x, opt, uni, prop []float64
	for _, p := range r.Points {
		x, opt, uni = append(x, p.Capacity), append(opt, p.Freshness), append(uni, p.Uniform)
		if p.Proportional > 0 {
			prop = append(prop, p.Proportional)
		}
	}
	d := drawing{title: "What a capacity buys", x: axis{label: r.Unit}, y: axis{label: "freshness, by weight", hi: 1},
		lines: []series{{"optimal", x, opt, marked}, {"uniform", x, uni, marked}}}
	if len(prop) == len(x) {
		d.lines = append(d.lines, series{"proportional", x, prop, marked})
	}
	return d.save(dir, "plan-capacity")
}

const mostPoints = 2000 // of a figure; of more channels every n-th is shown

// drawFrequencies shows how often channels are planned to be crawled, by how often they change.
func drawFrequencies(dir string, r Report, changes, crawls []float64) error {
	var x, y []float64
	for i := 0; i < len(changes); i += (len(changes) + mostPoints - 1) / mostPoints {
		if changes[i] > 0 && crawls[i] > 0 {
			x, y = append(x, changes[i]), append(y, crawls[i])
		}
	}
	if len(x) == 0 { // nothing changes, or nothing is crawled: no figure of nothing
		return nil
	}
	lo, hi := x[0], x[0]
	for _, v := range x {
		lo, hi = min(lo, v), max(hi, v)
	}
	d := drawing{title: "Planned crawls of each channel", x: axis{label: "changes in " + r.Interval, log: true}, y: axis{label: "crawls in " + r.Interval, log: true},
		lines: []series{{"a channel", x, y, dotted}, {"one crawl a change", []float64{lo, hi}, []float64{lo, hi}, lined}}}
	return d.save(dir, "plan-frequencies")
}

const timetableBins = 48

// drawTimetable shows how the crawls of the timetable lie in time.
func drawTimetable(dir string, r Report, entries []Entry) error {
	if len(entries) == 0 {
		return nil
	}
	last, whole := 0., true
	for _, e := range entries {
		last = max(last, e.Time)
		whole = whole && e.Time == math.Trunc(e.Time)
	}
	width := last / timetableBins * (1 + 1e-9)
	if whole { // so that no bin has more ticks than another
		width = math.Ceil(width)
	}
	if width == 0 {
		width = 1
	}
	bins := min(int(last/width)+1, timetableBins)
	x, n := make([]float64, bins+1), make([]float64, bins+1)
	for b := range x {
		x[b] = float64(b) * width
	}
	for _, e := range entries {
		n[min(int(e.Time/width), bins-1)]++
	}
	n[bins] = n[bins-1]
	most := 0.
	for _, v := range n {
		most = max(most, v)
	}
	d := drawing{title: "The timetable", x: axis{label: r.Time + " from now"}, y: axis{label: fmt.Sprintf("crawls in %.3g %s", width, r.Time), hi: most * 1.05},
		lines: []series{{"", x, n, steps}}}
	return d.save(dir, "plan-timetable")
}
