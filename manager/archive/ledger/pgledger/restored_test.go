package pgledger

import (
	"testing"
	"time"

	"shoal/internal/lab/pglab"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/schema"
)

// numbers are those of a feed's entries.
func numbers(t *testing.T, s *Store) (all []uint64) {
	t.Helper()
	if err := s.View(func(snap ledger.Snapshot) error {
		return snap.Scan([]byte{schema.Feed}, nil, false, func(key, _ []byte) (bool, error) {
			all = append(all, schema.Number(key, 0))
			return true, nil
		})
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestNumbersAfterRestore restores the server to before entries that were told, and goes on: with the copy that knows of them, on a machine without one, alone and
// as one of several. No number is told twice, so that an indexer whose cursor lies behind those entries misses nothing; and all copies give the same numbers.
func TestNumbersAfterRestore(t *testing.T) {
	lab := pglab.Shared(t)
	for _, writer := range []string{"", "one of several"} {
		for _, anew := range []bool{false, true} {
			cfg := configOf(t, lab, writer+map[bool]string{true: "on another machine"}[anew])
			now := time.Now()
			cfg.Writer, cfg.Clock = writer, func() time.Time { return now }
			s := open(t, cfg)
			must(t, s, 1, 5)
			told := numbers(t, s)
			if _, err := s.server.Pool().Exec(t.Context(), `WITH gone AS (DELETE FROM log WHERE seq > 3) UPDATE heads SET seq = 3, key = (SELECT key FROM log WHERE seq = 3)`); err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			now = now.Add(time.Minute)
			if anew {
				cfg = elsewhere(t, cfg)
			}
			s = open(t, cfg)
			must(t, s, 4, 8)
			is := numbers(t, s)
			if len(told) != 5 || len(is) != 8 || is[2] != told[2] || is[3] <= told[4] || is[7] != is[3]+4 {
				t.Errorf("writer %q, another machine: %v: numbers %d, then %d", writer, anew, told, is)
			}
			other := numbers(t, open(t, elsewhere(t, cfg)))
			if len(other) != 8 || other[7] != is[7] {
				t.Errorf("another copy has %d, this one %d", other, is)
			}
		}
	}
}
