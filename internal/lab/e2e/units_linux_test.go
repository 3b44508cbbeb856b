package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"shoal/internal/lab/pglab"
	"shoal/internal/lab/s3lab"
)

// TestManagerUnits runs the systemd units of a manager and of an archive alone, which share a network, as their first lines say. Only addresses are others: here both
// stand on one machine. The archive is killed, and comes back; both end in an orderly way.
func TestManagerUnits(t *testing.T) {
	serversAsked(t)
	d := startDebian(t)
	texts := map[string]string{}
	for _, unit := range []string{"manager", "archive"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "..", "deploy", "shoal-"+unit+".service"))
		if err != nil {
			t.Fatal(err)
		}
		texts[unit] = string(text)
	}
	db, store := pglab.StartProxy(t, pglab.Start(t, pglab.Options{}).Socket()), s3lab.Start(t, s3lab.Options{})
	if out, err := exec.Command("cp", filepath.Join(bin, "shoal"), filepath.Join(d.dir, "usr/local/bin/shoal")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	write := func(name, text string) {
		t.Helper()
		at := filepath.Join(d.dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	flags := map[string]string{"manager": "SHOAL_FLAGS=--closed --join-work 20\n"}
	for unit, text := range texts {
		name := "shoal-" + unit + ".service"
		write("etc/systemd/system/"+name, text)
		_, command, _ := strings.Cut(text, "\nExecStart=")
		command, _, _ = strings.Cut(command, "\n")
		write("etc/systemd/system/"+name+".d/here.conf", fmt.Sprintf("[Service]\nExecStart=\nExecStart=%s --listen /ip4/127.0.0.1/tcp/%d --page 127.0.0.1:%d\n", command, unusedPort(t), unusedPort(t)))
		write("etc/shoal/"+unit+".env", fmt.Sprintf("SHOAL_CONTACT=https://crawler.example/\nSHOAL_DB=postgres://shoal@%s/postgres?sslmode=disable\nSHOAL_BUCKET=%s\nSHOAL_SEVERAL=true\n%s", db.Addr(), store.URL(), flags[unit]))
		d.ok("systemd-analyze", "verify", "/etc/systemd/system/"+name)
	}
	d.ok("systemctl", "daemon-reload")
	journal := func(unit string) string {
		log, _ := d.try("journalctl", "-u", unit, "--no-pager", "-n", "30")
		return log
	}
	defer func() {
		if t.Failed() {
			t.Log(journal("shoal-manager"), journal("shoal-archive"))
		}
	}()
	shared := func() (partitions []int) {
		out, err := d.try("/usr/local/bin/shoal", "managers", "--json", "--data", "/var/lib/shoal")
		var list struct{ Managers []struct{ Partitions int } }
		if err != nil || json.Unmarshal([]byte(out), &list) != nil {
			return nil
		}
		for _, m := range list.Managers {
			partitions = append(partitions, m.Partitions)
		}
		return partitions
	}
	d.ok("systemctl", "enable", "--now", "shoal-manager")
	d.until("has a manager with all partitions", func() bool { p := shared(); return len(p) == 1 && p[0] == 256 })
	main := strings.TrimSpace(d.ok("systemctl", "show", "--property=MainPID", "--value", "shoal-manager"))
	if args := d.ok("cat", "/proc/"+main+"/cmdline"); !strings.Contains(args, "\x00--closed\x00--join-work\x0020\x00") {
		t.Errorf("the manager has not the flags of its file: %q", args)
	}
	d.ok("/usr/local/bin/shoal", "key", "backup", "--data", "/var/lib/shoal", "--out", "/root/network.key")
	d.ok("/usr/local/bin/shoal", "key", "restore", "--another", "/root/network.key", "--data", "/var/lib/shoal-archive")
	d.ok("systemctl", "enable", "--now", "shoal-archive")
	both := func() bool {
		p := shared()
		return len(p) == 2 && p[0] == 256 && p[1] == 0
	}
	d.until("has an archive beside the manager", both)
	pid := func() string {
		return strings.TrimSpace(d.ok("systemctl", "show", "--property=MainPID", "--value", "shoal-archive"))
	}
	before := pid()
	d.ok("systemctl", "kill", "--signal=KILL", "shoal-archive")
	d.until("starts a killed archive again", func() bool { now := pid(); return now != "0" && now != before })
	d.until("has an archive that serves again", func() bool { // until it is gone for the manager, the killed one is listed still
		log, _ := d.try("journalctl", "-u", "shoal-archive", "--no-pager")
		return strings.Count(log, "Page    http") == 2
	})
	d.until("has the archive beside the manager again", both)

	// What root does in the service's folder. A backup goes where both see it, or root is told; and the manager can read what root has written.
	backup := func(dir string) (string, error) {
		return d.try("/usr/local/bin/shoal", "backup", dir, "--data", "/var/lib/shoal")
	}
	if out, err := backup("/var/lib/shoal-backups/one"); err != nil {
		t.Errorf("backup: %v\n%s", err, out)
	}
	d.ok("test", "-e", "/var/lib/shoal-backups/one/keys")
	if out, err := backup("/tmp/one"); err == nil || !strings.Contains(out, "is not there for you") {
		t.Errorf("a backup in the service's own /tmp: %v\n%s", err, out)
	}
	d.ok("/usr/local/bin/shoal", "key", "backup", "--data", "/var/lib/shoal", "--out", "/root/again.key")
	d.ok("/usr/local/bin/shoal", "key", "rotate", "--data", "/var/lib/shoal")
	d.ok("systemctl", "restart", "shoal-manager")
	d.until("has a manager again after its key was rotated", both)
	for _, unit := range []string{"shoal-archive", "shoal-manager"} {
		d.ok("systemctl", "stop", unit)
		if how := d.ok("systemctl", "show", "--property=Result,ExecMainStatus", unit); !strings.Contains(how, "Result=success") || !strings.Contains(how, "ExecMainStatus=0") {
			t.Errorf("%s ended: %s", unit, how)
		}
	}
	write("etc/shoal/manager.env", "SHOAL_CONTACT=https://crawler.example/\n") // a backup is a folder, and needs no servers
	restoresUnit(t, d)
}

// restoresUnit restores the backup of the stopped service as docs/operator.md says, and starts the service on it.
func restoresUnit(t *testing.T, d *debian) {
	t.Helper()
	started := func() int {
		log, _ := d.try("journalctl", "-u", "shoal-manager", "--no-pager")
		return strings.Count(log, "Page    http")
	}
	before := started()
	restore := []string{"/usr/local/bin/shoal", "restore", "/var/lib/shoal-backups/one", "--data", "/var/lib/shoal"}
	if out, err := d.try(restore...); err == nil || !strings.Contains(out, "leave the folder itself, a link") {
		t.Errorf("restored over data: %v\n%s", err, out)
	}
	d.ok("mkdir", "-m", "700", "/var/lib/shoal-before")
	d.ok("find", "/var/lib/shoal/", "-mindepth", "1", "-maxdepth", "1", "-exec", "mv", "-t", "/var/lib/shoal-before", "{}", "+")
	d.ok(restore...)
	d.ok("systemctl", "start", "shoal-manager")
	d.until("has a manager on what was restored", func() bool { return started() > before })
	d.ok("systemctl", "stop", "shoal-manager")
}
