package desk

import (
	"testing"

	"shoal/channel"
)

// Every page of a channel is, after a split, in one of the channels, and in no two.
func TestPartition(t *testing.T) {
	whole := channel.Channel{Scope: channel.Scope{Kind: channel.WholeHost, Host: "https://a.example"}, Seeds: []string{"https://a.example/", "https://a.example/x/y"}}
	rest, parts, err := partition(&whole, []string{"/x/", "/b.c/"})
	if err != nil || len(parts) != 2 {
		t.Fatal(parts, err)
	}
	for _, u := range []string{"/", "/x", "/x/", "/x/y", "/x?q", "/x/?q", "/xy", "/b.c/1", "/b.c", "/bxc/1", "/other/x/"} {
		in := 0
		for _, c := range append(parts, rest) {
			m, err := c.Scope.Compile()
			if err != nil {
				t.Fatal(err)
			}
			if m.Contains(whole.Scope.Host + u) {
				in++
			}
		}
		if in != 1 {
			t.Errorf("%s is in %d channels", u, in)
		}
	}
	if len(parts[0].Seeds) != 2 || len(rest.Seeds) != 1 {
		t.Errorf("seeds %v, the rest %v", parts[0].Seeds, rest.Seeds)
	}
}
