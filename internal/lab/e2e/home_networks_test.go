package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// networksTold is a part of what status --json prints.
type networksTold struct {
	Networks []struct {
		Network string
		Peer    string
		Name    string `json:"network_name"`
		Share   float64
		Threads int
		Done    struct{ Ever struct{ Pages int64 } }
	}
}

func (h *home) networks() (st networksTold) {
	h.t.Helper()
	if err := json.Unmarshal([]byte(h.command("status", "--json")), &st); err != nil {
		h.t.Fatal(err)
	}
	return st
}

// TestTwoNetworks has a volunteer crawl the same sites for two companies: each gets pages, no site is asked twice at a time or too soon, and the page joins, shows,
// divides and leaves.
func TestTwoNetworks(t *testing.T) {
	drivesPrograms(t)
	t.Parallel()
	axe := axeScript(t)
	b := openBrowser(t)
	h := newHome(t, "--arbiter", "off") // else the companies' own servers ask the sites, too
	second := h.network("Second Search", "--arbiter", "off")
	h.peer.until("waits for a network", func() bool { _, err := os.Stat(filepath.Join(h.data, "control.json")); return err == nil })
	h.command("join", "--yes", "--no-limits", h.join)
	b.enter(h.link(), "Working for Example Search")
	b.view("networks", "Join one more network")
	b.eval("document.querySelector('#join').value = " + quote(second) + "; true")
	b.press("See who asks")
	b.shows("It already works for Example Search.")
	b.press("Join without limits of speed and volume")
	b.until("shows both", "document.querySelectorAll('main fieldset').length === 2 && document.body.innerText.includes('Second Search')")
	h.peer.until("crawls for both", func() bool {
		st := h.networks()
		return len(st.Networks) == 2 && st.Networks[0].Done.Ever.Pages > 20 && st.Networks[1].Done.Ever.Pages > 20
	})
	st := h.networks()
	x, y := st.Networks[0], st.Networks[1]
	if x.Peer == y.Peer || x.Name != "Example Search" || y.Name != "Second Search" || x.Threads+y.Threads != 3 {
		t.Errorf("%+v", st)
	}
	if s := h.web.Stats(); s.MaxInFlight != 1 || s.Violated != 0 {
		t.Errorf("at most %d requests at a time to a site, %d violations: %v", s.MaxInFlight, s.Violated, s.Violations)
	}

	b.eval("{ const i = document.querySelectorAll('main fieldset')[1].querySelector('input'); i.value = '2'; i.form.requestSubmit(); } true")
	b.shows("The share of Second Search is saved, and in force.")
	b.until("shows the share", "document.querySelectorAll('main fieldset')[1].innerText.includes('67%')")
	h.peer.until("gives the second its threads when the first has finished with them", func() bool {
		got := h.networks().Networks
		return got[0].Threads == 1 && got[1].Threads == 2 && got[1].Share > .66
	})
	for _, width := range []int{1280, 360} {
		b.call(b.session, "Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": 740, "deviceScaleFactor": 1, "mobile": width < 500}, nil)
		for _, v := range []string{"networks", "now", "pause"} {
			b.view(v, map[string]string{"networks": "Second Search", "now": "for Second Search", "pause": "Leave all networks"}[v])
			b.picture("two-" + v)
			for _, f := range b.faults(axe) {
				t.Errorf("%s, %d pixels wide: %s: %s: %s", v, width, f.Impact, f.Help, f.places())
			}
		}
	}

	b.view("networks", "Second Search")
	b.eval("window.confirm = () => true; [...document.querySelectorAll('main fieldset')[0].querySelectorAll('button')].find(x => x.textContent === 'Leave the network').click(); true")
	b.until("shows one", "document.querySelectorAll('main fieldset').length === 1 && document.querySelector('main fieldset').innerText.includes('Second Search')")
	if _, err := os.Stat(filepath.Join(h.data, "membership")); err == nil {
		t.Error("the first is a member yet")
	}
	before := h.networks().Networks[0].Done.Ever.Pages
	h.peer.until("goes on", func() bool { return h.networks().Networks[0].Done.Ever.Pages > before })
}
