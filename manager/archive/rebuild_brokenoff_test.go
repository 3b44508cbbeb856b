package archive

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestLedgerThatKnowsNothing opens an archive whose database is gone, and one whose rebuild was broken off. Both refuse and say what to do, and no file is removed;
// a rebuild brings every page back.
func TestLedgerThatKnowsNothing(t *testing.T) {
	for what, lose := range map[string]func(t *testing.T, cfg Config){
		"the database is gone": func(t *testing.T, cfg Config) {
			if err := os.RemoveAll(filepath.Join(cfg.Dir, "state")); err != nil {
				t.Fatal(err)
			}
		},
		"a rebuild was broken off": func(t *testing.T, cfg Config) {
			if err := os.WriteFile(filepath.Join(cfg.Dir, "state", "MANIFEST"), []byte("no manifest"), 0o640); err != nil {
				t.Fatal(err)
			}
			stopped, stop := context.WithCancel(t.Context())
			stop()
			if _, err := Rebuild(stopped, cfg); !errors.Is(err, context.Canceled) {
				t.Fatalf("broken off: %v", err)
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			a, _ := aged(t, t.TempDir())
			if err := a.Close(); err != nil {
				t.Fatal(err)
			}
			before := warcFiles(t, a)
			lose(t, a.cfg)
			for range 2 {
				opened, err := Open(t.Context(), a.cfg)
				if err == nil {
					err = opened.Close()
				}
				if !errors.Is(err, ErrState) || !strings.Contains(err.Error(), "repair --rebuild") {
					t.Errorf("opened: %v", err)
				}
			}
			if now := warcFiles(t, a); !slices.Equal(now, before) {
				t.Fatalf("files %q, before %q", now, before)
			}
			if got, err := Rebuild(t.Context(), a.cfg); err != nil || got.Pages != 4 || got.Captures != 40 {
				t.Fatalf("rebuild: %+v, %v", got, err)
			}
			clean(t, open(t, a.cfg))
		})
	}
}
