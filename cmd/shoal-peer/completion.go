package main

import (
	"reflect"

	"github.com/alecthomas/kong"

	"shoal/internal/complete"
	"shoal/internal/manpage"
	"shoal/internal/plain"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// choices are the values of flags that accept one of a few.
var choices = map[string][]string{"log-level": {"debug", "info", "warn", "error"},
	"on-battery": {"pause", "run"}, "on-metered": {"pause", "run"}, "in-use": {"pause", "run"}, "full-screen": {"pause", "run"}}

// Run prints a script made from the program's commands and flags.
func (c *completionCmd) Run(s streams, k *kong.Kong) error {
	return complete.Write(s.out, c.Shell, "shoal-peer", k.Model.Node, choices)
}

// manCmd prints the manual page, for packages.
type manCmd struct{}

func (manCmd) Run(s streams, k *kong.Kong) error {
	return manpage.Write(s.out, k, plain.Defaults(shown(reflect.ValueOf(defaults()))))
}
