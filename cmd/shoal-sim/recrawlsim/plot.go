package recrawlsim

import (
	"bytes"
	"errors"
	"fmt"
	"image/color"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"

	"shoal/cmd/shoal-sim/figure"
	"shoal/internal/sim"
)

// The palette of Okabe and Ito, which colour-blind readers can tell apart; dashes and marks tell lines apart in print. The eight colours go round with
// another dash and another mark, so that no two of the ten strategies look alike.
var (
	palette = []color.RGBA{{0, 114, 178, 255}, {213, 94, 0, 255}, {0, 158, 115, 255}, {204, 121, 167, 255}, {86, 180, 233, 255}, {230, 159, 0, 255},
		{0, 0, 0, 255}, {120, 120, 120, 255}}
	dashes = [][]vg.Length{nil, {vg.Points(6), vg.Points(2)}, {vg.Points(2), vg.Points(2)}, {vg.Points(8), vg.Points(2), vg.Points(2), vg.Points(2)}}
	marks  = []draw.GlyphDrawer{draw.CircleGlyph{}, draw.SquareGlyph{}, draw.TriangleGlyph{}, draw.PlusGlyph{}, draw.CrossGlyph{}, draw.RingGlyph{}, draw.BoxGlyph{},
		draw.PyramidGlyph{}}
)

func newPlot(title, x, y string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.Title.TextStyle.Font.Size = vg.Points(12)
	p.Title.Padding = vg.Points(6)
	p.X.Label.TextStyle.Font.Size, p.Y.Label.TextStyle.Font.Size = vg.Points(10), vg.Points(10)
	p.Legend.Top = true
	p.Legend.TextStyle.Font.Size = vg.Points(9)
	p.Legend.ThumbnailWidth = vg.Points(28)
	p.Legend.Padding = vg.Points(2)
	p.Legend.XOffs, p.Legend.YOffs = -vg.Points(6), -vg.Points(2)
	p.Y.Min = 0
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.TickerFunc(roundTicks), plot.TickerFunc(roundTicks)
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = color.Gray{230}, color.Gray{230}
	p.Add(grid)
	return p
}

// roundTicks are four to ten ticks at round numbers, with as few digits as they have.
func roundTicks(lo, hi float64) []plot.Tick {
	if !(hi > lo) {
		return plot.DefaultTicks{}.Ticks(lo, hi)
	}
	step := math.Pow(10, math.Floor(math.Log10(hi-lo)))
	for _, part := range []float64{1, .5, .2} {
		if (hi-lo)/(step*part) >= 4 {
			step *= part
			break
		}
	}
	var ticks []plot.Tick
	for i := math.Ceil(lo/step-1e-9) + 0; i*step <= hi+1e-9*step; i++ {
		v := i * step
		ticks = append(ticks, plot.Tick{Value: v, Label: strconv.FormatFloat(v, 'f', max(0, int(math.Ceil(-math.Log10(step)-1e-9))), 64)})
	}
	return ticks
}

// addLine adds a curve and its name in the legend; marked: with a mark at each point.
func addLine(p *plot.Plot, legend *plot.Legend, i int, name string, points plotter.XYs, marked bool) error {
	line, err := plotter.NewLine(points)
	if err != nil {
		return fmt.Errorf("plot %s: %w", name, err)
	}
	line.Width = vg.Points(1.4)
	line.Color = palette[i%len(palette)]
	line.Dashes = dashes[(i+i/len(palette))%len(dashes)]
	p.Add(line)
	if !marked {
		legend.Add(name, line)
		return nil
	}
	mark := &plotter.Scatter{XYs: points, GlyphStyle: draw.GlyphStyle{Color: line.Color, Radius: vg.Points(2.6), Shape: marks[(i+i/len(palette))%len(marks)]}}
	p.Add(mark)
	legend.Add(name, line, mark)
	return nil
}

// beside is a legend of its own, right of the curves: for more of them than there is room for above.
func beside() *plot.Legend {
	l := plot.NewLegend()
	l.Top, l.Left = true, true
	l.TextStyle.Font.Size = vg.Points(9)
	l.ThumbnailWidth, l.Padding = vg.Points(28), vg.Points(3)
	return &l
}

// decades are ticks of an axis that carries logarithms to base 10, labelled with the numbers themselves: powers of ten, and between them where there are few.
func decades(lo, hi float64) []plot.Tick {
	var ticks []plot.Tick
	for e := math.Floor(lo); e <= hi; e++ {
		for _, m := range []float64{1, 2, 5} {
			v := e + math.Log10(m)
			if v < lo-1e-9 || v > hi+1e-9 {
				continue
			}
			t := plot.Tick{Value: v}
			if m == 1 || hi-lo < 3 {
				t.Label = thousands(math.Round(m*math.Pow(10, e)*1000) / 1000)
			}
			ticks = append(ticks, t)
		}
	}
	return ticks
}

// thousands writes a number with commas.
func thousands(v float64) string {
	s := strconv.FormatFloat(v, 'f', -1, 64)
	whole, part, _ := strings.Cut(s, ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if part != "" {
		whole += "." + part
	}
	return whole
}

// save writes a figure as SVG and PNG, with a legend beside it or, if that is nil, its own. room is the share of the y axis that is left free above the curves.
func save(p *plot.Plot, legend *plot.Legend, dir, name string, room float64) error {
	p.Y.Max += room * (p.Y.Max - p.Y.Min)
	w, h, side := 14*vg.Centimeter, 9*vg.Centimeter, vg.Length(0)
	if legend != nil {
		side = 3.6 * vg.Centimeter
		w += side
	}
	image := vgimg.NewWith(vgimg.UseWH(w, h), vgimg.UseDPI(plotDPI))
	drawing := vgsvg.New(w, h)
	for _, f := range []struct {
		ext string
		on  vg.CanvasSizer
		to  io.WriterTo
	}{{".svg", drawing, fonts{drawing}}, {".png", image, vgimg.PngCanvas{Canvas: image}}} {
		all := draw.Crop(draw.New(f.on), plotMargin, -2*plotMargin, plotMargin, -plotMargin) // else the last number and the legend touch the edge
		p.Draw(draw.Crop(all, 0, -side, 0, 0))
		if legend != nil {
			legend.Draw(draw.Crop(all, w-side, 0, 0, -vg.Centimeter))
		}
		if err := write(filepath.Join(dir, name+f.ext), f.to); err != nil {
			return fmt.Errorf("write figure %s: %w", name+f.ext, err)
		}
	}
	return nil
}

// fonts names fonts of the same widths after the one that a drawing was set in, which few machines have.
type fonts struct{ from io.WriterTo }

func (f fonts) WriteTo(w io.Writer) (int64, error) {
	var b bytes.Buffer
	if _, err := f.from.WriteTo(&b); err != nil {
		return 0, err
	}
	n, err := w.Write(bytes.ReplaceAll(b.Bytes(), []byte("font-family:Liberation Serif;"), []byte("font-family:'Liberation Serif','Times New Roman',Times,serif;")))
	return int64(n), err
}

const (
	plotDPI    = 200
	plotMargin = 4 // points
)

func write(path string, from io.WriterTo) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = from.WriteTo(f)
	return errors.Join(err, f.Close())
}

// canPlot tells before a long run what would keep its figures from being drawn after it.
func canPlot(dir string, steps int) error {
	if steps < sampleSteps {
		return fmt.Errorf("%w: --plot: %d minutes are too few to plot; want at least %d", ErrFlags, steps, sampleSteps)
	}
	return figure.CanWrite(dir)
}

// plotRecrawl draws figures 3 to 5 of the paper and freshness over time.
func plotRecrawl(dir, name string, w *world, rows []Row) error {
	if err := plotData(dir, name, w); err != nil {
		return err
	}
	main := append(slices.Clone(rivals), "price")
	few := slices.DeleteFunc(slices.Clone(rows), func(r Row) bool { return !slices.Contains(main, r.Strategy) })
	if len(few) == len(main) { // the others would hide them
		rows = few
	}
	no := map[string]string{"rec": "fig4", "ruc": "fig5"}[name]
	if no == "" {
		no = "fig5"
	}
	for _, f := range []struct {
		file, title, y string
		of             func(Sample) float64
	}{
		{no + "-queued", "Queued tasks", "waiting tasks (thousand)", func(s Sample) float64 { return s.Queued / 1e3 }},
		{no + "-throughput", "Throughput", "pages downloaded a minute (thousand)", func(s Sample) float64 { return s.PagesPerMin / 1e3 }},
		{"freshness", "Freshness", "share of copies up to date", func(s Sample) float64 { return s.Freshness }},
		{"updates", "Updates", "updates a minute", func(s Sample) float64 { return s.Updates }},
	} {
		p := newPlot(fmt.Sprintf("%s, case %s, mode %s", f.title, name, rows[0].Mode), "minute (thousand)", f.y)
		p.X.Min, p.X.Max = 0, float64(rows[0].Steps)/1000
		legend, room := &p.Legend, .3
		var side *plot.Legend
		if len(rows) > len(main) {
			side = beside()
			legend, room = side, .05
		}
		for i, r := range rows {
			var points plotter.XYs
			for _, s := range smooth(r.Series, 4) {
				points = append(points, plotter.XY{X: float64(s.Minute) / 1000, Y: f.of(s)})
			}
			if err := addLine(p, legend, i, r.Strategy, points, false); err != nil {
				return err
			}
		}
		if err := save(p, side, dir, name+"-"+rows[0].Mode+"-"+f.file, room); err != nil {
			return err
		}
	}
	return nil
}

// smooth takes means of n samples.
func smooth(all []Sample, n int) []Sample {
	if len(all) < 25*n {
		return all
	}
	var out []Sample
	for part := range slices.Chunk(all, n) {
		var m Sample
		for _, s := range part {
			m.Minute += s.Minute / len(part)
			m.Queued += s.Queued / float64(len(part))
			m.PagesPerMin += s.PagesPerMin / float64(len(part))
			m.Freshness += s.Freshness / float64(len(part))
			m.Updates += s.Updates / float64(len(part))
		}
		out = append(out, m)
	}
	return out
}

// plotData draws figure 3: the data set.
func plotData(dir, name string, w *world) error {
	rng := sim.Rand(w.seed, "figure")
	latency := make(plotter.Values, 20_000)
	for i := range latency {
		latency[i] = w.hosts[rng.IntN(len(w.hosts))].To(w.crawlers[rng.IntN(len(w.crawlers))])
	}
	pages := make(plotter.Values, len(w.pages))
	for i, v := range w.pages {
		pages[i] = math.Log10(float64(v))
	}
	for _, h := range []struct {
		file, title, x, y string
		ticks             plot.TickerFunc
		values            plotter.Values
	}{{"fig3-latency", "Latency between crawlers and hosts", "latency (ms)", "share of pairs", roundTicks, latency},
		{"fig3-pages", "Pages of a channel", "pages", "share of channels", decades, pages}} {
		p := newPlot(h.title, h.x, h.y)
		p.X.Tick.Marker = h.ticks
		hist, err := plotter.NewHist(h.values, 50)
		if err != nil {
			return fmt.Errorf("plot %s: %w", h.file, err)
		}
		hist.Normalize(1)
		for i := range hist.Bins { // density to share
			hist.Bins[i].Weight *= hist.Width
		}
		hist.FillColor, hist.LineStyle.Width = palette[4], vg.Points(.3)
		p.Add(hist)
		if err := save(p, nil, dir, name+"-"+h.file, .05); err != nil {
			return err
		}
	}
	var bandwidth plotter.Values = make([]float64, 3)
	for _, v := range w.perPage {
		switch transfer := float64(v) - pageWait; {
		case transfer > 1:
			bandwidth[0]++
		case transfer > .5:
			bandwidth[1]++
		default:
			bandwidth[2]++
		}
	}
	groups := make(plotter.Values, len(w.groups))
	for i, n := range w.groups {
		groups[i] = float64(n)
	}
	for _, b := range []struct {
		file, title, x, y string
		values            plotter.Values
		names             []string
	}{{"fig3-bandwidth", "Bandwidth of crawlers", "bandwidth", "crawlers", bandwidth, []string{"512 kb/s", "1 Mb/s", "2 Mb/s"}},
		{"fig3-groups", "Channels in each priority group", "group, fastest first", "channels", groups, groupNames(len(groups))}} {
		p := newPlot(b.title, b.x, b.y)
		bars, err := plotter.NewBarChart(b.values, vg.Points(40))
		if err != nil {
			return fmt.Errorf("plot %s: %w", b.file, err)
		}
		bars.Color, bars.LineStyle.Width = palette[4], vg.Length(0)
		p.Add(bars)
		p.NominalX(b.names...)
		p.X.Tick.Label.YAlign = draw.YTop
		p.X.Min, p.X.Max = -.6, float64(len(b.values))-.4 // the outer bars stand clear of the edges
		if err := save(p, nil, dir, name+"-"+b.file, .05); err != nil {
			return err
		}
	}
	return nil
}

func groupNames(n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprint(i))
	}
	return out
}
