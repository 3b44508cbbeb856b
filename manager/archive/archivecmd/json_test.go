package archivecmd

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestJSON runs every command with --json. What is printed is one object a line, with keys as everywhere: lower-case words with underscores.
func TestJSON(t *testing.T) {
	data := stored(t)
	backup, fresh := filepath.Join(t.TempDir(), "backup"), filepath.Join(t.TempDir(), "fresh")
	file := filepath.Join(t.TempDir(), "export")
	for _, c := range []struct {
		args string
		keys string // some that must be there
	}{
		{"get " + site, "url fetched status mime bytes body"},
		{"export -o " + file, "next"},
		{"archive verify", "files records problems"},
		{"archive compact", "forgotten compacted"},
		{"archive compact --captures 1 --dry-run", "forgotten compacted dry_run"},
		{"archive repair", "problems captures_forgotten pages_to_fetch files_cut"},
		{"archive cdx", "urlkey timestamp url mime status digest length offset filename"},
		{"archive stats", "pages files text_delay_s"},
		{"backup " + backup, "folder"},
		{"restore " + backup + " --data " + fresh, "folder"},
	} {
		out, _, err := shoal(t, data, append(strings.Fields(c.args), "--json")...)
		if err != nil {
			t.Errorf("%s: %v", c.args, err)
			continue
		}
		for line := range strings.Lines(out) {
			var got map[string]any
			if err := json.Unmarshal([]byte(line), &got); err != nil {
				t.Errorf("%s: %q: %v", c.args, line, err)
			}
			for _, key := range strings.Fields(c.keys) {
				if _, ok := got[key]; !ok {
					t.Errorf("%s: no %q in %s", c.args, key, line)
				}
			}
			for key := range got {
				if !regexp.MustCompile(`^[a-z][a-z0-9_]*$`).MatchString(key) {
					t.Errorf("%s: key %q", c.args, key)
				}
			}
			if at, ok := got["fetched"].(string); ok {
				if _, err := time.Parse(time.RFC3339, at); err != nil {
					t.Errorf("%s: %v", c.args, err)
				}
			}
		}
		if out == "" {
			t.Errorf("%s: nothing is printed", c.args)
		}
	}
}
