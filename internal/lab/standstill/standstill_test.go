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

// TestMachineThatIsShortOfProcessors has more processes compute than there are processors: meanwhile the machine does not stand still.
func TestMachineThatIsShortOfProcessors(t *testing.T) {
	if processors() == 0 {
		t.Skip("this kernel does not tell how long threads wait for a processor")
	}
	const span = time.Second
	for range 2 * runtime.NumCPU() {
		busy := exec.Command("sh", "-c", "while :; do :; done")
		if err := busy.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { busy.Process.Kill(); busy.Wait() })
	}
	w := OfMachine()
	time.Sleep(span)
	if d, took := w.For(), time.Since(w.began); d > took/2 {
		t.Errorf("processors were short for %v, and the machine stood still for %v of it", took, d)
	}
}
