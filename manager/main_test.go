package manager

import (
	"os"
	"testing"

	"shoal/internal/lab/waiting"
)

// TestMain runs several tests at once on each processor: a manager of a few channels waits for their next crawls.
func TestMain(m *testing.M) { os.Exit(waiting.Run(m, 4)) }
