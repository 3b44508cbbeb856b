package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestOpensByAFile has shoal-peer open hand the page to a real browser: by a file that leads on, so that no command line shows the link. The browser enters,
// and stays in when the page is loaded again.
func TestOpensByAFile(t *testing.T) {
	drivesPrograms(t)
	t.Parallel()
	b := openBrowser(t)
	data, desktop := t.TempDir(), t.TempDir()
	settings := filepath.Join(desktop, "peer.toml")
	if err := os.WriteFile(settings, []byte("threads = 3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	said := filepath.Join(desktop, "said")
	if err := os.WriteFile(filepath.Join(desktop, "xdg-open"), []byte("#!/bin/sh\necho \"$*\" > "+said+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	h := &home{t: t, data: data, settings: settings, args: []string{"run", "--config", settings, "--data", data, "--port", "0", "--listen", "127.0.0.1", "--control", "127.0.0.1:0", "--no-low-priority"}}
	h.peer = start(t, "shoal-peer", h.args...)
	h.link()
	cmd := exec.Command(filepath.Join(bin, "shoal-peer"), "open", "--config", settings, "--data", data)
	cmd.Env = append(os.Environ(), "PATH="+desktop+":"+os.Getenv("PATH"), "DISPLAY=:0")
	p := launch(t, "shoal-peer", cmd)
	<-p.done
	if text := p.out.String(); !strings.Contains(text, "The page opens in your browser.") {
		t.Fatalf("%s %s", text, p.said())
	}
	args, err := os.ReadFile(said)
	if err != nil || strings.Contains(string(args), "once") {
		t.Fatalf("the browser's command line: %s %v", args, err)
	}
	b.enter("file://"+strings.TrimSpace(string(args)), "A search company")
	if here := b.eval("location.href"); !strings.HasPrefix(here, "http://127.0.0.1:") {
		t.Errorf("the browser is at %s", here)
	}
	b.open(b.eval("location.href"), "A search company")
}
