package web

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"strings"
	"time"

	"shoal/internal/plain"
	"shoal/manager/desk"
)

const (
	chartW, chartH                 = 420.0, 170.0
	chartL, chartR, chartT, chartB = 40.0, 8.0, 10.0, 22.0
	swarmSize, swarmEdge           = 360.0, 24.0
)

// series picks what a chart shows of the history.
var series = map[string]struct {
	title string
	names []string
	value func(desk.Point) []float64
}{
	"updates":   {"Updates a minute", []string{"updates"}, func(p desk.Point) []float64 { return []float64{p.UpdatesMin} }},
	"pages":     {"Pages a minute", []string{"pages"}, func(p desk.Point) []float64 { return []float64{p.PagesMin} }},
	"out":       {"Tasks out", []string{"out"}, func(p desk.Point) []float64 { return []float64{float64(p.Out)} }},
	"refused":   {"Refusals a minute", []string{"refusals"}, func(p desk.Point) []float64 { return []float64{p.RefusedMin} }},
	"freshness": {"Fresh channels, estimated, %", []string{"fresh"}, func(p desk.Point) []float64 { return []float64{100 * p.Freshness} }},
	"intervals": {"Recrawl interval by group, seconds", nil, func(p desk.Point) []float64 {
		v := make([]float64, len(p.Intervals))
		for i, d := range p.Intervals {
			v[i] = d.Duration().Seconds()
		}
		return v
	}},
}

// chart draws one series of the history as SVG with axes and, for screen readers, a sentence.
func chart(kind string, history []desk.Point) template.HTML {
	s, ok := series[kind]
	if !ok || len(history) < 2 {
		return template.HTML(`<p class="quiet">The plot begins after two samples.</p>`) //nolint:gosec // a constant
	}
	lines := lineValues(history, s.value)
	top := 0.0
	for _, l := range lines {
		for _, v := range l {
			top = max(top, v)
		}
	}
	top = niceTop(top)
	t0, t1 := history[0].At, history[len(history)-1].At
	x := func(t time.Time) float64 {
		return chartL + (chartW-chartL-chartR)*t.Sub(t0).Seconds()/max(t1.Sub(t0).Seconds(), 1e-9)
	}
	y := func(v float64) float64 { return chartH - chartB - (chartH-chartT-chartB)*v/top }
	var b strings.Builder
	last := lines[0][len(lines[0])-1]
	fmt.Fprintf(&b, `<svg viewBox="0 0 %g %g" role="img" aria-label="%s: now %s, at most %s in the last %s">`,
		chartW, chartH, html.EscapeString(s.title), number(last), number(top), plain.Span(t1.Sub(t0).Round(time.Second)))
	for i, n := 0, niceSteps(top); i <= n; i++ {
		v := top * float64(i) / float64(n)
		fmt.Fprintf(&b, `<line class="grid" x1="%g" x2="%g" y1="%.1f" y2="%.1f"/><text class="tick" x="%g" y="%.1f" text-anchor="end">%s</text>`,
			chartL, chartW-chartR, y(v), y(v), chartL-6, y(v)+4, number(v))
	}
	for i := 0; i <= 3; i++ {
		t := t0.Add(time.Duration(float64(t1.Sub(t0)) * float64(i) / 3))
		anchor := "middle"
		if i == 3 {
			anchor = "end"
		} else if i == 0 {
			anchor = "start"
		}
		fmt.Fprintf(&b, `<text class="tick" x="%.1f" y="%g" text-anchor="%s">%s</text>`, x(t), chartH-6, anchor, t.Format("15:04:05"))
	}
	for i, l := range lines {
		b.WriteString(`<polyline class="line l` + fmt.Sprint(i%5) + `" points="`)
		for j, v := range l {
			fmt.Fprintf(&b, "%.1f,%.1f ", x(history[j].At), y(v))
		}
		b.WriteString(`"/>`)
	}
	b.WriteString(`</svg>`)
	return template.HTML(b.String()) //nolint:gosec // numbers and escaped constants only
}

// lineValues turns samples into lines; a sample with fewer values than the widest repeats nothing and counts as zero.
func lineValues(history []desk.Point, value func(desk.Point) []float64) [][]float64 {
	width := 1
	for _, p := range history {
		width = max(width, len(value(p)))
	}
	lines := make([][]float64, width)
	for _, p := range history {
		v := value(p)
		for i := range lines {
			f := 0.0
			if i < len(v) && !math.IsNaN(v[i]) && !math.IsInf(v[i], 0) {
				f = v[i]
			}
			lines[i] = append(lines[i], f)
		}
	}
	return lines
}

func number(v float64) string {
	switch {
	case v >= 1e6:
		return fmt.Sprintf("%.3gM", v/1e6)
	case v >= 10_000:
		return fmt.Sprintf("%.3gk", v/1e3)
	case v == math.Trunc(v):
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

// swarm draws the peers in the plane of their coordinates' first two dimensions.
func swarm(peers []desk.Peer) template.HTML {
	if len(peers) == 0 {
		return template.HTML(`<p class="quiet">No peer has joined yet.</p>`) //nolint:gosec // a constant
	}
	span := 1.0
	for _, p := range peers {
		span = max(span, math.Abs(p.Coord[0]), math.Abs(p.Coord[1]))
	}
	scale := (swarmSize/2 - swarmEdge) / span
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="swarm" viewBox="0 0 %g %g" role="img" aria-label="%d peers in coordinate space, %s ms from edge to centre">`, swarmSize, swarmSize, len(peers), number(math.Round(span)))
	for i := 1; i <= 3; i++ {
		fmt.Fprintf(&b, `<circle class="ring" cx="%g" cy="%g" r="%.1f"/>`, swarmSize/2, swarmSize/2, (swarmSize/2-swarmEdge)*float64(i)/3)
	}
	for _, p := range peers {
		r := 4 + 1.2*float64(min(p.Running+p.Queued, 10))
		fmt.Fprintf(&b, `<circle class="peer" cx="%.1f" cy="%.1f" r="%.1f"><title>%s: %d running, %d queued</title></circle>`,
			swarmSize/2+p.Coord[0]*scale, swarmSize/2+p.Coord[1]*scale, r, html.EscapeString(p.ID), p.Running, p.Queued)
	}
	fmt.Fprintf(&b, `<text class="tick" x="%g" y="%g">centre to edge: %s ms</text></svg>`, 8.0, swarmSize-8, number(math.Round(span)))
	return template.HTML(b.String()) //nolint:gosec // numbers and escaped names only
}
