package e2e

import (
	"encoding/json"
	"testing"
	"time"

	"shoal/internal/lab/pond"
)

// TestCountersSurviveKill kills a peer, which gets no chance to write anything, and starts it again: what its status showed before is still
// counted today, in this month and ever.
func TestCountersSurviveKill(t *testing.T) {
	t.Parallel()
	w, err := pond.NewWorld(pond.Config{Seed: 9, Hosts: 4, Pages: 400, MaxHost: 150, Plain: true})
	if err != nil {
		t.Fatal(err)
	}
	addr := servePond(t, w).Addr().String()
	m := start(t, "shoal", "manager", "--data", t.TempDir(), "--listen", "/ip4/127.0.0.1/tcp/0", "--page", "", "--pond", addr, "--name", "Example Search")
	dirs, peers := volunteers(t, 1, m.word("shoal-peer join "), "--pond", addr, "--no-quic", "--no-low-priority", "--log-level", "warn")
	type tally struct{ Bytes, Pages int64 }
	type status struct {
		Says, State string
		Done        struct{ Today, Month, Ever tally }
	}
	look := func() (st status) {
		p := start(t, "shoal-peer", "status", "--json", "--data", dirs[0])
		<-p.done
		_ = json.Unmarshal(p.out.Bytes(), &st) // it is asked again
		return st
	}
	var before status
	began := time.Now()
	peers[0].until("has fetched pages", func() bool { before = look(); return before.Done.Today.Pages >= 3 && before.State == "working" })
	sameDay := began.Format(time.DateOnly) == time.Now().Format(time.DateOnly)
	if d := before.Done; sameDay && (d.Ever != d.Today || d.Month != d.Today) || d.Ever.Pages < d.Today.Pages || before.Says == "" {
		t.Errorf("before: %+v", before)
	}
	peers[0].kill()
	again := start(t, "shoal-peer", "run", "--data", dirs[0], "--port", "0", "--listen", "127.0.0.1", "--pond", addr, "--no-quic", "--no-low-priority", "--log-level", "warn")
	var after status
	again.until("tells its status", func() bool { after = look(); return after.Says != "" && after.Done.Ever.Pages > 0 })
	if after.Done.Ever.Pages < before.Done.Ever.Pages || after.Done.Ever.Bytes < before.Done.Ever.Bytes {
		t.Errorf("%+v\nthen %+v", before, after)
	}
}
