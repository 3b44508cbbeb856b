package limit

import "errors"

// ErrUnknown is returned if the system does not provide the information. The peer does not pause because of it.
var ErrUnknown = errors.New("limit: cannot tell on this system")

// Machine watches the load of other programs. Only one goroutine may call Busy.
type Machine struct{ last ticks }

// ticks are processor times since the start of the system, in any unit.
type ticks struct{ total, busy, own float64 }

// Busy returns the percentage of processor time that other programs used since the last call. The first call may
// return 0.
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
