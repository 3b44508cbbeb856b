package e2e

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

func quote(s string) string { return strconv.Quote(s) }

// TestVolunteersPage uses the volunteer's page as a volunteer does, with a real browser: before joining, joining, every view, settings that are refused
// and saved, pauses, a site that is never fetched again, and leaving.
func TestVolunteersPage(t *testing.T) {
	drivesPrograms(t)
	t.Parallel()
	b := openBrowser(t)
	h := newHome(t)
	link := h.link()
	b.enter(link, "A search company that wants to use a part of this computer")
	b.open(link, "Open it with this command") // it was good once
	b.open(strings.TrimSuffix(link, link[strings.Index(link, "/enter"):])+"/", "Nothing is agreed to yet")

	join := func(text string) {
		b.eval("document.querySelector('#join').value = " + quote(text) + "; true")
		b.press("See who asks")
	}
	join("shoal-join-nonsense")
	b.shows("malformed")
	join(h.join[:len(h.join)/2])
	b.shows("malformed")
	join(h.join)
	b.shows("You would lend this computer to Example Search")
	b.shows("at most 500 KiB/s")
	b.picture("join")
	if _, err := os.Stat(h.data + "/membership"); err == nil {
		t.Error("looking has joined")
	}
	b.press("I agree: join")
	b.shows("Working for Example Search")
	if text := h.file(); !strings.HasPrefix(text, "# Mine\nthreads = 3 # enough\n") || !strings.Contains(text, "down_kib_per_s = 500 # ") || !strings.Contains(text, h.window()) {
		t.Errorf("the settings file has become\n%s", text)
	}
	b.until("shows a rate", "/KiB.s/.test(document.querySelector('.facts').innerText) && document.querySelectorAll('svg.chart polyline').length === 2")

	// Pauses.
	b.until("says how to remove the program", "document.querySelector('#remove').open = true, document.querySelector('#remove').innerText.includes('service uninstall')")
	b.press("Pause for an hour")
	b.shows("Paused because you said so, until ")
	b.until("says that no site is fetched in a pause", "!document.querySelector('main table')?.innerText.includes('being fetched')")
	b.press("Go on")
	b.shows("Working for")
	b.view("pause", "Leave the network")
	b.press("Pause till tomorrow")
	b.shows("06:00")
	b.press("Go on")
	b.shows("Working for")

	// Settings: what is wrong is said beside its field, what is saved is in the file and in force, and the rest of the file stays.
	b.view("limits", "With these settings")
	set := func(key, value string) {
		b.eval(fmt.Sprintf("{ const e = document.querySelector('#set-%s'); e.value = %s; e.dispatchEvent(new Event('input', {bubbles: true})); } true", key, quote(value)))
	}
	set("threads", "900")
	b.until("says what is wrong beside its field", "document.querySelector('#wrong-threads').textContent.includes('want 1 to 64') && document.querySelector('#set-threads').getAttribute('aria-invalid') === 'true'")
	b.until("does not save what is wrong", "document.querySelector('.bar .main').disabled")
	set("threads", "2")
	set("up_kib_per_s", "77")
	b.until("shows what would hold", "document.querySelector('.preview').innerText.includes('77 KiB/s')")
	cell := fmt.Sprintf("document.querySelectorAll('.week button')[%d]", (int(h.later.Weekday())+6)%7*24+h.later.Hour())
	b.eval(cell + ".click(); true")
	b.until("pauses an hour of the week", cell+".getAttribute('aria-pressed') === 'true'")
	b.press("Save")
	b.shows("Saved, and in force.")
	text := h.file()
	paused := fmt.Sprintf("days = \"%s\"\nfrom = \"%02d:00\"\nto = \"%02d:00\"\npause = true\n", strings.ToLower(h.later.Format("Mon")), h.later.Hour(), h.later.Hour()+1)
	for _, line := range []string{"# Mine\nthreads = 2 # enough\n", "up_kib_per_s = 77", h.window(), paused} {
		if !strings.Contains(text, line) {
			t.Errorf("the settings file lacks %q:\n%s", line, text)
		}
	}
	if out := h.command("limit"); !strings.Contains(out, "77 KiB/s") {
		t.Errorf("what was saved is not in force:\n%s", out)
	}

	// Hours that the grid cannot show are rows below it, and an edit of one is a change like others.
	b.view("now", "Working for")
	b.view("limits", "With these settings")
	b.eval("{ const e = document.querySelector('.window input[placeholder=\"18:00\"]'); e.value = '23:59'; e.dispatchEvent(new Event('input', {bubbles: true})); } true")
	b.until("may save an edited row", "!document.querySelector('.bar .main').disabled")
	b.press("Save")
	b.shows("Saved, and in force.")
	if text := h.file(); !strings.Contains(text, "to = \"23:59\"") || !strings.Contains(text, paused) {
		t.Errorf("an edited row is not in the settings file:\n%s", text)
	}

	// What was fetched, and a site that is never fetched again.
	b.view("history", "By site")
	b.until("lists pages", "document.querySelector('.search button').click(), document.querySelectorAll('main table')[1]?.rows.length > 2")
	b.eval("document.querySelector('#match').value = 'no such word'; true")
	b.press("Search")
	b.shows("Nothing was found.")
	b.eval("document.querySelector('#match').value = ''; true")
	b.press("Search")
	b.until("lists sites", "document.querySelectorAll('main table')[0]?.rows.length > 1")
	site := b.eval("document.querySelectorAll('main table')[0].rows[1].cells[0].innerText")
	b.press("Never again")
	b.shows("is not fetched any more")
	if text := h.file(); !strings.Contains(text, "deny = ["+quote(site)+"]") {
		t.Errorf("%s is not denied in\n%s", site, text)
	}
	b.press("Allow again")
	b.shows("may be fetched again")

	// The manager itself verifies some pages of a newcomer that is alone. Before, the board is refused.
	// A page may have changed just between its fetches: then one is held against this peer, as against each peer now and then.
	b.view("contribution", "A newcomer: what this computer delivers")
	b.until("is on the board", "document.querySelector('#nickname').value = 'Ali <b>', document.querySelector('#public').checked = true, [...document.querySelectorAll('main button')].find(x => x.textContent === 'Save').click(), document.body.innerText.includes('The board shows you.')")
	b.press("Get the certificate")
	b.until("has a certificate", "document.querySelector('textarea.report')?.value.includes('Ali <b>\\n\\nlent a computer to the Shoal network Example Search')")
	b.shows("Save the certificate")
	b.until("keeps the certificate when another nickname is saved", "document.querySelector('#nickname').value = 'Bo', [...document.querySelectorAll('main button')].find(x => x.textContent === 'Save').click(), document.querySelector('#holder').value === 'Bo' && document.querySelector('textarea.report') !== null")
	b.until("shows the picture", "document.querySelector('.picture img')?.naturalWidth > 0")
	b.view("health", "connected to Example Search")
	b.press("Copy a report for support")
	b.until("shows the report", "document.querySelector('textarea.report')?.value.includes('shoal-peer')")
	if report := b.eval("document.querySelector('textarea.report').value"); strings.Contains(report, "pond.test") || strings.Contains(report, "127.0.0.1") || strings.Contains(report, h.data) || strings.Contains(report, "12D3") {
		t.Errorf("the report tells too much:\n%s", report)
	}
	b.press("Deutsch")
	b.shows("Bericht für den Support kopieren")
	b.view("now", "Arbeitet für Example Search")
	b.press("English")
	b.until("speaks English again", "document.documentElement.lang === 'en' && document.body.innerText.includes('Working for')")

	// Keys alone: the first Tab reaches the link that skips the head.
	b.call(b.session, "Page.reload", nil, nil)
	b.shows("Working for")
	b.call(b.session, "Page.bringToFront", nil, nil)
	for _, kind := range []string{"keyDown", "keyUp"} {
		b.call(b.session, "Input.dispatchKeyEvent", map[string]any{"type": kind, "key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9}, nil)
	}
	b.until("has the focus on the link that skips its head", "document.activeElement.className === 'skip'")

	b.view("pause", "Leave the network")
	b.press("Leave the network")
	b.shows("The program does not answer")
	<-h.peer.done
	if code := h.peer.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("the peer ended with %d:\n%s", code, h.peer.said())
	}
	if _, err := os.Stat(h.data + "/membership"); err == nil {
		t.Error("it is a member yet")
	}
}

// homeViews are all views, each with a text that it shows.
var homeViews = []struct{ name, shows string }{{"now", "Speed"}, {"pause", "Give everything back"}, {"limits", "With these settings"}, {"history", "Pages fetched"}, {"networks", "Join one more network"}, {"contribution", "A picture to share"}, {"health", "Copy a report"}}

// TestVolunteersPageForAll looks at every view with axe-core, on a wide screen and a phone's, light and dark: nothing serious is wrong. With SHOAL_PICTURES it
// leaves a picture of each in that folder.
func TestVolunteersPageForAll(t *testing.T) {
	drivesPrograms(t)
	t.Parallel()
	axe := axeScript(t)
	b := openBrowser(t)
	h := newHome(t)
	look := func(name string, width int) {
		for _, light := range []string{"light", "dark"} {
			b.call(b.session, "Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": light}}}, nil)
			where := fmt.Sprintf("%s, %d pixels wide, %s", name, width, light)
			b.picture(fmt.Sprintf("home-%s-%d-%s", name, width, light))
			b.pictureOf(fmt.Sprintf("home-%s-%d-%s-top", name, width, light), map[string]any{"x": 0, "y": 0, "width": width, "height": 1000, "scale": .8})
			if over := b.eval("document.documentElement.scrollWidth - document.documentElement.clientWidth"); over != "0" {
				t.Errorf("%s: the page is %s pixels wider than its window", where, over)
			}
			for _, f := range b.faults(axe, rulesOf(light)...) {
				t.Errorf("%s: %s: %s: %s", where, f.Impact, f.Help, f.places())
			}
		}
	}
	wide := func(width int) {
		b.call(b.session, "Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": 740, "deviceScaleFactor": 1, "mobile": width < 500}, nil)
	}
	b.enter(h.link(), "A search company")
	b.eval("document.querySelector('#join').value = " + quote(h.join) + "; true")
	b.press("See who asks")
	b.shows("You would lend this computer to Example Search")
	for _, width := range []int{1280, 360} {
		wide(width)
		look("join", width)
	}
	b.press("I agree: join")
	b.shows("Working for Example Search")
	b.view("history", "Pages fetched")
	least := 5
	if os.Getenv("SHOAL_PICTURES") != "" { // a graph of one point shows little
		least = 95
	}
	b.until("lists pages", fmt.Sprintf("document.querySelector('.search button').click(), document.querySelectorAll('main table')[1]?.rows.length > %d", least))
	for _, width := range []int{1280, 360} {
		wide(width)
		for _, v := range homeViews {
			b.view(v.name, v.shows)
			b.until("has drawn "+v.name, "!document.querySelector('.picture') || document.querySelector('.picture img')?.naturalWidth > 0")
			look(v.name, width)
		}
	}
}
