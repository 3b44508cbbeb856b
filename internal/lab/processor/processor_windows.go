package processor

import (
	"syscall"
	"time"
)

func used() (time.Duration, error) {
	self, err := syscall.GetCurrentProcess()
	if err != nil {
		return 0, err
	}
	var began, ended, kernel, own syscall.Filetime
	if err := syscall.GetProcessTimes(self, &began, &ended, &kernel, &own); err != nil {
		return 0, err
	}
	return ticks(kernel) + ticks(own), nil
}

// ticks are of 100 ns. Nanoseconds of a Filetime would count from 1970.
func ticks(t syscall.Filetime) time.Duration {
	return time.Duration(uint64(t.HighDateTime)<<32|uint64(t.LowDateTime)) * 100
}
