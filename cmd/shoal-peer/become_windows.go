package main

import (
	"errors"
	"syscall"

	"golang.org/x/sys/windows"
)

// become is not known to Windows: another version runs beside the installed program, which waits for it. Neither is overwritten while it runs.
func become(string, []string, []string) error { return errors.ErrUnsupported }

// badProgram are the errors of a start of what is no program of this system.
var badProgram = []syscall.Errno{windows.ERROR_BAD_EXE_FORMAT, windows.ERROR_EXE_MACHINE_TYPE_MISMATCH}
