package web

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"slices"
	"strings"
	"time"

	"shoal/internal/plain"
	"shoal/manager/desk"
)

const (
	chartW, chartH                 = 420.0, 170.0
	chartL, chartR, chartT, chartB = 52.0, 8.0, 10.0, 22.0
	swarmSize, swarmEdge           = 360.0, 24.0
)

// plots are what charts show of the history.
var plots = map[string]plot{
	"updates":   {title: "Updates a minute", value: func(p desk.Point) []float64 { return []float64{p.UpdatesMin} }},
	"pages":     {title: "Pages a minute", value: func(p desk.Point) []float64 { return []float64{p.PagesMin} }},
	"out":       {title: "Tasks out", value: func(p desk.Point) []float64 { return []float64{float64(p.Out)} }},
	"refused":   {title: "Refusals a minute", value: func(p desk.Point) []float64 { return []float64{p.RefusedMin} }},
	"freshness": {title: "Fresh channels, estimated, %", value: func(p desk.Point) []float64 { return []float64{100 * p.Freshness} }},
	"intervals": {title: "Recrawl interval", names: "group", log: true, value: func(p desk.Point) []float64 {
		v := make([]float64, len(p.Intervals))
		for i, d := range p.Intervals {
			v[i] = d.Duration().Seconds()
		}
		return v
	}},
}

// plot is one of them.
type plot struct {
	title string
	names string // what its lines are, numbered from 1; empty: there is one
	log   bool   // a logarithmic axis of seconds
	value func(desk.Point) []float64
}

// word is a value as people read it.
func (p *plot) word(v float64) string {
	if p.log {
		return plain.Span(time.Duration(v * float64(time.Second)))
	}
	return number(v)
}

// scale is the axis of a chart's values.
type scale struct {
	lo, hi float64
	log    bool
}

// scaleOf reaches over all values, to round numbers.
func scaleOf(lines [][]float64, log bool) scale {
	lo, hi := math.Inf(1), 0.0
	for _, l := range lines {
		for _, v := range l {
			if hi = max(hi, v); v > 0 {
				lo = min(lo, v)
			}
		}
	}
	if !log || hi == 0 {
		return scale{hi: niceTop(hi)}
	}
	if lo, hi = lo/1.25, hi*1.25; hi/lo < 4 {
		lo, hi = lo/2, hi*2
	}
	return scale{lo, hi, true}
}

// y is where a value stands. On a logarithmic axis what is not above zero stands at its foot.
func (s scale) y(v float64) float64 {
	share := v / s.hi
	if s.log {
		share = math.Log(max(v, s.lo)/s.lo) / math.Log(s.hi/s.lo)
	}
	return chartH - chartB - (chartH-chartT-chartB)*share
}

// timeSteps are lengths of time that an axis may be labelled with, in seconds.
var timeSteps = []float64{.01, .1, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 4 * 3600, 12 * 3600, 86400, 2 * 86400, 7 * 86400, 30 * 86400, 365 * 86400}

const mostSteps = 6 // labels of an axis

func (s scale) steps() []float64 {
	var out []float64
	if !s.log {
		for i, n := 0, niceSteps(s.hi); i <= n; i++ {
			out = append(out, s.hi*float64(i)/float64(n))
		}
		return out
	}
	for _, v := range timeSteps {
		if v >= s.lo && v <= s.hi {
			out = append(out, v)
		}
	}
	for len(out) > mostSteps {
		thin := out[:0]
		for i, v := range out {
			if i%2 == 0 {
				thin = append(thin, v)
			}
		}
		out = thin
	}
	return out
}

// chart draws one series of the history as SVG with axes, values to hover at and, for screen readers, a sentence.
func chart(kind string, history []desk.Point) template.HTML {
	p, ok := plots[kind]
	if !ok || len(history) < 2 {
		return template.HTML(`<p class="quiet">The plot begins after two samples.</p>`) //nolint:gosec // a constant
	}
	lines := lineValues(history, p.value)
	sc := scaleOf(lines, p.log)
	t0, t1 := history[0].At, history[len(history)-1].At
	x := func(t time.Time) float64 {
		return chartL + (chartW-chartL-chartR)*t.Sub(t0).Seconds()/max(t1.Sub(t0).Seconds(), 1e-9)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %g %g" role="img" aria-label="%s">`, chartW, chartH, html.EscapeString(p.sentence(lines, t1.Sub(t0))))
	for _, v := range sc.steps() {
		fmt.Fprintf(&b, `<line class="grid" x1="%g" x2="%g" y1="%.1f" y2="%.1f"/><text class="tick" x="%g" y="%.1f" text-anchor="end">%s</text>`,
			chartL, chartW-chartR, sc.y(v), sc.y(v), chartL-6, sc.y(v)+4, p.word(v))
	}
	drawTimes(&b, t0, t1, x)
	for i, l := range lines {
		b.WriteString(`<polyline class="line l` + fmt.Sprint(i%5) + `" points="`)
		for j, v := range l {
			fmt.Fprintf(&b, "%.1f,%.1f ", x(history[j].At), sc.y(v))
		}
		b.WriteString(`"/>`)
	}
	p.drawHovers(&b, history, lines, x)
	b.WriteString(`</svg>`)
	return template.HTML(b.String()) //nolint:gosec // numbers and escaped constants only
}

// sentence says what the lines show: each one's last value, the least and the greatest.
func (p *plot) sentence(lines [][]float64, span time.Duration) string {
	s := fmt.Sprintf("%s in the last %s", p.title, plain.Span(span.Round(time.Second)))
	for i, l := range lines {
		name := ""
		if p.names != "" {
			name = fmt.Sprintf(" %s %d", p.names, i+1)
		}
		s += fmt.Sprintf(";%s now %s, from %s to %s", name, p.word(l[len(l)-1]), p.word(slices.Min(l)), p.word(slices.Max(l)))
	}
	return s
}

// drawTimes labels the axis of time.
func drawTimes(b *strings.Builder, t0, t1 time.Time, x func(time.Time) float64) {
	layout := "15:04:05"
	switch span := t1.Sub(t0); {
	case span > 5*24*time.Hour:
		layout = "Jan 2"
	case span > 20*time.Hour:
		layout = "Jan 2 15:04"
	case span > 20*time.Minute:
		layout = "15:04"
	}
	for i, anchor := range []string{"start", "middle", "middle", "end"} {
		t := t0.Add(time.Duration(float64(t1.Sub(t0)) * float64(i) / 3))
		fmt.Fprintf(b, `<text class="tick" x="%.1f" y="%g" text-anchor="%s">%s</text>`, x(t), chartH-6, anchor, t.Format(layout))
	}
}

const mostHovers = 100 // bands of a chart at which its values show

// drawHovers has the values show where the pointer is.
func (p *plot) drawHovers(b *strings.Builder, history []desk.Point, lines [][]float64, x func(time.Time) float64) {
	step := (len(history) + mostHovers - 1) / mostHovers
	b.WriteString(`<g class="hovers">`)
	for i := 0; i < len(history); i += step {
		left, right := x(history[i].At), chartW-chartR
		if i+step < len(history) {
			right = x(history[i+step].At)
		}
		var words []string
		for k, l := range lines {
			w := p.word(l[i])
			if p.names != "" {
				w = fmt.Sprintf("%s %d: %s", p.names, k+1, w)
			}
			words = append(words, w)
		}
		fmt.Fprintf(b, `<rect x="%.1f" y="%g" width="%.1f" height="%g"><title>%s  %s</title></rect>`, left, chartT, max(right-left, .5), chartH-chartT-chartB,
			history[i].At.Format(time.DateTime), html.EscapeString(strings.Join(words, "\n")))
	}
	b.WriteString(`</g>`)
}

// lineValues turns samples into lines; a value that a sample does not have counts as zero.
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
	case v >= 999_500: // what is rounded to a million
		return plain.Number(v/1e6) + "M"
	case v >= 10_000:
		return plain.Number(v/1e3) + "k"
	case v >= 999.5:
		return count(int64(math.Round(v)))
	}
	return plain.Number(v)
}

// swarm draws the peers in the plane of their coordinates' first two dimensions.
func swarm(peers []desk.Peer) template.HTML {
	if len(peers) == 0 {
		return template.HTML(`<p class="quiet">No peer has joined yet.</p>`) //nolint:gosec // a constant
	}
	span := 1.0
	for _, p := range peers {
		span = max(span, math.Hypot(p.Coord[0], p.Coord[1])) // the farthest lies on the outer ring, and none beyond
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
