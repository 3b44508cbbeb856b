package disklab

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// piece is the unit that a disk writes whole or not at all in these tests: a page of a file system.
const piece = 4 << 10

// Disk is a disk that remembers everything written to it.
type Disk struct {
	dir  string // of its own
	loop string
	done chan error

	mu      sync.Mutex
	image   []byte
	log     []write
	refuses bool
}

// write is one write to the disk, or a flush.
type write struct {
	at    int64
	data  []byte
	flush bool
}

// New creates a disk of that many bytes in a folder of its own below dir, with an ext4 file system mounted at Root.
func New(dir string, size int64) (*Disk, error) {
	d := &Disk{dir: dir, image: make([]byte, size), done: make(chan error, 1)}
	for _, sub := range []string{"fuse", "root"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o700); err != nil {
			return nil, err
		}
	}
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open /dev/fuse: %w", err)
	}
	dev := os.NewFile(uintptr(fd), "/dev/fuse")
	if err := unix.Mount("disklab", d.path("fuse"), "fuse", unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fd)); err != nil {
		return nil, errors.Join(fmt.Errorf("mount: %w", err), dev.Close())
	}
	go func() { d.done <- errors.Join(d.serve(dev), dev.Close()) }()
	if d.loop, err = run("losetup", "--find", "--show", filepath.Join(d.path("fuse"), fileName)); err == nil {
		if _, err = run("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard", d.loop); err == nil {
			_, err = run("mount", d.loop, d.Root())
		}
	}
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

func (d *Disk) path(name string) string { return filepath.Join(d.dir, name) }

// Root returns the mount point of the file system.
func (d *Disk) Root() string { return d.path("root") }

// Close unmounts the disk and removes its files.
func (d *Disk) Close() error {
	var errs []error
	if _, err := run("mountpoint", "-q", d.Root()); err == nil {
		_, err := run("umount", d.Root())
		errs = append(errs, err)
	}
	if d.loop != "" {
		_, err := run("losetup", "--detach", d.loop)
		errs = append(errs, err)
	}
	_, err := run("umount", d.path("fuse"))
	return errors.Join(append(errs, err, <-d.done)...)
}

// Now returns the number of writes and flushes so far: the current moment, as Cut takes it.
func (d *Disk) Now() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.log)
}

func (d *Disk) read(at int64, n int) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	at = min(at, int64(len(d.image)))
	return append([]byte(nil), d.image[at:min(at+int64(n), int64(len(d.image)))]...)
}

// Refuse has the disk refuse every write with an error, or no longer. A file system bears it for the moments until it writes its journal.
func (d *Disk) Refuse(on bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.refuses = on
}

// write reports whether the disk takes what is written.
func (d *Disk) write(at int64, b []byte) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.refuses {
		return false
	}
	d.log = append(d.log, write{at: at, data: append([]byte(nil), b...)})
	copy(d.image[at:], b)
	return true
}

func (d *Disk) flush() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.log = append(d.log, write{flush: true})
}

// Left describes how much of the unflushed writes a cut has left.
type Left struct {
	Pieces, Kept int
}

// Moment returns a moment for a cut, between from and the last flush. A third of the moments are arbitrary, a third
// lie just before some flush, and a third just before one of the flushes that had most to write. If there was no
// flush, Moment returns from.
func (d *Disk) Moment(rng *rand.Rand, from int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	type flush struct{ at, pieces int }
	var all []flush
	pieces := 0
	for n := from; n < len(d.log); n++ {
		if pieces += (len(d.log[n].data) + piece - 1) / piece; d.log[n].flush {
			all, pieces = append(all, flush{n, pieces}), 0
		}
	}
	if len(all) == 0 {
		return from
	}
	switch rng.IntN(3) {
	case 0:
		return from + rng.IntN(all[len(all)-1].at-from+1)
	case 1:
		return all[rng.IntN(len(all))].at
	}
	slices.SortFunc(all, func(a, b flush) int { return b.pieces - a.pieces })
	return all[rng.IntN(1+len(all)/20)].at
}

// Cut calls f with a folder that holds what a power failure at a moment may have left of the disk. Each piece of an
// unflushed write is there with probability kept.
func (d *Disk) Cut(rng *rand.Rand, moment int, kept float64, f func(root string)) (left Left, err error) {
	d.mu.Lock()
	image, log := make([]byte, len(d.image)), d.log[:moment]
	d.mu.Unlock()
	flushed := len(log)
	for flushed > 0 && !log[flushed-1].flush {
		flushed--
	}
	for n, w := range log {
		for at := 0; at < len(w.data); at += piece {
			if n >= flushed {
				if left.Pieces++; rng.Float64() >= kept {
					continue
				}
				left.Kept++
			}
			copy(image[w.at+int64(at):], w.data[at:min(at+piece, len(w.data))])
		}
	}
	name, root := d.path("cut.img"), d.path("cut")
	if err := errors.Join(os.MkdirAll(root, 0o700), sparse(name, image)); err != nil {
		return left, err
	}
	defer func() { err = errors.Join(err, os.Remove(name)) }()
	if _, err := run("mount", "-o", "loop", name, root); err != nil { // mounting replays the journal
		return left, err
	}
	defer func() { // also when f ends a test
		_, uerr := run("umount", root)
		err = errors.Join(err, uerr)
	}()
	f(root)
	return left, nil
}

// sparse writes a file with holes for its zeros.
func sparse(name string, b []byte) (err error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	var zeros [piece]byte
	for at := 0; at < len(b); at += piece {
		if p := b[at:min(at+piece, len(b))]; string(p) != string(zeros[:len(p)]) {
			if _, err := f.WriteAt(p, int64(at)); err != nil {
				return err
			}
		}
	}
	return f.Truncate(int64(len(b)))
}

func run(name string, args ...string) (string, error) {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out)), nil
}
