package postgres

import (
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"log/slog"
	"os"
	"testing"
	"time"

	"shoal/channel/storetest"
	"shoal/internal/lab/pglab"
)

// schemaOf names the schema of a test's database.
func schemaOf(t testing.TB, name string) string {
	sum := sha256.Sum256([]byte(t.Name() + "\n" + name))
	return "t" + hex.EncodeToString(sum[:8])
}

func open(t testing.TB, s *pglab.Server, name string) *DB {
	t.Helper()
	return openAt(t, s.URL(), name)
}

func openAt(t testing.TB, url, name string) *DB {
	t.Helper()
	cfg := Default(url + "&pool_max_conns=8")
	cfg.Schema, cfg.Patience, cfg.Log = schemaOf(t, name), 10*time.Second, slog.New(slog.DiscardHandler)
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

// TestMain lets the contract's random test run fewer rounds than in memory or in a folder, unless a flag says how many:
// each round creates the tables anew. Writes that were lost are tried again sooner: tests lose many.
func TestMain(m *testing.M) {
	pace.First = time.Millisecond
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "rapid.checks" })
	if !given {
		if err := flag.Set("rapid.checks", "15"); err != nil {
			panic(err)
		}
	}
	os.Exit(pglab.Run(m))
}

func TestContract(t *testing.T) {
	s := pglab.Shared(t)
	storetest.Run(t, func(t testing.TB, name string) storetest.Database { return open(t, s, name) })
}
