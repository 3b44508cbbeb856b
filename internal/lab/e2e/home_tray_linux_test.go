package e2e

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
)

// watcher stands for a desktop's panel: it takes the names of programs that have an icon.
type watcher struct{ names chan string }

// RegisterStatusNotifierItem is called by programs.
func (w *watcher) RegisterStatusNotifierItem(sender dbus.Sender, _ string) *dbus.Error {
	select {
	case w.names <- string(sender):
	default:
	}
	return nil
}

// sessionBus starts a message bus of this test's own, and returns its address and what ends it.
func sessionBus(t *testing.T) (address string, end func()) {
	t.Helper()
	daemon, err := exec.LookPath("dbus-daemon")
	if err != nil {
		if os.Getenv("SHOAL_TEST_STRICT") != "" {
			t.Fatal("dbus-daemon is not here (Debian: dbus)")
		}
		t.Skip("dbus-daemon is not here (Debian: dbus)")
	}
	cmd := exec.Command(daemon, "--session", "--nofork", "--nopidfile", "--print-address", "--address=unix:dir="+t.TempDir())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	end = func() { cmd.Process.Kill(); cmd.Wait() }
	t.Cleanup(end)
	address, err = bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(address), end
}

// menu is a program's menu as the panel has it.
type menu struct {
	t    *testing.T
	icon *process
	item dbus.BusObject
}

// layout is a menu as the panel reads it.
type layout struct {
	ID    int32
	Props map[string]dbus.Variant
	Below []dbus.Variant
}

// entries are the shown entries with their numbers.
func (m *menu) entries() map[string]int32 {
	var revision uint32
	var root layout
	if err := m.item.Call("com.canonical.dbusmenu.GetLayout", 0, int32(0), int32(-1), []string{}).Store(&revision, &root); err != nil {
		return nil
	}
	out := map[string]int32{}
	for _, b := range root.Below {
		var l layout
		if dbus.Store([]any{b.Value()}, &l) != nil {
			continue
		}
		if visible, ok := l.Props["visible"].Value().(bool); ok && !visible {
			continue
		}
		if label, ok := l.Props["label"].Value().(string); ok {
			out[label] = l.ID
		}
	}
	return out
}

// shows waits for an entry.
func (m *menu) shows(label string) (id int32) {
	m.t.Helper()
	m.icon.until("shows "+label, func() bool { n, ok := m.entries()[label]; id = n; return ok })
	return id
}

// press clicks on an entry once it is shown.
func (m *menu) press(label string) error {
	m.t.Helper()
	return m.item.Call("com.canonical.dbusmenu.Event", 0, m.shows(label), "clicked", dbus.MakeVariant(""), uint32(0)).Err
}

// click is press for an entry after which the program goes on.
func (m *menu) click(label string) {
	m.t.Helper()
	if err := m.press(label); err != nil {
		m.t.Fatal(err)
	}
}

// TestTray: without a desktop the command says so. On one, the icon shows the peer's sentence, its pause holds, and it goes when it is told to or the session
// ends; the peer goes on. The icon's library reads its menu without a lock, harmlessly; the race detector would see that, so it runs as a program.
func TestTray(t *testing.T) {
	drivesPrograms(t)
	t.Parallel()
	h := newHome(t)
	h.link()
	h.command("join", "--yes", "--no-limits", h.join)
	tray := func(bus string) *process {
		cmd := exec.Command(filepath.Join(bin, "shoal-peer"), "tray", "--config", h.settings, "--data", h.data)
		cmd.Env = append(os.Environ(), "DBUS_SESSION_BUS_ADDRESS="+bus)
		return launch(t, "shoal-peer", cmd)
	}
	refused := func(bus string, words ...string) {
		t.Helper()
		p := tray(bus)
		<-p.done
		for _, w := range words {
			if code := p.cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(p.said(), w) {
				t.Errorf("on %s: status %d, said %s; want %q", bus, code, p.said(), w)
			}
		}
	}
	refused("unix:path=/nowhere", "no desktop session", "shoal-peer status")
	bus, end := sessionBus(t)
	refused(bus, "AppIndicator")
	panel, err := dbus.Connect(bus)
	if err != nil {
		t.Fatal(err)
	}
	defer panel.Close()
	w := &watcher{make(chan string, 1)}
	if err := panel.Export(w, "/StatusNotifierWatcher", "org.kde.StatusNotifierWatcher"); err != nil {
		t.Fatal(err)
	}
	if _, err := panel.RequestName("org.kde.StatusNotifierWatcher", 0); err != nil {
		t.Fatal(err)
	}
	show := func() *menu {
		icon := tray(bus)
		select {
		case name := <-w.names:
			return &menu{t, icon, panel.Object(name, "/StatusNotifierItem/menu")}
		case <-time.After(patience):
			t.Fatal("no icon\n" + icon.said())
			return nil
		}
	}

	m := show()
	if _, ok := m.entries()["Pause for an hour"]; !ok {
		t.Errorf("the first menu is %v", m.entries())
	}
	m.icon.until("shows what the peer says", func() bool {
		var st struct {
			Says string `json:"says"`
		}
		if err := json.Unmarshal([]byte(h.command("status", "--json")), &st); err != nil {
			t.Fatal(err)
		}
		_, ok := m.entries()[st.Says]
		return ok
	})
	m.click("Pause for an hour")
	m.icon.until("pauses the peer", func() bool { return strings.Contains(h.command("status"), "Paused because you said so, until") })
	m.shows("Go on")
	m.click("Go on")
	m.icon.until("has the peer go on", func() bool { return !strings.Contains(h.command("status"), "Paused") })
	var failed dbus.Error // a program that is told to end may do so before it answers
	if err := m.press("Close this icon"); err != nil && !(errors.As(err, &failed) && failed.Name == "org.freedesktop.DBus.Error.NoReply") {
		t.Fatal(err)
	}
	goes := func(p *process) {
		t.Helper()
		select {
		case <-p.done:
		case <-time.After(patience):
			t.Fatal("it stays\n" + p.said())
		}
		if code := p.cmd.ProcessState.ExitCode(); code != 0 {
			t.Errorf("status %d\n%s", code, p.said())
		}
		h.command("status") // the peer goes on
	}
	goes(m.icon)

	m = show()
	m.shows("Close this icon")
	end()
	goes(m.icon)
}
