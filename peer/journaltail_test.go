package peer

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestLogIsFollowedInAReusedFile: many systems give the number of a file that was dropped to the next that is made, which is read from its beginning all the same.
func TestLogIsFollowedInAReusedFile(t *testing.T) {
	now := time.Now().UTC()
	dir := t.TempDir()
	j, err := OpenJournal(dir)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 9 {
		j.visit("net", visit(i, now.AddDate(0, 0, -3)))
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if j, err = OpenJournal(dir); err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	tail, err := j.Tail()
	if err != nil {
		t.Fatal(err)
	}
	// The oldest file goes, and today's gets its number.
	old, today := filepath.Join(dir, now.AddDate(0, 0, -3).Format(time.DateOnly)+".jsonl"), filepath.Join(dir, now.Format(time.DateOnly)+".jsonl")
	if err := os.Truncate(old, 0); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(old, today); err != nil {
		t.Fatal(err)
	}
	j.visit("net", visit(77, now))
	if err := j.Flush(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	end := errors.New("enough")
	err = tail.Follow(ctx, Want{}, func(e Entry) error {
		if e.Bytes != 77 {
			t.Errorf("entry of fetch %d", e.Bytes)
		}
		return end
	})
	if !errors.Is(err, end) {
		t.Errorf("no line is shown of a file that has the number of a dropped one: %v", err)
	}
}
