package archive

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"shoal/channel"
	"shoal/internal/lab/disklab"
)

// TestPowerCut stores chunks on a disk that remembers every write and flush, then cuts its power at moments of the past, most of them just
// before a flush: everything acknowledged by then is there, every record can be read, and the feed tells of each page exactly once. Here the
// database's tables and manifest are torn as well, as far as Badger and the file system let them be.
func TestPowerCut(t *testing.T) {
	cuts := disklab.Cuts(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d, %d cuts", seed, cuts)
	rng := rand.New(rand.NewPCG(seed, 4))
	disk := disklab.For(t, 768<<20)
	type ack struct {
		id     channel.ID
		seq    uint64
		moment int
	}
	var acks []ack
	begin := disk.Now()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), crashDir+"="+filepath.Join(disk.Root(), "a"), crashSmall+"=1")
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	compacted := func() bool { // the first tables are gone
		names, err := filepath.Glob(filepath.Join(disk.Root(), "a", "state", "*.sst"))
		if err != nil || len(names) == 0 {
			return false
		}
		n, err := strconv.Atoi(filepath.Base(names[0])[:6])
		return err != nil || n > 12
	}
	lines, end := bufio.NewScanner(pipe), time.Now().Add(3*time.Minute)
	for lines.Scan() {
		var a ack
		if _, err := fmt.Sscanf(lines.Text(), "ack %d %d", &a.id, &a.seq); err != nil {
			t.Fatalf("child says %q", lines.Text())
		}
		a.moment = disk.Now()
		if acks = append(acks, a); len(acks)%100 == 0 && compacted() || time.Now().After(end) {
			break
		}
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // it was killed
	if !compacted() {
		t.Fatalf("%d chunks and no compaction", len(acks))
	}
	unsynced, kept := 0, 0
	for n := range cuts {
		moment := disk.Moment(rng, begin)
		acked := map[channel.ID]uint64{}
		for _, a := range acks {
			if a.moment <= moment {
				acked[a.id] = max(acked[a.id], a.seq)
			}
		}
		left, err := disk.Cut(rng, moment, []float64{0, .2, .5, .8, 1}[n%5], func(root string) {
			if _, err := os.Stat(filepath.Join(root, "a")); err == nil || len(acked) > 0 {
				checkCrashed(t, filepath.Join(root, "a"), acked)
			}
		})
		if err != nil {
			t.Fatalf("cut %d, at %d: %v", n, moment-begin, err)
		}
		unsynced, kept = unsynced+left.Pieces, kept+left.Kept
	}
	t.Logf("%d chunks acknowledged; over %d cuts %d pieces of 4 KiB were not flushed, %d of them were kept", len(acks), cuts, unsynced, kept)
}
