package limit

import (
	"path/filepath"
	"testing"
	"time"
)

// TestMonthKeepsWhatWasCounted: a network's count that is told on which day the computer's month begins loses none of what it has.
func TestMonthKeepsWhatWasCounted(t *testing.T) {
	now := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	for begins := range 28 {
		for other := range 28 {
			dir := t.TempDir()
			all, one := opened(t, filepath.Join(dir, "usage.json"), begins+1, clock), opened(t, filepath.Join(dir, "share.json"), other+1, clock)
			one.add(1000)
			one.Count(now, Tally{Pages: 3})
			one.Begin(all)
			one.add(10)
			if day, month := one.Used(now); day != 1010 || month != 1010 {
				t.Fatalf("%d, then %d: %d today, %d in the month; want 1010", other+1, begins+1, day, month)
			}
			if err := one.Save(); err != nil {
				t.Fatal(err)
			}
			if d := one.Done(now); d.Month.Pages != 3 || d.Month.Bytes != 1010 {
				t.Fatalf("%d, then %d: %+v", other+1, begins+1, d.Month)
			}
			_, term := all.Times(now)
			if _, month := one.Used(term.Ends); month != 0 {
				t.Fatalf("%d, then %d: %d in the month after", other+1, begins+1, month)
			}
		}
	}
}

// opened is a count whose month begins on a day.
func opened(t *testing.T, path string, begins int, now func() time.Time) *Usage {
	t.Helper()
	u, err := OpenUsage(path, now)
	if err != nil {
		t.Fatal(err)
	}
	u.u.Begins = begins
	u.u.Month = ""
	u.u.turn(now())
	return u
}
