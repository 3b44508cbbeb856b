package plan

import (
	"encoding/xml"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A drawing is well-formed, names its axes and series as they are, and has every point between its axes.
func TestDrawing(t *testing.T) {
	x, y := []float64{0, 1, 2, 3}, []float64{0, 5, 2, 9}
	for name, d := range map[string]*drawing{
		"linear":   {title: "a & b", x: axis{label: "<x>"}, y: axis{label: "y"}, lines: []series{{"one", x, y, marked}, {"two", y, x, lined}}},
		"log":      {x: axis{log: true}, y: axis{log: true}, lines: []series{{"one", []float64{.003, 1, 4e5}, []float64{1, 10, 1e9}, dotted}}},
		"steps":    {y: axis{hi: 12}, lines: []series{{"", x, y, steps}}},
		"constant": {lines: []series{{"one", []float64{2}, []float64{7}, lined}}},
		"flat log": {x: axis{log: true}, y: axis{log: true}, lines: []series{{"one", []float64{2}, []float64{7}, dotted}}},
	} {
		svg := d.svg()
		if err := xml.Unmarshal([]byte(svg), new(struct{})); err != nil {
			t.Errorf("%s: %v in\n%s", name, err, svg)
		}
		if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") || strings.Contains(svg, ">-0<") || !strings.Contains(svg, "<text") {
			t.Errorf("%s: a number that is none, or no text, in\n%s", name, svg)
		}
		d.each(func(x, y float64) {
			if x < marginL-.1 || x > marginL+plotW+.1 || y < marginT-.1 || y > marginT+plotH+.1 {
				t.Errorf("%s: a point at %.1f, %.1f lies outside of the axes", name, x, y)
			}
		})
	}
	if svg := (&drawing{title: "a & b", lines: []series{{"", x, y, lined}}}).svg(); !strings.Contains(svg, "a &amp; b") {
		t.Errorf("the title is not in\n%s", svg)
	}
}

// The legend stands where no line runs.
func TestLegendStandsClear(t *testing.T) {
	up := []float64{0, 1}
	for name, y := range map[string][]float64{"rising": {0, 1}, "falling": {1, 0}} {
		d := &drawing{lines: []series{{"a line", up, y, lined}}}
		d.svg() // settles the axes
		bx, by := d.corner(120, 40)
		d.each(func(x, y float64) {
			if x > bx && x < bx+120 && y > by && y < by+40 {
				t.Errorf("%s: the line runs through the legend at %.0f, %.0f", name, x, y)
			}
		})
	}
}

// A folder that cannot be made is named, with what to do.
func TestDrawingNotSaved(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := (&drawing{}).save(filepath.Join(file, "sub"), "x"); err == nil || !strings.Contains(err.Error(), "--plot") {
		t.Errorf("%v", err)
	}
}
