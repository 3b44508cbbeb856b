package remote

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"shoal/internal/lab/disklab"
)

// TestPowerCut notes where an archive lies, and forgets it, and cuts the power at once after each: what was done before is there. A folder whose note is lost
// would be taken for one that holds the archive itself.
func TestPowerCut(t *testing.T) {
	disklab.Cuts(t)
	disk := disklab.For(t, 16<<20)
	const bucket = "s3://host/bucket"
	after := func(what, noted, there string) {
		t.Helper()
		_, err := disk.Cut(rand.New(rand.NewPCG(1, 2)), disk.Now(), 0, func(root string) {
			if got, err := Noted(root, BucketFile); err != nil || got != noted {
				t.Errorf("after %s and a cut it is noted: %q, %v", what, got, err)
			}
			if _, err := os.Stat(filepath.Join(root, there)); err != nil {
				t.Errorf("after %s and a cut: %v", what, err)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	data := disk.Root()
	if err := os.Mkdir(filepath.Join(data, "archive.part"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Note(data, BucketFile, bucket); err != nil {
		t.Fatal(err)
	}
	after("a note", bucket, "archive.part")
	if err := takePlace(data, filepath.Join(data, "archive"), filepath.Join(data, "archive.part")); err != nil {
		t.Fatal(err)
	}
	after("a move back", "", "archive")
}

// TestEmptyNote refuses a note in which nothing is: who took the folder for one that holds the archive would begin a new one.
func TestEmptyNote(t *testing.T) {
	data := t.TempDir()
	if err := os.WriteFile(filepath.Join(data, BucketFile), []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := Of(data); err == nil {
		t.Errorf("with an empty note the archive is at %+v", got)
	}
	if err := Forget(data, BucketFile); err != nil {
		t.Fatal(err)
	}
	if got, err := Of(data); got != nil || err != nil {
		t.Errorf("without a note: %+v, %v", got, err)
	}
	if err := Forget(data, BucketFile); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("forgotten twice: %v", err)
	}
}
