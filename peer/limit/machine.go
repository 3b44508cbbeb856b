package limit

import (
	"errors"
	"time"
)

// ErrUnknown is returned if the system does not provide the information. The peer does not pause because of it.
var ErrUnknown = errors.New("limit: cannot tell on this system")

// Machine watches the load of other programs and the use of the computer. Only one goroutine may call its methods.
type Machine struct {
	last  ticks
	own   float64
	pulse pulse
}

// pulse is what the kernel has counted of keyboards' and mice's interrupts, where it does.
type pulse struct {
	count uint64
	at    time.Time // of the last change
	begun time.Time
}

// ticks are processor times since the start of the system, in any unit.
type ticks struct{ total, busy, own float64 }

// Busy returns the percentage of processor time that other programs used since the last call. The first call may
// return 0.
func (m *Machine) Busy() (percent int, err error) { return m.busy() }

// Own returns the percentage of processor time that this program used between the last two calls of Busy.
func (m *Machine) Own() (percent float64) { return m.own }

// since compares two readings.
func (m *Machine) since(now ticks) int {
	last := m.last
	m.last = now
	total := now.total - last.total
	if last.total == 0 || total <= 0 {
		return 0
	}
	own := now.own - last.own
	m.own = 100 * min(max(own/total, 0), 1)
	others := (now.busy - last.busy) - own
	return int(100 * min(max(others/total, 0), 1))
}
