//go:build unix

package main

import "syscall"

// become has another program take this one's place. It returns only if that fails.
func become(path string, args, env []string) error {
	return syscall.Exec(path, append([]string{path}, args...), env)
}
