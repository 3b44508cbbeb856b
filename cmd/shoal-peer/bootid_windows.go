package main

import (
	"time"

	"golang.org/x/sys/windows"

	"shoal/internal/release/programs"
)

// bootID names the computer's start by its time, since Windows has no name for it.
func bootID() string { return programs.BootAt(time.Now().Add(-windows.DurationSinceBoot())) }
