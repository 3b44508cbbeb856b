package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// attempts is the script of a hostile page. It tries to read from the volunteer's page at %s, and to change something, in every way that a page has. It keeps what it got.
const attempts = `(async () => {
  const at = %s, key = "0".repeat(32), got = {};
  const text = async (f) => { try { const r = await f(); return r.type + " " + r.status + " " + (await r.text()); } catch (e) { return "error " + e.name; } };
  const deny = JSON.stringify({ domain: "stolen.example" });
  got.read = await text(() => fetch(at + "/v1/status", { credentials: "include" }));
  got.readWithKey = await text(() => fetch(at + "/v1/status", { credentials: "include", headers: { "X-Shoal-Key": key } }));
  got.blind = await text(() => fetch(at + "/v1/status", { credentials: "include", mode: "no-cors" }));
  got.page = await text(() => fetch(at + "/", { credentials: "include" }));
  got.file = await text(() => fetch(at + "/page.js", { credentials: "include" }));
  got.enter = await text(() => fetch(at + "/enter?once=" + key, { credentials: "include" }));
  got.post = await text(() => fetch(at + "/v1/do/deny", { method: "POST", credentials: "include", mode: "no-cors", body: deny }));
  got.postJSON = await text(() => fetch(at + "/v1/do/deny", { method: "POST", credentials: "include", headers: { "Content-Type": "application/json", "X-Shoal-Key": key }, body: deny }));
  got.beacon = String(navigator.sendBeacon(at + "/v1/do/deny", deny)) === "true" ? "sent" : "refused";
  const load = (tag, set) => new Promise((done) => { const e = document.createElement(tag); e.onload = () => done("loaded"); e.onerror = () => done("error"); set(e); document.body.append(e); setTimeout(() => done("late"), 5000); });
  got.picture = await load("img", (e) => { e.src = at + "/icon.svg"; });
  got.script = await load("script", (e) => { e.src = at + "/page.js"; e.type = "module"; });
  got.style = await load("link", (e) => { e.rel = "stylesheet"; e.href = at + "/style.css"; });
  const frame = document.createElement("iframe");
  frame.src = at + "/"; document.body.append(frame);
  await new Promise((done) => { frame.onload = done; setTimeout(done, 3000); });
  try { got.frame = frame.contentDocument ? "open " + frame.contentDocument.body.innerText : "shut"; } catch { got.frame = "shut"; }
  const form = document.createElement("form"), into = document.createElement("iframe");
  into.name = "into"; document.body.append(into, form);
  form.method = "POST"; form.enctype = "text/plain"; form.action = at + "/v1/do/deny"; form.target = "into";
  const field = document.createElement("input"); field.name = '{"domain":"stolen.example","x":"'; field.value = '"}'; form.append(field);
  form.submit();
  await new Promise((done) => { into.onload = done; setTimeout(done, 3000); });
  window.got = JSON.stringify(got);
})(); true`

// TestStrangersGetNothing lets pages of other sites try the volunteer's page in a real browser that has a session there: a site at another port of this computer, one under
// another name, and one whose name comes to resolve to this computer. None reads anything, and nothing has changed afterwards.
func TestStrangersGetNothing(t *testing.T) {
	drivesPrograms(t)
	t.Parallel()
	b := openBrowser(t, "--host-resolver-rules=MAP *.rebound.example 127.0.0.1")
	data, file := t.TempDir(), filepath.Join(t.TempDir(), "peer.toml")
	if err := os.WriteFile(file, []byte("threads = 3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h := &home{t: t, data: data, settings: file, args: []string{"run", "--config", file, "--data", data, "--port", "0", "--listen", "127.0.0.1", "--control", "127.0.0.1:0", "--no-low-priority"}}
	h.peer = start(t, "shoal-peer", h.args...)
	link := h.link()
	b.enter(link, "A search company")
	u, err := url.Parse(link)
	if err != nil {
		t.Fatal(err)
	}
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<!doctype html><title>evil</title><body>A hostile page")
	}))
	defer site.Close()
	port := site.URL[strings.LastIndex(site.URL, ":")+1:]
	for _, c := range []struct{ name, from, at string }{
		{"another port of this computer", "http://127.0.0.1:" + port, "http://" + u.Host},
		{"another name of this computer", "http://localhost:" + port, "http://" + u.Host},
		{"another site", "http://evil.rebound.example:" + port, "http://" + u.Host},
		{"a name that comes to resolve to this computer", "http://evil.rebound.example:" + port, "http://evil.rebound.example:" + u.Port()},
	} {
		b.open(c.from+"/", "A hostile page")
		b.eval(fmt.Sprintf(attempts, quote(c.at)))
		b.until("tries everything", "!!window.got")
		got := b.eval("window.got")
		for _, secret := range []string{"basic 200", "cors 200", "opaqueredirect", "loaded", "open ", "unjoined", "down_kib_per_s"} {
			if strings.Contains(got, secret) {
				t.Errorf("%s got %q: %s", c.name, secret, got)
			}
		}
		if !strings.Contains(got, `"read":`) {
			t.Errorf("%s: %s", c.name, got)
		}
	}
	// Under the name itself there is no page, and so no place from which to ask.
	before := b.loads
	b.call(b.session, "Page.navigate", map[string]any{"url": "http://evil.rebound.example:" + u.Port() + "/"}, nil)
	b.loaded(before, "the page under another name")
	if text := b.eval("document.body.innerText"); !strings.Contains(text, "not under this name") {
		t.Errorf("under another name: %s", text)
	}
	if text := h.file(); text != "threads = 3\n" {
		t.Errorf("the settings have become %q", text)
	}
	// The volunteer's own session goes on.
	b.open("http://"+u.Host+"/", "A search company")
}
