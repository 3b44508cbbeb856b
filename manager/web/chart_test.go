package web

import (
	"fmt"
	"strings"
	"testing"

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
