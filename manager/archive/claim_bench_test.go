package archive

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/internal/lab/processor"
)

// BenchmarkClaim deposits tasks and lets 50 peers claim them at once. A claim is acknowledged when it is durable.
// `make bench-before` also builds this file in the checkout of an earlier commit, so it uses only what that has.
func BenchmarkClaim(b *testing.B) {
	const peers = 50
	ctx := context.Background()
	cfg := testConfig(b.TempDir())
	cfg.NoText = true
	a, err := Open(ctx, cfg)
	if err != nil {
		b.Fatal(err)
	}
	defer a.Close()
	signed := make([]channel.Signed, b.N)
	each := func(what string, do func(i int) error) (cpu time.Duration) {
		var wg sync.WaitGroup
		began := processor.Time(b)
		for p := range peers {
			wg.Go(func() {
				for i := p; i < b.N; i += peers {
					if err := do(i); err != nil {
						b.Errorf("%s %d: %v", what, i, err)
						return
					}
				}
			})
		}
		wg.Wait()
		return processor.Time(b) - began
	}
	deposit := each("deposit", func(i int) error {
		s, body := task(channel.ID(i+1), 1, time.Now().Add(time.Hour))
		signed[i] = s
		return a.Deposit(ctx, s, body)
	})
	b.ReportMetric(float64(deposit.Microseconds())/float64(b.N), "cpu-us/deposit")
	b.ResetTimer()
	claim := each("claim", func(i int) error {
		c, err := a.Claim(ctx, fmt.Sprint("peer", i%peers), signed[i])
		if err == nil && c.Status != lease.Granted {
			err = fmt.Errorf("status %v", c.Status)
		}
		return err
	})
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "claims/s")
	b.ReportMetric(float64(deposit.Microseconds())/float64(b.N), "cpu-us/deposit")
	b.ReportMetric(float64(claim.Microseconds())/float64(b.N), "cpu-us/claim")
}
