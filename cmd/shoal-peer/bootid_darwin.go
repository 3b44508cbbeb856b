package main

import "golang.org/x/sys/unix"

// bootID names the computer's start; empty: the system does not tell.
func bootID() string {
	id, _ := unix.Sysctl("kern.bootsessionuuid")
	return id
}
