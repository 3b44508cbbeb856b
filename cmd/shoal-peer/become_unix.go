//go:build unix

package main

import "syscall"

// become has another program take this one's place. It returns only if that fails.
func become(path string, args, env []string) error {
	return syscall.Exec(path, append([]string{path}, args...), env)
}

// badProgram are the errors of a start of what is no program of this system: its form is unknown, or what loads it is not there.
var badProgram = []syscall.Errno{syscall.ENOEXEC, syscall.ENOENT}
