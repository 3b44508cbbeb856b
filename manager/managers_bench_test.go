package manager

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"shoal/channel"
	"shoal/channel/postgres"
	"shoal/internal/lab/pglab"
	"shoal/internal/lab/s3lab"
	"shoal/internal/member"
	"shoal/manager/archive"
	"shoal/manager/archive/remote"
	"shoal/overlay"
)

// BenchmarkManagersPlaced is BenchmarkPlaced with one manager, two and three that share the channels on a PostgreSQL server, and an archive: all in this
// process, so that its processor time is theirs together. It is measured from when the hosts are shared out.
func BenchmarkManagersPlaced(b *testing.B) {
	for n := 1; n <= 3; n++ {
		b.Run(fmt.Sprintf("managers=%d", n), func(b *testing.B) {
			if b.N > 1 {
				b.Fatal("run it with -benchtime 1x")
			}
			placedBySeveral(b, n)
		})
	}
}

// lateTakers are peers that nobody knows before the managers have shared the hosts out.
type lateTakers struct {
	*takers
	managers int
	here     chan struct{} // closed then
	once     sync.Once
}

func (t *lateTakers) View() *overlay.View {
	select {
	case <-t.here:
		return t.takers.View()
	default:
		return overlay.ViewOf(time.Now(), nil)
	}
}

// seen is told who has which hosts.
func (t *lateTakers) seen(now channel.Tenure) {
	has := map[channel.Epoch]int{}
	for _, owner := range now.Owner {
		has[owner]++
	}
	if len(has) < t.managers || has[0] > 0 {
		return
	}
	for _, parts := range has {
		if parts < channel.Parts/t.managers {
			return
		}
	}
	t.once.Do(func() { close(t.here) })
}

func placedBySeveral(b *testing.B, managers int) {
	const n, most = 12_000, 10_000
	db := pglab.Start(b, pglab.Options{Durable: true})
	store := s3lab.Start(b, s3lab.Options{})
	keys, err := member.LoadOrCreate(b.TempDir(), time.Now())
	if err != nil {
		b.Fatal(err)
	}
	t := newTakers(200, most)
	channels := func() *postgres.DB {
		d, err := postgres.Open(b.Context(), postgres.Default(db.URL()))
		if err != nil {
			b.Fatal(err)
		}
		return d
	}
	alone := channels()
	fillStore(b, alone, n)
	locate(b, alone, t, n)
	if err := alone.Close(); err != nil {
		b.Fatal(err)
	}

	late := &lateTakers{takers: t, managers: managers, here: make(chan struct{})}
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	ended := make(chan error, managers)
	var close []func() error
	for i := range managers {
		writer := fmt.Sprint("manager", i)
		v := member.NewVerifier(keys.Network)
		place := remote.Place{DB: db.URL(), Bucket: store.URL(), Writer: writer}
		cfg := Default()
		a, err := archive.Open(b.Context(), place.Config(archive.Config{Dir: filepath.Join(b.TempDir(), "archive"), Terms: cfg.Terms, Verify: v.VerifyTask, RankEvery: -1, NoText: true}))
		if err != nil {
			b.Fatal(err)
		}
		own := channels()
		shared := own.AsOne(postgres.SeveralConfig{Node: writer, Writer: writer, Feed: FeedName, Shared: SharedState})
		cfg.Several = &Several{Shared: shared, ShutOut: a.Others.ShutOut, Earliest: a.Others.Earliest, About: func() []byte { return nil }, Seen: late.seen}
		cfg.Store, cfg.Archive, cfg.Evidence, cfg.Sign, cfg.Network, cfg.ArchiveID = shared, a, a.Evidence, keys.Authority.SignHeader, keys.Network, "archive"
		cfg.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
		cfg.Swarm, cfg.MaxOut, cfg.MinPeersWait = late, 2*n, time.Hour
		m, err := New(b.Context(), cfg)
		if err != nil {
			b.Fatal(err)
		}
		close = append(close, func() error { return errors.Join(a.Close(), own.Close()) })
		go func() { ended <- m.Run(ctx) }()
	}
	select {
	case <-late.here:
	case err := <-ended:
		b.Fatal(err)
	}
	cpu, server := cpuSeconds(), serverSeconds(b, db)
	b.ResetTimer()
	select {
	case <-t.done:
	case err := <-ended:
		b.Fatal(err)
	case <-time.After(2 * time.Minute):
		b.Errorf("only %d of %d tasks were placed", t.taken.Load(), most)
	}
	b.StopTimer()
	b.ReportMetric(most/b.Elapsed().Seconds(), "tasks/s")
	b.ReportMetric((cpuSeconds()-cpu)*1e6/most, "cpu-us/task")
	b.ReportMetric((serverSeconds(b, db)-server)*1e6/most, "postgres-us/task")
	cancel()
	for range managers {
		<-ended
	}
	for _, f := range close {
		if err := f(); err != nil {
			b.Error(err)
		}
	}
}

func serverSeconds(b *testing.B, db *pglab.Server) float64 {
	used, err := db.CPU()
	if err != nil {
		b.Fatal(err)
	}
	return used.Seconds()
}
