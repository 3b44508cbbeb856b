package standstill

import (
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"
)

// TestStandstill watches a process that computes and one that sleeps.
func TestStandstill(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux counts how long a thread has waited for a processor")
	}
	const span = 300 * time.Millisecond
	w := Of(os.Getpid())
	for end := w.began.Add(span); time.Now().Before(end); { // on a processor, or waiting for one
	}
	if d, took := w.For(), time.Since(w.began); d > took/2 {
		t.Errorf("computed for %v, and stood still for %v of it", took, d)
	}

	sleeper := exec.Command("sleep", "1000")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sleeper.Process.Kill(); sleeper.Wait() })
	w = Of(sleeper.Process.Pid)
	for w.For() < span { // however many others compute
		time.Sleep(10 * time.Millisecond)
	}
	if took := time.Since(w.began); took < span {
		t.Errorf("stood still for %v within %v", span, took)
	}
	if len(w.threads) != 1 {
		t.Errorf("%d threads of sleep are seen", len(w.threads))
	}
}
