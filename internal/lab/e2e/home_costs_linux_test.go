package e2e

import (
	"os"
	"strconv"
	"testing"
	"time"
)

// TestVolunteersPageCosts (make page-costs) measures what the volunteer's page takes: the time to its first paint, its traffic while it is open, and the memory
// of the peer. SHOAL_PAGE_S sets the seconds that it looks on.
func TestVolunteersPageCosts(t *testing.T) {
	seconds, err := strconv.Atoi(os.Getenv("SHOAL_PAGE_S"))
	if err != nil {
		t.Skip("looks on for a minute: make page-costs")
	}
	b := openBrowser(t)
	h := newHome(t)
	h.peer.until("serves its page", func() bool { _, err := os.Stat(h.data + "/control.json"); return err == nil })
	h.command("join", "--yes", h.join)
	b.enter(h.link(), "Example Search")
	h.command("pause")
	b.shows("until you let it go on")
	for range 3 {
		before := b.loads
		b.call(b.session, "Page.reload", nil, nil)
		b.loaded(before, "a reload")
		b.shows("until you let it go on")
		t.Logf("first paint after %s ms, %s bytes of files and answers by then", b.eval("Math.round(performance.getEntriesByName('first-contentful-paint')[0].startTime)"),
			b.eval("performance.getEntries().reduce((s, e) => s + (e.transferSize || 0), 0)"))
	}
	b.call(b.session, "Network.enable", nil, nil)
	b.call(b.session, "Network.setCacheDisabled", map[string]any{"cacheDisabled": true}, nil)
	before := b.loads
	b.call(b.session, "Page.reload", nil, nil)
	b.loaded(before, "a reload without what the browser keeps")
	b.shows("until you let it go on")
	t.Logf("without what the browser keeps: first paint after %s ms, %s bytes", b.eval("Math.round(performance.getEntriesByName('first-contentful-paint')[0].startTime)"),
		b.eval("performance.getEntries().reduce((s, e) => s + (e.transferSize || 0), 0)"))
	b.eval("performance.setResourceTimingBufferSize(10000); performance.clearResourceTimings(); window.begun = performance.now(); true")
	cpu := usageOf(t, h.peer.cmd.Process.Pid).cpu
	time.Sleep(time.Duration(seconds) * time.Second)
	rate := b.eval("performance.getEntriesByType('resource').reduce((s, e) => s + e.transferSize, 0) / (performance.now() - window.begun) * 1000")
	u := usageOf(t, h.peer.cmd.Process.Pid)
	over := time.Duration(seconds) * time.Second
	t.Logf("%s bytes a second while the page is open; %.1f MB resident, %.1f its own; %.3f%% of a core", rate, u.resident, u.own, 100*float64(u.cpu-cpu)/float64(over))
	defer func() { // the same peer, as long, without the page
		b.call(b.session, "Page.navigate", map[string]any{"url": "about:blank"}, nil)
		cpu := usageOf(t, h.peer.cmd.Process.Pid).cpu
		time.Sleep(over)
		t.Logf("without the page: %.3f%% of a core", 100*float64(usageOf(t, h.peer.cmd.Process.Pid).cpu-cpu)/float64(over))
	}()
	if n, err := strconv.ParseFloat(rate, 64); err != nil || n > 2048 {
		t.Errorf("the page asks for %s bytes a second", rate)
	}
}
