package remote

import (
	"os"
	"path/filepath"
	"testing"

	"shoal/manager/archive/segment"
	"shoal/manager/archive/warc/folder"
)

// TestFetchedAnew fetches a segment where an earlier try has left nothing, a part of it, other bytes of the same length, or all of it.
func TestFetchedAnew(t *testing.T) {
	const bytes = "what a segment holds"
	there, here := t.TempDir(), t.TempDir()
	s := segment.Info{ID: 1, Name: "1.warc.gz", Length: uint64(len(bytes))}
	if err := os.WriteFile(filepath.Join(there, s.Name), []byte(bytes), 0o600); err != nil {
		t.Fatal(err)
	}
	from, to, at := folder.Open(folder.Config{Dir: there}), folder.Open(folder.Config{Dir: here}), filepath.Join(here, s.Name)
	for _, left := range []string{"", "what a", "WHAT A SEGMENT HOLDS", bytes} {
		if left != "" {
			if err := os.WriteFile(at, []byte(left), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := fetched(t.Context(), from, to, here, s); err != nil {
			t.Fatalf("after %q: %v", left, err)
		}
		if got, err := os.ReadFile(at); err != nil || string(got) != bytes {
			t.Errorf("after %q: %q, %v", left, got, err)
		}
	}
}

// TestShown has a bucket's URL shown in what is told of a migration, which more people read than may have its key.
func TestShown(t *testing.T) {
	if got := shown("s3://KEY:SECRET@host:9000/pages/a?tls=off"); got != "s3://host:9000/pages/a?tls=off" {
		t.Errorf("it is shown as %q", got)
	}
}
