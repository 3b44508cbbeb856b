package manager_test

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
	"shoal/manager"
	"shoal/manager/archive"
	"shoal/overlay"
)

// many is a database of n channels that nobody has written, every host with so many of them.
type many struct {
	manager.Store
	n, perHost int
}

func (s many) Take(context.Context) (channel.Epoch, error)                   { return 1, nil }
func (s many) State(context.Context, string) ([]byte, error)                 { return nil, nil }
func (s many) PutState(context.Context, channel.Epoch, string, []byte) error { return nil }
func (s many) Cursor(context.Context, string) (string, error)                { return "", nil }
func (s many) ScanHosts(context.Context, func(channel.Host) error) error     { return nil }
func (s many) Scan(_ context.Context, _, _ channel.ID, f func(channel.Hot) error) error {
	host := ""
	for i := range s.n {
		if i%s.perHost == 0 {
			host = fmt.Sprintf("https://www.host-%08d.example", i/s.perHost)
		}
		if err := f(channel.Hot{ID: channel.ID(i + 1), Host: host, State: channel.Active}); err != nil {
			return err
		}
	}
	return nil
}

type stillArchive struct{ manager.Archive }

func (stillArchive) Stats() archive.Stats { return archive.Stats{} }

type noSwarm struct{ manager.Swarm }

func (noSwarm) Peers() []overlay.PeerRecord { return nil }
func (noSwarm) Coord() coords.Coord         { return coords.Coord{Err: 1} }

// BenchmarkChannels builds a manager of a million channels, or of as many as SHOAL_CHANNELS says, and tells its anonymous memory. The
// database is not part of it.
func BenchmarkChannels(b *testing.B) {
	n := 1_000_000
	if s := os.Getenv("SHOAL_CHANNELS"); s != "" {
		var err error
		if n, err = strconv.Atoi(s); err != nil {
			b.Fatal(err)
		}
	}
	for _, perHost := range []int{1, 10} {
		b.Run(fmt.Sprintf("n=%d/perHost=%d", n, perHost), func(b *testing.B) {
			for b.Loop() {
				cfg := manager.Default()
				cfg.Store, cfg.Archive, cfg.Swarm = many{n: n, perHost: perHost}, stillArchive{}, noSwarm{}
				cfg.Sign = func(channel.Header) (channel.Signed, error) { return channel.Signed{}, nil }
				runtime.GC()
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				began := time.Now()
				m, err := manager.New(context.Background(), cfg)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(time.Since(began).Seconds(), "s/start")
				runtime.GC()
				runtime.ReadMemStats(&after)
				b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(n), "B/channel")
				b.ReportMetric(anonymous()/(1<<20), "MiB-anonymous")
				runtime.KeepAlive(m)
			}
		})
	}
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
