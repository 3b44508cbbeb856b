package member

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestEarlierKeys follows a key folder over rotations: what the manager worked under before is remembered from when it last did so, however long before that
// the newer key was made, and whether or not the keys between were ever used.
func TestEarlierKeys(t *testing.T) {
	dir := t.TempDir()
	k, err := LoadOrCreate(dir, t0)
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Begin(t0); err != nil || len(k.Earlier()) != 0 {
		t.Fatalf("a new network has %d earlier keys, %v", len(k.Earlier()), err)
	}
	for range 2 * maxEarlier {
		if _, err := Rotate(dir, t0.Add(time.Hour), false); err != nil {
			t.Fatal(err)
		}
	}
	reload := func(now time.Time) *Keys {
		t.Helper()
		k, err := LoadOrCreate(dir, now)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	if n := len(reload(t0.Add(time.Hour)).Earlier()); n != maxEarlier {
		t.Errorf("%d earlier keys are kept, at most %d", n, maxEarlier)
	}

	dir = t.TempDir()
	if k, err = LoadOrCreate(dir, t0); err != nil {
		t.Fatal(err)
	}
	first := k.Authority.Sealed()
	for range 2 {
		if _, err := Rotate(dir, t0.Add(time.Hour), false); err != nil {
			t.Fatal(err)
		}
	}
	start := t0.Add(100 * 24 * time.Hour) // it has run under the first key until now
	k = reload(start)
	if all := k.Earlier(); len(all) != 2 || string(all[0].Delegation) != string(first) || !all[0].Until.IsZero() {
		t.Fatalf("before the start: %+v", all)
	}
	if err := k.Begin(start); err != nil {
		t.Fatal(err)
	}
	again := reload(start.Add(24 * time.Hour))
	if err := again.Begin(start.Add(24 * time.Hour)); err != nil {
		t.Fatal(err)
	}
	if all := again.Earlier(); len(all) != 2 || !all[0].Until.Equal(start) {
		t.Errorf("after two starts: %+v, want that it was used until %v", all, start)
	}
	again = reload(start.Add(RenewalLife))
	if err := again.Begin(start.Add(RenewalLife)); err != nil {
		t.Fatal(err)
	}
	if all := again.Earlier(); len(all) != 1 || string(all[0].Delegation) == string(first) || !all[0].Until.Equal(start) {
		t.Errorf("after long: %+v", all)
	}
	if again, err = Rotate(dir, start, true); err != nil || len(again.Earlier()) != 0 || len(reload(start).Earlier()) != 0 {
		t.Errorf("after a theft: %+v, %v", again.Earlier(), err)
	}
}

// TestEarlierKeysOfBefore begins with a folder of version 0.1.0, which knows of the last key only, and restores a backup over one.
func TestEarlierKeysOfBefore(t *testing.T) {
	dir := t.TempDir()
	k, err := LoadOrCreate(dir, t0)
	if err != nil {
		t.Fatal(err)
	}
	first := k.Authority.Sealed()
	if _, err := Rotate(dir, t0.Add(time.Hour), false); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, fileEarlier)); err != nil {
		t.Fatal(err)
	}
	if k, err = LoadOrCreate(dir, t0.Add(72*time.Hour)); err != nil {
		t.Fatal(err)
	}
	if err := k.Begin(t0.Add(72 * time.Hour)); err != nil {
		t.Fatal(err)
	}
	if all := k.Earlier(); len(all) != 1 || string(all[0].Delegation) != string(first) || !all[0].Until.Equal(t0.Add(72*time.Hour)) {
		t.Errorf("%+v", all)
	}
	backup, err := k.Backup()
	if err != nil {
		t.Fatal(err)
	}
	if _, kept, err := Restore(dir, backup, t0.Add(80*time.Hour)); err != nil || !kept {
		t.Fatal(kept, err)
	}
	if k, err = LoadOrCreate(dir, t0.Add(80*time.Hour)); err != nil || len(k.Earlier()) != 1 {
		t.Errorf("the keys in use were restored: %+v, %v", k.Earlier(), err)
	}
	dir = t.TempDir()
	if _, kept, err := Restore(dir, backup, t0.Add(80*time.Hour)); err != nil || kept {
		t.Fatal(kept, err)
	}
	if k, err = LoadOrCreate(dir, t0.Add(81*time.Hour)); err != nil {
		t.Fatal(err)
	}
	if err := k.Begin(t0.Add(81 * time.Hour)); err != nil || len(k.Earlier()) != 0 {
		t.Errorf("the disk of a backup that is restored may be in others' hands: %+v, %v", k.Earlier(), err)
	}
	if err := os.WriteFile(filepath.Join(dir, fileEarlier), []byte("rubbish\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadOrCreate(dir, t0.Add(81*time.Hour)); err == nil {
		t.Error("a file that is none is read")
	}
}
