package peer

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"shoal/channel"
	"shoal/peer/crawl"
)

// TestFoldersOfAnyName: a data folder whose name has characters that mean something in patterns is one like others: what was fetched is found, and leaving leaves.
func TestFoldersOfAnyName(t *testing.T) {
	names := []string{"plain", "a[bc]", "[", "b]"}
	if runtime.GOOS != "windows" {
		names = append(names, "what?", "all*", `back\slash\`)
	}
	for _, name := range names {
		dir := filepath.Join(t.TempDir(), name)
		h := channel.Header{Channel: 7, Gen: 3}
		files := []string{"membership", "members.json", pauseFile, filepath.Join("tasks", "one"+claimedSuffix), filepath.Join("spool", "pages-0000000000000007-0000000000000003-00000000"),
			filepath.Join("spool", "pages-0000000000000007-0000000000000002-00000000"), filepath.Join("spool", "todo-1")}
		for _, f := range files {
			f = filepath.Join(dir, f)
			if err := errors.Join(os.MkdirAll(filepath.Dir(f), 0o700), os.WriteFile(f, []byte("12345"), 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := crawl.SpoolOf(filepath.Join(dir, "spool"), h); err != nil || len(got) != 1 {
			t.Errorf("%s: the task's pages are %v, %v", name, got, err)
		}
		if err := crawl.RemoveSpills(filepath.Join(dir, "spool"), h); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if left, err := os.ReadDir(filepath.Join(dir, "spool")); err != nil || len(left) != 1 {
			t.Errorf("%s: of an earlier process there is %v, %v", name, left, err)
		}
		j, err := OpenJournal(filepath.Join(dir, "journal"))
		if err != nil {
			t.Fatal(err)
		}
		j.For("a network")("a.test", visit(1, time.Now()))
		if err := j.Flush(); err != nil {
			t.Fatal(err)
		}
		if got := lines(t, j, 10, ""); len(got) != 1 {
			t.Errorf("%s: the log has %v", name, got)
		}
		if err := j.Close(); err != nil {
			t.Error(err)
		}
		lost, err := Forget(dir)
		if err != nil || lost.Tasks != 1 || lost.Bytes != 5 {
			t.Errorf("%s: leaving gives up %+v, %v", name, lost, err)
		}
		for _, f := range files {
			if _, err := os.Stat(filepath.Join(dir, f)); err == nil {
				t.Errorf("%s: %s is there after leaving", name, f)
			}
		}
	}
}
