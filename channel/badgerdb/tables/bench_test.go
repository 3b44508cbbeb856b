package tables

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/dgraph-io/badger/v4"
)

// BenchmarkCheckOpen checks a quarter of a GB of tables that lie in the file system's cache: the cost of a check
// beside reading the disk.
func BenchmarkCheckOpen(b *testing.B) {
	const values, size = 500_000, 500
	o := badger.DefaultOptions(b.TempDir()).WithLogger(nil).WithValueThreshold(1 << 10).WithMemTableSize(16 << 20).WithBaseTableSize(4 << 20).WithCompression(0)
	o.MetricsEnabled = false
	db, err := badger.Open(o)
	if err != nil {
		b.Fatal(err)
	}
	w := db.NewWriteBatch()
	for n := range values {
		if err := w.Set(fmt.Appendf(nil, "%08d", n), bytes.Repeat([]byte{byte(n)}, size)); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		b.Fatal(err)
	}
	if err := db.Close(); err != nil { // writes what is in memory
		b.Fatal(err)
	}
	if db, err = badger.Open(o); err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	names, err := filepath.Glob(filepath.Join(o.Dir, "*.sst"))
	if err != nil {
		b.Fatal(err)
	}
	all := int64(0)
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			b.Fatal(err)
		}
		all += info.Size()
	}
	b.SetBytes(all)
	b.ReportAllocs()
	for b.Loop() {
		if err := CheckOpen(b.Context(), db, 0); err != nil {
			b.Fatal(err)
		}
	}
}
