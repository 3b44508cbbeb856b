package plan

import (
	"fmt"
	"math"
	"strconv"

	"gonum.org/v1/plot"

	"shoal/internal/figure"
)

// draw shows what capacities buy.
func draw(dir string, r Report) error {
	f := figure.New("What a capacity buys", r.Unit, "freshness, by weight")
	f.Y.Min, f.Y.Max = 0, 1
	f.Legend.Top = false
	var x, opt, uni, prop []float64
	for _, p := range r.Points {
		x, opt, uni = append(x, p.Capacity), append(opt, p.Freshness), append(uni, p.Uniform)
		if p.Proportional > 0 {
			prop = append(prop, p.Proportional)
		}
	}
	if err := f.Marked("optimal", x, opt); err != nil {
		return err
	}
	if err := f.Marked("uniform", x, uni); err != nil {
		return err
	}
	if len(prop) == len(x) {
		if err := f.Marked("proportional", x, prop); err != nil {
			return err
		}
	}
	_, err := f.Save(dir, "plan-capacity")
	return err
}

const mostPoints = 2000 // of a figure; of more channels every n-th is shown

// drawFrequencies shows how often channels are planned to be crawled, by how often they change.
func drawFrequencies(dir string, r Report, changes, crawls []float64) error {
	f := figure.New("Planned crawls of each channel", "changes in "+r.Interval, "crawls in "+r.Interval)
	f.X.Scale, f.Y.Scale = plot.LogScale{}, plot.LogScale{}
	f.X.Tick.Marker, f.Y.Tick.Marker = plot.TickerFunc(decades), plot.TickerFunc(decades)
	f.Legend.Left = true
	var x, y []float64
	for i := 0; i < len(changes); i += (len(changes) + mostPoints - 1) / mostPoints {
		if changes[i] > 0 && crawls[i] > 0 {
			x, y = append(x, changes[i]), append(y, crawls[i])
		}
	}
	if len(x) == 0 { // nothing changes, or nothing is crawled: no figure of nothing
		return nil
	}
	if err := f.Points("a channel", x, y, true); err != nil {
		return err
	}
	lo, hi := x[0], x[0]
	for _, v := range x {
		lo, hi = min(lo, v), max(hi, v)
	}
	if err := f.Line("one crawl a change", []float64{lo, hi}, []float64{lo, hi}); err != nil {
		return err
	}
	if f.X.Min == f.X.Max {
		f.X.Min, f.X.Max = f.X.Min/2, f.X.Max*2
	}
	if f.Y.Min == f.Y.Max {
		f.Y.Min, f.Y.Max = f.Y.Min/2, f.Y.Max*2
	}
	_, err := f.Save(dir, "plan-frequencies")
	return err
}

// decades marks 1, 2 and 5 of every power of ten; where there are many, the power alone is named.
func decades(lo, hi float64) []plot.Tick {
	if !(lo > 0) || !(hi < math.MaxFloat64) {
		return nil
	}
	many := math.Log10(hi/lo) > 3
	var ticks []plot.Tick
	for k := math.Floor(math.Log10(lo)); k <= math.Log10(hi); k++ {
		for _, m := range []float64{1, 2, 5} {
			v := m * math.Pow(10, k)
			if v < lo || v > hi {
				continue
			}
			t := plot.Tick{Value: v}
			if m == 1 || !many {
				t.Label = strconv.FormatFloat(v, 'g', 3, 64)
			}
			ticks = append(ticks, t)
		}
	}
	return ticks
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
	f := figure.New("The timetable", r.Time+" from now", fmt.Sprintf("crawls in %.3g %s", width, r.Time))
	if err := f.Steps("", x, n); err != nil {
		return err
	}
	f.Y.Min = 0
	_, err := f.Save(dir, "plan-timetable")
	return err
}
