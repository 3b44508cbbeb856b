//go:build !windows

package service

import "runtime"

// For returns the manager of this computer's services, or of the user's.
func For(s Spec, t Tools) (Manager, error) { return on(runtime.GOOS, s, t) }
