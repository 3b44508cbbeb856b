package overlaysim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"shoal/channel"
	"shoal/coords"
	"shoal/internal/sim"
	"shoal/peer/queue"
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
	if apart := m["apart"]; apart.RTT50 < m["judge"].RTT50 || apart.RTT50 > 1.5*m["judge"].RTT50 {
		t.Errorf("another peer than the last one: %.1f ms, the judge alone %.1f", apart.RTT50, m["judge"].RTT50)
	}
	if s := m["apart"].Stayed; s <= 0 || s >= .9 || m["judge"].Stayed != 0 {
		t.Errorf("of tasks in turn %.2f stay with a peer, of single ones %.2f", s, m["judge"].Stayed)
	}
	if len(m) != 11 {
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
			g, err := newGround(path, places, peers, hosts, false, sim.Rand(1, "ground"))
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

// A host's next tasks land no farther from it than its first: what was learnt of it is kept.
func TestTasksThatComeAgain(t *testing.T) {
	c := small()
	c.Overlay, c.Repeat = "rings", 2
	m := rows(t, c)
	if len(m) != 2 {
		t.Fatalf("%d rows, want rings and again", len(m))
	}
	first, again := m["rings"], m["again"]
	if far, near := first.RTT50/first.Nearest50, again.RTT50/again.Nearest50; near > 1.05*far || again.RTT90 > 1.05*first.RTT90 || again.Success < 1 || again.Empty > 0 {
		t.Errorf("%.2f times as far as the nearest, %.1f ms at p90; then %.2f, %.1f, success %v", far, first.RTT90, near, again.RTT90, again.Success)
	}
}

func TestBadFlags(t *testing.T) {
	for want, change := range map[string]func(*Command){
		"--peers 3":        func(c *Command) { c.Peers = 3 },
		"--hosts 0":        func(c *Command) { c.Hosts = 0 },
		"--tasks 0":        func(c *Command) { c.Tasks = 0 },
		"--liars 0.9":      func(c *Command) { c.Liars = .9 },
		"--swallowers -1":  func(c *Command) { c.Swallowers = -1 },
		"--swallowers NaN": func(c *Command) { c.Swallowers = math.NaN() },
		"--seeds 0":        func(c *Command) { c.Seeds = 0 },
		"--repeat -1":      func(c *Command) { c.Repeat = -1 },
		"--repeat is":      func(c *Command) { c.Overlay, c.Load, c.For, c.Pages, c.Repeat = "rings", 1, 2*time.Hour, 100, 1 },
		"--settle 0s":      func(c *Command) { c.Settle = 0 },
		"--drift 0":        func(c *Command) { c.Lie, c.Drift = "drift", 0 },
		"--load -1":        func(c *Command) { c.Load = -1 },
		"--load NaN":       func(c *Command) { c.Load = math.NaN() },
		"--for 1m":         func(c *Command) { c.Overlay, c.Load, c.For, c.Pages = "rings", 1, time.Minute, 100 },
		"--pages 0":        func(c *Command) { c.Overlay, c.Load, c.For, c.Pages = "rings", 1, 2*time.Hour, 0 },
		"--overlay can":    func(c *Command) { c.Overlay, c.Load, c.For, c.Pages = "can", 1, 2*time.Hour, 100 },
		"--steal":          func(c *Command) { c.Steal = true },
		"--sweep":          func(c *Command) { c.Sweep, c.Load = true, 1 },
		"--scale":          func(c *Command) { c.Scale, c.Load = true, 1 },
	} {
		c := small()
		change(&c)
		err := c.Run(t.Context(), &bytes.Buffer{})
		if !errors.Is(err, ErrFlags) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// Solving for coordinates beats following Vivaldi's springs, with guards and without, and Vivaldi alone does not stand liars.
func TestCoordinates(t *testing.T) {
	c := small()
	c.Overlay, c.Tasks, c.Lie = "rings", 20, "far"
	after := func(how string, liars float64) float64 {
		c.Coordinates, c.Liars = how, liars
		return rows(t, c)["rings"].CoordErr
	}
	product, solver, springs, serf := after("product", 0), after("solver", 0), after("springs", 0), after("serf", 0)
	if product == solver || springs == serf || max(product, solver) > .9*min(springs, serf) {
		t.Errorf("error %.3f, solving alone %.3f, springs %.3f, serf's Vivaldi as it comes %.3f", product, solver, springs, serf)
	}
	if lied := after("product", .1); lied > 1.3*product || after("serf", .1) < 2*lied {
		t.Errorf("error %.3f with liars", lied)
	}
}

// A fifth of the peers swallow what they take: handed out again, the tasks come to others.
func TestSwallowers(t *testing.T) {
	c := small()
	c.Overlay, c.Peers, c.Swallowers, c.Settle = "rings", 60, .2, 10*time.Minute
	if r := rows(t, c)["rings"]; r.Success < .99 {
		t.Errorf("success %.3f", r.Success)
	}
}

// However a tenth lies, the others' coordinates are hardly worse, and no task is lost.
func TestLies(t *testing.T) {
	c := small()
	c.Overlay, c.Peers, c.Tasks, c.Settle = "rings", 50, 5, 15*time.Minute
	honest := rows(t, c)["rings"]
	for _, how := range []string{"far", "middle", "high"} {
		c.Liars, c.Lie = .1, how
		if r := rows(t, c)["rings"]; r.CoordErr > 1.3*honest.CoordErr || r.Success < 1 {
			t.Errorf("%s: error %.3f, without liars %.3f; success %v", how, r.CoordErr, honest.CoordErr, r.Success)
		}
	}
}

// Liars that drift go slowly, all one way, and stay within what is believed.
func TestDriftIsSlow(t *testing.T) {
	c := small()
	c.Overlay, c.Peers, c.Tasks, c.Settle, c.Liars, c.Lie, c.Drift = "rings", 20, 1, 25*time.Minute, .2, "drift", 5
	n, err := c.open(t.Context(), 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	liar := 0
	for i := range n.members {
		if n.members[i].lies {
			liar = i
		}
	}
	first := n.lie(liar)
	n.run(10 * time.Minute)
	second := n.lie(liar)
	if d := second.Vec[0] - first.Vec[0]; math.Abs(d-50) > 1e-6 || second.Vec[1] != first.Vec[1] {
		t.Errorf("drifted from %v to %v in 10 minutes, want 50 ms along one axis", first.Vec, second.Vec)
	}
	n.now += int64(24 * time.Hour)
	if last := n.lie(liar); !last.Valid() {
		t.Errorf("%+v is not believed", last)
	}
}

func TestFigures(t *testing.T) {
	c := small()
	c.Peers, c.Hosts, c.Tasks, c.Settle, c.Liars, c.Plot = 40, 30, 5, 5*time.Minute, .1, t.TempDir()
	rows(t, c)
	c.Overlay, c.Load, c.For, c.Pages = "rings", 1, time.Hour, 3000
	rows(t, c)
	for _, name := range []string{"swarm-rings", "swarm-load", "nearness"} {
		for _, ext := range []string{".svg", ".png"} {
			if f, err := os.Stat(filepath.Join(c.Plot, name+ext)); err != nil || f.Size() < 1000 {
				t.Errorf("%s%s: %v", name, ext, err)
			}
		}
	}
	some := []Row{{Overlay: "rings", Load: .3, Peers: 100, Goodput: 1, Hops: 2}, {Overlay: "rings", Load: 4, Peers: 300, Goodput: 3, Hops: 3}, {Overlay: "rings", Load: 4, Peers: 300, Goodput: 5}}
	for _, e := range []*Command{{Sweep: true}, {Scale: true}} {
		if err := plotRows(c.Plot, e, some); err != nil {
			t.Error(err)
		}
	}
	if _, ys := means(some, "rings", func(r Row) float64 { return r.Load }, func(r Row) float64 { return r.Goodput }); ys[0] != 1 || ys[1] != 4 {
		t.Errorf("means %v", ys)
	}
}

// busy is a small swarm with small tasks, so that a day's work is done in hours.
func busy(load float64) Command {
	c := small()
	c.Overlay, c.Peers, c.Hosts, c.Load, c.For, c.Pages, c.Churn = "rings", 40, 200, load, 4*time.Hour, 1500, "paper"
	return c
}

func TestLoad(t *testing.T) {
	low, high := rows(t, busy(.5)), rows(t, busy(2))
	for name, r := range high {
		if r.Goodput < .95*low[name].Goodput {
			t.Errorf("%s: goodput falls from %.2f to %.2f", name, low[name].Goodput, r.Goodput)
		}
	}
	ours, paper := high["rings"], high["paper"]
	if ours.Success < .98 || ours.Goodput < .9*paper.Goodput || paper.Success > .9 {
		t.Errorf("rings: success %.3f, goodput %.2f; paper: %.3f, %.2f", ours.Success, ours.Goodput, paper.Success, paper.Goodput)
	}
	for _, r := range []Row{ours, paper, high["paper-once"], high["paper-near"]} {
		// The threads' time is all there is: with what is under way at both edges left aside, goodput is what they fetched and did not waste.
		there := r.Busy / r.PageMS * (1 - r.Wasted) * 60 * threads * 40 * .625
		if r.Busy <= .8 || r.Busy > 1 || r.Wasted < 0 || r.Wasted > .3 || math.Abs(there/r.Goodput-1) > .25 {
			t.Errorf("%s: %.3f of the threads' time is busy, a page takes %.0f ms, %.3f of the pages are for nothing: that would be a goodput of %.2f, not %.2f", r.Overlay, r.Busy, r.PageMS, r.Wasted, there, r.Goodput)
		}
	}
	if ours.Wasted > paper.Wasted/2 {
		t.Errorf("%.3f of our pages are for nothing, %.3f of the paper's", ours.Wasted, paper.Wasted)
	}
	for _, r := range []Row{ours, low["rings"]} {
		if !(r.RTTBound > 0 && r.RTTBound <= r.RTTMean) {
			t.Errorf("load %v: mean round-trip time %.2f ms, and it cannot be below %.2f", r.Load, r.RTTMean, r.RTTBound)
		}
	}
	if low["rings"].RTTBound > ours.RTTBound {
		t.Errorf("more work can be done nearer: %.2f ms at load .5, %.2f at 2", low["rings"].RTTBound, ours.RTTBound)
	}
	if ours.Refused < .05 || low["rings"].Refused > .01 { // tasks wait for two hours of the four before they are refused
		t.Errorf("refused %.3f at load .5, %.3f at 2", low["rings"].Refused, ours.Refused)
	}
}

// Every accepted task is at a peer, awaited, pausing, or over; nothing is lost from the books. Same seed, same figures.
func TestTasksAreCounted(t *testing.T) {
	c := busy(1.5)
	c.Swallowers, c.Steal, c.For = .1, true, 2*time.Hour
	run := func() (*swarm, []Row) {
		s := newSwarm(&c, 1)
		rows, err := c.work(t.Context(), s, 1)
		if err != nil {
			t.Fatal(err)
		}
		for k := range rows {
			rows[k].Seconds = 0
		}
		return s, rows
	}
	s, first := run()
	at := map[channel.ID]int{}
	for _, i := range s.n.ups() {
		if w := s.crawlers[i]; w != nil {
			if w.q.Running() > threads || w.q.Waiting() > slots {
				t.Errorf("peer %d: %d running, %d waiting", i, w.q.Running(), w.q.Waiting())
			}
			w.q.Each(func(it queue.Item[channel.Gen], started time.Time) {
				if !started.IsZero() {
					at[channel.ID(it.Key)]++
				}
			})
		}
	}
	over := 0
	for _, task := range s.tasks {
		n := at[task.id]
		if n > 1 || (task.run != nil) != (n == 1) {
			t.Errorf("task %d runs at %d peers; its run: %v", task.id, n, task.run != nil)
		}
		if task.over {
			over++
			if s.m.IsOut(task.slot()) {
				t.Errorf("task %d is over and out", task.id)
			}
		} else if _, flying := s.m.Issue(task.slot()); !flying && !task.accepted && !slices.ContainsFunc(s.wants, func(w want) bool { return w.slot == task.slot() }) {
			t.Errorf("task %d is nowhere", task.id)
		}
	}
	if over == 0 || s.stolen == 0 || s.updates == 0 {
		t.Errorf("%d over, %d stolen, %d updates: nothing was tried", over, s.stolen, s.updates)
	}
	_, again := run()
	if !slices.Equal(first, again) {
		t.Errorf("differs:\n%+v\n%+v", first, again)
	}
}

// TestCANUnderChurn checks that zones cover the space once, and that neighbours are those that touch, while members
// come and go.
func TestCANUnderChurn(t *testing.T) {
	rng := sim.Rand(3, "can")
	var at []coords.Coord
	var members []int
	for i := range 60 {
		var c coords.Coord
		for k := range c.Vec {
			c.Vec[k] = 100 * rng.NormFloat64()
		}
		at, members = append(at, c), append(members, i)
	}
	for dims := 2; dims <= 5; dims++ {
		c := newCAN(dims, members[:30], at[:30])
		for range 400 {
			if i := rng.IntN(len(members)); rng.IntN(2) == 0 {
				c.join(i, c.key(&at[i]))
			} else {
				c.leave(i)
			}
			volume, zones := 0., 0
			for z := range c.nodes {
				n := &c.nodes[z]
				if n.low != 0 || n.owner == none || n.lo == nil {
					continue
				}
				if c.zone[n.owner] != int32(z) {
					t.Fatalf("zone %d of %d is not known as its", z, n.owner)
				}
				zones++
				v := 1.
				for k := range dims {
					v *= n.hi[k] - n.lo[k]
				}
				volume += v
				for o := range c.nodes {
					if p := &c.nodes[o]; o != z && p.low == 0 && p.owner != none && p.lo != nil && c.touch(int32(z), int32(o)) != slices.Contains(n.near, int32(o)) {
						t.Fatalf("d=%d: zones %d and %d touch: %v, neighbours: %v", dims, z, o, c.touch(int32(z), int32(o)), n.near)
					}
				}
			}
			whole := 1.
			for k := range dims {
				whole *= c.nodes[0].hi[k] - c.nodes[0].lo[k]
			}
			if zones != len(c.zone) || zones > 0 && math.Abs(volume/whole-1) > 1e-9 {
				t.Fatalf("d=%d: %d zones of %d members, %.6f of the space", dims, zones, len(c.zone), volume/whole)
			}
		}
		if len(c.zone) == 0 {
			c.join(0, c.key(&at[0]))
		}
		for m := range c.zone { // every key is found from everywhere
			key := c.key(&at[rng.IntN(len(at))])
			path, lost := c.route(m, key)
			if end := c.zone[path[len(path)-1]]; c.distance(end, key) > 0 || lost > 0 {
				t.Errorf("d=%d: a message from %d ends %.1f from its key, %d lost", dims, m, c.distance(end, key), lost)
			}
		}
	}
}
