package limit

import (
	"errors"
	"fmt"

	"github.com/distatus/battery"
)

// ErrUnknown says that this system does not tell; nothing is paused because of it.
var ErrUnknown = errors.New("limit: cannot tell on this system")

// OnBattery tells whether this computer runs on its battery. A computer without one does not.
func OnBattery() (bool, error) {
	all, err := battery.GetAll()
	if len(all) == 0 {
		if err != nil && !errors.Is(err, battery.ErrNotFound) {
			return false, fmt.Errorf("%w: battery: %w", ErrUnknown, err)
		}
		return false, nil
	}
	for _, b := range all {
		if b != nil && b.State.Raw == battery.Discharging {
			return true, nil
		}
	}
	return false, nil
}

// Machine watches what else the computer does. Owned by who calls Busy.
type Machine struct{ last ticks }

// ticks are processor times since the start of the system, in any unit.
type ticks struct{ total, busy, own float64 }

// Busy is how much of the processors other programs have used since the last call, in percent; the first call tells nothing.
func (m *Machine) Busy() (percent int, err error) {
	now, err := readTicks()
	if err != nil {
		return 0, err
	}
	last := m.last
	m.last = now
	total := now.total - last.total
	if last.total == 0 || total <= 0 {
		return 0, nil
	}
	others := (now.busy - last.busy) - (now.own - last.own)
	return int(100 * min(max(others/total, 0), 1)), nil
}
