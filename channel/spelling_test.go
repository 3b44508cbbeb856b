package channel

import (
	"slices"
	"strings"
	"testing"
)

// TestCaretsInPaths: browsers percent-encode "^" in paths, and in queries they do not.
func TestCaretsInPaths(t *testing.T) {
	for raw, want := range map[string]string{
		"http://h.test/a^b": "http://h.test/a%5Eb", "http://h.test/a%5eb?c^d%5E": "http://h.test/a%5Eb?c^d%5E", "http://h.test/^/../b": "http://h.test/b", "http://h.test?^": "http://h.test/?^",
	} {
		if got, err := Canonical(raw); got != want {
			t.Errorf("%s: %s, %v", raw, got, err)
		}
		if got, err := Canonical(want); got != want {
			t.Errorf("%s: %s, %v", want, got, err)
		}
	}
	if got, err := Resolve("http://h.test/a^b/c?d", "e^f"); got != "http://h.test/a%5Eb/e%5Ef" {
		t.Errorf("%s, %v", got, err)
	}
}

func TestSpellings(t *testing.T) {
	for raw, want := range map[string][]string{
		"http://h.test/a^b?c^": {"http://h.test/a%5Eb?c^", "http://h.test/a^b?c^"}, "http://h.test/a%5Eb?%5E": {"http://h.test/a%5Eb?%5E", "http://h.test/a^b?%5E"},
		"http://h.test/a^%5E": {"http://h.test/a%5E%5E", "http://h.test/a^%5E", "http://h.test/a^^"}, "HTTP://h.test/^": {"http://h.test/%5E", "http://h.test/^"}, "http://h.test/?^": {"http://h.test/?^"},
	} {
		if got, err := Spellings(raw); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q (%v)", raw, got, want, err)
		}
	}
	if got, err := Spellings("nonsense"); err == nil {
		t.Errorf("%q", got)
	}
}

// TestSpellingsOfScopes: what a channel reaches is told by its directories, not by how they are spelt. Its key stays as it is.
func TestSpellingsOfScopes(t *testing.T) {
	for _, c := range []struct {
		dirs, reach string
		n           int
	}{
		{"", "", 1}, {"/x/", "/x/", 1}, {"/a^b/", "/a%5Eb/", 2}, {"/a%5Eb/", "/a%5Eb/", 2}, {"/^/ /%5E/", "/%5E/", 3}, {"/x/ /a^%5E/", "/a%5E%5E/ /x/", 3},
	} {
		s := Scope{Host: "https://h.test", Dirs: strings.Fields(c.dirs)}
		all := s.Spellings()
		if len(all) != c.n || all[0].Key() != s.Key() {
			t.Errorf("%q: %+v", c.dirs, all)
		}
		for i := range all {
			if got := all[i].Reach(); got != s.Host+"\n"+strings.ReplaceAll(c.reach, " ", "\n") {
				t.Errorf("%q: reach %q", all[i].Dirs, got)
			}
		}
	}
}

// TestScopesOfOlderVersions: directories and patterns with "^" go on to count, and reach URLs of either spelling.
func TestScopesOfOlderVersions(t *testing.T) {
	const host = "https://h.test"
	for _, s := range []Scope{
		{Kind: Directory, Host: host, Dirs: []string{"/a^b/"}}, {Kind: Directory, Host: host, Dirs: []string{"/a%5Eb/"}}, {Kind: Directories, Host: host, Dirs: []string{"/a^b/", "/x/"}},
		{Kind: WholeHost, Host: host, Filters: []string{`/a\^b/`}}, {Kind: WholeHost, Host: host, Filters: []string{`/a%5Eb/`}}, {Kind: WholeHost, Host: host, Exclude: []string{`/c\^b/`, "/a/"}},
	} {
		m, err := s.Compile()
		if err != nil {
			t.Errorf("%+v: %v", s, err)
			continue
		}
		for _, u := range []string{"/a^b/c", "/a%5Eb/c", "/a%5Eb/?^"} {
			if !m.Contains(host + u) {
				t.Errorf("%+v does not contain %s", s, u)
			}
		}
		for _, u := range []string{"/c^b/", "/c%5Eb/", "/a/?/a^b", "/a/?/a%5Eb"} {
			if m.Contains(host + u) {
				t.Errorf("%+v contains %s", s, u)
			}
		}
	}
	for _, bad := range []string{"/a^/../b/", "/a^%7e/", "/^"} {
		s := Scope{Kind: Directory, Host: host, Dirs: []string{bad}}
		if s.Validate() == nil {
			t.Errorf("%s is a directory", bad)
		}
	}
}
