package manager

import (
	"testing"

	"shoal/channel"
)

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
