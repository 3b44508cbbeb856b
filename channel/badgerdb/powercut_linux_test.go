package badgerdb

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"shoal/channel"
	"shoal/internal/lab/disklab"
)

// TestPowerCut writes to a disk that remembers every write and flush until tables were compacted. It then cuts the
// disk's power at moments of the past. What was acknowledged by that moment must be there. Tables, manifest and logs
// are torn as far as Badger and the file system allow.
func TestPowerCut(t *testing.T) {
	cuts := disklab.Cuts(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d, %d cuts", seed, cuts)
	rng := rand.New(rand.NewPCG(seed, 5))
	disk := disklab.For(t, 768<<20)
	type ack struct {
		kind   string
		a, b   uint64
		moment int
	}
	var acks []ack
	begin := disk.Now()
	cmd, out, _ := startChild(t, "small", filepath.Join(disk.Root(), "db"))
	compacted := func() bool { // the first tables are gone
		names, err := filepath.Glob(filepath.Join(disk.Root(), "db", "*.sst"))
		if err != nil || len(names) == 0 {
			return false
		}
		n, err := strconv.Atoi(filepath.Base(names[0])[:6])
		return err != nil || n > 12
	}
	for end := time.Now().Add(3 * time.Minute); out.Scan(); {
		var a ack
		if _, err := fmt.Sscan(out.Text(), &a.kind, &a.a, &a.b); err != nil {
			t.Fatalf("child: %s", out.Text())
		}
		a.moment = disk.Now()
		if acks = append(acks, a); len(acks)%100 == 0 && compacted() || time.Now().After(end) {
			break
		}
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // it was killed
	if !compacted() {
		t.Fatalf("%d writes and no compaction", len(acks))
	}
	unsynced, kept := 0, 0
	for n := range cuts {
		moment := disk.Moment(rng, begin)
		gens, applied := map[channel.ID]channel.Gen{}, 0
		for _, a := range acks {
			switch {
			case a.moment > moment:
			case a.kind == "issued":
				gens[channel.ID(a.a)] = max(gens[channel.ID(a.a)], channel.Gen(a.b))
			case a.kind == "applied":
				applied = max(applied, int(a.a))
			}
		}
		left, err := disk.Cut(rng, moment, []float64{0, .2, .5, .8, 1}[n%5], func(root string) {
			db, err := Open(t.Context(), Default(filepath.Join(root, "db")))
			if err != nil {
				t.Fatalf("cut %d, at %d: %v", n, moment-begin, err)
			}
			acknowledged(t, db, gens, applied)
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
		})
		if err != nil {
			t.Fatalf("cut %d, at %d: %v", n, moment-begin, err)
		}
		unsynced, kept = unsynced+left.Pieces, kept+left.Kept
	}
	t.Logf("%d writes acknowledged; over %d cuts %d pieces of 4 KiB were not flushed, %d of them were kept", len(acks), cuts, unsynced, kept)
}
