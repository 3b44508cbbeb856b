//go:build unix

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"shoal/internal/lab/pond"
	"shoal/manager/desk"
)

// crashes and sleeps are programs that are signed as versions of shoal-peer.
const (
	crashes = "package main\n\nfunc main() { panic(\"a bad release\") }\n"
	sleeps  = "package main\n\nimport \"time\"\n\nfunc main() { time.Sleep(time.Hour) }\n"
)

// updateNet is a network that signs releases, with one peer that runs as a service does.
type updateNet struct {
	t                         *testing.T
	data, repo, key, pond, is string // is: folder of the peer
	boss, peer                *process
	page                      page
}

// built builds a program of a version, or a small one from source.
func built(t *testing.T, version, source string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	out := filepath.Join(dir, "shoal-peer")
	cmd := exec.Command("go", "build", "-o", out, "-ldflags", "-s -w -X shoal/internal/version.stamp="+version, "./cmd/shoal-peer")
	cmd.Dir = filepath.Join("..", "..", "..")
	if source != "" {
		file := filepath.Join(t.TempDir(), "main.go")
		if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd = exec.Command("go", "build", "-o", out, file)
	}
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", version, err, text)
	}
	return dir
}

// shoal runs a command to its end.
func (n *updateNet) shoal(args ...string) string {
	n.t.Helper()
	return n.ran("shoal", args...)
}

func (n *updateNet) ran(program string, args ...string) string {
	n.t.Helper()
	p := start(n.t, program, args...)
	<-p.done
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		n.t.Fatalf("%s %v: status %d\n%s\n%s", program, args, code, p.said(), p.out.String())
	}
	return p.out.String()
}

func newUpdateNet(t *testing.T) *updateNet {
	t.Helper()
	w, err := pond.NewWorld(pond.Config{Seed: 5, Hosts: 12, Pages: 400, MaxHost: 60, Plain: true})
	if err != nil {
		t.Fatal(err)
	}
	n := &updateNet{t: t, data: t.TempDir(), repo: filepath.Join(t.TempDir(), "repo"), key: filepath.Join(t.TempDir(), "release.key"), is: t.TempDir(), pond: servePond(t, w).Addr().String()}
	n.boss = start(t, "shoal", "manager", "--data", n.data, "--listen", "/ip4/127.0.0.1/tcp/0", "--page", "127.0.0.1:0", "--pond", n.pond, "--lease", "1m")
	n.page = pageOf(n.boss, "Page ")
	join := n.boss.word("shoal-peer join ")
	backup := filepath.Join(t.TempDir(), "backup")
	n.shoal("key", "backup", "--data", n.data, "--out", backup)
	n.shoal("release", "init", n.repo, "--key", n.key, "--backup", backup)
	n.ran("shoal-peer", "join", "--yes", join, "--data", n.is)
	return n
}

// run has the installed program, of version v1.0.0, run as a service manager would.
func (n *updateNet) run(installed string) {
	n.t.Helper()
	cmd := exec.Command(filepath.Join(installed, "shoal-peer"), "service", "run", "--data", n.is, "--pond", n.pond, "--port", "0", "--listen", "127.0.0.1", "--no-quic", "--no-low-priority", "--update-minute", "1s", "--in-use", "run", "--on-battery", "run", "--on-metered", "run", "--full-screen", "run", "--busy-percent", "100")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	n.peer = launch(n.t, "shoal-peer", cmd)
	n.t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }) // all of its versions; none may be left
}

// told is what the peer says of updates.
func (n *updateNet) told() (u struct {
	State, Version, Offered, Before string
	Refused                         []struct{ Version, Why string }
}) {
	p := start(n.t, "shoal-peer", "update", "--json", "--data", n.is)
	<-p.done
	_ = json.Unmarshal(p.out.Bytes(), &u) // nothing while no peer answers
	return u
}

// offer signs a program, rolls it out to all, and has the peer take it.
func (n *updateNet) offer(version, dir string) {
	n.t.Helper()
	n.shoal("release", "add", dir, "--repo", n.repo, "--key", n.key, "--notes", "for a test", "--version", version)
	n.shoal("release", "publish", n.repo, "--data", n.data)
	n.shoal("release", "rollout", version, "--share", "100%", "--data", n.data)
	n.peer.until("is offered "+version, func() bool {
		n.ran("shoal-peer", "update", "look", "--data", n.is)
		return n.told().Offered == version
	})
	n.ran("shoal-peer", "update", "take", "--data", n.is)
}

// fell waits until the peer runs its old version again, and has told so.
func (n *updateNet) fell(version, why, runs string) {
	n.t.Helper()
	n.peer.until("went back from "+version, func() bool {
		u := n.told()
		return u.Version == runs && len(u.Refused) > 0 && u.Refused[len(u.Refused)-1].Version == version && strings.Contains(u.Refused[len(u.Refused)-1].Why, why)
	})
	n.boss.until("is told that it fell back", func() bool {
		n.ran("shoal-peer", "update", "look", "--data", n.is)
		return n.releases().Rollout.Fell == 1
	})
}

func (n *updateNet) releases() (r desk.Releases) {
	if err := n.page.get("/api/v1/releases", &r); err != nil {
		n.t.Fatal(err)
	}
	return r
}

// fetches are the times at which the peer fetched pages.
func (n *updateNet) fetches() (at []time.Time) {
	n.t.Helper()
	for line := range strings.Lines(n.ran("shoal-peer", "log", "--json", "--lines", "100000", "--data", n.is)) {
		var e struct{ At time.Time }
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			n.t.Fatal(err)
		}
		at = append(at, e.At)
	}
	slices.SortFunc(at, time.Time.Compare)
	return at
}

// TestUpdates runs a peer under load through a release that crashes, one that starts and does nothing, and a good one; then old ones are offered again, and
// the power goes. Programs are built for it, which takes a minute.
func TestUpdates(t *testing.T) {
	if os.Getenv("SHOAL_UPDATES") == "" {
		t.Skip("SHOAL_UPDATES is not set: two minutes (make updates)")
	}
	installed, good := built(t, "v1.0.0", ""), built(t, "v1.1.0", "")
	n := newUpdateNet(t)
	n.run(installed)
	n.boss.until("has updates of channels", func() bool { return n.page.overview().Updates >= 3 })

	n.offer("v1.0.1", built(t, "v1.0.1", crashes))
	n.fell("v1.0.1", "crashed 3 times", "v1.0.0")

	n.offer("v1.0.2", built(t, "v1.0.2", sleeps))
	n.fell("v1.0.2", "did not connect", "v1.0.0")

	rows, err := n.page.rows()
	if err != nil {
		t.Fatal(err)
	}
	before, since := n.page.overview().Updates, time.Now()
	n.offer("v1.1.0", good)
	n.peer.until("keeps the new version", func() bool { u := n.told(); return u.Version == "v1.1.0" && u.State != "trial" })
	n.boss.until("has more updates of channels", func() bool { return n.page.overview().Updates > before+3 })
	n.boss.until("counts the new version", func() bool {
		r := n.releases().Rollout
		return len(r.Runs) > 0 && r.Runs[0].Version == "v1.1.0" && r.Runs[0].Peers == 1 && r.Runs[0].Trial == 0 && r.Took == 1 && r.Fell == 0
	})
	after, err := n.page.rows()
	if err != nil {
		t.Fatal(err)
	}
	for i := range rows {
		if k := slices.IndexFunc(after, func(r desk.Row) bool { return r.ID == rows[i].ID }); k < 0 || after[k].Visits < rows[i].Visits {
			t.Errorf("%s has lost visits over the update", rows[i].Host)
		}
	}
	gap, last := time.Duration(0), since
	for _, at := range n.fetches() {
		if at.After(since) {
			gap, last = max(gap, at.Sub(last)), at
		}
	}
	t.Logf("the longest time without crawling around the update: %v", gap.Round(100*time.Millisecond))
	if gap > 30*time.Second {
		t.Errorf("%v without crawling, at most 30 s may be", gap)
	}

	for i := range 10 { // older ones
		n.shoal("release", "rollout", []string{"v1.0.1", "v1.0.2"}[i%2], "--share", "100%", "--again", "--data", n.data)
		n.peer.until("hears of the older version", func() bool {
			n.ran("shoal-peer", "update", "look", "--data", n.is)
			return n.told().Offered == []string{"v1.0.1", "v1.0.2"}[i%2]
		})
		if p := start(t, "shoal-peer", "update", "take", "--data", n.is); p != nil {
			<-p.done
			if p.cmd.ProcessState.ExitCode() == 0 {
				t.Error("an older version is taken")
			}
		}
		if u := n.told(); u.Version != "v1.1.0" {
			t.Fatalf("runs %s", u.Version)
		}
	}

	// The power goes: installed program and new version at once.
	if err := syscall.Kill(-n.peer.cmd.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-n.peer.done
	n.run(installed)
	before = n.page.overview().Updates
	n.peer.until("runs the new version after a start", func() bool { return n.told().Version == "v1.1.0" })
	n.boss.until("has updates after that", func() bool { return n.page.overview().Updates > before })
	if runtime.GOOS == "linux" { // it took the installed program's place
		exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", n.peer.cmd.Process.Pid))
		if err != nil || !strings.HasSuffix(exe, "shoal-peer-v1.1.0") {
			t.Errorf("the process runs %s, %v", exe, err)
		}
	}
	n.peer.end()
	n.boss.end()
	captures(t, n.data) // which verifies the archive
	if !bytes.Contains([]byte(n.boss.said()), []byte("Stopped")) {
		t.Error("the manager ended badly")
	}
}
