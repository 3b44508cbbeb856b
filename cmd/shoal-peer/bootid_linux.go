package main

import (
	"os"
	"strings"
)

// bootID names the computer's start; empty: the system does not tell.
func bootID() string {
	b, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b))
}
