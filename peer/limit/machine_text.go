package limit

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// What the systems tell, read apart from asking them, so that it is tested everywhere: mostly what commands of macOS print.

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
	return 0, fmt.Errorf("%w: somebody at the computer: ioreg names no HIDIdleTime", ErrUnknown)
}

// inUseFor is how long after the last key or movement somebody is taken to sit at the computer, where the system tells that time only.
const inUseFor = 5 * time.Minute

// touched tells whether somebody sits at a computer that nobody has touched for a time.
func touched(idle time.Duration) bool { return idle < inUseFor }

// iPhones give this network to who shares their line, and their own end this address.
var hotspot = netip.MustParseAddr("172.20.10.1")

// throughPhone reads the way out from `route -n get default`.
func throughPhone(out string) bool {
	for line := range strings.Lines(out) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok && name == "gateway" {
			a, err := netip.ParseAddr(strings.TrimSpace(value))
			return err == nil && a == hotspot
		}
	}
	return false
}

// othersUse sums `ps -A -o pid=,%cpu=`: what processes but our own use of so many processors, in percent of all of them.
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
