package pond

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var epoch = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

func world(t testing.TB, cfg Config) *World {
	t.Helper()
	if cfg.Start.IsZero() {
		cfg.Start = epoch
	}
	w, err := NewWorld(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestSizesAddUp(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		hosts := rapid.IntRange(1, 300).Draw(rt, "hosts")
		top := rapid.IntRange(1, 3000).Draw(rt, "top")
		pages := rapid.IntRange(hosts, hosts*top).Draw(rt, "pages")
		w, err := NewWorld(Config{Seed: 3, Hosts: hosts, Pages: pages, MaxHost: top})
		if err != nil {
			rt.Fatal(err)
		}
		sum := 0
		for _, h := range w.Hosts() {
			if h.Pages < 1 || h.Pages > top {
				rt.Fatalf("%s has %d pages", h.Name, h.Pages)
			}
			sum += h.Pages
		}
		if sum != pages {
			rt.Fatalf("pages add up to %d, want %d", sum, pages)
		}
	})
}

func TestGivenSizes(t *testing.T) {
	w := world(t, Config{Seed: 1, Hosts: 7, Pages: 3, Sizes: []int{1, 400, 20}})
	var got []int
	for _, h := range w.Hosts() {
		got = append(got, h.Pages)
	}
	if c := w.Config(); !reflect.DeepEqual(got, []int{1, 400, 20}) || c.Hosts != 3 || c.Pages != 421 || c.MaxHost != 400 {
		t.Errorf("hosts of %d pages, %+v", got, c)
	}
}

func TestDefaultWorldIsAPowerLaw(t *testing.T) {
	w := world(t, Config{Seed: 1})
	small, most := 0, 0
	for _, h := range w.Hosts() {
		if h.Pages <= 20 {
			small++
		}
		most = max(most, h.Pages)
	}
	if small < 60 || most < 1000 {
		t.Errorf("%d hosts of at most 20 pages, largest %d", small, most)
	}
}

// TestReachable checks that every page is reached from "/" by links within its host, and that every path leads back
// to its page.
func TestReachable(t *testing.T) {
	w := world(t, Config{Seed: 7, Hosts: 30, Pages: 6000})
	for i, h := range w.Hosts() {
		depth := map[int]int{0: 0}
		for queue := []int{0}; len(queue) > 0; queue = queue[1:] {
			p := queue[0]
			links := w.Links(i, p)
			seen := map[Target]bool{}
			for _, l := range links {
				if seen[l] {
					t.Fatalf("%s page %d links to %v twice", h.Name, p, l)
				}
				seen[l] = true
				if l.Page < 0 || l.Page >= w.Hosts()[l.Host].Pages {
					t.Fatalf("%s page %d links to %v, which is not there", h.Name, p, l)
				}
				if _, known := depth[l.Page]; l.Host == i && !known {
					depth[l.Page] = depth[p] + 1
					queue = append(queue, l.Page)
				}
			}
		}
		if len(depth) != h.Pages {
			t.Errorf("%s: %d of %d pages reached", h.Name, len(depth), h.Pages)
		}
		for p := range h.Pages {
			if depth[p] > 5 {
				t.Errorf("%s page %d lies %d links deep", h.Name, p, depth[p])
			}
			if back, ok := w.Lookup(i, w.Path(i, p)); !ok || back != p {
				t.Errorf("%s: path %s leads to %d, want %d", h.Name, w.Path(i, p), back, p)
			}
		}
	}
}

var href = regexp.MustCompile(`href="([^"]+)"`)

// TestPageHasItsLinks checks that the HTML links to what Links returns, besides the style sheet and /private/.
func TestPageHasItsLinks(t *testing.T) {
	w := world(t, Config{Seed: 2, Hosts: 20, Pages: 500})
	total := 0
	for i, h := range w.Hosts() {
		for p := range h.Pages {
			b := w.AppendPage(nil, i, p, Version{})
			total += len(b)
			want := map[string]bool{"/style.css": true}
			if p == 0 && h.Private {
				want["/private/"] = true
			}
			for _, l := range w.Links(i, p) {
				if l.Host == i {
					want[w.Path(i, l.Page)] = true
				} else {
					want[w.URL(l.Host, l.Page)] = true
				}
			}
			got := map[string]bool{}
			for _, m := range href.FindAllSubmatch(b, -1) {
				got[string(m[1])] = true
			}
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("%s%s links to %v, want %v", h.Name, w.Path(i, p), got, want)
			}
		}
	}
	if mean := total / 500; mean < 7000 || mean > 9000 {
		t.Errorf("mean page is %d bytes, want about 8,000", mean)
	}
}

// TestDeterministic checks that the same Config is the same Web, also after a round trip through JSON.
func TestDeterministic(t *testing.T) {
	a := world(t, Config{Seed: 9, Hosts: 50, Pages: 2000, BadShare: .2})
	j, err := json.Marshal(a.Config())
	if err != nil {
		t.Fatal(err)
	}
	var cfg Config
	if err := json.Unmarshal(j, &cfg); err != nil {
		t.Fatal(err)
	}
	b := world(t, cfg)
	if !reflect.DeepEqual(a.hosts, b.hosts) || !reflect.DeepEqual(a.bad, b.bad) {
		t.Fatal("hosts differ")
	}
	at := epoch.Add(12345 * time.Second)
	for i, h := range a.Hosts() {
		p := h.Pages - 1
		if x, y := a.AppendPage(nil, i, p, a.Version(i, p, at)), b.AppendPage(nil, i, p, b.Version(i, p, at)); string(x) != string(y) {
			t.Fatalf("%s%s differs", h.Name, a.Path(i, p))
		}
		if a.HostRTT(4001, i) != b.HostRTT(4001, i) {
			t.Fatalf("%s lies elsewhere", h.Name)
		}
	}
	if c := world(t, Config{Seed: 10, Hosts: 50, Pages: 2000}); reflect.DeepEqual(a.hosts, c.hosts) {
		t.Error("another seed gives the same hosts")
	}
}

// TestVersions checks that versions only go forward, change on whole seconds, and last as long as their process says.
func TestVersions(t *testing.T) {
	w := world(t, Config{Seed: 5, Hosts: 40, Pages: 200, MaxHost: 20})
	changes, expected := map[Process]float64{}, map[Process]float64{}
	const seconds = 4000
	for i, h := range w.Hosts() {
		for p := range h.Pages {
			proc, mean := w.Process(i, p), w.Mean(i, p)
			if (proc == Never) != (mean == 0) {
				t.Fatalf("process %d with mean %v", proc, mean)
			}
			if proc != Never {
				expected[proc] += seconds / mean.Seconds()
			}
			last := w.Version(i, p, epoch)
			for s := 1; s <= seconds; s++ {
				now := epoch.Add(time.Duration(s)*time.Second + 300*time.Millisecond)
				v := w.Version(i, p, now)
				if v.Since.After(now) || v.Since.Before(last.Since) || v.Since.Nanosecond() != 0 {
					t.Fatalf("at %d s: version since %v after one since %v", s, v.Since, last.Since)
				}
				if v.ID < last.ID || v.ID == last.ID && v != last {
					t.Fatalf("at %d s: version %+v after %+v", s, v, last)
				}
				if v.ID > last.ID {
					changes[proc]++
					if v.Since != now.Truncate(time.Second) {
						t.Fatalf("version %+v was first seen at %v", v, now)
					}
				}
				last = v
			}
		}
	}
	// Changes within one second count as one, so a few are missing; heavy tails vary most.
	for proc, tolerance := range map[Process]float64{Poisson: .1, Pareto: .25, Periodic: .05} {
		if r := changes[proc] / expected[proc]; math.Abs(r-1) > tolerance {
			t.Errorf("process %d: %.0f changes, expected %.0f", proc, changes[proc], expected[proc])
		}
	}
	if changes[Never] > 0 {
		t.Error("what never changes changed")
	}
}

// TestHostRates checks that a host as a whole changes once per interval.
func TestHostRates(t *testing.T) {
	w := world(t, Config{Seed: 5})
	classes := map[int]int{}
	for i, h := range w.Hosts() {
		rate := 0.0
		for p := range h.Pages {
			if m := w.Mean(i, p); m > 0 {
				rate += 1 / m.Seconds()
			}
		}
		if got := 1 / rate; math.Abs(got-h.Interval.Seconds()) > 1e-3*got {
			t.Errorf("%s changes every %.2f s, want %v", h.Name, got, h.Interval)
		}
		classes[h.Class]++
	}
	if fmt.Sprint(classes) != "map[0:7 1:49 2:90 3:47 4:7]" {
		t.Errorf("hosts by class: %v", classes)
	}
}

func TestNearnessMeansSomething(t *testing.T) {
	w := world(t, Config{Seed: 11})
	var near, all float64
	for i := range w.Hosts() {
		best := MaxRTT
		for port := range 8 {
			d := w.HostRTT(40000+port, i)
			if d < MinRTT || d > MaxRTT {
				t.Fatalf("RTT %v", d)
			}
			best = min(best, d)
			all += d.Seconds() / 8
		}
		near += best.Seconds()
	}
	if near > .4*all {
		t.Errorf("the nearest of eight is %.0f%% of a random one", 100*near/all)
	}
	other := world(t, Config{Seed: 11})
	for n := range 6 { // on other ports in another run
		w.Settle(41000+n, n)
		other.Settle(42000+n, n)
	}
	for i := range w.Hosts() {
		best := MaxRTT
		for n := range 6 {
			d := w.HostRTT(41000+n, i)
			if d != other.HostRTT(42000+n, i) {
				t.Fatalf("node %d is %v from host %d, and %v in another run", n, d, i, other.HostRTT(42000+n, i))
			}
			best = min(best, d)
		}
		if best > 50*time.Millisecond {
			t.Errorf("no node at the place of host %d: %v", i, best)
		}
	}
	if w.NodeRTT(5, 6) != w.NodeRTT(6, 5) {
		t.Error("a way back differs from the way there")
	}
}

func TestBadConfigs(t *testing.T) {
	for _, c := range []Config{{Hosts: -1}, {Hosts: 10, Pages: 5}, {Hosts: 2, Pages: 100, MaxHost: 10}, {BadShare: 2}, {BadShare: math.NaN()},
		{Bytes: 1}, {Clusters: -3}, {Links: 1}, {Bad: map[string]Mode{"site-0001.pond.test": "singing"}}, {Bad: map[string]Mode{"example.org": Silent}},
		{Addr: "nowhere"}, {Sizes: []int{3, 0}}, {Sizes: []int{MaxPages + 1}}} {
		if _, err := NewWorld(c); err == nil {
			t.Errorf("%+v was taken", c)
		}
	}
}

func FuzzLookup(f *testing.F) {
	w, err := NewWorld(Config{Seed: 1, Hosts: 3, Pages: 300, Start: epoch})
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range []string{"/", "/news-1/", "/news-1/item-17.html", "/view?id=3", "", "/-", "/x-99999999999999999999"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, path string) {
		for h := range w.Hosts() {
			if p, ok := w.Lookup(h, path); ok && w.Path(h, p) != path {
				t.Errorf("%q is page %d, whose path is %q", path, p, w.Path(h, p))
			}
		}
	})
}

func BenchmarkAppendPage(b *testing.B) {
	w := world(b, Config{Seed: 1})
	var buf []byte
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		t := w.pageAt(i % 20000)
		buf = w.AppendPage(buf[:0], t.Host, t.Page, Version{})
	}
}
