package pgledger

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"
	"time"

	"shoal/channel/postgres"
	"shoal/internal/lab/pglab"
	"shoal/internal/lab/s3lab"
	"shoal/manager/archive/bucket"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/ledger/badgerledger"
	"shoal/manager/archive/ledger/ledgertest"
)

// TestMain has commits that were lost be tried again sooner: tests lose many.
func TestMain(m *testing.M) {
	pace.First = time.Millisecond
	os.Exit(pglab.Run(m))
}

// configOf is the configuration of a test's own ledger, with an empty copy.
func configOf(t testing.TB, s *pglab.Server, name string) Config {
	sum := sha256.Sum256([]byte(t.Name() + "\n" + name))
	server := postgres.Default(s.URL() + "&pool_max_conns=4")
	server.Schema, server.Patience = "t"+hex.EncodeToString(sum[:8]), 10*time.Second
	return Config{Server: server, Copy: badgerledger.Config{Dir: filepath.Join(t.TempDir(), "state")}}
}

func open(t testing.TB, cfg Config) *Store {
	t.Helper()
	s, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// TestContract keeps the contract. A crash loses this machine's copy: what a test sees then was read from the server's log alone.
func TestContract(t *testing.T) {
	server := pglab.Shared(t)
	ledgertest.Run(t, func(t *testing.T) ledgertest.Subject { return subject(t, configOf(t, server, ""), func(*Store) {}) })
}

// TestContractWithSnapshots does the same with a snapshot before each start, so that the log has next to nothing.
func TestContractWithSnapshots(t *testing.T) {
	server := pglab.Shared(t)
	lab := s3lab.Start(t, s3lab.Options{})
	ledgertest.Run(t, func(t *testing.T) ledgertest.Subject {
		b, err := bucket.Open(t.Context(), bucket.Config{URL: lab.URL() + "&region=us-east-1"})
		if err != nil {
			t.Fatal(err)
		}
		cfg := configOf(t, server, "")
		cfg.Objects, cfg.SnapshotAfter = b, 1
		return subject(t, cfg, func(s *Store) { s.Tidy(t.Context()) })
	})
}

func subject(t *testing.T, cfg Config, before func(*Store)) ledgertest.Subject {
	s := open(t, cfg)
	return ledgertest.Subject{
		Store: s,
		Reopen: func(t *testing.T) ledger.Store {
			before(s)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = open(t, cfg)
			return s
		},
		Crash: func(t *testing.T) ledger.Store {
			before(s)
			cfg.Copy.Dir = filepath.Join(t.TempDir(), "state")
			s = open(t, cfg)
			return s
		},
	}
}
