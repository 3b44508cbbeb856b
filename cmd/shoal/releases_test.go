package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shoal/internal/release"
	"shoal/internal/wire"
)

// TestReportsAreKeptWithNews writes the book of who runs which version when a report says something new, and once a day where peers only say the same again.
func TestReportsAreKeptWithNews(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	data := t.TempDir()
	r, err := openReleases(data, slog.New(slog.DiscardHandler), func(string) string { return "10.0.0.0/24" }, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(data, "releases.json")
	wrote := func(after time.Duration, version string) (bool, string) {
		t.Helper()
		_ = os.Remove(file) // there is none the first time
		now = now.Add(after)
		if version != "" {
			r.Told(wire.Member{Account: "Ali"}, release.Report{Version: version})
		}
		r.keep()
		b, err := os.ReadFile(file)
		return err == nil, string(b)
	}
	for _, c := range []struct {
		why     string
		after   time.Duration
		version string
		want    bool
	}{
		{"nothing was heard", 48 * time.Hour, "", false},
		{"the first report", 10 * time.Minute, "v1.0.0", true},
		{"the same again", 10 * time.Minute, "v1.0.0", false},
		{"and again", 10 * time.Hour, "v1.0.0", false},
		{"a new version, a moment later", time.Second, "v1.1.0", true},
		{"back, too early to write", time.Second, "v1.0.0", false},
		{"later", bookEvery, "", true},
		{"the same, a day later", heardEvery, "v1.0.0", true},
	} {
		got, text := wrote(c.after, c.version)
		if got != c.want || got && !strings.Contains(text, now.Add(-c.after).Format("2006-01-02")) && !strings.Contains(text, now.Format("2006-01-02")) {
			t.Errorf("%s: written %v: %s", c.why, got, text)
		}
	}
}
