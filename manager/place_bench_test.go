package manager

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"shoal/channel"
	"shoal/channel/badgerdb"
	"shoal/coords"
	"shoal/internal/member"
	"shoal/manager/archive"
	"shoal/overlay"
)

// takers are simulated peers that take whatever they are offered.
type takers struct {
	peers []overlay.PeerRecord
	view  *overlay.View
	taken atomic.Int64
	most  int64
	done  chan struct{}
}

func newTakers(n int, most int64) *takers {
	t := &takers{most: most, done: make(chan struct{})}
	rng := rand.New(rand.NewPCG(7, 8))
	for i := range n {
		p := overlay.PeerRecord{ID: overlay.ID(fmt.Sprintf("peer-%04d", i)), Load: overlay.Load{Threads: 255, Slots: 255}}
		p.Coord.Vec[0], p.Coord.Vec[1], p.Coord.Err = rng.Float64()*200-100, rng.Float64()*200-100, .1
		t.peers = append(t.peers, p)
	}
	t.view = overlay.ViewOf(time.Now(), t.peers)
	return t
}

func (t *takers) View() *overlay.View        { return t.view }
func (*takers) Delivered(overlay.ID)         {}
func (*takers) Wasted(overlay.ID, time.Time) {}
func (*takers) GaveBack(overlay.ID)          {}
func (t *takers) Coord() coords.Coord        { return coords.Coord{Err: 1} }
func (t *takers) Survey(context.Context, overlay.Survey, coords.HostRecord) ([]coords.Sample, error) {
	return nil, nil
}

func (t *takers) Place(_ context.Context, _ channel.Signed, h channel.Header, _ coords.HostRecord, _ overlay.Named) (overlay.Placed, error) {
	n := t.taken.Add(1)
	if n == t.most {
		close(t.done)
	}
	return overlay.Placed{Peer: t.peers[n%int64(len(t.peers))].ID, Start: h.Latest, Hops: 3}, nil
}

// BenchmarkPlaced is a manager at full tilt: tasks are chosen, their generations made durable, their hosts located, tasks built, signed,
// deposited in an archive on disk and taken by simulated peers. The baseline is what cannot be left out of one task, one after the other:
// a durable generation, a signature, a durable deposit.
func BenchmarkPlaced(b *testing.B) {
	const n, most = 12_000, 10_000 // channels, and tasks: not all channels are due
	keys, err := member.LoadOrCreate(b.TempDir(), time.Now())
	if err != nil {
		b.Fatal(err)
	}
	begin := func(b *testing.B) (Config, *badgerdb.DB, *archive.Archive) {
		dir := b.TempDir()
		cfg := Default()
		v := member.NewVerifier(keys.Network)
		a, err := archive.Open(b.Context(), archive.Config{Dir: dir + "/archive", Terms: cfg.Terms, Verify: v.VerifyTask, RankEvery: -1, NoText: true})
		if err != nil {
			b.Fatal(err)
		}
		fill(b, dir+"/db", n)
		db, err := badgerdb.Open(b.Context(), badgerdb.Default(dir+"/db"))
		if err != nil {
			b.Fatal(err)
		}
		cfg.Store, cfg.Archive, cfg.Evidence, cfg.Sign, cfg.Network, cfg.ArchiveID = db, a, a.Evidence, keys.Authority.SignHeader, keys.Network, "archive"
		cfg.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
		return cfg, db, a
	}
	rate := func(b *testing.B, done int, cpu float64) {
		b.ReportMetric(float64(done)/b.Elapsed().Seconds(), "tasks/s")
		b.ReportMetric(cpu*1e6/float64(done), "cpu-us/task")
	}
	b.Run("manager", func(b *testing.B) {
		rounds, used := 0, 0.
		for b.Loop() {
			rounds++
			b.StopTimer()
			cfg, db, a := begin(b)
			t := newTakers(200, most)
			locate(b, db, t, n)
			cfg.Swarm, cfg.MaxOut, cfg.MinPeersWait = t, 2*n, 0
			m, err := New(b.Context(), cfg)
			if err != nil {
				b.Fatal(err)
			}
			ctx, cancel := context.WithCancel(b.Context())
			ended := make(chan error, 1)
			cpu := cpuSeconds()
			b.StartTimer()
			go func() { ended <- m.Run(ctx) }()
			select {
			case <-t.done:
			case <-time.After(time.Minute):
				b.Errorf("only %d of %d tasks were placed", t.taken.Load(), most)
			}
			b.StopTimer()
			used += cpuSeconds() - cpu
			rate(b, most*rounds, used)
			cancel()
			<-ended
			if err := a.Close(); err != nil {
				b.Error(err)
			}
			if err := db.Close(); err != nil {
				b.Error(err)
			}
			b.StartTimer()
		}
	})
	b.Run("baseline", func(b *testing.B) {
		_, db, a := begin(b)
		e, err := db.Take(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		body := channel.Body{Seeds: []string{"https://www.host.example/"}}
		raw := body.Marshal()
		cpu, done := cpuSeconds(), 0
		for b.Loop() {
			done++
			id, now := channel.ID(done%n+1), time.Now()
			gen := channel.Gen(done/n + 2)
			if refused, err := db.Issue(b.Context(), e, []channel.Issue{{ID: id, Gen: gen, Lease: make([]byte, 44), At: now}}); err != nil || len(refused) > 0 {
				b.Fatal(err, refused)
			}
			h := channel.Header{Network: keys.Network, Channel: id, Gen: gen, Host: "https://www.host.example", Issued: now, Latest: now.Add(time.Hour), Archive: "archive", BodyBytes: len(raw)}
			h.BodySHA256 = sha256.Sum256(raw)
			s, err := keys.Authority.SignHeader(h)
			if err != nil {
				b.Fatal(err)
			}
			if err := a.Deposit(b.Context(), s, raw); err != nil {
				b.Fatal(err)
			}
		}
		rate(b, done, cpuSeconds()-cpu)
		if err := a.Close(); err != nil {
			b.Error(err)
		}
		if err := db.Close(); err != nil {
			b.Error(err)
		}
	})
}

// locate has every host measured by eight of the peers.
func locate(b *testing.B, db Store, t *takers, n int) {
	e, err := db.Take(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	epoch, err := time.Now().Add(-30 * 24 * time.Hour).MarshalBinary() // so all are due
	if err == nil {
		err = db.PutState(b.Context(), e, stateEpoch, epoch)
	}
	if err != nil {
		b.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(9, 10))
	const step = 1000
	for i := 0; i < n; i += step {
		var a channel.Advance
		for id := i + 1; id <= min(i+step, n); id++ {
			ch, err := db.Channel(b.Context(), channel.ID(id))
			if err != nil {
				b.Fatal(err)
			}
			h := channel.Host{Name: ch.Scope.Host}
			at := t.peers[rng.IntN(len(t.peers))].Coord
			for range 8 {
				p := &t.peers[rng.IntN(len(t.peers))]
				h.Record.Add(coords.Sample{Vantage: string(p.ID), At: p.Coord, RTT: coords.Predict(p.Coord, at), When: time.Now().Unix()})
			}
			a.Hosts = append(a.Hosts, h)
		}
		if err := db.Apply(b.Context(), e, a); err != nil {
			b.Fatal(err)
		}
	}
}

// cpuSeconds is the processor time that this process has used; 0 where the system does not tell.
func cpuSeconds() float64 {
	raw, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return 0
	}
	f := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
	if len(f) < 13 {
		return 0
	}
	user, _ := strconv.ParseFloat(f[11], 64)
	system, _ := strconv.ParseFloat(f[12], 64)
	return (user + system) / 100 // hundredths
}
