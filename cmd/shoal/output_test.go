package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shoal/internal/lab/nospace"
	"shoal/internal/member"
)

// TestAnswersThatCannotBeWritten: a command whose answer goes nowhere fails, and says why.
func TestAnswersThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	cfg := stationForTest(t)
	st, err := openStation(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := st.close(); err != nil {
		t.Fatal(err)
	}
	if _, err := member.LoadOrCreate(filepath.Join(cfg.data, "keys"), time.Now()); err != nil {
		t.Fatal(err)
	}
	of := " --data " + cfg.data
	for _, args := range []string{"version", "version --json", "man", "completion bash", "completion fish", "key show" + of, "key show --json" + of, "key backup" + of,
		"check" + of, "check --json" + of, "channel list" + of, "channel list --json" + of, "host list" + of, "archive stats" + of} {
		var said strings.Builder
		if code := run(t.Context(), strings.Fields(args), streams{nospace.Output{}, &said}); code != 1 || !strings.Contains(said.String(), nospace.Err.Error()) {
			t.Errorf("shoal %s: status %d: %s", args, code, &said)
		}
	}
}
