package main

import (
	"fmt"
	"strings"
)

// simCmd tells where the experiments went that this program once held.
type simCmd struct {
	Args []string `arg:"" optional:"" passthrough:"" help:"What shoal-sim is to run."`
}

func (c *simCmd) Run() error {
	args := strings.Join(append([]string{"shoal-sim"}, c.Args...), " ")
	return fmt.Errorf("the simulators are a program of their own now. Run %s, or from the sources: go run ./cmd/%s", args, args)
}
