package headroom

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// writerEnv has this test's program write through mapped memory, with or without a Keeper, in a folder whose name follows.
const writerEnv = "SHOAL_TEST_HEADROOM"

func TestMain(m *testing.M) {
	if how, dir, writer := strings.Cut(os.Getenv(writerEnv), " "); writer {
		if err := write(dir, how == "kept"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// The disk of the test, and how much is written after it is full.
const (
	diskSize = Size + (64 << 20)
	logSize  = 32 << 20
	before   = 3 << 20
	after    = 6 << 20
)

// write fills a small disk, in namespaces of its own, while it writes a log as Badger does.
func write(dir string, kept bool) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprint("size=", diskSize)); err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(dir, "00001.mem"))
	if err != nil {
		return err
	}
	if err := f.Truncate(logSize); err != nil {
		return err
	}
	m, err := unix.Mmap(int(f.Fd()), 0, logSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	for i := range before {
		m[i] = 1
	}
	if kept {
		// As on the disks of managers, what the reserve gives back is not enough for another one.
		k := Keep(Config{Reserve: filepath.Join(dir, "reserve"), Folders: []string{dir}, Enough: least, Log: slog.New(slog.DiscardHandler)})
		defer k.Close()
		if _, err := os.Stat(filepath.Join(dir, "reserve")); err != nil {
			return fmt.Errorf("no reserve is kept: %w", err)
		}
	}
	other, err := os.Create(filepath.Join(dir, "other"))
	if err != nil {
		return err
	}
	// It takes what is free now, and no more: a program that goes on takes the reserve too, against which a Keeper cannot help.
	room, err := free(dir)
	if err != nil {
		return err
	}
	for ; ; room -= 1 << 16 {
		if err = unix.Fallocate(int(other.Fd()), 0, 0, room); !errors.Is(err, unix.ENOSPC) {
			break
		}
	}
	if err != nil {
		return err
	}
	for i := range after {
		m[before+i] = 1
	}
	if kept {
		for start := time.Now(); time.Since(start) < time.Minute; time.Sleep(every) {
			if room, err := free(dir); err == nil && room > logSize { // the name of the reserve goes before its bytes
				for i := range m { // what is under way ends in the reserve
					m[i] = 1
				}
				return nil
			}
		}
		return fmt.Errorf("the reserve is kept on a full disk")
	}
	return nil
}

// A write through mapped memory ends a process on a full disk, unless room is kept.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("a disk that another program fills is not looked at: only root may mount one")
	}
	for how, want := range map[string]bool{"alone": false, "kept": true} {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), writerEnv+"="+how+" "+t.TempDir()) // who ends by a signal leaves it
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
		out, err := cmd.CombinedOutput()
		if strings.Contains(string(out), "operation not permitted") {
			t.Skip("a disk that another program fills is not looked at: this system does not permit mounts")
		}
		if ended := strings.Contains(string(out), "SIGBUS"); (err == nil) != want || ended == want {
			t.Errorf("%s: %v: %.2000s", how, err, out)
		}
	}
}

// allocated are the bytes that a file takes of the disk.
func allocated(t *testing.T, path string) int64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	return st.Blocks * 512
}

func TestLogsAreSetAside(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, written := range map[string]int{"00001.mem": 1 << 20, "000001.vlog": 1 << 20, "000002.vlog": 2 << 20, "000003.sst": 0} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, make([]byte, written), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, logSize); err != nil {
			t.Fatal(err)
		}
	}
	k := Keep(Config{Reserve: filepath.Join(dir, "reserve"), Folders: []string{dir, filepath.Join(dir, "none")}, Enough: 1 << 60, Log: slog.New(slog.DiscardHandler)})
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	for name, least := range map[string]int64{"00001.mem": ahead + 1<<20, "000002.vlog": ahead + 2<<20} {
		if got := allocated(t, filepath.Join(dir, name)); got < least {
			t.Errorf("%s takes %d bytes of the disk, want %d", name, got, least)
		}
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() != logSize {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	for name, most := range map[string]int64{"000001.vlog": ahead, "000003.sst": ahead} {
		if got := allocated(t, filepath.Join(dir, name)); got >= most {
			t.Errorf("%s takes %d bytes of the disk, and is not written", name, got)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "reserve")); err == nil {
		t.Error("a reserve is kept where less than enough is free beside it")
	}
}

// TestCutLogIsSetAside has a database cut its log, as it does with a torn end: the next look at the whole log sets the part behind that aside.
func TestCutLogIsSetAside(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "00001.mem")
	write := func(n int) {
		t.Helper()
		if err := os.WriteFile(path, make([]byte, n), 0o600); err != nil { // it cuts the file first
			t.Fatal(err)
		}
		if err := os.Truncate(path, logSize); err != nil {
			t.Fatal(err)
		}
	}
	var was mark
	look := func(times int) {
		t.Helper()
		for range times {
			var err error
			if was, err = extend(path, was, ahead); err != nil {
				t.Fatal(err)
			}
		}
	}
	write(logSize - 2<<20)
	look(1)
	write(1 << 20)
	look(wholeLook)
	if got := allocated(t, path); got < ahead+1<<20 {
		t.Errorf("it takes %d bytes of the disk, want %d", got, ahead+1<<20)
	}
	if was.written < 1<<20 || was.written > 2<<20 {
		t.Errorf("it is written up to %d", was.written)
	}
}

// BenchmarkLook looks at a log of 128 MiB, written in pages as databases do through mapped memory: at what was added since the last look, and at all of it.
func BenchmarkLook(b *testing.B) {
	const size = 128 << 20
	path := filepath.Join(b.TempDir(), "00001.mem")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(2 * size); err != nil {
		b.Fatal(err)
	}
	m, err := unix.Mmap(int(f.Fd()), 0, 2*size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = unix.Munmap(m) }()
	var was mark
	for at := 0; at < size; at += os.Getpagesize() {
		m[at] = 1
		if at%(1<<20) != 0 {
			continue
		}
		if was, err = extend(path, was, ahead); err != nil {
			b.Fatal(err)
		}
	}
	for name, from := range map[string]uint{"added": 1, "all": 0} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				was.looks = from
				if was, err = extend(path, was, ahead); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
