// Package figure draws the experiments' figures in one style and saves each as SVG and PNG. It is a thin layer over gonum/plot, not for
// anything interactive.
package figure

import (
	"errors"
	"fmt"
	"image/color"
	"os"
	"path/filepath"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
)

// Size of a figure.
const (
	Width  = 6.5 * vg.Inch
	Height = 4.3 * vg.Inch
)

// palette is Okabe and Ito's, which most colour-blind readers can tell apart.
var palette = []color.Color{color.RGBA{A: 255}, color.RGBA{R: 213, G: 94, A: 255}, color.RGBA{G: 114, B: 178, A: 255}, color.RGBA{G: 158, B: 115, A: 255},
	color.RGBA{R: 204, G: 121, B: 167, A: 255}, color.RGBA{R: 230, G: 159, A: 255}, color.RGBA{R: 86, G: 180, B: 233, A: 255}, color.RGBA{R: 130, G: 130, B: 130, A: 255}}

// Figure is a plot with a running number of series.
type Figure struct {
	*plot.Plot
	n int
}

// New makes an empty figure with a grid and its legend inside, top right.
func New(title, x, y string) *Figure {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.Title.Padding = vg.Points(6)
	p.Legend.Top = true
	p.Legend.XOffs, p.Legend.YOffs = -vg.Points(6), -vg.Points(4)
	p.Legend.Padding = vg.Points(2)
	p.Legend.ThumbnailWidth = vg.Points(26)
	p.Add(plotter.NewGrid())
	return &Figure{Plot: p}
}

// Line adds a series; colours repeat dashed.
func (f *Figure) Line(name string, x, y []float64) error { return f.line(name, x, y, false) }

// Marked adds a series whose points show.
func (f *Figure) Marked(name string, x, y []float64) error { return f.line(name, x, y, true) }

// Marks adds a series of places that are no numbers: points alone, beside each other.
func (f *Figure) Marks(name string, x, y []float64) error {
	s, err := plotter.NewScatter(pairs(x, y))
	if err != nil {
		return fmt.Errorf("figure: series %q: %w", name, err)
	}
	s.Color, s.Shape, s.Radius = palette[f.n%len(palette)], plotutil.Shape(f.n), vg.Points(2.6)
	f.Add(s)
	f.Legend.Add(name, s)
	f.n++
	return nil
}

// Places names the places 0, 1, ... of the x axis.
func (f *Figure) Places(names ...string) {
	f.NominalX(names...)
	f.X.Tick.Label.Rotation, f.X.Tick.Label.XAlign, f.X.Tick.Label.YAlign = .6, text.XRight, text.YCenter
	f.X.Min, f.X.Max = -.6, float64(len(names))-.4
}

// Beside adds a dashed line without a name, in the colour of the last series, which it belongs to.
func (f *Figure) Beside(x, y []float64) error {
	l, err := plotter.NewLine(pairs(x, y))
	if err != nil {
		return fmt.Errorf("figure: %w", err)
	}
	l.Color, l.Width, l.Dashes = palette[max(f.n-1, 0)%len(palette)], vg.Points(.9), plotutil.Dashes(1)
	f.Add(l)
	return nil
}

func (f *Figure) line(name string, x, y []float64, marks bool) error {
	xy := pairs(x, y)
	l, s, err := plotter.NewLinePoints(xy)
	if err != nil {
		return fmt.Errorf("figure: series %q: %w", name, err)
	}
	l.Color, l.Width = palette[f.n%len(palette)], vg.Points(1.4)
	l.Dashes = plotutil.Dashes(f.n / len(palette) * 2)
	f.Add(l)
	if marks {
		s.Color, s.Shape, s.Radius = l.Color, plotutil.Shape(f.n), vg.Points(2.4)
		f.Add(s)
		f.Legend.Add(name, l, s)
	} else {
		f.Legend.Add(name, l)
	}
	f.n++
	return nil
}

// Steps adds a series that is constant from each point to the next.
func (f *Figure) Steps(name string, x, y []float64) error {
	l, err := plotter.NewLine(pairs(x, y))
	if err != nil {
		return fmt.Errorf("figure: series %q: %w", name, err)
	}
	l.StepStyle = plotter.PostStep
	l.Color, l.Width = palette[f.n%len(palette)], vg.Points(1.4)
	f.Add(l)
	if name != "" {
		f.Legend.Add(name, l)
	}
	f.n++
	return nil
}

// Points adds marks without a line.
func (f *Figure) Points(name string, x, y []float64, filled bool) error {
	s, err := plotter.NewScatter(pairs(x, y))
	if err != nil {
		return fmt.Errorf("figure: points %q: %w", name, err)
	}
	s.Color, s.Radius, s.Shape = palette[0], vg.Points(3.2), plotutil.Shape(0)
	if !filled {
		s.Shape = plotutil.DefaultGlyphShapes[0]
	} else {
		s.Shape = plotutil.DefaultGlyphShapes[4]
	}
	f.Add(s)
	f.Legend.Add(name, s)
	return nil
}

func pairs(x, y []float64) plotter.XYs {
	xy := make(plotter.XYs, len(x))
	for i := range xy {
		xy[i].X, xy[i].Y = x[i], y[i]
	}
	return xy
}

// CanWrite tells before a long run that its figures cannot be written after it. An empty dir wants no figures.
func CanWrite(dir string) error {
	if dir == "" {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("--plot: cannot make the folder for figures: %w; name one that can be written to", err)
	}
	f, err := os.CreateTemp(dir, ".figure")
	if err != nil {
		return fmt.Errorf("--plot: cannot write to the folder for figures: %w; name one that can be written to", err)
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// Save writes name.svg and name.png into dir, which it makes, and returns the paths.
func (f *Figure) Save(dir, name string) ([]string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("figure: %w", err)
	}
	var files []string
	for _, ext := range []string{".svg", ".png"} {
		file := filepath.Join(dir, name+ext)
		if err := f.Plot.Save(Width, Height, file); err != nil {
			return files, fmt.Errorf("figure: save %s: %w", file, err)
		}
		files = append(files, file)
	}
	return files, nil
}

// Thin adds a faint line without a name: one of many curves behind the ones that matter.
func (f *Figure) Thin(x, y []float64) error {
	l, err := plotter.NewLine(pairs(x, y))
	if err != nil {
		return fmt.Errorf("figure: %w", err)
	}
	l.Color, l.Width = color.RGBA{R: 170, G: 190, B: 215, A: 255}, vg.Points(.8)
	f.Add(l)
	return nil
}
