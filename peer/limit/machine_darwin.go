package limit

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// ask runs one of the system's own programs.
func ask(name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = []string{"LC_ALL=C"}
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%w: %s: %w", ErrUnknown, name, err)
	}
	return string(out), nil
}

// OnBattery reports whether this computer runs on its battery. A computer without a battery does not.
func OnBattery() (bool, error) {
	out, err := ask("/usr/bin/pmset", "-g", "batt")
	if err != nil {
		return false, err
	}
	return drawsFromBattery(out)
}

// OnMetered recognises only an iPhone's hotspot. macOS reports other metered links only to programs built with its
// own frameworks.
func OnMetered() (bool, error) {
	out, err := ask("/sbin/route", "-n", "get", "default")
	if err != nil {
		return false, err
	}
	if throughPhone(out) {
		return true, nil
	}
	return false, fmt.Errorf("%w: metered link, but for an iPhone's", ErrUnknown)
}

// Use asks for the time since the last key or movement, and whether a program keeps the screen awake.
func (m *Machine) Use() Use {
	out, err := ask("/usr/sbin/ioreg", "-r", "-d", "1", "-c", "IOHIDSystem")
	var idle time.Duration
	if err == nil {
		idle, err = idleTime(out)
	}
	t := measured(SourceInput, idle)
	if err != nil {
		t = untold(SourceInput, err)
	}
	u := judge([]Trial{t})
	if out, err := ask("/usr/bin/pmset", "-g", "assertions"); err == nil {
		u.Full, u.FullBy = screenKeptOn(out), "pmset"
	}
	return u
}

func (m *Machine) busy() (int, error) {
	out, err := ask("/bin/ps", "-A", "-o", "pid=,%cpu=")
	if err != nil {
		return 0, err
	}
	return othersUse(out, os.Getpid(), runtime.NumCPU())
}

// LowPriority puts this process into the background mode, with the lowest priority for processors, disks and network.
func LowPriority() error {
	if err := unix.Setpriority(unix.PRIO_DARWIN_PROCESS, 0, unix.PRIO_DARWIN_BG); err != nil {
		return fmt.Errorf("limit: background mode: %w", err)
	}
	return nil
}
