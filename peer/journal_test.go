package peer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shoal/peer/crawl"
)

func lines(t *testing.T, j *Journal, n int, match string) (out []string) {
	t.Helper()
	entries, err := j.Log(Want{Newest: n, Match: match})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		b, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(b))
	}
	return out
}

func visit(n int, at time.Time) crawl.Visit {
	return crawl.Visit{URL: fmt.Sprintf("http://a.test/%06d", n), At: at, Status: 200, Bytes: n}
}

// TestJournalOutlivesKills goes on behind a line that a killed process or a full disk cut short, and shows all that are whole.
func TestJournalOutlivesKills(t *testing.T) {
	dir := t.TempDir()
	now := time.Now().UTC()
	j, err := OpenJournal(dir)
	if err != nil {
		t.Fatal(err)
	}
	j.visit("net", visit(1, now))
	j.visit("net", visit(2, now))
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, now.Format(time.DateOnly)+".jsonl")
	st, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, st.Size()-10); err != nil {
		t.Fatal(err)
	}
	if j, err = OpenJournal(dir); err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	j.visit("net", visit(3, now))
	if got := lines(t, j, 10, ""); len(got) != 2 || !strings.Contains(got[0], "/000001") || !strings.Contains(got[1], "/000003") {
		t.Errorf("%q", got)
	}
	// A folder that takes nothing for a while.
	j.drop()
	if err := os.Rename(dir, dir+"-away"); err != nil {
		t.Fatal(err)
	}
	j.visit("net", visit(4, now))
	if j.Err() == nil {
		t.Error("nothing was written, and nothing said")
	}
	if err := os.Rename(dir+"-away", dir); err != nil {
		t.Fatal(err)
	}
	j.visit("net", visit(5, now))
	if got := lines(t, j, 10, ""); j.Err() != nil || len(got) != 3 || !strings.Contains(got[2], "/000005") {
		t.Errorf("%v, %q", j.Err(), got)
	}
}

// TestJournalKeepsItsSize writes more than may be kept within one day, and what is older than 30 days.
func TestJournalKeepsItsSize(t *testing.T) {
	dir := t.TempDir()
	now := time.Now().UTC()
	old := filepath.Join(dir, now.AddDate(0, 0, -JournalDays-1).Format(time.DateOnly)+".jsonl")
	if err := os.WriteFile(old, []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	j, err := OpenJournal(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	v := visit(0, now)
	v.URL = "http://a.test/" + strings.Repeat("x", 64<<10)
	const n = JournalBytes/(64<<10) + 200
	for i := range n {
		v.Bytes = i
		j.visit("net", v)
	}
	j.visit("net", visit(7, now))
	if got := lines(t, j, 2, ""); len(got) != 2 || !strings.Contains(got[1], "/000007") || !strings.Contains(got[0], fmt.Sprintf(`"bytes":%d,`, n-1)) {
		t.Errorf("%d lines at the end", len(got))
	}
	total, files := int64(0), 0
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		st, err := f.Info()
		if err != nil {
			t.Fatal(err)
		}
		total, files = total+st.Size(), files+1
	}
	if total > JournalBytes || total < JournalBytes*3/4 || files < 4 {
		t.Errorf("%d bytes in %d files", total, files)
	}
	if _, err := os.Stat(old); err == nil {
		t.Error("what is too old is kept")
	}
}

// TestLogIsInOrder: fetches of several hosts end in another order than they begin. The log has them by their beginning, and from a moment on.
func TestLogIsInOrder(t *testing.T) {
	now := time.Now().UTC().Truncate(time.Hour)
	j, err := OpenJournal(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	for _, n := range []int{3, 1, 2, 5, 4} {
		j.visit("net", visit(n, now.Add(time.Duration(n)*time.Second)))
	}
	entries, err := j.Log(Want{Since: now.Add(2 * time.Second)})
	if err != nil || len(entries) != 4 {
		t.Fatal(entries, err)
	}
	for i, e := range entries {
		if e.Bytes != i+2 {
			t.Errorf("entry %d is of fetch %d", i, e.Bytes)
		}
	}
	var e Entry
	if err := json.Unmarshal([]byte(`{"at":"2026-03-01T12:00:00Z","url":"http://a.test/","took_ms":1500}`), &e); err != nil || e.TookS != 1.5 || e.URL == "" {
		t.Errorf("a line of the version before: %+v, %v", e, err)
	}
}

// TestLogIsFollowed: who follows sees each new entry once, over a file that is full, and nothing of before.
func TestLogIsFollowed(t *testing.T) {
	dir, now := t.TempDir(), time.Now().UTC()
	j, err := OpenJournal(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	j.visit("net", visit(0, now))
	reader, err := OpenJournal(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Flush(); err != nil {
		t.Fatal(err)
	}
	tail, err := reader.Tail()
	if err != nil {
		t.Fatal(err)
	}
	const n = 6
	next, end := 1, errors.New("enough")
	write := func() {
		j.visit("net", visit(next, now))
		if next == n/2 { // the file is put aside, and another one begins
			j.mu.Lock()
			if err := j.next(); err != nil {
				t.Error(err)
			}
			j.mu.Unlock()
		}
		if err := j.Flush(); err != nil {
			t.Error(err)
		}
	}
	write()
	err = tail.Follow(t.Context(), Want{}, func(e Entry) error {
		if e.Bytes != next {
			t.Errorf("entry of fetch %d, want %d", e.Bytes, next)
		}
		if next++; next > n {
			return end
		}
		write()
		return nil
	})
	if !errors.Is(err, end) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if tail, err = reader.Tail(); err != nil {
		t.Fatal(err)
	}
	if err := tail.Follow(ctx, Want{}, func(e Entry) error { return fmt.Errorf("an entry of before: %+v", e) }); err != nil {
		t.Error(err)
	}
}

// TestLogIsFollowedAfterAClockThatWasAhead: who follows sees what is fetched now although there is a file of a day to come, and what ends after midnight of what began
// before.
func TestLogIsFollowedAfterAClockThatWasAhead(t *testing.T) {
	now := time.Now().UTC()
	j, err := OpenJournal(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	j.visit("net", visit(0, now.AddDate(0, 3, 0)))
	tail, err := j.Tail()
	if err != nil {
		t.Fatal(err)
	}
	for i, at := range []time.Time{now, now.AddDate(0, 0, 1), now} {
		j.visit("net", visit(i+1, at))
	}
	if err := j.Flush(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	end, seen := errors.New("enough"), map[int]int{}
	err = tail.Follow(ctx, Want{}, func(e Entry) error {
		if seen[e.Bytes]++; len(seen) == 3 {
			return end
		}
		return nil
	})
	if !errors.Is(err, end) || seen[0] != 0 || seen[1] != 1 || seen[2] != 1 || seen[3] != 1 {
		t.Errorf("%v, %v", err, seen)
	}
}
