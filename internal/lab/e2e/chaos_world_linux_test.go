package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// ownWorld gives this process, which has namespaces of its own, a loopback network, and mounts that no other process sees.
func ownWorld(t *testing.T) {
	t.Helper()
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Fatalf("private mounts: %v", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		t.Fatalf("processes: %v", err)
	}
	if out, err := exec.Command("ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
		t.Fatalf("loopback: %v: %s", err, out)
	}
}

// wires are the peers' ways to other members. Each peer's process has a group of its own, by which packets are known.
type wires struct {
	t     *testing.T
	web   uint16 // the pond's port, which is never cut
	rules map[int]string
}

// firstGroup is the group of the first peer.
const firstGroup = 41_000

func newWires(t *testing.T, web uint16) *wires {
	return &wires{t: t, web: web, rules: map[int]string{}}
}

// cut drops what a peer sends; lossy drops a third of it; mend drops nothing any more.
func (w *wires) cut(peer int)   { w.set(peer, "drop") }
func (w *wires) lossy(peer int) { w.set(peer, "numgen random mod 3 == 0 drop") }
func (w *wires) mend(peer int)  { w.set(peer, "") }

func (w *wires) set(peer int, rule string) {
	w.t.Helper()
	if w.rules[peer] = rule; rule == "" {
		delete(w.rules, peer)
	}
	text := "add table ip chaos\nadd chain ip chaos out { type filter hook output priority 0; }\nflush chain ip chaos out\n"
	for p, r := range w.rules {
		text += fmt.Sprintf("add rule ip chaos out meta skgid %d tcp dport != %d %s\n", firstGroup+p, w.web, r)
	}
	cmd := exec.Command("nft", "-f", "-")
	cmd.Stdin = strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil {
		w.t.Fatalf("nft: %v: %s", err, out)
	}
}

// disk is a file system of its own, which can be filled and can hang.
type disk struct {
	t    *testing.T
	root string
	hung bool
}

// diskSize is far more than a run writes.
const diskSize = 4 << 30

func newDisk(t *testing.T) *disk {
	t.Helper()
	dir := t.TempDir()
	image := filepath.Join(dir, "image")
	d := &disk{t: t, root: filepath.Join(dir, "root")}
	f, err := os.Create(image)
	if err == nil {
		err = errors.Join(f.Truncate(diskSize), f.Close(), os.Mkdir(d.root, 0o700))
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"mkfs.ext4", "-q", "-m", "0", "-E", "lazy_itable_init=1,lazy_journal_init=1", image}, {"mount", "-o", "loop", image, d.root}} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", args, err, out)
		}
	}
	t.Cleanup(func() {
		d.thaw()
		if out, err := exec.Command("umount", d.root).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
	return d
}

func (d *disk) ballast() string { return filepath.Join(d.root, "ballast") }

// fill leaves that many bytes free.
func (d *disk) fill(left int64) {
	d.t.Helper()
	var st unix.Statfs_t
	if err := unix.Statfs(d.root, &st); err != nil {
		d.t.Fatal(err)
	}
	f, err := os.Create(d.ballast())
	if err != nil {
		d.t.Fatal(err)
	}
	defer f.Close()
	for size := int64(st.Bavail)*st.Bsize - left; size > 0; size -= 1 << 20 {
		if err = unix.Fallocate(int(f.Fd()), 0, 0, size); !errors.Is(err, unix.ENOSPC) { // the manager may have written meanwhile
			break
		}
	}
	if err != nil {
		d.t.Fatal(err)
	}
}

// empty makes room again.
func (d *disk) empty() {
	d.t.Helper()
	if err := os.Remove(d.ballast()); err != nil {
		d.t.Fatal(err)
	}
}

// Requests of linux/fs.h.
const (
	fiFreeze = 0xC0045877
	fiThaw   = 0xC0045878
)

// freeze has all writes wait until thaw.
func (d *disk) freeze() { d.hung = d.control(fiFreeze) }

func (d *disk) thaw() {
	if d.hung {
		d.hung = !d.control(fiThaw)
	}
}

func (d *disk) control(request int) bool {
	d.t.Helper()
	f, err := os.Open(d.root)
	if err != nil {
		d.t.Error(err)
		return false
	}
	defer f.Close()
	if err := unix.IoctlSetInt(int(f.Fd()), uint(request), 0); err != nil {
		d.t.Errorf("freeze or thaw the disk: %v", err)
		return false
	}
	return true
}

// missing are those of some programs that this machine does not have.
func missing(programs ...string) []string {
	return slices.DeleteFunc(programs, func(p string) bool { _, err := exec.LookPath(p); return err == nil })
}
