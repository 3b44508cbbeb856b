package desk

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"shoal/channel"
	"shoal/manager"
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

// TestSplitLeavesPaused splits a channel that an operator has paused: its directories are paused, too, with the reason.
func TestSplitLeavesPaused(t *testing.T) {
	for _, state := range []channel.State{channel.Active, channel.Paused} {
		ch := channel.Channel{Scope: channel.Scope{Kind: channel.WholeHost, Host: "https://a.example"}, Seeds: []string{"https://a.example/"}, State: state}
		if state == channel.Paused {
			ch.Reason = "their wish"
		}
		_, parts, err := partition(&ch, []string{"/x/"})
		if err != nil || len(parts) != 1 || parts[0].State != state || parts[0].Reason != ch.Reason {
			t.Errorf("of a channel in state %v: %+v, %v", state, parts, err)
		}
	}
}

// TestPartsHaveNoMoreSeedsThanTheyMay: a channel of a sitemap has as many seeds as there may be, which may all lie in one directory.
func TestPartsHaveNoMoreSeedsThanTheyMay(t *testing.T) {
	whole := channel.Channel{Scope: channel.Scope{Kind: channel.WholeHost, Host: "https://a.example"}}
	for i := range channel.MaxSeeds {
		whole.Seeds = append(whole.Seeds, fmt.Sprintf("https://a.example/x/%d", i))
	}
	_, parts, err := partition(&whole, []string{"/x/"})
	if err != nil || len(parts) != 1 || len(parts[0].Seeds) != channel.MaxSeeds || parts[0].Seeds[0] != "https://a.example/x/" {
		t.Errorf("%d parts, %d seeds, %v", len(parts), len(parts[0].Seeds), err)
	}
}

// TestSplitInEitherSpelling splits channels whose directory versions before 0.2.0 spelt otherwise than the pages are stored today: what is proposed lies in it, and what is
// split off takes its seeds along, and leaves the rest.
func TestSplitInEitherSpelling(t *testing.T) {
	const host = "https://a.example"
	for _, spelt := range [][2]string{{"/a^b/", "/a%5Eb/"}, {"/a%5Eb/", "/a^b/"}} {
		stored, dir := spelt[0], spelt[1]
		one := channel.Channel{Scope: channel.Scope{Kind: channel.Directory, Host: host, Dirs: []string{stored}}, Seeds: []string{host + stored, host + stored + "c/1", host + dir + "c/2"}}
		rest, parts, err := partition(&one, []string{dir + "c/"})
		if err != nil || len(parts) != 1 || len(parts[0].Seeds) != 3 || len(rest.Seeds) != 1 {
			t.Errorf("%sc/ of %s: %v; parts %+v, the rest %q", dir, stored, err, parts, rest.Seeds)
		}
		if m, err := rest.Scope.Compile(); err != nil || m.Contains(host+"/a%5Eb/c/1") || m.Contains(host+"/a^b/c/1") || !m.Contains(host+"/a%5Eb/d") {
			t.Errorf("the rest of %s without %sc/: %+v, %v", stored, dir, rest.Scope, err)
		}
		if _, _, err := partition(&one, []string{dir}); !errors.Is(err, ErrAsk) || !strings.Contains(err.Error(), "nothing would be left") {
			t.Errorf("%s of %s: %v", dir, stored, err)
		}
		set := channel.Channel{Scope: channel.Scope{Kind: channel.Directories, Host: host, Dirs: []string{stored, "/x/"}}, Seeds: []string{host + stored}}
		rest, parts, err = partition(&set, []string{dir})
		if err != nil || len(parts) != 1 || rest.Scope.Kind != channel.Directory || len(rest.Scope.Dirs) != 1 || rest.Scope.Dirs[0] != "/x/" {
			t.Errorf("%s of %q: %+v, %v", dir, set.Scope.Dirs, rest.Scope, err)
		}
	}
}

// TestProposalsInEitherSpelling: pages count for the directories of a channel, whichever spelling each has.
func TestProposalsInEitherSpelling(t *testing.T) {
	const host = "https://a.example"
	urls := make([]string, 0, 2*SplitLeast)
	for i := range SplitLeast {
		urls = append(urls, fmt.Sprintf("%s/a%%5Eb/c/%d", host, i), fmt.Sprintf("%s/a^b/c/old-%d", host, i))
	}
	for _, stored := range []string{"/a^b/", "/a%5Eb/"} {
		d := &Desk{store: spelt{dir: host + stored}, files: urlsOf{urls: urls}}
		got, all, err := d.Proposals(t.Context(), 1)
		if err != nil || all != len(urls) || len(got) != 1 || got[0] != (DirCount{"/a%5Eb/c/", len(urls)}) {
			t.Errorf("of %s: %+v of %d, %v", stored, got, all, err)
		}
	}
}

// spelt is a store with a channel of one directory.
type spelt struct {
	manager.Store
	dir string
}

func (s spelt) Channel(context.Context, channel.ID) (channel.Channel, error) {
	origin := channel.Origin(s.dir)
	return channel.Channel{ID: 1, Scope: channel.Scope{Kind: channel.Directory, Host: origin, Dirs: []string{s.dir[len(origin):]}}}, nil
}

// urlsOf is an archive that has some pages.
type urlsOf struct {
	Archive
	urls []string
}

func (f urlsOf) EachURL(_ context.Context, _ string, _ int, do func(string)) error {
	for _, u := range f.urls {
		do(u)
	}
	return nil
}

// TestLeftOut: the channel of a directory that a split has made is the only one that crawls it, until another one contains it or the pattern is taken back.
func TestLeftOut(t *testing.T) {
	whole := channel.Channel{Scope: channel.Scope{Kind: channel.WholeHost, Host: "https://a.example"}}
	rest, parts, err := partition(&whole, []string{"/x/"})
	if err != nil {
		t.Fatal(err)
	}
	both := channel.Scope{Kind: channel.Directories, Host: "https://a.example", Dirs: []string{"/x/", "/y/"}}
	for _, c := range []struct {
		url   string
		scope channel.Scope
		by    bool
		in    bool
	}{
		{"https://a.example/x/", rest.Scope, true, false},
		{"https://a.example/z/", rest.Scope, false, true},
		{"https://a.example/x/", whole.Scope, false, true},
		{"https://a.example/x/", parts[0].Scope, false, true},
		{"https://a.example/z/", parts[0].Scope, false, false},
		{"https://a.example/y/", both, false, true},
		{"https://b.example/x/", rest.Scope, false, false},
	} {
		if by, in := leavesOut(c.scope, c.url); (by != "") != c.by || in != c.in {
			t.Errorf("%s of %+v: left out by %q, in it %v; want %v, %v", c.url, c.scope, by, in, c.by, c.in)
		}
	}
}
