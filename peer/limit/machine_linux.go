package limit

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/godbus/dbus/v5"
	"golang.org/x/sys/unix"
)

const ticksPerSecond = 100 // USER_HZ on all of Go's Linux platforms

// OnBattery reports whether this computer runs on its battery. A computer without a battery does not.
func OnBattery() (bool, error) { return onBattery("/sys/class/power_supply") }

// onBattery reads the power supplies in a folder of the kernel's form. If a mains supply is plugged in, the computer
// does not run on its battery. Supplies with scope Device belong to mice and headsets and do not count.
func onBattery(dir string) (bool, error) {
	supplies, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("%w: battery: %w", ErrUnknown, err)
	}
	discharging := false
	for _, s := range supplies {
		read := func(name string) string {
			b, err := os.ReadFile(filepath.Join(dir, s.Name(), name))
			if err != nil {
				return ""
			}
			return strings.TrimSpace(string(b))
		}
		switch read("type") {
		case "Mains", "USB", "Wireless":
			if n := read("online"); n != "" && n != "0" {
				return false, nil
			}
		case "Battery":
			discharging = discharging || read("scope") != "Device" && read("status") == "Discharging"
		}
	}
	return discharging, nil
}

func (m *Machine) busy() (int, error) {
	now, err := readTicks()
	if err != nil {
		return 0, err
	}
	return m.since(now), nil
}

func readTicks() (t ticks, err error) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return t, fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	line, _, _ := bytes.Cut(b, []byte("\n"))
	fields := strings.Fields(string(line))
	if len(fields) < 9 || fields[0] != "cpu" {
		return t, fmt.Errorf("%w: /proc/stat", ErrUnknown)
	}
	for i, f := range fields[1:9] {
		n, err := strconv.ParseFloat(f, 64)
		if err != nil {
			return t, fmt.Errorf("%w: /proc/stat: %w", ErrUnknown, err)
		}
		t.total += n
		if i != 3 && i != 4 { // idle, iowait
			t.busy += n
		}
	}
	own, err := ownTime("/proc/self/cgroup", "/sys/fs/cgroup")
	t.own = own.Seconds() * ticksPerSecond
	return t, err
}

// ownTime returns the processor time of this program. Where it has a control group of its own, as a service has, that is the group's time, with that of
// programs that it started. Else it is this process's and that of its children that have ended.
func ownTime(self, root string) (time.Duration, error) {
	if d, ok := groupTime(self, root); ok {
		return d, nil
	}
	sum := time.Duration(0)
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var u unix.Rusage
		if err := unix.Getrusage(who, &u); err != nil {
			return 0, fmt.Errorf("%w: %w", ErrUnknown, err)
		}
		sum += time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	return sum, nil
}

// groupTime returns the time of this process's control group (version 2), if all of the group's processes are this one and those that it started.
func groupTime(self, root string) (time.Duration, bool) {
	b, err := os.ReadFile(self)
	if err != nil {
		return 0, false
	}
	at, ok := "", false
	for line := range strings.Lines(string(b)) {
		if p, is := strings.CutPrefix(strings.TrimSpace(line), "0::"); is {
			at, ok = p, p != "/" && p != ""
		}
	}
	if !ok {
		return 0, false
	}
	procs, err := os.ReadFile(filepath.Join(root, at, "cgroup.procs"))
	if err != nil {
		return 0, false
	}
	own := os.Getpid()
	for _, f := range strings.Fields(string(procs)) {
		pid, err := strconv.Atoi(f)
		if err != nil || pid != own && !startedBy(pid, own) {
			return 0, false
		}
	}
	stat, err := os.ReadFile(filepath.Join(root, at, "cpu.stat"))
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(stat)) {
		if v, is := strings.CutPrefix(line, "usage_usec "); is {
			n, err := strconv.ParseInt(strings.TrimSpace(v), 10, 64)
			return time.Duration(n) * time.Microsecond, err == nil
		}
	}
	return 0, false
}

// startedBy reports whether a process, or one that it descends from, was started by another.
func startedBy(pid, by int) bool {
	for range maxAncestors {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return false
		}
		_, rest, _ := strings.Cut(string(b[bytes.LastIndexByte(b, ')')+1:]), " ")
		f := strings.Fields(rest)
		if len(f) < 2 {
			return false
		}
		if pid, err = strconv.Atoi(f[1]); err != nil || pid <= 1 {
			return false
		}
		if pid == by {
			return true
		}
	}
	return false
}

const maxAncestors = 32

// OnMetered reports whether NetworkManager considers the network paid by volume.
func OnMetered() (bool, error) {
	v, err := property("org.freedesktop.NetworkManager", "/org/freedesktop/NetworkManager", "Metered")
	if err != nil {
		return false, fmt.Errorf("%w: metered link: %w", ErrUnknown, err)
	}
	n, ok := v.(uint32)
	if !ok || n == 0 {
		return false, fmt.Errorf("%w: metered link: NetworkManager does not know", ErrUnknown)
	}
	return n == 1 || n == 3, nil // yes, guessed yes
}

// property reads a property of a system service, which has an interface of its own name.
func property(service string, path dbus.ObjectPath, name string) (any, error) {
	bus, err := dbus.ConnectSystemBus()
	if err != nil {
		return nil, err
	}
	defer bus.Close()
	return askProperty(bus, service, path, service, name)
}

// LowPriority gives all threads of this process the lowest priority for processors and disks.
func LowPriority() error {
	const idle, who = 3 << 13, 1 // ioprio_set(2): class idle, of a thread
	threads, err := filepath.Glob("/proc/self/task/*")
	if err != nil {
		return err
	}
	for _, t := range threads { // those that come later inherit it
		tid, err := strconv.Atoi(filepath.Base(t))
		if err != nil {
			continue
		}
		if err := unix.Setpriority(unix.PRIO_PROCESS, tid, 19); err != nil && err != unix.ESRCH {
			return fmt.Errorf("limit: nice: %w", err)
		}
		if _, _, e := unix.Syscall(unix.SYS_IOPRIO_SET, who, uintptr(tid), idle); e != 0 && e != unix.ESRCH {
			return fmt.Errorf("limit: disk priority: %w", e)
		}
	}
	return nil
}
