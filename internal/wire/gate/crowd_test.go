package gate

import (
	"fmt"
	"net/netip"
	"testing"
)

func TestCrowd(t *testing.T) {
	c := NewCrowd(10)
	closed := map[string]bool{}
	come := func(key, from string) {
		c.enter(key, netip.MustParseAddr(from), func() { closed[key] = true })
	}
	for i := range 6 {
		come(fmt.Sprint("a", i), "192.0.2.1")
	}
	for i := range 4 {
		come(fmt.Sprint("b", i), "198.51.100.1")
	}
	if len(closed) != 0 {
		t.Fatalf("closed %v while there was room", closed)
	}
	// A connection from elsewhere displaces the oldest one of the largest group.
	come("x", "203.0.113.1")
	come("y", "203.0.113.2")
	if len(closed) != 2 || !closed["a0"] || !closed["a1"] {
		t.Fatalf("closed %v", closed)
	}
	// Of two prefixes with as many, the older one gives way.
	come("z", "203.0.114.1")
	if len(closed) != 3 || !closed["a2"] {
		t.Fatalf("closed %v", closed)
	}
	// A thousand from one prefix displace one another.
	for i := range 1000 {
		come(fmt.Sprint("c", i), "192.0.2.9")
	}
	for _, k := range []string{"x", "y", "z", "b3"} {
		if closed[k] {
			t.Errorf("%s was closed for others' sake", k)
		}
	}
	if len(c.guests) != 10 {
		t.Errorf("%d are there, at most 10", len(c.guests))
	}
	for k := range c.guests {
		c.leave(k)
	}
	c.leave("nobody")
	if len(c.guests)+len(c.prefixes) != 0 {
		t.Errorf("%d guests of %d prefixes are left", len(c.guests), len(c.prefixes))
	}
}
