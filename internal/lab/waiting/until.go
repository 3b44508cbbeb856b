package waiting

import (
	"testing"
	"time"

	"shoal/internal/lab/standstill"
)

// patience is how long a test waits for what several programs do together: by the clock, and in time in which no thread on the machine waited for a processor or
// a disk. On a busy machine a test waits until it is quiet, or package testing's limit ends it.
const patience = 2 * time.Minute

// Until waits until a condition holds, and fails the test if it does not come. The test's last words are what it waited for, and what state says.
func Until(t testing.TB, what string, holds func() bool, state ...func() string) {
	t.Helper()
	w, end := standstill.OfMachine(), time.Now().Add(patience)
	for !holds() {
		if time.Now().After(end) && w.For() >= patience {
			for _, say := range state {
				what += "; " + say()
			}
			t.Fatalf("never: %s", what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
