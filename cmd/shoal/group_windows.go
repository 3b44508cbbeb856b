package main

import (
	"os/exec"
	"syscall"
)

// ownGroup keeps a terminal's signals from a program.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}
