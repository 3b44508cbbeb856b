package limit

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// This file parses what the systems report, apart from the code that asks them, so that it is tested on every system.
// Most of it is output of macOS commands.

// drawsFromBattery reads `pmset -g batt`: "Now drawing from 'Battery Power'".
func drawsFromBattery(out string) (bool, error) {
	_, rest, ok := strings.Cut(out, "Now drawing from '")
	source, _, closed := strings.Cut(rest, "'")
	if !ok || !closed {
		return false, fmt.Errorf("%w: battery: pmset says %.80q", ErrUnknown, out)
	}
	return source != "AC Power", nil // one of an outage is a battery too
}

// idleTime reads the time since the last key or movement from `ioreg -r -d 1 -c IOHIDSystem`: "HIDIdleTime" = 123456789 nanoseconds.
func idleTime(out string) (time.Duration, error) {
	for line := range strings.Lines(out) {
		if _, value, ok := strings.Cut(line, `"HIDIdleTime" = `); ok {
			if ns, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64); err == nil && ns >= 0 {
				return time.Duration(ns), nil
			}
		}
	}
	return 0, fmt.Errorf("%w: use of the computer: ioreg names no HIDIdleTime", ErrUnknown)
}

// screenKeptOn reads `pmset -g assertions`: a line "PreventUserIdleDisplaySleep    1" says that a program keeps the screen awake.
func screenKeptOn(out string) bool {
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == "PreventUserIdleDisplaySleep" {
			return f[1] != "0"
		}
	}
	return false
}

// inUseFor is how long a computer counts as in use after the last key or movement, on systems that report only that
// time.
const inUseFor = 5 * time.Minute

// touched reports whether a computer idle for that time counts as in use.
func touched(idle time.Duration) bool { return idle < inUseFor }

// An iPhone's hotspot gives devices addresses of this network; the iPhone's own is this one.
var hotspot = netip.MustParseAddr("172.20.10.1")

// throughPhone parses the default route from `route -n get default`.
func throughPhone(out string) bool {
	for line := range strings.Lines(out) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok && name == "gateway" {
			a, err := netip.ParseAddr(strings.TrimSpace(value))
			return err == nil && a == hotspot
		}
	}
	return false
}

// othersUse parses `ps -A -o pid=,%cpu=`. It returns the processor time of processes other than our own in percent of
// all processors.
func othersUse(out string, own, processors int) (int, error) {
	sum, n := 0.0, 0
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		if len(f) != 2 {
			continue
		}
		pid, err1 := strconv.Atoi(f[0])
		use, err2 := strconv.ParseFloat(strings.Replace(f[1], ",", ".", 1), 64)
		if err1 != nil || err2 != nil {
			continue
		}
		n++
		if pid != own {
			sum += use
		}
	}
	if n == 0 {
		return 0, fmt.Errorf("%w: load of the processors: ps lists nothing", ErrUnknown)
	}
	return int(min(sum/float64(max(processors, 1)), 100)), nil
}
