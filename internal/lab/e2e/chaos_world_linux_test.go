package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

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

// disk is a file system of its own, which can be filled, can hang and can fail.
type disk struct {
	t     *testing.T
	image string
	root  string
	hung  bool
	brisk func() // ends its slowness; nil: it is not slow
}

// diskSize is far more than a run writes.
const diskSize = 4 << 30

func newDisk(t *testing.T) *disk {
	t.Helper()
	dir := t.TempDir()
	d := &disk{t: t, image: filepath.Join(dir, "image"), root: filepath.Join(dir, "root")}
	f, err := os.Create(d.image)
	if err == nil {
		err = errors.Join(f.Truncate(diskSize), f.Close(), os.Mkdir(d.root, 0o700))
	}
	if err != nil {
		t.Fatal(err)
	}
	d.command("mkfs.ext4", "-q", "-m", "0", "-E", "lazy_itable_init=1,lazy_journal_init=1", d.image)
	d.mount()
	t.Cleanup(func() {
		if d.brisk != nil {
			d.brisk()
		}
		d.thaw()
		d.command("umount", d.root)
	})
	return d
}

func (d *disk) mount() { d.command("mount", "-o", "loop", d.image, d.root) }

func (d *disk) command(args ...string) {
	d.t.Helper()
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		d.t.Errorf("%v: %v: %s", args, err, out)
	}
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

// empty makes room again, for good: a disk that fails afterwards must not bring the file back.
func (d *disk) empty() {
	d.t.Helper()
	if err := os.Remove(d.ballast()); err != nil {
		d.t.Fatal(err)
	}
	root, err := os.Open(d.root)
	if err != nil {
		d.t.Fatal(err)
	}
	defer root.Close()
	if err := root.Sync(); err != nil {
		d.t.Fatal(err)
	}
}

// Requests of linux/fs.h and of ext4.
const (
	fiFreeze     = 0xC0045877
	fiThaw       = 0xC0045878
	ext4Shutdown = 0x8004587d

	noJournal = 2 // what is in the journal's memory is lost
)

// freeze has all writes wait until thaw.
func (d *disk) freeze() { d.hung = d.control(fiFreeze) }

func (d *disk) thaw() {
	if d.hung {
		d.hung = !d.control(fiThaw)
	}
}

// slow has the disk hang for a while over and over, until brisk is called.
func (d *disk) slow() {
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for pause := time.Duration(0); ; pause = 50 * time.Millisecond {
			select {
			case <-stop:
				return
			case <-time.After(pause):
			}
			d.freeze()
			time.Sleep(200 * time.Millisecond)
			d.thaw()
		}
	}()
	d.brisk = func() {
		close(stop)
		<-done
		d.brisk = nil
	}
}

// fail has everything fail from now on, fsync too. renew mounts the disk again: it has what was durable before. Nobody may use it meanwhile.
func (d *disk) fail() {
	d.t.Helper()
	f, err := os.Open(d.root)
	if err != nil {
		d.t.Fatal(err)
	}
	defer f.Close()
	if err := unix.IoctlSetPointerInt(int(f.Fd()), ext4Shutdown, noJournal); err != nil {
		d.t.Fatalf("the disk cannot be made to fail: %v", err)
	}
}

func (d *disk) renew() {
	d.t.Helper()
	d.command("umount", d.root)
	d.mount()
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

// roomSize is what a peer's folder has room for: it is a file system of its own, in memory. What it does not use takes none.
const roomSize = 4 << 30

func newRoom(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprint("mode=700,size=", roomSize)); err != nil {
		t.Fatalf("a disk for a peer: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("a peer's disk: %v", err)
		}
	})
	return dir
}

// resize leaves that much free in such a folder.
func resize(t *testing.T, dir string, left int64) {
	t.Helper()
	for { // the peer may write meanwhile, and what it has keeps its room
		var st unix.Statfs_t
		if err := unix.Statfs(dir, &st); err != nil {
			t.Fatal(err)
		}
		used := int64(st.Blocks-st.Bfree) * st.Bsize
		err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_REMOUNT, fmt.Sprint("size=", used+left))
		if errors.Is(err, unix.EINVAL) {
			continue
		}
		if err != nil {
			t.Fatalf("a peer's disk: %v", err)
		}
		return
	}
}

// missing are those of some programs that this machine does not have.
func missing(programs ...string) []string {
	return slices.DeleteFunc(programs, func(p string) bool { _, err := exec.LookPath(p); return err == nil })
}
