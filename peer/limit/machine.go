package limit

import "errors"

// ErrUnknown says that this system does not tell; nothing is paused because of it.
var ErrUnknown = errors.New("limit: cannot tell on this system")

// Machine watches what else the computer does. Owned by who calls Busy.
type Machine struct{ last ticks }

// ticks are processor times since the start of the system, in any unit.
type ticks struct{ total, busy, own float64 }

// Busy is how much of the processors other programs have used since the last call, in percent; the first call may tell nothing.
func (m *Machine) Busy() (percent int, err error) { return m.busy() }

// since compares two readings.
func (m *Machine) since(now ticks) int {
	last := m.last
	m.last = now
	total := now.total - last.total
	if last.total == 0 || total <= 0 {
		return 0
	}
	others := (now.busy - last.busy) - (now.own - last.own)
	return int(100 * min(max(others/total, 0), 1))
}
