package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"shoal/channel"
	"shoal/channel/badgerdb"
	"shoal/recrawl"
)

// BenchmarkPlan runs `shoal plan` on a stopped manager's SHOAL_BENCH_CHANNELS channels (100,000), all with 40 visits behind them: half of them change by chance,
// the others every few days at a fixed time, whose models take longest to fit.
func BenchmarkPlan(b *testing.B) {
	n := 100_000
	if s := os.Getenv("SHOAL_BENCH_CHANNELS"); s != "" {
		var err error
		if n, err = strconv.Atoi(s); err != nil {
			b.Fatal(err)
		}
	}
	data := b.TempDir()
	if err := visited(b, filepath.Join(data, channelsFolder), n); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		var o, e buffer
		if code := run(b.Context(), []string{"plan", "--data", data, "--capacity", "500"}, streams{&o, &e}); code != 0 {
			b.Fatalf("plan: %d: %s", code, e.String())
		}
	}
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/plan")
}

// visited makes a channel database of n channels with histories.
func visited(b *testing.B, dir string, n int) error {
	db, err := badgerdb.Open(b.Context(), badgerdb.Default(dir))
	if err != nil {
		return err
	}
	epoch, err := db.Take(b.Context())
	if err != nil {
		return errors.Join(err, db.Close())
	}
	rng := rand.New(rand.NewPCG(1, 2))
	const step = 1000
	for from := 0; err == nil && from < n; from += step {
		var chs []channel.Channel
		for i := from; i < min(from+step, n); i++ {
			origin := fmt.Sprintf("https://site-%d.example", i)
			chs = append(chs, channel.Channel{Scope: channel.Scope{Kind: channel.WholeHost, Host: origin}, Seeds: []string{origin + "/"}, State: channel.Active})
		}
		var in channel.Imported
		if in, err = db.Import(b.Context(), epoch, channel.Lines(chs)); err != nil {
			break
		}
		adv := channel.Advance{At: time.Now()}
		for id := in.First; id <= in.Last; id++ {
			adv.Edits = append(adv.Edits, channel.Edit{ID: id, Learnt: visits40(rng, id%2 == 0)})
		}
		err = db.Apply(b.Context(), epoch, adv)
	}
	return errors.Join(err, db.Close())
}

// visits40 is what 40 visits have taught, a day or so apart.
func visits40(rng *rand.Rand, chance bool) *channel.Learnt {
	l := &channel.Learnt{Visits: 40, Updated: time.Now(), Submitted: time.Now(), Pages: 5, Service: time.Second}
	every := 2 + rng.IntN(5)
	for k := range 40 {
		changed := k%every == 0
		if chance {
			changed = rng.IntN(every) == 0
		}
		if changed {
			l.Changes++
		}
		l.History = recrawl.AppendVisit(l.History, 1440*(.9+.2*rng.Float64()), changed)
	}
	return l
}
