package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shoal/internal/lab/pond"
	"shoal/peer/limit"
)

// home is a volunteer's computer with its page.
type home struct {
	t        *testing.T
	data     string
	settings string // file
	peer     *process
	join     string
	args     []string // of its run
	web      *pond.Server
	later    time.Time // half a day from now: its settings have a window then
}

// newHome starts a network with a synthetic Web, and a peer that has joined nothing yet. Its manager gets further arguments.
func newHome(t *testing.T, managers ...string) *home {
	t.Helper()
	w, err := pond.NewWorld(pond.Config{Seed: 1, Hosts: 12, Pages: 2000})
	if err != nil {
		t.Fatal(err)
	}
	s, err := pond.NewServer(w, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Run(ctx) }()
	t.Cleanup(func() { end(); <-served })
	at := s.Addr().String()
	h := &home{t: t, data: t.TempDir(), settings: filepath.Join(t.TempDir(), "peer.toml"), web: s}
	h.join = h.network("Example Search", managers...)
	h.later = time.Now().Add(12 * time.Hour)
	if err := os.WriteFile(h.settings, []byte("# Mine\nthreads = 3 # enough\n\n"+h.window()), 0o600); err != nil {
		t.Fatal(err)
	}
	h.args = []string{"run", "--config", h.settings, "--data", h.data, "--port", "0", "--listen", "127.0.0.1", "--control", "127.0.0.1:0", "--no-low-priority", "--pond", at}
	h.peer = start(t, "shoal-peer", h.args...)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the peer said, and was doing:\n%s", h.peer.dump())
		}
	})
	return h
}

// window is the window of the settings file. It is not in force while the test runs.
func (h *home) window() string {
	return fmt.Sprintf("[[windows]] # at another time\nfrom = \"%02d:00\"\nto = \"%02d:00\"\ndown_kib_per_s = 50\n", h.later.Hour(), (h.later.Hour()+2)%24)
}

// network starts a company's network on the home's Web, and returns its join string.
func (h *home) network(name string, args ...string) (join string) {
	m := start(h.t, "shoal", append([]string{"manager", "--data", h.t.TempDir(), "--listen", "/ip4/127.0.0.1/tcp/0", "--page", "127.0.0.1:0", "--pond", h.web.Addr().String(), "--name", name, "--contact", "https://search.example/bot"}, args...)...)
	return m.word("shoal-peer join ")
}

// command runs a command of the volunteer's, and returns what it prints.
func (h *home) command(args ...string) string {
	h.t.Helper()
	p := start(h.t, "shoal-peer", append(args, "--config", h.settings, "--data", h.data)...)
	<-p.done
	if p.cmd.ProcessState.ExitCode() != 0 {
		h.t.Fatalf("shoal-peer %s: %s", strings.Join(args, " "), p.said())
	}
	return strings.TrimSpace(p.out.String())
}

// link waits until the page is served, and returns a one-time link to it.
func (h *home) link() string {
	h.t.Helper()
	h.peer.until("serves its page", func() bool { _, err := os.Stat(filepath.Join(h.data, "control.json")); return err == nil })
	return h.command("open", "--print")
}

func (h *home) file() string {
	h.t.Helper()
	b, err := os.ReadFile(h.settings)
	if err != nil {
		h.t.Fatal(err)
	}
	return string(b)
}

// enter opens the page by a link.
func (b *browser) enter(link, shows string) {
	b.t.Helper()
	b.call(b.session, "Page.navigate", map[string]any{"url": link}, nil)
	b.until("leaves the way in", "!location.href.includes('once=')") // it may leave before it has loaded
	b.shows(shows)
}

// press clicks a button with a text.
func (b *browser) press(text string) {
	b.t.Helper()
	find := "[...document.querySelectorAll('main button, main a, header button')].find(x => x.textContent.trim() === " + quote(text) + ")"
	b.until("has the button "+text, "!!"+find+" && !"+find+".disabled")
	b.eval("window.confirm = () => true; " + find + ".click(); true")
}

// view goes to a view of the page.
func (b *browser) view(name, shows string) {
	b.t.Helper()
	b.eval("location.hash = " + quote(name) + "; true")
	b.shows(shows)
}

// TestHistorySurvivesKill kills a peer after its history was shown: what was shown is there when it runs again.
func TestHistorySurvivesKill(t *testing.T) {
	drivesPrograms(t)
	t.Parallel()
	h := newHome(t)
	h.peer.until("waits for a network", func() bool { _, err := os.Stat(filepath.Join(h.data, "control.json")); return err == nil })
	h.command("join", "--yes", h.join)
	past := func() (p limit.Past, pages int64) {
		t.Helper()
		if err := json.Unmarshal([]byte(h.command("history", "day", "--json")), &p); err != nil {
			t.Fatal(err)
		}
		for _, n := range p.Pages {
			pages += n
		}
		return p, pages
	}
	var before int64
	h.peer.until("fetches pages", func() bool { _, before = past(); return before > 3 })
	was, before := past()
	h.peer.kill()
	h.peer = start(t, "shoal-peer", h.args...)
	h.peer.until("runs again", func() bool {
		p := start(t, "shoal-peer", "history", "--data", h.data, "--config", h.settings)
		<-p.done
		return p.cmd.ProcessState.ExitCode() == 0
	})
	if is, after := past(); after < before || !is.Since.Equal(was.Since) {
		t.Errorf("%d pages since %v have become %d since %v", before, was.Since, after, is.Since)
	}
}
