//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// ownGroup keeps a terminal's signals from a program.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
