package measurements

import (
	"fmt"
	"image/color"
	"os"
	"path/filepath"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"

	"shoal/cmd/shoal-sim/figure"
)

// draw draws every figure that was measured in more than one version, and returns the files.
func draw(rows []Row, dir string) (files []string, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("measurements: %w", err)
	}
	for _, of := range byWhat(rows) {
		if versions := versionsOf(of); len(versions) > 1 {
			file := filepath.Join(dir, slug(of[0].What)+".svg")
			if err := drawOne(of, versions, file); err != nil {
				return files, fmt.Errorf("measurements: %s: %w", file, err)
			}
			files = append(files, file)
		}
	}
	return files, nil
}

// versionsOf returns the versions in the order in which they were measured.
func versionsOf(of []Row) (versions []string) {
	seen := map[string]bool{}
	for _, r := range of {
		if !seen[r.Version] {
			seen[r.Version] = true
			versions = append(versions, r.Version)
		}
	}
	return versions
}

// drawOne draws one figure over the versions: measurements on a quiet machine filled, others hollow, the target as a line.
func drawOne(of []Row, versions []string, file string) error {
	first := &of[0]
	f := figure.New(first.What, "version", first.Unit)
	at := map[string]float64{}
	var ticks plot.ConstantTicks
	for i, v := range versions {
		at[v] = float64(i)
		ticks = append(ticks, plot.Tick{Value: float64(i), Label: v})
	}
	f.X.Tick.Marker = ticks
	f.X.Min, f.X.Max = -.5, float64(len(versions))-.5
	f.Y.Min = 0
	for _, quiet := range []bool{true, false} {
		var x, y []float64
		for _, r := range of {
			if r.Quiet() == quiet {
				x, y = append(x, at[r.Version]), append(y, r.Value)
			}
		}
		if len(x) == 0 {
			continue
		}
		name := "quiet machine"
		if !quiet {
			name = "busy machine"
		}
		if err := f.Points(name, x, y, quiet); err != nil {
			return err
		}
	}
	last := &of[len(of)-1]
	if bound, atLeast, ok := last.Target(); ok {
		name := "at most"
		if atLeast {
			name = "at least"
		}
		l, err := plotter.NewLine(plotter.XYs{{X: f.X.Min, Y: bound}, {X: f.X.Max, Y: bound}})
		if err != nil {
			return err
		}
		l.Color, l.Dashes = color.RGBA{R: 213, G: 94, A: 255}, plotutil.Dashes(1)
		f.Add(l)
		f.Legend.Add(name+" "+Text(bound, last.Unit), l)
	}
	f.Y.Max *= 1.25 // room for the legend
	return f.Plot.Save(figure.Width, 3*vg.Inch, file)
}

// slug makes a file name of what was measured.
func slug(what string) string {
	fields := strings.FieldsFunc(strings.ToLower(what), func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
	return strings.Join(fields, "-")
}
