package main

import (
	"errors"
	"testing"

	"shoal/internal/lab/pond"
)

// TestNoPond: a peer that crawls the Web takes no task of a synthetic one. Each would fail, and what failed would count against the sites.
func TestNoPond(t *testing.T) {
	n := &network{p: limited(t, defaults())}
	if err := n.refuse("https://example.org"); err != nil || n.noPond.Load() {
		t.Errorf("a site of the Web: %v", err)
	}
	for _, host := range []string{"http://site-0001.pond.test", "https://Site-0001.pond.test:443"} {
		if err := n.refuse(host); !errors.Is(err, errNoPond) || !n.noPond.Load() {
			t.Errorf("%s: %v", host, err)
		}
	}
	n.p.world = &pond.World{}
	if err := n.refuse("http://site-0001.pond.test"); err != nil {
		t.Errorf("in the pond: %v", err)
	}
}
