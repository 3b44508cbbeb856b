//go:build !linux && !windows

package main

import (
	"fmt"
	"runtime"
)

// Run says that there is no icon on this system: it would need a program that is built with Apple's tools.
func (c *trayCmd) Run() error {
	return fmt.Errorf("%w on %s: icons are made on Windows and on Linux desktops; see the peer with: shoal-peer status", errNoDesktop, runtime.GOOS)
}
