//go:build !linux && !darwin && !windows

package main

// bootID names the computer's start; empty: the system does not tell.
func bootID() string { return "" }
