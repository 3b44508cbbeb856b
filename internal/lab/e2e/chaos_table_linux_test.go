package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"shoal/internal/lab/chaos"
	"shoal/internal/lab/judge"
	"shoal/internal/lab/pond"
)

// chaosTableEnv names a file to which each run adds a line: when, seed, network, seconds, verdict, and how many faults of each kind were injected. The output of each
// run goes to a file beside it.
const chaosTableEnv = "SHOAL_CHAOS_TABLE"

// chaosTable is held by who writes to the table.
var chaosTable sync.Mutex

// chaosRow is a line of the table.
type chaosRow struct {
	When    string
	Seed    uint64
	Peers   int
	Hosts   int
	Seconds int
	Verdict string
	Faults  map[chaos.Kind]int
}

const (
	chaosClean  = "clean"
	chaosFailed = "failed"
)

func (r chaosRow) String() string {
	all, kinds := 0, []string{}
	for _, k := range slices.Sorted(maps.Keys(r.Faults)) {
		all += r.Faults[k]
		kinds = append(kinds, fmt.Sprintf("%s:%d", k, r.Faults[k]))
	}
	return fmt.Sprintf("%s\t%d\t%d\t%d\t%d\t%s\t%d\t%s", r.When, r.Seed, r.Peers, r.Hosts, r.Seconds, r.Verdict, all, strings.Join(kinds, " "))
}

const chaosHead = "when\tseed\tpeers\thosts\tseconds\tverdict\tfaults\tof each kind"

// parseRow reads a line of the table.
func parseRow(line string) (r chaosRow, err error) {
	f := strings.Split(line, "\t")
	if len(f) != len(strings.Split(chaosHead, "\t")) {
		return r, fmt.Errorf("%q is no line of the table", line)
	}
	r = chaosRow{When: f[0], Verdict: f[5], Faults: map[chaos.Kind]int{}}
	if r.Seed, err = strconv.ParseUint(f[1], 10, 64); err != nil {
		return r, err
	}
	for i, to := range []*int{&r.Peers, &r.Hosts, &r.Seconds} {
		if *to, err = strconv.Atoi(f[2+i]); err != nil {
			return r, err
		}
	}
	for _, word := range strings.Fields(f[7]) {
		kind, count, _ := strings.Cut(word, ":")
		if r.Faults[chaos.Kind(kind)], err = strconv.Atoi(count); err != nil {
			return r, err
		}
	}
	return r, nil
}

// tabulate adds a line to the table, if there is one, and tells what all lines of the table come to.
func tabulate(t *testing.T, r chaosRow) {
	t.Helper()
	path := os.Getenv(chaosTableEnv)
	if path == "" {
		return
	}
	chaosTable.Lock()
	defer chaosTable.Unlock()
	old, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	text := string(old)
	if text == "" {
		text = chaosHead + "\n"
	}
	text += r.String() + "\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	sum, err := chaosSum(text)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: %s", path, sum)
}

// chaosSum tells what the lines of a table come to.
func chaosSum(table string) (string, error) {
	runs, verdicts, faults, all := 0, map[string]int{}, map[chaos.Kind]int{}, 0
	for _, line := range strings.Split(strings.TrimRight(table, "\n"), "\n")[1:] {
		r, err := parseRow(line)
		if err != nil {
			return "", err
		}
		runs++
		verdicts[r.Verdict]++
		for k, n := range r.Faults {
			faults[k] += n
			all += n
		}
	}
	var kinds []string
	for _, k := range slices.SortedFunc(maps.Keys(faults), func(a, b chaos.Kind) int { return 1000*(faults[b]-faults[a]) + strings.Compare(string(a), string(b)) }) {
		kinds = append(kinds, fmt.Sprintf("%d %s", faults[k], k))
	}
	return fmt.Sprintf("%d runs, %d clean, %d failed; %d faults: %s", runs, verdicts[chaosClean], verdicts[chaosFailed], all, strings.Join(kinds, ", ")), nil
}

// countsOf is the file beside a script in which a run tells what it has injected.
func countsOf(script string) string { return script + ".counts" }

// note writes what was injected. What came to nothing does not count.
func (c *chaosRun) note() {
	b, err := json.Marshal(c.injected())
	if err == nil {
		err = os.WriteFile(countsOf(os.Getenv(chaosScriptEnv)), b, 0o600)
	}
	if err != nil {
		c.t.Error(err)
	}
}

// injected are the faults that took effect.
func (c *chaosRun) injected() map[chaos.Kind]int {
	n := maps.Clone(c.began)
	for k, failed := range c.failed {
		n[k] -= failed
	}
	return n
}

// rowOf is the line of a run.
func rowOf(t *testing.T, script string, seed uint64, began time.Time, ok bool) chaosRow {
	t.Helper()
	cast := chaosCast(t)
	r := chaosRow{When: began.UTC().Format(time.RFC3339), Seed: seed, Peers: cast.Peers, Hosts: cast.Hosts, Seconds: int(time.Since(began).Seconds()), Verdict: chaosFailed}
	if ok {
		r.Verdict = chaosClean
	}
	if b, err := os.ReadFile(countsOf(script)); err == nil { // a run that was ended has told nothing
		if err := json.Unmarshal(b, &r.Faults); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// runOutput is where the output of a run goes: to a file beside the table, if there is one.
func runOutput(t *testing.T, seed uint64) *os.File {
	t.Helper()
	table := os.Getenv(chaosTableEnv)
	if table == "" {
		return os.Stdout
	}
	if err := os.MkdirAll(filepath.Dir(table), 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(filepath.Dir(table), fmt.Sprintf("seed-%d.log", seed)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// chaosSeeds reads seeds with commas between them, and ranges of seeds, as 7,11,200-209.
func chaosSeeds(text string) (all []uint64, err error) {
	for _, part := range strings.Split(text, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, err1 := strconv.ParseUint(first, 10, 64)
		to, err2 := strconv.ParseUint(last, 10, 64)
		if err1 != nil || err2 != nil || to < from || to-from > chaos.MaxFaults {
			return nil, fmt.Errorf("seeds %q: want numbers with commas between them, or ranges as 200-209", text)
		}
		for s := from; s <= to; s++ {
			all = append(all, s)
		}
	}
	return all, nil
}

// TestChaosTable writes lines and reads them back, and reads seeds.
func TestChaosTable(t *testing.T) {
	t.Parallel()
	table := chaosHead + "\n"
	for i, r := range []chaosRow{
		{"2026-01-02T03:04:05Z", 7, 4, 16, 50, chaosClean, map[chaos.Kind]int{chaos.Block: 2, chaos.KillPeer: 3}},
		{"2026-01-02T03:05:05Z", 11, 60, 3000, 1900, chaosFailed, map[chaos.Kind]int{chaos.Block: 2, chaos.Compact: 1}},
		{"2026-01-02T03:06:05Z", 12, 4, 16, 9, chaosFailed, map[chaos.Kind]int{}},
	} {
		back, err := parseRow(r.String())
		if err != nil || back.String() != r.String() || !maps.Equal(back.Faults, r.Faults) {
			t.Errorf("row %d: %+v, %v; want %+v", i, back, err, r)
		}
		table += r.String() + "\n"
	}
	sum, err := chaosSum(table)
	if want := "3 runs, 1 clean, 2 failed; 8 faults: 4 block, 3 kill-peer, 1 compact"; err != nil || sum != want {
		t.Errorf("%q, %v; want %q", sum, err, want)
	}
	seeds, err := chaosSeeds("7,11,200-202")
	if err != nil || !slices.Equal(seeds, []uint64{7, 11, 200, 201, 202}) {
		t.Errorf("%v, %v", seeds, err)
	}
	for _, bad := range []string{"", "x", "5-3", "1-", "-4"} {
		if all, err := chaosSeeds(bad); err == nil {
			t.Errorf("%q: %v", bad, all)
		}
	}
}

// TestOnlyFaultsThatTookEffectCount has an operator ask a manager for what there is nothing left to do of, and for what it does but does not undo at once.
func TestOnlyFaultsThatTookEffectCount(t *testing.T) {
	t.Parallel()
	w, err := pond.NewWorld(pond.Config{Seed: 11, Hosts: 6, Pages: 200, Bytes: 1000})
	if err != nil {
		t.Fatal(err)
	}
	whole := 0 // a host with a directory
	for n, h := range w.Hosts() {
		if h.Pages > 1 && strings.HasSuffix(w.Path(n, 1), "/") {
			whole = n
		}
	}
	manager := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		switch path := strings.TrimPrefix(r.URL.Path, "/api/v1"); {
		case path == "/channels" && r.FormValue("from") == "0": // all hosts with a directory are split, and no other has a channel
			var all []map[string]any
			for n := range w.Hosts() {
				if n == whole || strings.HasSuffix(w.Path(n, min(1, w.Hosts()[n].Pages-1)), "/") {
					all = append(all, map[string]any{"id": 2*n + 1, "host": "http://" + chaosHost(n)}, map[string]any{"id": 2*n + 2, "host": "http://" + chaosHost(n)})
				}
			}
			_ = json.NewEncoder(rw).Encode(map[string]any{"channels": all})
		case path == "/channels":
			_, _ = rw.Write([]byte("{}"))
		case path == "/hosts/unblock" || path == "/strategy":
			http.Error(rw, "the manager is ending; ask again", http.StatusServiceUnavailable)
		default:
			_, _ = rw.Write([]byte("{}"))
		}
	}))
	t.Cleanup(manager.Close)
	p := servePond(t, w)
	c := &chaosRun{t: t, world: w, page: page{t, manager.URL, "token", http.DefaultClient}, cast: chaos.Cast{Peers: 1, Hosts: len(w.Hosts())},
		blocked: map[string]bool{}, gone: map[string]bool{}, spared: map[time.Duration]bool{}, began: map[chaos.Kind]int{}, failed: map[chaos.Kind]int{}, vain: map[chaos.Kind]int{}}
	if c.judge, err = judge.New(t.Context(), judge.Config{Manager: manager.URL, Pond: "http://" + p.Addr().String()}); err != nil {
		t.Fatal(err)
	}
	none := slices.IndexFunc(w.Hosts(), func(h pond.Host) bool {
		n := slices.IndexFunc(w.Hosts(), func(o pond.Host) bool { return o.Name == h.Name })
		return !strings.HasSuffix(w.Path(n, min(1, h.Pages-1)), "/")
	})
	faults := []chaos.Fault{{Kind: chaos.Split}, {Kind: chaos.Strategy, Name: "icr"}, {Kind: chaos.Block, Target: whole, For: time.Second}, {Kind: chaos.Remove, Target: whole}}
	want := map[chaos.Kind]int{chaos.Split: 0, chaos.Strategy: 0, chaos.Block: 1, chaos.Remove: 1}
	if none >= 0 {
		faults = append(faults, chaos.Fault{Kind: chaos.Remove, Target: none}) // it has no channel
	}
	for _, f := range faults {
		c.begin(f)
		if f.Kind == chaos.Block {
			c.end(f)
		}
	}
	if got := c.injected(); !maps.Equal(got, want) {
		t.Errorf("injected %v, want %v; began %v, failed %v", got, want, c.began, c.failed)
	}
}

// TestShorterScriptsAreToldAtOnce shortens a script of which two faults out of eight make it fail, and has no time for more than some tries: the shortest one that failed
// was told before the last try began.
func TestShorterScriptsAreToldAtOnce(t *testing.T) {
	script, err := chaos.Draw(7, chaosCast(t))
	if err != nil {
		t.Fatal(err)
	}
	script.Faults = script.Faults[:8]
	needs := func(s chaos.Script, f chaos.Fault) bool { return slices.Contains(s.Faults, f) }
	var told strings.Builder
	tries, shortest := 0, script
	shorten(script, 30, func(s chaos.Script) bool {
		if tries++; tries > 1 && shortest.Seed != 0 && len(shortest.Faults) < 8 && !strings.Contains(told.String(), shortest.String()) {
			t.Fatalf("a script of %d faults has failed, and was not told before try %d", len(shortest.Faults), tries)
		}
		fails := needs(s, script.Faults[2]) && needs(s, script.Faults[5])
		if fails {
			shortest = s
		}
		return fails
	}, func(format string, args ...any) { fmt.Fprintf(&told, format+"\n", args...) })
	if len(shortest.Faults) != 2 || !strings.HasSuffix(told.String(), shortest.String()+"\n") {
		t.Errorf("of %d tries the last word is\n%s\nwant\n%v", tries, told.String(), shortest)
	}
}

// TestBlocksAreLongEnoughToJudge: what the judge allows running tasks of a blocked host must be over while the host that keepBlocked blocks still is.
func TestBlocksAreLongEnoughToJudge(t *testing.T) {
	for name, env := range map[string]string{"brief": chaosBriefEnv, "five minutes": "", "an hour": chaosMinutesEnv} {
		t.Run(name, func(t *testing.T) {
			for _, e := range []string{chaosBriefEnv, chaosMinutesEnv, chaosPeersEnv, chaosHostsEnv} {
				t.Setenv(e, "")
			}
			if env != "" {
				t.Setenv(env, "60")
			}
			if c := chaosCast(t); c.Length < chaosGrace(c)+5*time.Second {
				t.Errorf("tasks of a blocked host may go on for %v, and the script ends after %v", chaosGrace(c), c.Length)
			}
		})
	}
}
