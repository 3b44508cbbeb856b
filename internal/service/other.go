//go:build !windows

package service

import (
	"fmt"
	"runtime"
)

// For returns the manager of this computer's services, or of the user's.
func For(s Spec, t Tools) (Manager, error) { return on(runtime.GOOS, s, t) }

func on(system string, s Spec, t Tools) (Manager, error) {
	switch system {
	case "linux":
		return &Systemd{s, t}, nil
	case "darwin":
		return &Launchd{s, t}, nil
	}
	return nil, fmt.Errorf("%w that shoal-peer knows on %s; have your own one run: %s service run", ErrNoManager, system, s.Exec)
}
