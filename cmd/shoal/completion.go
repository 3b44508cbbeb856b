package main

import (
	"github.com/alecthomas/kong"

	"shoal/internal/complete"
	"shoal/internal/manpage"
	"shoal/internal/plain"
	"shoal/recrawl"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Run prints a script made from the program's commands and flags.
func (c *completionCmd) Run(s streams, k *kong.Kong) error {
	return complete.Write(s.out, c.Shell, "shoal", k.Model.Node, map[string][]string{"strategy": recrawl.Names()})
}

// manCmd prints the manual page, for packages.
type manCmd struct{}

func (manCmd) Run(s streams, k *kong.Kong) error {
	return manpage.Write(s.out, k, plain.Defaults(nil))
}
