package overlaysim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"shoal/internal/sim"
)

func small() Command {
	return Command{Peers: 120, Hosts: 300, Tasks: 60, Places: Apart, Overlay: "all", Churn: "none", Settle: 25 * time.Minute, Seed: 1, Seeds: 1, JSON: true}
}

func rows(t *testing.T, c Command) map[string]Row {
	t.Helper()
	var out bytes.Buffer
	if err := c.Run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	var list []Row
	if err := json.Unmarshal(out.Bytes(), &list); err != nil {
		t.Fatal(err)
	}
	m := map[string]Row{}
	for _, r := range list {
		r.Seconds = 0
		m[r.Overlay] = r
	}
	return m
}

func TestRingsBeatTheBaselines(t *testing.T) {
	m := rows(t, small())
	rings := m["rings"]
	if rings.RTT50 > .7*rings.Random50 || rings.RTT50 > m["can5"].RTT50 {
		t.Errorf("rings %.1f ms, random %.1f, CAN %.1f", rings.RTT50, rings.Random50, m["can5"].RTT50)
	}
	if rings.Empty > 0 || rings.Success < 1 || rings.TableMax > 64 {
		t.Errorf("%+v", rings)
	}
	if len(m) != 9 {
		t.Errorf("%d overlays", len(m))
	}
}

func TestSameSeedSameFigures(t *testing.T) {
	c := small()
	c.Peers, c.Settle, c.Churn, c.Liars = 60, 10*time.Minute, "x17", .1
	a, b := rows(t, c), rows(t, c)
	for name, r := range a {
		if b[name] != r {
			t.Errorf("%s differs:\n%+v\n%+v", name, r, b[name])
		}
	}
}

func TestMeasuredLatencies(t *testing.T) {
	data := os.Getenv("SHOAL_DATA")
	if data == "" {
		t.Skip("SHOAL_DATA names no folder with the public latency data")
	}
	c := small()
	c.Latency = filepath.Join(data, "latency", "ripe-atlas-419.csv.gz")
	if r := rows(t, c)["rings"]; r.RTT50 > .5*r.Random50 {
		t.Errorf("rings %.1f ms, random %.1f", r.RTT50, r.Random50)
	}
}

// No base node has both peers and hosts, unless that is asked for; all base nodes are used.
func TestPeersAndHostsApart(t *testing.T) {
	const nodes, peers, hosts = 30, 60, 90
	matrix, points := "head\n", ""
	for i := range nodes { // on a line, 10 ms of round trip apart
		row := make([]string, nodes)
		for j := range row {
			row[j] = strconv.Itoa(10 * max(i-j, j-i))
		}
		matrix += strings.Join(row, ",") + "\n"
		points += fmt.Sprintf("%d %d 0\n", i, 5*i)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"matrix.csv": matrix, "points": points} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		for places, want := range map[string]int{Apart: 0, Shared: nodes} {
			g, err := newGround(path, places, peers, hosts, sim.Rand(1, "ground"))
			if err != nil {
				t.Fatal(err)
			}
			used := [nodes][2]bool{}
			for i := range peers + hosts {
				node, kind := 0, 0
				if i >= peers {
					kind = 1
				}
				if g.matrix != nil {
					node = g.site[i]
				} else {
					node = int(math.Round(g.points[i].X / 5)) // a replica is at most half way to the next
				}
				used[node][kind] = true
			}
			both := 0
			for node, by := range used {
				if !by[0] && !by[1] {
					t.Errorf("%s, %s: node %d is not used", name, places, node)
				}
				if by[0] && by[1] {
					both++
				}
			}
			if both != want {
				t.Errorf("%s, %s: %d nodes with both, want %d", name, places, both, want)
			}
		}
	}
	if ours, theirs := sites(1740, Apart, sim.Rand(1, "sites")); len(ours) != 140 || len(theirs) != 1600 {
		t.Errorf("%d and %d base nodes, want the paper's 140 and 1600", len(ours), len(theirs))
	}
}

func TestBadFlags(t *testing.T) {
	for _, change := range []func(*Command){
		func(c *Command) { c.Peers = 3 }, func(c *Command) { c.Liars = .9 }, func(c *Command) { c.Seeds = 0 },
	} {
		c := small()
		change(&c)
		if err := c.Run(t.Context(), &bytes.Buffer{}); !errors.Is(err, ErrFlags) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
