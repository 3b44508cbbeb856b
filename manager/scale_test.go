package manager

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"shoal/channel"
	"shoal/coords"
	"shoal/manager/archive"
	"shoal/overlay"
)

// many is a read-only database of n channels, with perHost of them on every host.
type many struct {
	Store
	n, perHost int
	facts      func(i int) []byte // nil: never crawled
}

func (s many) Take(context.Context) (channel.Epoch, error)                   { return 1, nil }
func (s many) State(context.Context, string) ([]byte, error)                 { return nil, nil }
func (s many) Kept(context.Context, string) ([][]byte, error)                { return nil, nil }
func (s many) PutState(context.Context, channel.Epoch, string, []byte) error { return nil }
func (s many) Cursor(context.Context, string) (string, error)                { return "", nil }
func (s many) ScanHosts(context.Context, func(channel.Host) error) error     { return nil }
func (s many) Scan(_ context.Context, _, _ channel.ID, f func(channel.Hot) error) error {
	var host channel.HostKey
	for i := range s.n {
		if i%s.perHost == 0 {
			host = channel.KeyOf(fmt.Sprintf("https://www.host-%08d.example", i/s.perHost))
		}
		h := channel.Hot{ID: channel.ID(i + 1), Host: host, State: channel.Active, Links: 1}
		if s.facts != nil {
			h.Facts = s.facts(i)
		}
		if err := f(h); err != nil {
			return err
		}
	}
	return nil
}

func (s many) Lease(context.Context, channel.ID) ([]byte, error) { return nil, nil }

type stillArchive struct{ Archive }

func (stillArchive) DelivererNumber(name string) uint64 { return channel.URLHash(name) }

func (stillArchive) PrefixNumber(prefix string) uint64 { return channel.URLHash(prefix) }

func (stillArchive) Deliverers(context.Context, string) ([]archive.Deliverer, error) { return nil, nil }

func (stillArchive) Suspensions(context.Context) ([]archive.Suspension, error) { return nil, nil }

type noEvidence struct{ Evidence }

func (stillArchive) Stats() archive.Stats { return archive.Stats{} }

type noSwarm struct{ Swarm }

func (noSwarm) View() *overlay.View { return &overlay.View{} }
func (noSwarm) Coord() coords.Coord { return coords.Coord{Err: 1} }

// benchChannels is how many channels the benchmarks have: a million, or as many as SHOAL_CHANNELS says.
func benchChannels(b *testing.B) int {
	n := 1_000_000
	if s := os.Getenv("SHOAL_CHANNELS"); s != "" {
		var err error
		if n, err = strconv.Atoi(s); err != nil {
			b.Fatal(err)
		}
	}
	return n
}

// BenchmarkChannels builds a manager of many channels, and tells its anonymous memory, then and at its peak. The database is not part of it.
func BenchmarkChannels(b *testing.B) {
	n := benchChannels(b)
	for _, perHost := range []int{1, 10} {
		b.Run(fmt.Sprintf("n=%d/perHost=%d", n, perHost), func(b *testing.B) {
			for b.Loop() {
				cfg := Default()
				cfg.Store, cfg.Archive, cfg.Swarm = many{n: n, perHost: perHost}, stillArchive{}, noSwarm{}
				cfg.Evidence = noEvidence{}
				cfg.Sign = func(channel.Header) (channel.Signed, error) { return channel.Signed{}, nil }
				runtime.GC()
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				began := time.Now()
				peak := watch()
				m, err := New(context.Background(), cfg)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(time.Since(began).Seconds(), "s/start")
				b.ReportMetric(peak()/(1<<20), "MiB-peak")
				runtime.GC()
				runtime.ReadMemStats(&after)
				b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(n), "B/channel")
				b.ReportMetric(anonymous()/(1<<20), "MiB-anonymous")
				runtime.KeepAlive(m)
			}
		})
	}
}

// watch looks at the anonymous memory until the function that it returns is called, which tells the most that was seen.
func watch() func() float64 {
	stop, most := make(chan struct{}), make(chan float64)
	go func() {
		peak := anonymous()
		for {
			select {
			case <-stop:
				most <- max(peak, anonymous())
				return
			case <-time.After(20 * time.Millisecond):
				peak = max(peak, anonymous())
			}
		}
	}()
	return func() float64 { close(stop); return <-most }
}

// anonymous is the process's anonymous memory in bytes; 0 where the system does not tell.
func anonymous() float64 {
	raw, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for _, line := range strings.Split(string(raw), "\n") {
		if rest, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			kb, _ := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return kb * 1024
		}
	}
	return 0
}
