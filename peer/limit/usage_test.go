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

// TestCountsOutliveAWrongClock: a clock that is wrong for a while and set right does not begin the budgets anew, also over restarts; days that pass do.
func TestCountsOutliveAWrongClock(t *testing.T) {
	right := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		what  string
		wrong time.Time
		month int64 // that is told while the clock is wrong
	}{
		{"an hour over midnight", right.Add(13 * time.Hour), 1020},
		{"a month ahead", right.AddDate(0, 1, 0), 20},
		{"a year back", right.AddDate(-1, 0, 0), 20},
		{"1970", time.Unix(60, 0).UTC(), 20},
		{"ten years ahead", right.AddDate(10, 0, 0), 20},
	} {
		now := right
		clock := func() time.Time { return now }
		path := filepath.Join(t.TempDir(), "usage.json")
		u := opened(t, path, 10, clock)
		again := func() {
			t.Helper()
			if err := u.Save(); err != nil {
				t.Fatal(err)
			}
			var err error
			if u, err = OpenUsage(path, clock); err != nil {
				t.Fatal(err)
			}
		}
		counts := func(what string, day, month, pages int64) {
			t.Helper()
			again()
			d, m := u.Used(now)
			if done := u.Done(now); d != day || m != month || done.Today.Bytes != day || done.Month.Bytes != month || done.Today.Pages != pages {
				t.Errorf("%s, %s: %d today, %d in the month, %+v; want %d, %d and %d pages", c.what, what, d, m, done, day, month, pages)
			}
		}
		u.add(1000)
		u.Count(now, Tally{Pages: 3})
		again()
		now = c.wrong
		u.Used(now)
		u.add(20)
		u.Count(now, Tally{Pages: 1})
		counts("wrong", 20, c.month, 1)
		now = right.Add(time.Hour)
		counts("right again", 1020, 1020, 4)
		now = right.Add(24 * time.Hour)
		counts("a day later", 0, 1020, 0)
		now = right.Add(24*time.Hour - 13*time.Hour) // a little back over midnight
		counts("a little back", 1020, 1020, 4)
		now = right.Add(24 * time.Hour)
		counts("after that", 0, 1020, 0)
		now = right.AddDate(0, 0, 20)
		counts("in the month after", 0, 0, 0)
	}
}

// TestClockThatBeganAhead: what was counted in a day that had not come yet does not fill the budget of that day with all of the day before it.
func TestClockThatBeganAhead(t *testing.T) {
	now := time.Date(2026, 11, 25, 1, 0, 0, 0, time.UTC)
	u := opened(t, filepath.Join(t.TempDir(), "usage.json"), 10, func() time.Time { return now })
	u.add(20)
	now = now.Add(-2 * time.Hour)
	u.Used(now)
	u.add(1000)
	now = now.Add(2 * time.Hour)
	if day, month := u.Used(now); day != 20 || month != 1020 {
		t.Errorf("%d today, %d in the month; want 20 and 1020", day, month)
	}
}

// TestCountsWithoutRoom: counting begins although the disk takes nothing, and is kept once it does.
func TestCountsWithoutRoom(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gone")
	path := filepath.Join(dir, "usage.json")
	u, err := OpenUsage(path, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	u.add(10)
	if !u.Changed() || u.Save() == nil {
		t.Error("it is kept in a folder that is not there")
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := u.Save(); err != nil || u.Changed() {
		t.Error(err)
	}
	if u, err = OpenUsage(path, time.Now); err != nil {
		t.Fatal(err)
	}
	if day, _ := u.Used(time.Now()); day != 10 {
		t.Errorf("%d bytes today, want 10", day)
	}
}
