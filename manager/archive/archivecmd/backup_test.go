package archivecmd

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shoal/channel"
	"shoal/internal/lab/pglab"
	"shoal/internal/lab/s3lab"
	"shoal/manager/archive"
	"shoal/manager/archive/remote"
)

// TestBackupBesideOtherManagers makes a backup of a stopped manager on servers on which another manager works. What that one stores while the channels are copied is in
// the backup's archive: the channels may count on it already.
func TestBackupBesideOtherManagers(t *testing.T) {
	db, store := pglab.Start(t, pglab.Options{}), s3lab.Start(t, s3lab.Options{})
	verify := func(_ time.Time, s channel.Signed) (channel.Header, error) { return channel.ParseHeader(s.Raw) }
	place := remote.Place{DB: db.URL(), Bucket: store.URL(), Writer: "other"}
	other, err := archive.Open(t.Context(), place.Config(archive.Config{Dir: filepath.Join(t.TempDir(), "archive"), Verify: verify}))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	crawl(t, other, 1, "first")
	data := t.TempDir()
	for file, url := range map[string]string{remote.DatabaseFile: db.URL(), remote.BucketFile: store.URL()} {
		if err := remote.Note(data, file, url); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(data, "archive", "state"), 0o750); err != nil {
		t.Fatal(err)
	}
	channels := func(_ context.Context, _, dir string) error {
		crawl(t, other, 2, "second")
		return os.Mkdir(dir, 0o750)
	}
	to := filepath.Join(t.TempDir(), "backup")
	c := Backup{Source: Source{Data: data}, To: to}
	if err := c.Run(t.Context(), IO{Out: io.Discard, Err: io.Discard, Channels: channels}); err != nil {
		t.Fatal(err)
	}
	restored := t.TempDir()
	if err := archive.Restore(t.Context(), filepath.Join(to, "archive"), filepath.Join(restored, "archive")); err != nil {
		t.Fatal(err)
	}
	if out, _, err := shoal(t, restored, "get", site); err != nil || !strings.HasSuffix(out, "second") {
		t.Errorf("the backup has %q, %v", out, err)
	}
}
