//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestNoSecretOnACommandLine: the browser is started with the name of a file that only this user can read. A link on its command line could be read by every
// user of the computer, who could enter before the browser does.
func TestNoSecretOnACommandLine(t *testing.T) {
	const link = "http://127.0.0.1:7781/enter?once=0123&<"
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("DISPLAY", ":0")
	t.Setenv("PATH", home+":/bin:/usr/bin")
	said := filepath.Join(home, "said")
	for name, text := range map[string]string{"xdg-open": `echo "$@" > ` + said + ".x; mv " + said + ".x " + said, "xdg-settings": `cat ` + filepath.Join(home, "browser")} {
		if err := os.WriteFile(filepath.Join(home, name), []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	common := filepath.Join(home, "snap", "firefox", "common")
	if err := os.MkdirAll(common, 0o755); err != nil {
		t.Fatal(err)
	}
	for browser, below := range map[string]string{"firefox.desktop": filepath.Join(home, ".local", "data"), "": filepath.Join(home, ".local", "data"), "firefox_firefox.desktop": common, "chromium_chromium.desktop": filepath.Join(home, ".local", "data")} {
		if err := os.WriteFile(filepath.Join(home, "browser"), []byte(browser+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := browse(t.Context(), filepath.Join(home, ".local", "data"), link); err != nil {
			t.Fatal(err)
		}
		var args []byte
		for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
			var err error
			if args, err = os.ReadFile(said); err == nil {
				break
			}
			if time.Now().After(end) {
				t.Fatal("no browser was started")
			}
		}
		os.Remove(said)
		file := strings.TrimSpace(string(args))
		if strings.Contains(file, "once") || !strings.HasPrefix(file, below+"/") {
			t.Errorf("%q is opened with %s", browser, file)
			continue
		}
		b, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(b), `url=http://127.0.0.1:7781/enter?once=0123&amp;&lt;"`) {
			t.Errorf("%v: %s", err, b)
		}
		st, err := os.Stat(file)
		if err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("%v %v", st.Mode(), err)
		}
		if st, err = os.Stat(filepath.Dir(file)); err != nil || st.Mode().Perm() != 0o700 {
			t.Errorf("%v %v", st.Mode(), err)
		}
	}
}
