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
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return t, fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	sec := func(v unix.Timeval) float64 { return float64(v.Sec) + float64(v.Usec)/1e6 }
	t.own = (sec(u.Utime) + sec(u.Stime)) * ticksPerSecond
	return t, nil
}

// OnMetered reports whether NetworkManager considers the network paid by volume.
func OnMetered() (bool, error) {
	v, err := property("org.freedesktop.NetworkManager", "/org/freedesktop/NetworkManager", "org.freedesktop.NetworkManager.Metered")
	if err != nil {
		return false, fmt.Errorf("%w: metered link: %w", ErrUnknown, err)
	}
	n, ok := v.(uint32)
	if !ok || n == 0 {
		return false, fmt.Errorf("%w: metered link: NetworkManager does not know", ErrUnknown)
	}
	return n == 1 || n == 3, nil // yes, guessed yes
}

// InUse reports whether a user sits at this computer according to systemd-logind: it has sessions, and not all are
// idle.
func InUse() (bool, error) {
	v, err := property("org.freedesktop.login1", "/org/freedesktop/login1", "org.freedesktop.login1.Manager.IdleHint")
	if err != nil {
		return false, fmt.Errorf("%w: use of the computer: %w", ErrUnknown, err)
	}
	idle, ok := v.(bool)
	if !ok {
		return false, fmt.Errorf("%w: use of the computer: systemd-logind says %v", ErrUnknown, v)
	}
	return !idle, nil
}

// property reads a property of a system service.
func property(service string, path dbus.ObjectPath, name string) (any, error) {
	bus, err := dbus.ConnectSystemBus()
	if err != nil {
		return nil, err
	}
	defer bus.Close()
	v, err := bus.Object(service, path).GetProperty(name)
	if err != nil {
		return nil, err
	}
	return v.Value(), nil
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
