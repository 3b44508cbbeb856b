package web

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"shoal/manager/desk"
)

// TestSwarmFits: the farthest peer lies on the outer ring, whose distance the caption names, and no peer beyond it.
func TestSwarmFits(t *testing.T) {
	drawn := string(swarm([]desk.Peer{{ID: "near", Coord: [2]float64{0, -10}}, {ID: "far", Coord: [2]float64{30, 40}}}))
	const edge = swarmSize/2 - swarmEdge
	for _, want := range []string{
		fmt.Sprintf(`cx="%.1f" cy="%.1f"`, swarmSize/2+edge*.6, swarmSize/2+edge*.8),
		fmt.Sprintf(`cx="%.1f" cy="%.1f"`, swarmSize/2, swarmSize/2-edge*.2),
		"centre to edge: 50 ms",
	} {
		if !strings.Contains(drawn, want) {
			t.Errorf("%s is not in %s", want, drawn)
		}
	}
}

func TestCounted(t *testing.T) {
	for want, got := range map[string]string{"1 charge": counted(int64(1), "charge"), "0 charges": counted(int64(0), "charge"), "2 peers": counted(2, "peer")} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestFiguresOfCharts: no figure at an axis, a pointer or a screen reader has an exponent.
func TestFiguresOfCharts(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 6: "6", 53.64: "53.6", 625.4: "625", 999.7: "1\u202f000", 1014: "1\u202f014", 9999: "9\u202f999", 12_340: "12.3k", 999_900: "1M", 2.5e9: "2500M"} {
		if got := number(v); got != want {
			t.Errorf("%v: %q, want %q", v, got, want)
		}
	}
}

// Charts tell a screen reader the true values of every line, and a pointer those under it; intervals stand on a logarithmic axis.
func TestChartsTellValues(t *testing.T) {
	var h []desk.Point
	begin := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for i := range 300 {
		h = append(h, desk.Point{At: begin.Add(time.Duration(i) * time.Minute), UpdatesMin: float64(i % 7), Intervals: []desk.Seconds{desk.Seconds(time.Minute), desk.Seconds(24 * time.Hour)}})
	}
	up := string(chart("updates", h))
	if !strings.Contains(up, "now 5, from 0 to 6") {
		t.Errorf("a screen reader hears %.200s", up)
	}
	if n := strings.Count(up, "<title>"); n < 90 || n > mostHovers || !strings.Contains(up, "2026-03-01 12:03:00  3</title>") {
		t.Errorf("%d values to point at in %.900s", n, up)
	}
	iv := string(chart("intervals", h))
	for _, want := range []string{"group 1 now 1 min, from 1 min to 1 min", "group 2 now 1 day", ">2 h</text>", "group 2: 1 day</title>"} {
		if !strings.Contains(iv, want) {
			t.Errorf("no %q in %.1200s", want, iv)
		}
	}
	sc := scaleOf([][]float64{{60, 86400}}, true)
	middle := (sc.y(60) + sc.y(86400)) / 2
	if got := sc.y(math.Sqrt(60 * 86400)); math.Abs(got-middle) > .1 {
		t.Errorf("the geometric mean stands at %.1f, not half way at %.1f: the axis is not logarithmic", got, middle)
	}
	if cut, word := within(h, begin.Add(299*time.Minute), ""); len(cut) != 61 || word != "hour" {
		t.Errorf("the last hour has %d of %d samples, as %s", len(cut), len(h), word)
	}
	if cut, _ := within(h, begin.Add(299*time.Minute), "all"); len(cut) != len(h) {
		t.Errorf("all are %d of %d", len(cut), len(h))
	}
}
