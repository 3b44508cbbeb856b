package manager

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

// Pages that the last crawl did not come across go with the next task: those in its scope, a share of what it may fetch.
func TestMissedToo(t *testing.T) {
	ch := channel.Channel{Scope: channel.Scope{Kind: channel.Directory, Host: "https://a.example", Dirs: []string{"/x/"}}, Inter: []string{"https://a.example/x/found"}}
	missed := []string{"https://a.example/x/found", "https://a.example/y/"}
	for range 50 {
		missed = append(missed, "https://a.example/x/"+string(rune('A'+len(missed))))
	}
	for budget, want := range map[int]int{1: 1 + missedLeast, 64: 1 + missedLeast, 240: 1 + 30, 4000: 1 + 50} {
		got, err := missedToo(&ch, missed, budget)
		if err != nil || len(got) != want || got[0] != ch.Inter[0] || got[1] != missed[2] {
			t.Errorf("budget %d: %d URLs, %v, want %d", budget, len(got), err, want)
		}
	}
	if len(ch.Inter) != 1 {
		t.Error("the channel's own list has changed")
	}
}
