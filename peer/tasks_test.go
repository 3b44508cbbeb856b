package peer

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shoal/peer/queue"
)

// A task's file that a crash has damaged is dropped, and the log says so.
func TestDamagedTaskIsTold(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "half of a ta", strings.Repeat("x", 1<<20)} {
		dir := t.TempDir()
		path := filepath.Join(dir, "00000000000000a1"+claimedSuffix)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		q := newTasks(queue.Default(), dir, nil, slog.New(slog.NewTextHandler(&log, nil)))
		q.reload(time.Now())
		if !strings.Contains(log.String(), path) {
			t.Errorf("a file of %d bytes: the log says %q", len(text), &log)
		}
		if _, err := os.Stat(path); !os.IsNotExist(err) || q.onDisk() != 0 {
			t.Errorf("a file of %d bytes remains: %v, %d tasks", len(text), err, q.onDisk())
		}
	}
}
