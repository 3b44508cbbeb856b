package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
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

// sessionBus starts a message bus of this test's own.
func sessionBus(t *testing.T) {
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
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", strings.TrimSpace(address))
}

// layout is a menu as the panel reads it.
type layout struct {
	ID    int32
	Props map[string]dbus.Variant
	Below []dbus.Variant
}

// TestTray: without a desktop the command says so. On one, the icon shows the peer's sentence, its pause holds, and it goes when it is told to.
func TestTray(t *testing.T) {
	join := manager(t)
	v := newVolunteer(t)
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nowhere")
	if code, out := v.do("tray"); code != 1 || !strings.Contains(out, "no desktop session") || !strings.Contains(out, "shoal-peer status") {
		t.Errorf("without a bus: %d %s", code, out)
	}
	sessionBus(t)
	if code, out := v.do("tray"); code != 1 || !strings.Contains(out, "AppIndicator") {
		t.Errorf("without a panel: %d %s", code, out)
	}
	panel, err := dbus.ConnectSessionBus()
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
	v.ok("join", join, "--yes", "--no-limits")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan int, 2)
	var out buffer
	for _, args := range [][]string{{"run", "--port", "0", "--listen", "127.0.0.1", "--no-quic", "--no-dht", "--no-low-priority", "--control", "127.0.0.1:0"}, {"tray"}} {
		go func() { ended <- run(ctx, args, streams{&out, &out, v.env, nil}) }()
	}
	var item dbus.BusObject
	select {
	case name := <-w.names:
		item = panel.Object(name, "/StatusNotifierItem/menu")
	case <-time.After(time.Minute):
		t.Fatal("no icon\n" + out.String())
	}
	until(t, "shows what the peer says", func() bool { // before that a click may find no peer
		var st status
		code, out := v.do("status", "--json")
		if code != 0 || json.Unmarshal([]byte(out), &st) != nil {
			return false
		}
		_, ok := entries(item)[st.Says]
		return ok
	})
	click(t, item, "Pause for an hour")
	until(t, "is paused", func() bool {
		code, out := v.do("status")
		return code == 0 && strings.Contains(out, "Paused because you said so, until")
	})
	until(t, "shows the pause", func() bool { _, ok := entries(item)["Go on"]; return ok })
	click(t, item, "Go on")
	until(t, "goes on", func() bool { _, out := v.do("status"); return !strings.Contains(out, "Paused") })
	var bus dbus.Error // a program that is told to end may do so before it answers
	if err := press(t, item, "Close this icon"); err != nil && !(errors.As(err, &bus) && bus.Name == "org.freedesktop.DBus.Error.NoReply") {
		t.Fatal(err)
	}
	if code := <-ended; code != 0 {
		t.Errorf("status %d\n%s", code, out.String())
	}
	if code, _ := v.do("status"); code != 0 {
		t.Error("the peer ended with its icon")
	}
	cancel()
	<-ended
}

func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it never %s", what)
		}
	}
}

// entries are the shown entries of a menu with their numbers.
func entries(item dbus.BusObject) map[string]int32 {
	var revision uint32
	var root layout
	if err := item.Call("com.canonical.dbusmenu.GetLayout", 0, int32(0), int32(-1), []string{}).Store(&revision, &root); err != nil {
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

// click chooses an entry once it is shown.
func click(t *testing.T, item dbus.BusObject, label string) {
	t.Helper()
	if err := press(t, item, label); err != nil {
		t.Fatal(err)
	}
}

// press clicks on an entry.
func press(t *testing.T, item dbus.BusObject, label string) error {
	t.Helper()
	var id int32
	until(t, "shows "+label, func() bool { n, ok := entries(item)[label]; id = n; return ok })
	return item.Call("com.canonical.dbusmenu.Event", 0, id, "clicked", dbus.MakeVariant(""), uint32(0)).Err
}
