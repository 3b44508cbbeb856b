package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"shoal/internal/lab/pond"
)

// debian is a copy of a Debian system that has been started: its own systemd runs in namespaces, on this computer's network.
type debian struct {
	t      *testing.T
	dir    string
	leader string // process id of its systemd
}

// startDebian starts a copy of the root that SHOAL_DEBIAN names, as debootstrap --variant=minbase --include=systemd,systemd-sysv,dbus makes it.
func startDebian(t *testing.T) *debian {
	root := os.Getenv("SHOAL_DEBIAN")
	missing := ""
	switch {
	case os.Geteuid() != 0:
		missing = "only root can start another system"
	case root == "":
		missing = "SHOAL_DEBIAN names no Debian root; make one with: debootstrap --variant=minbase --include=systemd,systemd-sysv,dbus bookworm DIR"
	default:
		for _, tool := range []string{"systemd-nspawn", "nsenter"} {
			if _, err := exec.LookPath(tool); err != nil {
				missing = tool + " is not here (Debian: systemd-container, util-linux)"
			}
		}
	}
	if missing != "" {
		if os.Getenv("SHOAL_TEST_STRICT") != "" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	d := &debian{t: t, dir: filepath.Join(t.TempDir(), "debian")}
	d.over(root)
	cmd := exec.Command("systemd-nspawn", "--quiet", "--directory="+d.dir, "--machine=shoal-test-"+strconv.Itoa(os.Getpid()), "--register=no", "--keep-unit", "--boot", "--console=read-only")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	began, ended := make(chan error), make(chan struct{})
	go func() {
		defer close(ended)
		runtime.LockOSThread() // the signal comes when the thread ends that started the process
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		if began <- err; err == nil {
			cmd.Wait()
		}
	}()
	if err := <-began; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if pid, err := strconv.Atoi(d.leader); err == nil {
			syscall.Kill(pid, syscall.SIGKILL) // and with it all that runs in its namespace
		}
		cmd.Process.Kill()
		<-ended
	})
	state := "its first process does not start"
	defer func() {
		if t.Failed() {
			t.Log(state)
		}
	}()
	of := fmt.Sprintf("/proc/%d/task/%d/children", cmd.Process.Pid, cmd.Process.Pid)
	d.until("runs", func() bool {
		b, _ := os.ReadFile(of)
		if d.leader = strings.TrimSpace(string(b)); d.leader == "" || strings.Contains(d.leader, " ") {
			return false
		}
		out, err := d.try("systemctl", "is-system-running")
		if state = strings.TrimSpace(out); err != nil {
			state += ", " + err.Error()
		}
		return strings.HasPrefix(out, "running") || strings.HasPrefix(out, "degraded")
	})
	return d
}

// over lays the system over a root, which stays as it is. Where the kernel cannot do that, as in some containers, the root is copied.
func (d *debian) over(root string) {
	d.t.Helper()
	changes, work := d.dir+"-changes", d.dir+"-work"
	for _, dir := range []string{d.dir, changes, work} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			d.t.Fatal(err)
		}
	}
	if syscall.Mount("overlay", d.dir, "overlay", 0, "lowerdir="+root+",upperdir="+changes+",workdir="+work) == nil {
		d.t.Cleanup(func() {
			if err := syscall.Unmount(d.dir, syscall.MNT_DETACH); err != nil {
				d.t.Errorf("unmount the system: %v", err)
			}
		})
		return
	}
	if out, err := exec.Command("cp", "-a", root+"/.", d.dir).CombinedOutput(); err != nil {
		d.t.Fatalf("%v\n%s", err, out)
	}
}

func (d *debian) try(args ...string) (string, error) {
	cmd := exec.Command("nsenter", append([]string{"--target", d.leader, "--all", "--wd=/"}, args...)...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8", "HOME=/root"}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// ok runs a command in the system and expects success.
func (d *debian) ok(args ...string) string {
	d.t.Helper()
	out, err := d.try(args...)
	if err != nil {
		log, _ := d.try("journalctl", "-u", "shoal-peer", "--no-pager", "-n", "20")
		d.t.Fatalf("%s: %v\n%s\n%s", strings.Join(args, " "), err, out, log)
	}
	return out
}

func (d *debian) until(what string, is func() bool) {
	d.t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			d.t.Fatalf("the system never %s", what)
		}
	}
}

// write writes a file into the system.
func (d *debian) write(path, text string) {
	d.t.Helper()
	to := filepath.Join(d.dir, path)
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		d.t.Fatal(err)
	}
	if err := os.WriteFile(to, []byte(text), 0o644); err != nil {
		d.t.Fatal(err)
	}
}

// packages puts the peer's deb into the system: as shoal-dist makes it from the programs of these tests, and once more as a later version.
func (d *debian) packages() {
	d.t.Helper()
	dir := d.t.TempDir()
	tool := filepath.Join(dir, "shoal-dist")
	build := exec.Command("go", "build", "-ldflags", "-s -w", "-o", tool, "./cmd/shoal-dist")
	build.Dir = filepath.Join("..", "..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		d.t.Fatalf("%v\n%s", err, out)
	}
	pack := exec.Command(tool, "--programs", bin, "--targets", "linux/"+runtime.GOARCH, "--products", "shoal-peer", "--version", "v0.0.9", "--date", "1800000000", "--out", dir)
	pack.Dir = build.Dir
	if out, err := pack.CombinedOutput(); err != nil {
		d.t.Fatalf("%v\n%s", err, out)
	}
	list, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	if err != nil || len(list) != 1 {
		d.t.Fatalf("%v, %v", list, err)
	}
	if out, err := exec.Command("cp", list[0], filepath.Join(d.dir, "root", "older.deb")).CombinedOutput(); err != nil {
		d.t.Fatalf("%v\n%s", err, out)
	}
	d.ok("dpkg-deb", "--raw-extract", "/root/older.deb", "/root/newer")
	d.ok("sed", "-i", "s/^Version: .*/Version: 0.1.0/", "/root/newer/DEBIAN/control")
	d.ok("dpkg-deb", "-Zgzip", "-z1", "--build", "/root/newer", "/root/newer.deb")
	d.ok("rm", "-r", "/root/newer")
}

// TestDeb lives through the life of the package on a Debian system whose own systemd keeps the service in its sandbox: two commands to the first archived page,
// a crash, an upgrade, removal and purge.
func TestDeb(t *testing.T) {
	drivesPrograms(t)
	t.Parallel()
	d := startDebian(t)
	d.packages()
	w, err := pond.NewWorld(pond.Config{Seed: 3, Hosts: 16, Pages: 300, MaxHost: 30, Plain: true})
	if err != nil {
		t.Fatal(err)
	}
	addr := servePond(t, w).Addr().String()
	m := start(t, "shoal", "manager", "--data", t.TempDir(), "--listen", "/ip4/127.0.0.1/tcp/0", "--page", "127.0.0.1:0", "--pond", addr, "--lease", "1m")
	g := pageOf(m, "Page ")
	join := m.word("shoal-peer join ")
	// The pond stands for the Web, and on a busy machine the peer does not wait for all else. The rest is as the package has it.
	d.write("/etc/systemd/system/shoal-peer.service.d/pond.conf", "[Service]\nExecStart=\nExecStart=/usr/bin/shoal-peer service run --pond "+addr+" --port 0 --listen 127.0.0.1 --no-quic --control 127.0.0.1:0 --no-low-priority\nNice=0\nIOSchedulingClass=best-effort\n")

	began := time.Now()
	d.ok("dpkg", "-i", "/root/older.deb")
	if out := d.ok("shoal-peer", "--system", "join", "--yes", join); !strings.Contains(out, "The service crawls from now on") {
		t.Errorf("joining says\n%s", out)
	}
	m.until("archived a page", func() bool { return g.overview().Archived > 0 })
	t.Logf("from dpkg -i to the first archived page: two commands, %.1f s", time.Since(began).Seconds())

	if out := d.ok("shoal-peer", "--system", "service", "status"); !strings.Contains(out, "active (running), enabled") || !strings.Contains(out, "a package (deb)") {
		t.Errorf("service status says\n%s", out)
	}
	if out := d.ok("find", "/var/lib/shoal-peer", "!", "-user", "shoal-peer"); out != "" {
		t.Errorf("files of the peer belong to another account: %s", out)
	}
	d.crash()
	d.upgrade()
	d.goes()
}

// crash kills the program as a fault would; systemd and the program's own wait bring it back.
func (d *debian) crash() {
	d.t.Helper()
	pid := d.ok("systemctl", "show", "--property=MainPID", "--value", "shoal-peer")
	d.ok("systemctl", "kill", "--kill-whom=main", "--signal=SEGV", "shoal-peer") // there are no others, and systemd would look for them while it ends
	d.until("ran the peer again after a crash", func() bool {
		now, err := d.try("systemctl", "show", "--property=MainPID", "--value", "shoal-peer")
		if err != nil || now == pid {
			return false
		}
		_, err = d.try("shoal-peer", "--system", "status")
		return err == nil
	})
	if out := d.ok("journalctl", "-u", "shoal-peer", "--no-pager"); !strings.Contains(out, "ended without being asked to") {
		d.t.Errorf("the journal says nothing of the crash:\n%s", out)
	}
}

// upgrade keeps what the administrator wrote, the membership, and the running service.
func (d *debian) upgrade() {
	d.t.Helper()
	const mine = "SHOAL_PEER_ACCOUNT=mine\n"
	d.write("/etc/shoal/peer.env", mine)
	before := d.ok("sha256sum", "/var/lib/shoal-peer/node.key")
	d.ok("dpkg", "-i", "/root/newer.deb")
	if out := d.ok("dpkg-query", "-W", "-f", "${Version}", "shoal-peer"); out != "0.1.0" {
		d.t.Errorf("version %s after the upgrade", out)
	}
	if out := d.ok("cat", "/etc/shoal/peer.env"); out != mine {
		d.t.Errorf("the administrator's file is now\n%s", out)
	}
	d.until("ran the peer after the upgrade", func() bool { _, err := d.try("shoal-peer", "--system", "status"); return err == nil })
	if after := d.ok("sha256sum", "/var/lib/shoal-peer/node.key"); after != before {
		d.t.Error("the peer is another one after the upgrade")
	}
	d.ok("systemctl", "disable", "--now", "shoal-peer")
	d.ok("dpkg", "-i", "/root/newer.deb")
	if out, _ := d.try("systemctl", "is-enabled", "shoal-peer"); strings.TrimSpace(out) != "disabled" {
		d.t.Errorf("an upgrade switched on what the administrator had switched off: %s", out)
	}
}

// goes removes the package, which keeps the data, and purges it, which keeps nothing.
func (d *debian) goes() {
	d.t.Helper()
	d.ok("dpkg", "--remove", "shoal-peer")
	d.ok("test", "-s", "/var/lib/shoal-peer/node.key")
	d.ok("test", "!", "-e", "/usr/bin/shoal-peer")
	d.ok("dpkg", "-i", "/root/newer.deb")
	d.ok("systemctl", "start", "shoal-peer")
	d.until("ran the peer after it was installed again", func() bool { _, err := d.try("shoal-peer", "--system", "status"); return err == nil })
	d.ok("dpkg", "--purge", "shoal-peer")
	if out, err := d.try("getent", "passwd", "shoal-peer"); err == nil {
		d.t.Errorf("the account is still there: %s", out)
	}
	d.ok("rm", "-r", "/etc/systemd/system/shoal-peer.service.d") // the test's own
	if out := d.ok("find", "/", "-xdev", "-name", "*shoal*", "-not", "-path", "/proc/*", "-not", "-path", "/var/log/*", "-not", "-path", "/run/*"); out != "" {
		d.t.Errorf("after purging there is still\n%s", out)
	}
	if out := d.ok("systemctl", "list-units", "--failed", "--no-legend", "--plain"); strings.Contains(out, "shoal") {
		d.t.Errorf("systemd still knows\n%s", out)
	}
}
