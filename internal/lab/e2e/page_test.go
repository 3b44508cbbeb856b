package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/websocket"

	"shoal/manager/desk"
)

// browser is a headless Chromium with one tab, driven over the DevTools protocol.
type browser struct {
	t  *testing.T
	ws *websocket.Conn
	n  int

	session string // of the tab
	loads   int    // pages that the tab has loaded
}

// openBrowser starts a browser with further flags, or skips the test if there is none.
func openBrowser(t *testing.T, flags ...string) *browser {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv("SHOAL_TEST_STRICT") == "1" {
			t.Fatal("no chromium here, and SHOAL_TEST_STRICT=1 wants it: apt-get install chromium")
		}
		t.Skip("no chromium here: the page is not looked at (apt-get install chromium)")
	}
	ctx, cancel := context.WithCancel(context.Background())
	dir, err := os.MkdirTemp("", "shoal-browser-*")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, path, append(flags, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-dev-shm-usage", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--remote-allow-origins=*", "--remote-debugging-port=0", "--user-data-dir="+dir, "about:blank")...)
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	said, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	at, ended := make(chan string, 1), make(chan struct{})
	t.Cleanup(func() {
		cancel()
		select {
		case <-ended: // the processes that it started have gone, too, and write nothing more
		case <-time.After(patience):
		}
		cmd.Wait() // it was killed
		if err := os.RemoveAll(dir); err != nil {
			t.Log(err)
		}
	})
	go func() {
		defer close(ended)
		for s := bufio.NewScanner(said); s.Scan(); {
			if _, url, ok := strings.Cut(s.Text(), "DevTools listening on "); ok {
				at <- url
				io.Copy(io.Discard, said)
				return
			}
		}
		close(at)
	}()
	b := &browser{t: t}
	select {
	case url := <-at:
		b.connect(url)
	case <-time.After(patience):
		t.Fatal("the browser does not start")
	}
	return b
}

// connect attaches to the first tab.
func (b *browser) connect(url string) {
	b.t.Helper()
	if url == "" {
		b.t.Fatal("the browser ended at its start")
	}
	var err error
	if b.ws, err = websocket.Dial(url, "", "http://localhost/"); err != nil {
		b.t.Fatal(err)
	}
	b.ws.MaxPayloadBytes = 64 << 20
	var made struct{ TargetID string }
	b.call("", "Target.createTarget", map[string]any{"url": "about:blank"}, &made)
	var tab struct{ SessionID string }
	b.call("", "Target.attachToTarget", map[string]any{"targetId": made.TargetID, "flatten": true}, &tab)
	b.session = tab.SessionID
	b.call(b.session, "Page.enable", nil, nil)
}

// call sends a command to the browser and waits for its answer.
func (b *browser) call(session, method string, params map[string]any, out any) {
	b.t.Helper()
	if err := b.try(session, method, params, out); err != nil {
		b.t.Fatal(err)
	}
}

// try is call for a command that the browser may refuse.
func (b *browser) try(session, method string, params map[string]any, out any) error {
	b.t.Helper()
	b.n++
	msg := map[string]any{"id": b.n, "method": method, "params": params}
	if session != "" {
		msg["sessionId"] = session
	}
	if err := b.ws.SetDeadline(time.Now().Add(patience)); err != nil {
		b.t.Fatal(err)
	}
	if err := websocket.JSON.Send(b.ws, msg); err != nil {
		b.t.Fatal(err)
	}
	for {
		r := b.receive(method)
		if r.ID != b.n {
			continue // an event
		}
		if r.Error != nil {
			return fmt.Errorf("%s: %s", method, r.Error.Message)
		}
		if out != nil {
			if err := json.Unmarshal(r.Result, out); err != nil {
				b.t.Fatalf("%s: %v", method, err)
			}
		}
		return nil
	}
}

// answer is what the browser sends: the answer to a command, or an event, which has a method.
type answer struct {
	ID     int
	Method string
	Result json.RawMessage
	Error  *struct{ Message string }
}

// receive waits for the next answer or event.
func (b *browser) receive(why string) (a answer) {
	b.t.Helper()
	if err := websocket.JSON.Receive(b.ws, &a); err != nil {
		b.t.Fatalf("%s: %v", why, err)
	}
	if a.Method == "Page.loadEventFired" {
		b.loads++
	}
	return a
}

// navigate runs a script that leads to another page, and waits until that page has loaded. A script that runs while the page goes to another would
// fail, so no other call may come between.
func (b *browser) navigate(script string) {
	b.t.Helper()
	before := b.loads
	var r struct {
		ExceptionDetails *struct{ Exception struct{ Description string } }
	}
	err := b.try(b.session, "Runtime.evaluate", map[string]any{"expression": script}, &r)
	if err != nil && !passing(err) { // the page may be gone before the script's answer
		b.t.Fatal(err)
	}
	if r.ExceptionDetails != nil {
		b.t.Fatalf("%s: %s", script, r.ExceptionDetails.Exception.Description)
	}
	b.loaded(before, script)
}

// passing is whether a script failed because the tab went to another page meanwhile.
func passing(err error) bool {
	return strings.Contains(err.Error(), "navigated") || strings.Contains(err.Error(), "context")
}

// loaded waits until the tab has loaded more pages than before.
func (b *browser) loaded(before int, why string) {
	b.t.Helper()
	if err := b.ws.SetDeadline(time.Now().Add(patience)); err != nil {
		b.t.Fatal(err)
	}
	for b.loads <= before {
		b.receive("the page that should follow " + why)
	}
}

// eval runs a script in the page. A script that throws, as while a page loads, returns "", and so does one whose page goes to another.
func (b *browser) eval(script string) string {
	b.t.Helper()
	var r struct {
		Result struct{ Value any }
	}
	err := b.try(b.session, "Runtime.evaluate", map[string]any{"expression": script, "returnByValue": true}, &r)
	if err != nil && !passing(err) {
		b.t.Fatal(err)
	}
	if r.Result.Value == nil {
		return ""
	}
	return fmt.Sprint(r.Result.Value)
}

// until polls until a script returns true.
func (b *browser) until(what, script string) {
	b.t.Helper()
	for end := time.Now().Add(patience); b.eval(script) != "true"; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			b.t.Fatalf("the page never %s; at %s it shows\n%.3000s", what, b.eval("location.href"), b.eval("document.body.innerText"))
		}
	}
}

// open opens a page and waits until it shows a text.
func (b *browser) open(url, shows string) {
	b.t.Helper()
	before := b.loads
	b.call(b.session, "Page.navigate", map[string]any{"url": url}, nil)
	b.loaded(before, url)
	b.shows(shows)
}

func (b *browser) shows(text string) {
	b.t.Helper()
	b.until("shows "+text, fmt.Sprintf("document.readyState === 'complete' && document.body.innerText.includes(%q)", text))
}

// TestPage uses the manager's page as an operator does, with a real browser: logged out, logged in, with mouse and
// keys, on a phone's screen, in the dark.
func TestPage(t *testing.T) {
	drivesPrograms(t)
	t.Parallel()
	b := openBrowser(t)
	p := start(t, "shoal", "up", "--peers", "2", "--hosts", "5", "--pages", "20", "--data", t.TempDir(), "--page", "127.0.0.1:0")
	g := pageOf(p, "page ")
	p.until("has an update", func() bool { return g.overview().Updates > 0 })

	b.open(g.base+"/", "Updates a minute")
	b.until("draws its plots", "document.querySelectorAll('#live svg[role=img] polyline').length >= 6")
	b.open(g.base+"/strategy", "Recrawl strategy: icr")
	b.shows("Log in")

	// First a wrong token, then the right one.
	login := func(token string) {
		b.open(g.base+"/login", "Log in as operator")
		b.navigate(fmt.Sprintf("document.querySelector('input[name=token]').value = %q; document.querySelector('main form').submit()", token))
	}
	login("nonsense")
	b.shows("That token does not fit this manager.")
	login(g.token)
	b.shows("Log out")

	click := func(button string) {
		t.Helper()
		find := fmt.Sprintf("[...document.querySelectorAll('main button, main a.button')].find(x => x.textContent.trim() === %q)", button)
		b.until("has the button "+button, "!!"+find)
		b.navigate("window.confirm = () => true; " + find + ".click()")
	}
	b.open(g.base+"/channels", "site-0004.pond.test")
	b.open(g.base+"/channels?q=0003", "1 to 1 of 1")
	b.open(g.base+"/channel/1", "What happened")
	click("Pause")
	b.shows("Resume")
	click("Resume")
	b.shows("Done: it shows below.")
	click("Split…")
	b.shows("Make them channels")
	b.eval("document.querySelector('input[name=more]').value = '/d/'; true")
	click("Make them channels")
	b.shows("The directories are channels of their own now.")
	b.open(g.base+"/channels", "/d/")
	b.eval("document.querySelector('textarea[name=urls]').value = 'ftp://nothing.example/'; true")
	click("Add")
	b.shows("That was not done")
	b.open(g.base+"/strategy", "Show what it would change")
	b.eval("document.querySelector('select[name=try]').value = 'price'; true")
	click("Show what it would change")
	b.shows("Nothing was changed.")
	click("Use price from now on")
	b.shows("The strategy is in force")
	b.until("names the strategy in force", "document.body.innerText.includes('Recrawl strategy: price')")
	p.until("knows the host", func() bool {
		rows, err := g.rows()
		return err == nil && slices.ContainsFunc(rows, func(r desk.Row) bool { return strings.Contains(r.Host, "site-0002.") && r.Visits > 0 })
	})
	b.open(g.base+"/hosts?q=site-0002", "site-0002.pond.test")
	click("Block")
	b.shows("Nothing more is crawled there.")
	b.open(g.base+"/hosts?blocked=1", "blocked: by an operator")
	click("Crawl again")
	b.shows("It may be crawled again.")
	b.open(g.base+"/peers", "2 peers")

	// With the keyboard alone: the first Tab reaches the link that skips the head of the page, and the focus is
	// visible.
	b.call(b.session, "Page.bringToFront", nil, nil)
	for _, kind := range []string{"keyDown", "keyUp"} {
		b.call(b.session, "Input.dispatchKeyEvent", map[string]any{"type": kind, "key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9}, nil)
	}
	b.until("has the focus on the link that skips its head", "document.activeElement.className === 'skip' && document.activeElement.getBoundingClientRect().left >= 0")

	// In the dark, and on a phone's screen, where only tables may be wider than the screen.
	b.call(b.session, "Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": "dark"}}}, nil)
	b.until("is dark in the dark", "getComputedStyle(document.body).backgroundColor === 'rgb(17, 22, 28)'")
	b.call(b.session, "Emulation.setDeviceMetricsOverride", map[string]any{"width": 360, "height": 740, "deviceScaleFactor": 1, "mobile": true}, nil)
	sideways := 0 // tables that scroll so
	for path, shows := range map[string]string{"/": "Errors by kind", "/channels": "Add sites", "/channel/1": "Crawl now", "/channel/1/split": "Further directories",
		"/hosts": "Block a host", "/peers": "coordinate space", "/strategy?try=icr": "for the next", "/login": "operator.token"} {
		b.open(g.base+path, shows)
		if wide := b.eval("document.documentElement.scrollWidth"); wide != "360" {
			t.Errorf("%s is %s pixels wide on a screen of 360", path, wide)
		}
		if bad := b.eval("[...document.querySelectorAll('input:not([type=hidden]), select, textarea')].filter(x => !x.labels.length).map(x => x.name).join()"); bad != "" {
			t.Errorf("%s has controls without a label: %s", path, bad)
		}
		if silent := b.eval("[...document.querySelectorAll('.scroll')].filter(x => (x.scrollWidth > x.clientWidth + 1) !== getComputedStyle(x, '::before').content.includes('scrolls sideways')).length"); silent != "0" {
			t.Errorf("%s has %s tables that do not say whether they scroll sideways", path, silent)
		}
		if n, err := strconv.Atoi(b.eval("document.querySelectorAll('.scroll.wide').length")); err == nil {
			sideways += n
		}
	}
	if sideways == 0 {
		t.Error("no table is wider than a phone's screen: nothing was looked at")
	}
	b.open(g.base+"/", "Updates a minute")
	b.navigate("document.querySelector('form.who').submit()")
	b.shows("Log in as operator")
	p.end()
}
