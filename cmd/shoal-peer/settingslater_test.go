package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shoal/internal/release/programs"
)

// A setting that came with an update was saved at the page of the new version. At the next start the installed one refused the file before it came to start the kept one, and so did every
// command; the same held after a fall-back.
func TestSettingsOfALaterVersion(t *testing.T) {
	defer func(was func() string) { own = was }(own)
	own = func() string { return "v1.2.0" }
	const later, sooner = "v1.3.0", "v1.1.0"
	for name, c := range map[string]struct {
		state  string
		text   string
		starts bool // this version can be told of it, and start another one
		runs   bool // and run by itself
	}{
		"no other version":   {`{}`, "threads = 3\nfancy = 1\n", false, false},
		"a kept one":         {`{"current":{"version":"` + later + `","file":"shoal-peer-` + later + `","sha256":"00"}}`, "threads = 3\nfancy = 1\n", true, true},
		"one on probation":   {`{"trial":{"version":"` + later + `","file":"shoal-peer-` + later + `","sha256":"00","from":"v1.2.0"}}`, "threads = 3\nfancy = 1\n", true, true},
		"one that fell back": {`{"refused":[{"version":"` + later + `","why":"it crashed","fell":true}]}`, "threads = 3\nfancy = 1\n", true, true},
		"one that never ran": {`{"refused":[{"version":"` + later + `","why":"its volunteer did not want it"}]}`, "threads = 3\nfancy = 1\n", false, false},
		"an earlier one":     {`{"refused":[{"version":"` + sooner + `","why":"it crashed","fell":true}]}`, "threads = 3\nfancy = 1\n", false, false},
		"a value":            {`{"current":{"version":"` + later + `","file":"shoal-peer-` + later + `","sha256":"00"}}`, "threads = 3\non_battery = \"slower\"\n", true, false},
		"a window's":         {`{"current":{"version":"` + later + `","file":"shoal-peer-` + later + `","sha256":"00"}}`, "threads = 3\n[[windows]]\nmoon = \"full\"\n", true, false},
		"not TOML":           {`{"current":{"version":"` + later + `","file":"shoal-peer-` + later + `","sha256":"00"}}`, "threads = = 3\n", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			data := t.TempDir()
			file := filepath.Join(data, "peer.toml")
			for at, text := range map[string]string{file: c.text, filepath.Join(programs.At(data).Dir, "state"): c.state} {
				if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			set, err := load(file, nil, map[string]any{"data": data})
			if (err == nil) != c.starts || c.starts && set.Threads != 3 {
				t.Fatalf("%d threads, %v; want to start: %v", set.Threads, err, c.starts)
			}
			if err == nil {
				err = set.missing()
			}
			if (err == nil) != c.runs {
				t.Errorf("runs: %v, want %v", err, c.runs)
			}
			if c.runs && strings.Join(set.passed, " ") != "fancy" {
				t.Errorf("passed over: %q", set.passed)
			}
			if _, err := load(file, []string{"SHOAL_PEER_FANCY=1"}, map[string]any{"data": data}); err == nil {
				t.Error("a variable that is no setting was passed over")
			}
		})
	}
}
