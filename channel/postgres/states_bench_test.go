package postgres

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/jackc/pgx/v5"

	"shoal/channel/storetest"
	"shoal/internal/lab/pglab"
)

// What a manager keeps of its peers and channels: 64 states of each kind, of at most so many bytes a peer and a channel that is on watch or was.
const (
	trustShards  = 64
	trustPeer    = 185
	trustChannel = 24
	trustPeers   = 10_000
	trustSites   = 50_000
)

// BenchmarkTrustState writes all that is kept of peers and channels, as if each of them had changed, with states that no server can pack. Afterwards the server is
// killed and started: all is there.
func BenchmarkTrustState(b *testing.B) {
	both(b, func(b *testing.B, db storetest.Store, s *pglab.Server) {
		ctx := b.Context()
		e, err := db.Take(ctx)
		if err != nil {
			b.Fatal(err)
		}
		rng := rand.NewChaCha8([32]byte{1})
		states := map[string][]byte{}
		write := func() {
			for n := range trustShards {
				for kind, size := range map[string]int{"peers": trustPeer * trustPeers / trustShards, "channels": trustChannel * trustSites / trustShards} {
					name, body := fmt.Sprintf("trust-%s-%d", kind, n), make([]byte, size)
					_, _ = rng.Read(body)
					if err := db.PutState(ctx, e, name, body); err != nil {
						b.Fatal(err)
					}
					states[name] = body
				}
			}
		}
		write() // rows that are there are overwritten from now on
		var sql *pgx.Conn
		bytesOf := func() (table, wal int64) {
			if sql == nil {
				return 0, 0
			}
			if err := sql.QueryRow(ctx, `SELECT sum(pg_column_size(body)) FROM `+schemaOf(b, "db")+`.states WHERE name LIKE 'trust-%'`).Scan(&table); err != nil {
				b.Fatal(err)
			}
			if err := sql.QueryRow(ctx, `SELECT (pg_current_wal_lsn() - '0/0')::bigint`).Scan(&wal); err != nil {
				b.Fatal(err)
			}
			return table, wal
		}
		if s != nil {
			if sql, err = pgx.Connect(ctx, s.URL()); err != nil {
				b.Fatal(err)
			}
			defer func() { _ = sql.Close(ctx) }()
		}
		_, before := bytesOf()
		report, writes := costs(b, s), 0
		for b.Loop() {
			write()
			writes++
		}
		report(writes*trustPeers, "peer")
		if table, after := bytesOf(); s != nil {
			b.ReportMetric(float64(table)/trustPeers, "bytes/peer-with-5-channels")
			b.ReportMetric(float64(after-before)/float64(writes*trustPeers), "wal-bytes/peer-with-5-channels")
			s.Kill()
			if err := s.Start(ctx); err != nil {
				b.Fatal(err)
			}
		}
		for name, body := range states {
			if is, err := db.State(ctx, name); err != nil || !bytes.Equal(is, body) {
				b.Errorf("%s: %d bytes are there, %v; %d were written", name, len(is), err, len(body))
			}
		}
	})
}
