//go:build unix

package main

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"syscall"
)

// ofComputer returns a variable that names a part of this computer.
func ofComputer(name string) string { return os.Getenv(name) }

// accountOf returns what makes a command run as the owner of a file: nil if that is this process's user already.
func accountOf(st fs.FileInfo) (func(*exec.Cmd), error) {
	owner, ok := st.Sys().(*syscall.Stat_t)
	switch me := os.Geteuid(); {
	case !ok || int(owner.Uid) == me:
		return nil, nil
	case me != 0:
		return nil, errors.New("the peer of the whole computer belongs to another account; put sudo before the command")
	}
	return func(cmd *exec.Cmd) {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}}
	}, nil
}
