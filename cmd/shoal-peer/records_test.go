package main

import (
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"shoal/peer/words"
)

// TestTroubleInEachLanguage: each warning that a running peer may log has words in German, which health shows, and which are the message itself in English.
func TestTroubleInEachLanguage(t *testing.T) {
	message := regexp.MustCompile(`\.(?:Warn|Error)\((?:ctx, )?"([^"]+)"[,)]`)
	apart := []string{"cmd/shoal-peer/launch.go", "cmd/shoal-peer/servicerun.go"} // programs of their own, which show no page
	root, n := os.DirFS("../.."), 0
	for _, dir := range []string{"cmd/shoal-peer", "peer", "internal/wire", "overlay/p2p"} {
		if err := fs.WalkDir(root, dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || slices.Contains(apart, path) {
				return err
			}
			text, err := fs.ReadFile(root, path)
			for _, m := range message.FindAllStringSubmatch(string(text), -1) {
				n++
				if says := words.T("trouble." + m[1]); !words.Has(says.Key) || says.In("en") != m[1] {
					t.Errorf("%s: %q has no words of its own: give it some in peer/words", path, m[1])
				}
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	if n < 30 {
		t.Errorf("only %d messages were found", n)
	}
	now := time.Now()
	for what, want := range map[string]string{"usage not kept": "Der Verbrauch ist nicht gespeichert", "odd": "im Log auf Englisch: odd"} {
		if says := troubleSays(what, words.Moment(now, now)).In("de"); !strings.Contains(says, want) {
			t.Errorf("%q: %q, want %q in it", what, says, want)
		}
	}
}
