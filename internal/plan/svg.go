package plan

import (
	"cmp"
	"errors"
	"fmt"
	"html"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A drawing is one figure with two axes, as SVG.
type drawing struct {
	title string
	x, y  axis
	lines []series
}

// axis is one of them. It reaches from the least to the greatest value of the series, or as far as lo and hi say if lo < hi.
type axis struct {
	label  string
	log    bool
	lo, hi float64
}

// series is a row of points.
type series struct {
	name string // in the legend; empty: not there
	x, y []float64
	how  style
}

type style int

const (
	lined  style = iota // a line through the points
	marked              // a line, and the points on it
	dotted              // the points alone
	steps               // constant from each point to the next
)

// Measures of a drawing, in pixels.
const (
	drawW, drawH                   = 720.0, 470.0
	marginL, marginR               = 70.0, 20.0
	marginT, marginB               = 44.0, 56.0
	plotW, plotH                   = drawW - marginL - marginR, drawH - marginT - marginB
	legendRow, legendMark, legendX = 18.0, 26.0, 12.0
	letter                         = 6.6 // width of one in the legend, about
)

// palette is Okabe and Ito's, which most colour-blind readers can tell apart.
var palette = []string{"#000000", "#d55e00", "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"}

// fit sets the reach of an axis to that of the values, where it has none yet.
func (a *axis) fit(values func(series) []float64, all []series) {
	if a.lo < a.hi {
		return
	}
	a.lo, a.hi = math.Inf(1), math.Inf(-1)
	for _, s := range all {
		for _, v := range values(s) {
			a.lo, a.hi = min(a.lo, v), max(a.hi, v)
		}
	}
	switch {
	case a.lo < a.hi:
	case a.log:
		a.lo, a.hi = a.lo/2, a.hi*2
	default:
		a.lo, a.hi = a.lo-.5, a.hi+.5
	}
	if a.log {
		return
	}
	if t := a.ticks(); len(t) > 1 { // whole steps
		step := t[1].at - t[0].at
		a.lo, a.hi = math.Floor(a.lo/step)*step, math.Ceil(a.hi/step)*step
	}
}

// at is where a value lies on the axis, from 0 to 1.
func (a *axis) at(v float64) float64 {
	if a.log {
		return math.Log(v/a.lo) / math.Log(a.hi/a.lo)
	}
	return (v - a.lo) / (a.hi - a.lo)
}

type tick struct {
	at    float64
	label string
}

func (a *axis) ticks() []tick {
	if a.log {
		return decades(a.lo, a.hi)
	}
	rough := (a.hi - a.lo) / 6
	step := math.Pow(10, math.Floor(math.Log10(rough)))
	for _, m := range []float64{1, 2, 5, 10} {
		if m*step >= rough {
			step *= m
			break
		}
	}
	var out []tick
	for k := math.Ceil(a.lo/step - 1e-9); k*step <= a.hi+step*1e-9; k++ {
		v := k * step
		if v == 0 {
			v = 0 // not -0
		}
		out = append(out, tick{v, strconv.FormatFloat(v, 'g', 6, 64)})
	}
	return out
}

// decades marks 1, 2 and 5 of every power of ten. It labels the power alone where there are many.
func decades(lo, hi float64) []tick {
	if !(lo > 0) || !(hi < math.MaxFloat64) {
		return nil
	}
	many := math.Log10(hi/lo) > 3
	var ticks []tick
	for k := math.Floor(math.Log10(lo)); k <= math.Log10(hi); k++ {
		for _, m := range []float64{1, 2, 5} {
			v := m * math.Pow(10, k)
			if v < lo || v > hi {
				continue
			}
			t := tick{at: v}
			if m == 1 || !many {
				t.label = strconv.FormatFloat(v, 'g', 3, 64)
			}
			ticks = append(ticks, t)
		}
	}
	return ticks
}

// svg draws it. It draws nothing outside of the axes.
func (d *drawing) svg() string {
	d.x.fit(func(s series) []float64 { return s.x }, d.lines)
	d.y.fit(func(s series) []float64 { return s.y }, d.lines)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" width="%g" height="%g" font-family="sans-serif" font-size="13" fill="#111">`+"\n", drawW, drawH, drawW, drawH)
	fmt.Fprintf(&b, `<title>%s</title><rect width="100%%" height="100%%" fill="#fff"/><clipPath id="in"><rect x="%g" y="%g" width="%g" height="%g"/></clipPath>`+"\n",
		html.EscapeString(d.title), marginL-4, marginT-4, plotW+8, plotH+8)
	fmt.Fprintf(&b, `<text x="%g" y="26" font-size="16" text-anchor="middle">%s</text>`+"\n", marginL+plotW/2, html.EscapeString(d.title))
	d.axes(&b)
	b.WriteString(`<g clip-path="url(#in)">` + "\n")
	for i, s := range d.lines {
		d.draw(&b, s, palette[i%len(palette)])
	}
	b.WriteString("</g>\n")
	d.legend(&b)
	b.WriteString("</svg>\n")
	return b.String()
}

func (d *drawing) px(v float64) float64 { return marginL + plotW*d.x.at(v) }
func (d *drawing) py(v float64) float64 { return marginT + plotH*(1-d.y.at(v)) }

// axes draws the grid, its labels and the names of the axes.
func (d *drawing) axes(b *strings.Builder) {
	for _, t := range d.x.ticks() {
		x := d.px(t.at)
		fmt.Fprintf(b, `<line x1="%.1f" x2="%.1f" y1="%g" y2="%g" stroke="#ddd"/><text x="%.1f" y="%g" text-anchor="middle">%s</text>`+"\n", x, x, marginT, marginT+plotH, x, marginT+plotH+18, t.label)
	}
	for _, t := range d.y.ticks() {
		y := d.py(t.at)
		fmt.Fprintf(b, `<line x1="%g" x2="%g" y1="%.1f" y2="%.1f" stroke="#ddd"/><text x="%g" y="%.1f" text-anchor="end">%s</text>`+"\n", marginL, marginL+plotW, y, y, marginL-7, y+4, t.label)
	}
	fmt.Fprintf(b, `<rect x="%g" y="%g" width="%g" height="%g" fill="none" stroke="#555"/>`+"\n", marginL, marginT, plotW, plotH)
	fmt.Fprintf(b, `<text x="%g" y="%g" text-anchor="middle">%s</text>`+"\n", marginL+plotW/2, drawH-14, html.EscapeString(d.x.label))
	fmt.Fprintf(b, `<text transform="translate(18 %g) rotate(-90)" text-anchor="middle">%s</text>`+"\n", marginT+plotH/2, html.EscapeString(d.y.label))
}

func (d *drawing) draw(b *strings.Builder, s series, colour string) {
	if s.how != dotted {
		fmt.Fprintf(b, `<polyline fill="none" stroke="%s" stroke-width="1.8" stroke-linejoin="round" points="`, colour)
		for i := range s.x {
			if s.how == steps && i > 0 {
				fmt.Fprintf(b, "%.1f,%.1f ", d.px(s.x[i]), d.py(s.y[i-1]))
			}
			fmt.Fprintf(b, "%.1f,%.1f ", d.px(s.x[i]), d.py(s.y[i]))
		}
		b.WriteString("\"/>\n")
	}
	if s.how == marked || s.how == dotted {
		for i := range s.x {
			fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`, d.px(s.x[i]), d.py(s.y[i]), colour)
		}
		b.WriteByte('\n')
	}
}

// legend names the series in that corner which the fewest points lie in.
func (d *drawing) legend(b *strings.Builder) {
	wide, rows := 0.0, 0.0
	for _, s := range d.lines {
		if s.name != "" {
			rows++
			wide = max(wide, legendMark+letter*float64(len([]rune(s.name)))+3*legendX)
		}
	}
	if rows == 0 {
		return
	}
	high := rows*legendRow + legendX
	x, y := d.corner(wide, high)
	fmt.Fprintf(b, `<rect x="%g" y="%g" width="%g" height="%g" fill="#fff" fill-opacity=".9" stroke="#bbb"/>`+"\n", x, y, wide, high)
	y += legendRow
	for i, s := range d.lines {
		if s.name == "" {
			continue
		}
		colour := palette[i%len(palette)]
		if s.how != dotted {
			fmt.Fprintf(b, `<line x1="%g" x2="%g" y1="%g" y2="%g" stroke="%s" stroke-width="1.8"/>`, x+legendX, x+legendX+legendMark, y-4, y-4, colour)
		}
		if s.how == marked || s.how == dotted {
			fmt.Fprintf(b, `<circle cx="%g" cy="%g" r="3" fill="%s"/>`, x+legendX+legendMark/2, y-4, colour)
		}
		fmt.Fprintf(b, `<text x="%g" y="%g">%s</text>`+"\n", x+legendMark+2*legendX, y, html.EscapeString(s.name))
		y += legendRow
	}
}

// corner is where a box of that size covers the fewest points.
func (d *drawing) corner(wide, high float64) (x, y float64) {
	type place struct {
		x, y    float64
		covered int
	}
	var all []place
	for _, top := range []bool{true, false} {
		for _, left := range []bool{false, true} {
			p := place{x: marginL + plotW - wide - legendX, y: marginT + legendX}
			if left {
				p.x = marginL + legendX
			}
			if !top {
				p.y = marginT + plotH - high - legendX
			}
			d.each(func(x, y float64) {
				if x > p.x-8 && x < p.x+wide+8 && y > p.y-8 && y < p.y+high+8 {
					p.covered++
				}
			})
			all = append(all, p)
		}
	}
	best := slices.MinFunc(all, func(a, b place) int { return cmp.Compare(a.covered, b.covered) })
	return best.x, best.y
}

// each calls f with the pixels of all points, and of some between those that a line joins.
func (d *drawing) each(f func(x, y float64)) {
	const between = 16
	for _, s := range d.lines {
		for i := range s.x {
			x, y := d.px(s.x[i]), d.py(s.y[i])
			f(x, y)
			if s.how == dotted || i == 0 {
				continue
			}
			x0, y0 := d.px(s.x[i-1]), d.py(s.y[i-1])
			for k := range between {
				share := float64(k) / between
				f(x0+share*(x-x0), y0+share*(y-y0))
			}
		}
	}
}

// errDrawing wraps what keeps a drawing from being written.
var errDrawing = errors.New("plan: the drawing cannot be written")

// save writes name.svg into dir, which it makes.
func (d *drawing) save(dir, name string) error {
	err := os.MkdirAll(dir, 0o755)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".svg"), []byte(d.svg()), 0o644) //nolint:gosec // a figure, readable by everyone
	}
	if err != nil {
		return fmt.Errorf("%w: %w; name another folder with --plot", errDrawing, err)
	}
	return nil
}
