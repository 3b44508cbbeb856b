package badgerdb

import (
	"path/filepath"
	"testing"

	"shoal/channel/storetest"
)

// open opens a database that the test closes.
func open(t testing.TB, dir string) *DB {
	t.Helper()
	cfg := Default(dir)
	cfg.ScrubEvery = 0
	db, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func TestStore(t *testing.T) {
	dirs := make(map[testing.TB]string)
	storetest.Run(t, func(t testing.TB, name string) storetest.Database {
		if dirs[t] == "" {
			dirs[t] = t.TempDir()
		}
		return open(t, filepath.Join(dirs[t], name))
	})
}
