package archivecmd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A backup into the data folder, by any path, is refused before anything is written.
func TestBackupIntoTheDataFolderIsRefused(t *testing.T) {
	root := t.TempDir()
	data := filepath.Join(root, "data")
	if err := os.MkdirAll(filepath.Join(data, "archive"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(data, filepath.Join(root, "link")); err != nil {
		t.Skipf("no symbolic links here: %v", err)
	}
	for _, dir := range []string{"data/backup", "data/a/b/c", "data/archive/x", "link/backup", "data/../data/backup", "data"} {
		dir = filepath.Join(root, filepath.FromSlash(dir))
		made := false
		err := Whole(data, dir, func(string) error { made = true; return nil })
		if err == nil || !strings.Contains(err.Error(), "lies in the data folder") || made {
			t.Errorf("%s: %v, made %v", dir, err, made)
		}
	}
	for _, dir := range []string{"backup", "data2", "deep/er/backup"} {
		if err := Whole(data, filepath.Join(root, dir), func(string) error { return nil }); err != nil {
			t.Errorf("%s: %v", dir, err)
		}
	}
}
