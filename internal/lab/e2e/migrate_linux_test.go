package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"shoal/internal/lab/judge"
	"shoal/internal/lab/pglab"
	"shoal/internal/lab/pond"
	"shoal/internal/lab/s3lab"
)

// serversAsked skips a test that takes a minute or two and has the object store for itself, unless it was asked for.
func serversAsked(t *testing.T) {
	t.Helper()
	if os.Getenv("SHOAL_TEST_SERVERS") == "" {
		t.Skip("make servers runs this")
	}
}

// TestMigrateWhileItRuns moves a network to servers while peers crawl it, and back, with the command that an operator uses. The first try is killed in its pause;
// the next one goes on. An outside judge looks at what the network does meanwhile: nothing that was acknowledged may be lost, and no host visited by two at a time.
func TestMigrateWhileItRuns(t *testing.T) {
	serversAsked(t)
	const largest = 20 // pages of a host
	w, err := pond.NewWorld(pond.Config{Seed: 7, Hosts: 12, Pages: 80, MaxHost: largest})
	if err != nil {
		t.Fatal(err)
	}
	db, bucket := pglab.Start(t, pglab.Options{}).URL(), s3lab.Start(t, s3lab.Options{})
	addr, data := servePond(t, w).Addr().String(), t.TempDir()
	listen, at := fmt.Sprintf("/ip4/127.0.0.1/tcp/%d", unusedPort(t)), fmt.Sprintf("127.0.0.1:%d", unusedPort(t))
	boss := func() *process {
		return start(t, "shoal", "manager", "--data", data, "--listen", listen, "--page", at, "--pond", addr, "--lease", "20s")
	}
	m := boss()
	g, join := pageOf(m, "Page "), m.word("shoal-peer join ")
	volunteers(t, 3, join, "--pond", addr, "--no-quic", "--no-low-priority", "--log-level", "warn")
	j, err := judge.New(t.Context(), judge.Config{Manager: g.base, Token: g.token, Pond: "http://" + addr, Slack: time.Minute, BlockGrace: time.Minute, Ordered: true, Whole: largest})
	if err != nil {
		t.Fatal(err)
	}
	crawled := func(since time.Time) {
		t.Helper()
		m.within(4*time.Minute, "crawls every channel", func() bool {
			if j.Look(t.Context()) != nil {
				return false
			}
			behind, err := j.Behind(t.Context(), since)
			return err == nil && len(behind) == 0
		})
	}
	migrate := func(args ...string) (out struct {
		Channels int
		Pause    float64 `json:"pause_s"`
		Archive  struct{ Files, Captures int }
	}) {
		t.Helper()
		p := start(t, "shoal", append([]string{"migrate", "--data", data, "--json"}, args...)...)
		if <-p.done; p.cmd.ProcessState.ExitCode() != 0 {
			t.Fatalf("migrate: %s", p.said())
		}
		if err := json.Unmarshal(p.out.Bytes(), &out); err != nil || out.Channels != 12 || out.Pause <= 0 || out.Archive.Files == 0 || out.Archive.Captures == 0 {
			t.Fatalf("%s: %+v, %v", p.out.String(), out, err)
		}
		return out
	}
	crawled(time.Time{})

	p := start(t, "shoal", "migrate", "--data", data, "--to", db, "--bucket", bucket.URL()) // broken off: the manager dies in its pause
	m.word("The data moves to another place")
	m.kill()
	m = boss()
	if <-p.done; p.cmd.ProcessState.ExitCode() == 0 {
		t.Errorf("a migration that was broken off: %s", p.said())
	}
	crawled(time.Now())

	up := migrate("--to", db, "--bucket", bucket.URL())
	crawled(time.Now())
	down := migrate("--to", "folder")
	crawled(time.Now())
	t.Logf("to servers: %d files ahead, a pause of %.1f s; back: a pause of %.1f s", up.Archive.Files, up.Pause, down.Pause)
	seen, err := j.End(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range j.Breaches() {
		t.Error(b)
	}
	t.Log(seen)
	m.end()
	run(t, "archive", "verify", "--data", data)
}
