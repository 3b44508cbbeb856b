package livesim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestWeights: the importance of channels falls from 50 to 1, the same for every strategy of a seed, and no other scene has any.
func TestWeights(t *testing.T) {
	a, b, other := cell{Scene: "weights", Strategy: "price", Seed: 3}, cell{Scene: "weights", Strategy: "icr", Seed: 3}, cell{Scene: "weights", Seed: 4}
	all := a.weights(300)
	if !reflect.DeepEqual(all, b.weights(300)) || reflect.DeepEqual(all, other.weights(300)) {
		t.Error("weights do not hang on the seed alone")
	}
	slices.Sort(all)
	if all[0] != 1 || all[299] != 50 || all[298] < 25 || all[150] > 3 {
		t.Errorf("weights of 300 hosts: %v", all)
	}
	if none := (&cell{Scene: "burst"}).weights(300); none != nil {
		t.Errorf("weights in another scene: %v", none)
	}
}

// forecast has the simulator foretell a scene of a small network, as JSON.
func forecast(t *testing.T, scene, dir string) (rows []map[string]any) {
	t.Helper()
	return told(t, scene, &Command{Strategies: []string{"price", "icr"}, Peers: 2, Threads: 2, Load: []float64{2}, Minutes: 2, Churn: "off", Seeds: 1, Seed: 1, Scene: scene, Weights: "pages", Foretell: true, JSON: true, Plot: dir})
}

func told(t *testing.T, scene string, c *Command) (rows []map[string]any) {
	t.Helper()
	var out bytes.Buffer
	if err := c.Run(t.Context(), &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out.Bytes(), &rows); err != nil || len(rows) != 2 {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for _, r := range rows {
		for _, key := range []string{"fresh_true", "updates_per_min", "pages_wasted", "rtt_chosen_ms", "idle_share", "start_s", "burst_pass_s"} {
			if v, ok := r[key]; ok {
				t.Errorf("%s: a forecast says %s: %v, which was not measured", scene, key, v)
			}
		}
		if v, ok := r["sim_fresh"].(float64); !ok || v <= 0 {
			t.Errorf("%s: foretells %v", scene, r["sim_fresh"])
		}
		if v, ok := r["sim_fresh_by_size"].(float64); !ok || v <= 0 || v == r["sim_fresh"] {
			t.Errorf("%s: foretells %v by size, and %v without", scene, r["sim_fresh_by_size"], r["sim_fresh"])
		}
	}
	return rows
}

// TestForetellWeights: freshness by importance is another than that of channels, and only where an operator says what counts more.
func TestForetellWeights(t *testing.T) {
	dir := t.TempDir()
	for _, r := range forecast(t, "weights", dir) {
		if r["sim_fresh_weight"] == r["sim_fresh"] {
			t.Errorf("%v: as fresh by importance as without: %v", r["strategy"], r["sim_fresh"])
		}
		if _, ok := r["burst_s"]; ok {
			t.Errorf("a burst: %v", r)
		}
	}
	for _, r := range forecast(t, "none", dir) {
		if r["sim_fresh_weight"] != r["sim_fresh"] {
			t.Errorf("%v: %v by importance, %v without, where all count the same", r["strategy"], r["sim_fresh_weight"], r["sim_fresh"])
		}
	}
	for _, name := range []string{"live-load2-seed1-weights-weight.svg", "live-load2-seed1-weights-fresh.png", "live-load2-seed1-idle.svg"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() < 1000 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestForetellBurst: a third of the channels comes half way.
func TestForetellBurst(t *testing.T) {
	for _, r := range forecast(t, "burst", t.TempDir()) {
		pass, least := r["sim_burst_pass_s"].(float64), r["burst_pass_least_s"].(float64)
		if r["burst_s"] != 60. || least <= 0 || pass < least/2 {
			t.Errorf("%v: came at %v s, crawled after %v s, at least %v s", r["strategy"], r["burst_s"], pass, least)
		}
	}
}

// operated is a manager's interface that notes what it is asked.
func operated(t *testing.T, c *cell) (n *network, asked func() []string) {
	t.Helper()
	world, err := c.world(time.Now(), []int{1, 2, 3})
	if err != nil {
		t.Fatal(err)
	}
	var log []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Header.Get("Authorization") != "Bearer secret" {
			http.Error(w, "not the operator", http.StatusUnauthorized)
			return
		}
		log = append(log, fmt.Sprintf("%s %s %s", r.Method, r.URL.Path, body))
		switch r.URL.Path {
		case "/api/v1/channels/export":
			for i := range world.Hosts() { // numbers run against the hosts
				fmt.Fprintf(w, `{"id": %d, "host": "%s"}`+"\n", 1000-i, world.Origin(i))
			}
		case "/api/v1/channels/import":
			fmt.Fprintf(w, `{"added": %d}`, bytes.Count(body, []byte("\n")))
		}
	}))
	t.Cleanup(s.Close)
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "manager"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "manager", "operator.token"), []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return &network{cell: c, dir: dir, page: s.URL, world: world}, func() []string { return log }
}

// TestOperate: before the peers come each host's channel gets its own weight, or those that come later are removed; then they are imported.
func TestOperate(t *testing.T) {
	n, asked := operated(t, &cell{Load: 2, Scene: "weights", Seed: 3, Peers: 2, Threads: 1, Minutes: 1, Cap: 2, Weights: "pages"})
	if err := n.operate(t.Context()); err != nil {
		t.Fatal(err)
	}
	hosts := len(n.world.Hosts())
	for i, w := range n.weights(hosts) {
		if want := fmt.Sprintf(`PATCH /api/v1/channels/%d {"weight": %v}`, 1000-i, w); !slices.Contains(asked(), want) {
			t.Errorf("not asked: %s", want)
		}
	}
	n, asked = operated(t, &cell{Load: 2, Scene: "burst", Seed: 3, Peers: 2, Threads: 1, Minutes: 1, Cap: 2, Weights: "pages"})
	if err := n.operate(t.Context()); err != nil {
		t.Fatal(err)
	}
	late := len(n.last(n.world))
	if got := asked()[1:]; late != hosts/3 || len(got) != late || !slices.Contains(got, fmt.Sprintf("DELETE /api/v1/channels/%d ", 1000-(hosts-1))) {
		t.Errorf("%d of %d hosts come later; asked %q", late, hosts, got)
	}
	n.begun = time.Now().Add(-30 * time.Second)
	if err := n.grow(t.Context()); err != nil {
		t.Fatal(err)
	}
	if last := asked()[len(asked())-1]; !strings.HasPrefix(last, "POST /api/v1/channels/import http://") || strings.Count(last, "\n") != late || n.came() < 30 {
		t.Errorf("imported %q at %v s", last, n.came())
	}
	n, asked = operated(t, &cell{Load: 2, Scene: "none", Seed: 3, Peers: 2, Threads: 1, Minutes: 1, Cap: 2, Weights: "pages"})
	if err := n.operate(t.Context()); err != nil || len(asked()) > 0 || n.grow(t.Context()) != nil || n.came() != 0 {
		t.Errorf("an operator where none is: %v, %q", err, asked())
	}
	n.Cap = 0
	if err := n.operate(t.Context()); err != nil || !slices.Equal(asked(), []string{`PUT /api/v1/strategy {"limits": {"cap": 0, "weights": "pages"}}`}) {
		t.Errorf("without a cap: %v, %q", err, asked())
	}
	n.Cap, n.Weights = 2, "equal"
	if err := n.operate(t.Context()); err != nil || asked()[len(asked())-1] != `PUT /api/v1/strategy {"limits": {"cap": 2, "weights": "equal"}}` {
		t.Errorf("with equal weights: %v, %q", err, asked())
	}
}

// TestForetellEqualWeights: a strategy that looks at weights keeps more channels fresh where all count the same, and another one does as before.
func TestForetellEqualWeights(t *testing.T) {
	fresh := map[string]map[string]float64{}
	for _, weights := range []string{"pages", "equal"} {
		fresh[weights] = map[string]float64{}
		for _, r := range told(t, "none", &Command{Strategies: []string{"price", "icr"}, Peers: 8, Threads: 2, Load: []float64{.5}, Minutes: 4, Churn: "off", Seeds: 1, Seed: 1, Scene: "none", Cap: 2, Weights: weights, Foretell: true, JSON: true}) {
			fresh[weights][r["strategy"].(string)] = r["sim_fresh"].(float64)
			if r["weights"] != weights {
				t.Errorf("weights %v, want %v", r["weights"], weights)
			}
		}
	}
	if p, e := fresh["pages"]["price"], fresh["equal"]["price"]; e <= p {
		t.Errorf("price: %v with equal weights, %v by pages", e, p)
	}
	if p, e := fresh["pages"]["icr"], fresh["equal"]["icr"]; e != p {
		t.Errorf("icr: %v with equal weights, %v by pages", e, p)
	}
}

// TestPassAfter begins to count when the new channels are seen.
func TestPassAfter(t *testing.T) {
	w := watched{series: []sample{{at: 1, never: 3}, {at: 2}, {at: 30}, {at: 31}, {at: 32, never: 4}, {at: 33, never: 1}, {at: 34.5}, {at: 36}}}
	if got := w.passAfter(30.5); got != 4 {
		t.Errorf("%v s", got)
	}
	if got := w.passAfter(35); got != -1 {
		t.Errorf("%v s of channels that were not seen", got)
	}
}

// TestForetellAlike: forecasts that no run can tell from each other have a range, in which the first one lies; it is told in the table, and not without them.
func TestForetellAlike(t *testing.T) {
	c := Command{Strategies: []string{"price", "icr"}, Peers: 2, Threads: 2, Load: []float64{.5}, Minutes: 2, Churn: "on", Seeds: 1, Seed: 1, Scene: "none", Weights: "pages", Alike: 6, Foretell: true, JSON: true}
	r := told(t, "none", &c)[0]
	least, fresh, most := r["sim_fresh_least"].(float64), r["sim_fresh"].(float64), r["sim_fresh_most"].(float64)
	if !(least <= fresh && fresh <= most && least < most && most < 2*least) {
		t.Errorf("%v fresh, from %v to %v", fresh, least, most)
	}
	if low, most := r["sim_updates_per_min_least"].(float64), r["sim_updates_per_min_most"].(float64); !(0 < low && low <= most) {
		t.Errorf("%v to %v updates a minute", low, most)
	}
	for n, columns := range map[int]int{0: 0, 1: 1} {
		c.Alike, c.JSON = n, false
		var out bytes.Buffer
		if err := c.Run(t.Context(), &out, &out); err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(out.String(), "fresh from"); got != columns {
			t.Errorf("with %d more there are %d columns of the range:\n%s", n, got, out.String())
		}
	}
	c.Alike, c.JSON = 0, true
	if _, is := told(t, "none", &c)[0]["sim_fresh_least"]; is {
		t.Error("a range is told of one forecast")
	}
}
