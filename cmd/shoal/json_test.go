package main

import (
	"testing"

	"github.com/alecthomas/kong"

	"shoal/internal/plain"
)

// TestEveryCommandHasJSON goes through the tree of commands. A hidden command only says where its work went.
func TestEveryCommandHasJSON(t *testing.T) {
	var c cli
	p, err := kong.New(&c, kong.ValueFormatter(plain.Defaults(nil)), helpVars("data"))
	if err != nil {
		t.Fatal(err)
	}
	leaves := p.Model.Leaves(true)
	if len(leaves) < 40 {
		t.Fatalf("only %d commands", len(leaves))
	}
	for _, leaf := range leaves {
		has := false
		for _, level := range leaf.AllFlags(true) {
			for _, f := range level {
				has = has || f.Name == "json"
			}
		}
		if !has {
			t.Errorf("%s has no --json", leaf.FullPath())
		}
	}
}
