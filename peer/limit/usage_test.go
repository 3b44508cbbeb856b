package limit

import (
	"os"
	"path/filepath"
	"strings"
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

// A count that a crash has damaged begins anew and says so; the damaged file is kept.
func TestDamagedUsageIsTold(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", `{"month_begins":3,"day_by`, "\x00\x00\x00\x00"} {
		path := filepath.Join(t.TempDir(), "usage.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		u, err := OpenUsage(path, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		if err := u.Damaged(); err == nil || !strings.Contains(err.Error(), path+".damaged") {
			t.Errorf("%q: %v", text, err)
		}
		if b, err := os.ReadFile(path + ".damaged"); err != nil || string(b) != text {
			t.Errorf("%q is kept as %q, %v", text, b, err)
		}
		if u, err = OpenUsage(path, time.Now); err != nil || u.Damaged() != nil {
			t.Errorf("the next start: %v, %v", err, u.Damaged())
		}
	}
}
