package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// cpuOf is the processor time of a process's threads, by the scheduler's own clock: usageOf counts in steps of 10 ms.
func cpuOf(t *testing.T, pid int) (used time.Duration) {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil || len(files) == 0 {
		t.Fatal("the scheduler tells nothing: ", err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue // the thread has ended
		}
		ns, _, _ := strings.Cut(string(b), " ")
		n, _ := strconv.ParseInt(ns, 10, 64)
		used += time.Duration(n)
	}
	return used
}

// loadNow is the load of this computer.
func loadNow() string {
	b, _ := os.ReadFile("/proc/loadavg")
	return strings.Join(strings.Fields(string(b))[:2], " ")
}

// painted are the times to the first paint of loads of a page, and the bytes that the last one took.
type painted struct {
	ms    []float64
	bytes string
}

func (p *painted) load(b *browser, load func()) {
	b.t.Helper()
	load()
	b.until("is painted", "performance.getEntriesByName('first-contentful-paint').length > 0")
	ms, err := strconv.ParseFloat(b.eval("performance.getEntriesByName('first-contentful-paint')[0].startTime"), 64)
	if err != nil {
		b.t.Fatal(err)
	}
	p.ms, p.bytes = append(p.ms, ms), b.eval("performance.getEntries().reduce((s, e) => s + (e.transferSize || 0), 0)")
}

func (p *painted) String() string {
	slices.Sort(p.ms)
	n := len(p.ms)
	return fmt.Sprintf("first paint after %.0f ms (median of %d, %.0f to %.0f), %s bytes", p.ms[n/2], n, p.ms[0], p.ms[n-1], p.bytes)
}

// TestVolunteersPageCosts (make page-costs) measures what the volunteer's page takes: the time to its first paint beside that of an empty page, its traffic while
// it is open, memory and processor of the peer with the page and without, by turns. SHOAL_PAGE_S sets the seconds of each turn.
func TestVolunteersPageCosts(t *testing.T) {
	seconds, err := strconv.Atoi(os.Getenv("SHOAL_PAGE_S"))
	if err != nil {
		t.Skip("looks on for minutes: make page-costs")
	}
	empty := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<!doctype html><title>Empty</title><p>Empty")
	}))
	defer empty.Close()
	b := openBrowser(t)
	h := newHome(t)
	h.peer.until("serves its page", func() bool { _, err := os.Stat(h.data + "/control.json"); return err == nil })
	h.command("join", "--yes", h.join)
	b.enter(h.link(), "Example Search")
	h.command("pause")
	page := b.eval("location.origin") + "/"
	shown := func() { b.open(page, "until you let it go on") }
	const loads = 9
	var kept, fresh, none painted
	for range loads {
		kept.load(b, shown)
	}
	b.call(b.session, "Network.enable", nil, nil)
	b.call(b.session, "Network.setCacheDisabled", map[string]any{"cacheDisabled": true}, nil)
	for range loads {
		fresh.load(b, shown)
		none.load(b, func() { b.open(empty.URL, "Empty") })
	}
	b.call(b.session, "Network.setCacheDisabled", map[string]any{"cacheDisabled": false}, nil)
	t.Logf("%v; load %s", &kept, loadNow())
	t.Logf("without what the browser keeps: %v", &fresh)
	t.Logf("an empty page by turns with that: %v", &none)

	const turns = 3
	over := time.Duration(seconds) * time.Second
	var with, without time.Duration
	var sent float64
	var u usage
	pid := h.peer.cmd.Process.Pid
	for range turns {
		b.open("about:blank", "")
		time.Sleep(5 * time.Second) // what it took to load the page is over
		before := cpuOf(t, pid)
		time.Sleep(over)
		without += cpuOf(t, pid) - before
		shown()
		time.Sleep(5 * time.Second)
		b.eval("performance.setResourceTimingBufferSize(10000); performance.clearResourceTimings(); true")
		before = cpuOf(t, pid)
		time.Sleep(over)
		with += cpuOf(t, pid) - before
		n, err := strconv.ParseFloat(b.eval("performance.getEntriesByType('resource').reduce((s, e) => s + e.transferSize, 0)"), 64)
		if err != nil {
			t.Fatal(err)
		}
		sent += n
		u = usageOf(t, pid)
	}
	all := turns * over
	rate := sent / all.Seconds()
	t.Logf("%.0f bytes a second while the page is open; %.1f MB resident, %.1f its own; %.3f%% of a core with the page, %.3f%% without; load %s", rate, u.resident, u.own, 100*float64(with)/float64(all),
		100*float64(without)/float64(all), loadNow())
	if rate > 2048 {
		t.Errorf("the page asks for %.0f bytes a second", rate)
	}
}
