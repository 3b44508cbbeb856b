package manager_test

import (
	"errors"
	"strings"
	"testing"

	"shoal/channel"
	"shoal/manager/desk"
)

// TestASplitIsWholeOrNotAtAll: where another channel reaches what would be left, a split is refused before any of its channels is made.
func TestASplitIsWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), nil)
	of := func(dirs ...string) channel.Channel {
		kind := channel.Directories
		if len(dirs) == 1 {
			kind = channel.Directory
		}
		return channel.Channel{State: channel.Paused, Scope: channel.Scope{Kind: kind, Host: "https://w.example:8080", Dirs: dirs}, Seeds: []string{"https://w.example:8080" + dirs[0]}}
	}
	for name, other := range map[string]channel.Channel{"one directory": of("/b/"), "two": of("/d/", "/c/")} {
		all := append([]string{"/a/"}, other.Scope.Dirs...)
		in, err := b.d.AddChannels(t.Context(), []channel.Channel{of(all...), other})
		if err != nil || in.Added != 2 {
			t.Fatalf("%+v, %v", in, err)
		}
		_, _, err = b.d.Split(t.Context(), in.First, []string{"/a/"})
		if !errors.Is(err, desk.ErrAsk) || !strings.Contains(err.Error(), "already") {
			t.Errorf("%s: %v", name, err)
		}
		id, err := b.d.Lookup(t.Context(), &channel.Scope{Host: "https://w.example:8080", Dirs: []string{"/a/"}})
		if err != nil || id != in.First {
			t.Errorf("%s: channel %d has the directory after a split that was refused, %v", name, id, err)
		}
		if err := b.d.Remove(t.Context(), in.First); err != nil {
			t.Fatal(err)
		}
	}
}
