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

// TestCopyOfAFolderBehindALink: a data folder that is a link, as that of a service is, is copied whole, and what a copy would leave out is an error.
func TestCopyOfAFolderBehindALink(t *testing.T) {
	dir := t.TempDir()
	real, link, to := filepath.Join(dir, "private", "shoal"), filepath.Join(dir, "shoal"), filepath.Join(dir, "to")
	if err := os.MkdirAll(filepath.Join(real, "keys"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(real, "keys", "root.key"), []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for at, of := range map[string]string{link: real, filepath.Join(real, "token"): filepath.Join(real, "keys", "root.key"), filepath.Join(real, "none"): filepath.Join(dir, "none")} {
		if err := os.Symlink(of, at); err != nil {
			t.Skip(err)
		}
	}
	if err := CopyTree(t.Context(), link, to); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"keys/root.key", "token"} {
		if text, err := os.ReadFile(filepath.Join(to, name)); err != nil || string(text) != "secret" {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
	if err := os.Symlink(filepath.Join(real, "keys"), filepath.Join(real, "releases")); err != nil {
		t.Fatal(err)
	}
	if err := CopyTree(t.Context(), link, filepath.Join(dir, "again")); err == nil || !strings.Contains(err.Error(), "releases is a link") {
		t.Errorf("a link to a folder: %v", err)
	}
	if err := CopyTree(t.Context(), link, filepath.Join(dir, "but"), "rel*"); err != nil {
		t.Error(err)
	}
}

// TestRestoreSaysHowToEmptyTheFolder: the folder of a service is a link, which must stay: who put a folder in its place could not start the service any more.
func TestRestoreSaysHowToEmptyTheFolder(t *testing.T) {
	dir := t.TempDir()
	real, link := filepath.Join(dir, "private", "shoal"), filepath.Join(dir, "shoal")
	if err := os.MkdirAll(filepath.Join(real, "archive"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(real, link); err != nil {
		t.Skip(err)
	}
	for data, want := range map[string]string{link: "leave the folder itself, a link", real: "or name a new data folder with --data"} {
		restore := Restore{From: dir, Data: data}
		if err := restore.Run(t.Context(), IO{}); err == nil || !strings.Contains(err.Error(), "move what is in it elsewhere") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", data, err)
		}
	}
}
