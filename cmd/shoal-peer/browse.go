package main

import (
	"context"
	"errors"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"

	"shoal/internal/member"
)

// browse has the system's browser open a link that lets in whoever has it. Command lines can be read by every user of the computer, so that the browser is
// handed a file that only this user can read, which leads on.
func browse(ctx context.Context, data, link string) error {
	if runtime.GOOS != "windows" && runtime.GOOS != "darwin" && os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
		return errors.New("no screen")
	}
	dir := data
	if runtime.GOOS == "linux" {
		if snap := snapFolder(defaultBrowser(ctx)); snap != "" {
			dir = snap
		}
	}
	file, err := leadOn(dir, link)
	if err != nil {
		return err
	}
	name, args := "xdg-open", []string{file}
	switch runtime.GOOS {
	case "darwin":
		name = "open"
	case "windows":
		name, args = "rundll32", []string{"url.dll,FileProtocolHandler", file}
	}
	cmd := exec.Command(name, args...)
	if err := cmd.Start(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	select {
	case err := <-done:
		return err
	case <-time.After(3 * time.Second): // it runs
		return nil
	}
}

// leadOn writes a file for this user alone, which leads a browser to a link. It stays until the next one: its link is good once.
func leadOn(dir, link string) (file string, err error) {
	if dir, err = filepath.Abs(filepath.Join(dir, "open")); err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	file = filepath.Join(dir, "open.html")
	to := html.EscapeString(link)
	return file, member.WriteFile(file, fmt.Appendf(nil, `<!DOCTYPE html>
<html lang="en"><meta charset="utf-8"><meta name="referrer" content="no-referrer"><meta http-equiv="refresh" content="0; url=%s"><title>shoal-peer</title>
<p><a href="%s">shoal-peer</a></p></html>
`, to, to))
}

// defaultBrowser is the name by which the desktop knows the user's browser, such as firefox_firefox.desktop; empty: it does not say.
func defaultBrowser(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "xdg-settings", "get", "default-web-browser").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// snapNames are the names under which programs that came as a snap stand on the desktop: the snap's and the program's.
var snapNames = regexp.MustCompile(`^([a-z0-9-]+)_[A-Za-z0-9-]+\.desktop$`)

// snapFolder is a folder which a browser that came as a snap can read: hidden ones, as the peer's, it cannot. Empty: it is no snap.
func snapFolder(browser string) string {
	m := snapNames.FindStringSubmatch(browser)
	home, err := os.UserHomeDir()
	if m == nil || err != nil {
		return ""
	}
	dir := filepath.Join(home, "snap", m[1], "common")
	if st, err := os.Stat(dir); err != nil || !st.IsDir() {
		return ""
	}
	return filepath.Join(dir, "shoal-peer")
}
