package manager

import (
	"fmt"
	"slices"
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

// TestLinksThatFiltersRefuseTakeNoRoom: URLs of a channel that its scope refuses, as after an edit, do not go with its task, and leave their room to pages
// that the last crawl did not come across.
func TestLinksThatFiltersRefuseTakeNoRoom(t *testing.T) {
	ch := channel.Channel{Scope: channel.Scope{Kind: channel.WholeHost, Host: "https://a.example", Exclude: []string{"/private/"}}}
	for i := range channel.MaxInter {
		ch.Inter = append(ch.Inter, fmt.Sprintf("https://a.example/private/%d", i))
	}
	ch.Inter[1] = "https://a.example/found"
	got, err := missedToo(&ch, []string{"https://a.example/missed"}, 100)
	if want := []string{"https://a.example/found", "https://a.example/missed"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%d URLs, %v, want %q", len(got), err, want)
	}
	if got, err = missedToo(&ch, nil, 100); err != nil || len(got) != 1 {
		t.Errorf("without missed ones %d URLs, %v", len(got), err)
	}
}
