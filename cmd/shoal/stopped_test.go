package main

import (
	"os"
	"path/filepath"
	"testing"

	"shoal/channel/badgerdb"
)

// TestCommandsMakeNoArchive asks about a network whose manager has made its channel database and no archive yet, as in the moment of its first start. An
// archive in the folder would keep a manager from starting whose archive is to lie in a bucket.
func TestCommandsMakeNoArchive(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	db, err := badgerdb.Open(t.Context(), badgerdb.Default(filepath.Join(data, channelsFolder)))
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	var out, said buffer
	if code := run(t.Context(), []string{"channel", "list", "--data", data}, streams{&out, &said}); code != 0 {
		t.Errorf("status %d: %s", code, said.String())
	}
	if _, err := os.Stat(filepath.Join(data, "archive")); err == nil {
		t.Error("a command that asks has made an archive")
	}
}
