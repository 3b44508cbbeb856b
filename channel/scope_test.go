package channel

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestScopeOf(t *testing.T) {
	for _, c := range []struct {
		url, seed, host, dir string // dir "": whole host
	}{
		{"https://example.org", "https://example.org/", "https://example.org", ""},
		{"http://example.org/?q", "http://example.org/?q", "http://example.org", ""},
		{"example.org", "https://example.org/", "https://example.org", ""},
		{"intranet:8080", "https://intranet:8080/", "https://intranet:8080", ""},
		{"http://intranet/", "http://intranet/", "http://intranet", ""},
		{"http:/example.org/", "http://example.org/", "http://example.org", ""},
		{"HTTPS:example.org", "https://example.org/", "https://example.org", ""},
		{"//example.org/a", "https://example.org/a", "https://example.org", "/a/"},
		{"localhost", "https://localhost/", "https://localhost", ""}, // what it may not be crawled for stands where that is decided
		{"example.org:8080/a/", "https://example.org:8080/a/", "https://example.org:8080", "/a/"},
		{"https://Example.org/Docs", "https://example.org/Docs", "https://example.org", "/Docs/"},
		{"https://example.org/docs/index.html#x", "https://example.org/docs/index.html", "https://example.org", "/docs/"},
		{"https://example.org/index.html", "https://example.org/index.html", "https://example.org", ""},
		{"https://example.org/a/b?c/d", "https://example.org/a/b?c/d", "https://example.org", "/a/b/"},
	} {
		s, seed, err := ScopeOf(c.url)
		want := Scope{Kind: WholeHost, Host: c.host}
		if c.dir != "" {
			want = Scope{Kind: Directory, Host: c.host, Dirs: []string{c.dir}}
		}
		if err != nil || seed != c.seed || s.Kind != want.Kind || s.Host != want.Host || !slices.Equal(s.Dirs, want.Dirs) {
			t.Errorf("ScopeOf(%q) = %+v, %q, %v; want %+v, %q", c.url, s, seed, err, want, c.seed)
			continue
		}
		m, err := s.Compile()
		if err != nil || !m.Contains(seed) {
			t.Errorf("ScopeOf(%q) = %+v, which does not contain its seed (%v)", c.url, s, err)
		}
	}
	for _, bad := range []string{"", "ftp://example.org/", "https://", "mailto:x@example.org", "a b", "nonsense", "nonsense/a.html"} {
		if s, _, err := ScopeOf(bad); !errors.Is(err, ErrURL) {
			t.Errorf("ScopeOf(%q) = %+v, %v; want ErrURL", bad, s, err)
		}
	}
}

// TestWhyNoSite: what is wrong with an address stands within a sentence, and what can be no host's name is not proposed as one.
func TestWhyNoSite(t *testing.T) {
	for _, c := range []struct{ url, why string }{
		{"nonsense", `"nonsense": a site's name has a dot: write it whole, as in nonsense.org`},
		{"N\xbf\xabC", `"N\xbf\xabC": this is no host's name`},
		{"100%", `"100%": this is no host's name`},
		{"100", `"100": this is no host's name`},
		{strings.Repeat("a", 64), `"` + strings.Repeat("a", 64) + `": this is no host's name`},
		{"/news/", `"/news/": this is a path, and no host stands before it`},
		{"https//example.org", `"https//example.org": a colon is missing behind https`},
		{"foo bar", `"https://foo bar": no host's name can have " " in it`},
		{"https://a\x1b[31mb/", `"https://a\x1b[31mb/": no host's name can have "\x1b" in it`},
		{"a.org,b.org", `"https://a.org,b.org": no host's name can have "," in it`},
		{"https://1.2.3.999", `"https://1.2.3.999": each part of an IPv4 address is at most 255`},
		{"https://foo.123", `"https://foo.123": this is no IPv4 address, and no host's name ends with a number`},
		{"https://[fe80::1%25eth0]/", `"https://[fe80::1%25eth0]/": this is no IPv6 address`},
		{"https://", `"https://": it names no host`},
		{"http:/", `"http:/": it names no host`},
		{"https://xn--/", `"https://xn--/": the DNS can have no such name`},
		{"https://example.org:99999", `"https://example.org:99999": ports go from 1 to 65535`},
		{"https://example.org:http/", `"https://example.org:http/": what stands behind the colon is no port`},
		{"https://example.org:0", `"https://example.org:0": ports go from 1 to 65535`},
	} {
		if _, _, err := ScopeOf(c.url); err == nil || err.Error() != ErrURL.Error()+": "+c.why {
			t.Errorf("%q: %v", c.url, err)
		}
	}
}

func TestContains(t *testing.T) {
	const host = "https://h.test"
	for _, c := range []struct {
		scope   Scope
		in, out []string
	}{
		{Scope{Kind: WholeHost, Host: host},
			[]string{host + "/", host + "/a?b"},
			[]string{"http://h.test/", "https://h.test:8443/", "https://h.test.evil.test/", "https://www.h.test/", host, ""}},
		{Scope{Kind: Directory, Host: host, Dirs: []string{"/a/"}},
			[]string{host + "/a/", host + "/a", host + "/a?x", host + "/a/b/c?d"},
			[]string{host + "/", host + "/ab", host + "/b/a/", host + "/?/a/", host + "/A/"}},
		{Scope{Kind: Directories, Host: host, Dirs: []string{"/a/", "/b/c/"}},
			[]string{host + "/a/x", host + "/b/c/x"},
			[]string{host + "/b/x", host + "/c/x"}},
		{Scope{Kind: WholeHost, Host: host, Filters: []string{`\.html$`, `/$`}, Exclude: []string{`/private/`}},
			[]string{host + "/", host + "/a.html"},
			[]string{host + "/a.htm", host + "/private/a.html"}},
	} {
		m, err := c.scope.Compile()
		if err != nil {
			t.Fatalf("%+v: %v", c.scope, err)
		}
		for _, u := range c.in {
			if !m.Contains(u) {
				t.Errorf("%+v does not contain %q", c.scope, u)
			}
		}
		for _, u := range c.out {
			if m.Contains(u) {
				t.Errorf("%+v contains %q", c.scope, u)
			}
		}
	}
}

func TestScopeRefused(t *testing.T) {
	const host = "https://h.test"
	many := func(n int, s string) (out []string) {
		for range n {
			out = append(out, s)
		}
		return out
	}
	for name, s := range map[string]Scope{
		"empty":             {},
		"no kind":           {Host: host},
		"unknown kind":      {Kind: 9, Host: host},
		"host with slash":   {Kind: WholeHost, Host: host + "/"},
		"host with path":    {Kind: WholeHost, Host: host + "/a"},
		"bare host":         {Kind: WholeHost, Host: "h.test"},
		"upper case host":   {Kind: WholeHost, Host: "https://H.test"},
		"default port":      {Kind: WholeHost, Host: "https://h.test:443"},
		"host with query":   {Kind: WholeHost, Host: "https://h.test?"},
		"user name":         {Kind: WholeHost, Host: "https://u@h.test"},
		"host with dirs":    {Kind: WholeHost, Host: host, Dirs: []string{"/a/"}},
		"no directory":      {Kind: Directory, Host: host},
		"two directories":   {Kind: Directory, Host: host, Dirs: []string{"/a/", "/b/"}},
		"root directory":    {Kind: Directory, Host: host, Dirs: []string{"/"}},
		"relative":          {Kind: Directory, Host: host, Dirs: []string{"a/"}},
		"no final slash":    {Kind: Directory, Host: host, Dirs: []string{"/a"}},
		"dot segments":      {Kind: Directory, Host: host, Dirs: []string{"/a/../b/"}},
		"query":             {Kind: Directory, Host: host, Dirs: []string{"/a?b/"}},
		"fragment":          {Kind: Directory, Host: host, Dirs: []string{"/a#b/"}},
		"not encoded":       {Kind: Directory, Host: host, Dirs: []string{"/a b/"}},
		"empty directory":   {Kind: Directory, Host: host, Dirs: []string{""}},
		"too many dirs":     {Kind: Directories, Host: host, Dirs: many(MaxDirs+1, "/a/")},
		"bad pattern":       {Kind: WholeHost, Host: host, Filters: []string{"("}},
		"backreference":     {Kind: WholeHost, Host: host, Filters: []string{`(a)\1`}},
		"look-ahead":        {Kind: WholeHost, Host: host, Exclude: []string{`(?=a)`}},
		"too many patterns": {Kind: WholeHost, Host: host, Filters: many(MaxFilters+1, "a")},
		"long pattern":      {Kind: WholeHost, Host: host, Filters: []string{strings.Repeat("a", MaxFilterBytes+1)}},
		"repeats":           {Kind: WholeHost, Host: host, Filters: []string{"(" + strings.Repeat("a", 900) + "){1000}"}},
		"depth":             {Kind: WholeHost, Host: host, MaxDepth: maxDepth + 1},
		"negative depth":    {Kind: WholeHost, Host: host, MaxDepth: -1},
	} {
		if err := s.Validate(); !errors.Is(err, ErrScope) {
			t.Errorf("%s: %v, want ErrScope", name, err)
		}
	}
}

func TestScopeKey(t *testing.T) {
	whole := Scope{Kind: WholeHost, Host: "https://h.test"}
	a := Scope{Kind: Directory, Host: "https://h.test", Dirs: []string{"/a/"}}
	ab := Scope{Kind: Directories, Host: "https://h.test", Dirs: []string{"/b/", "/a/", "/b/"}, MaxDepth: 3}
	ba := Scope{Kind: Directories, Host: "https://h.test", Dirs: []string{"/a/", "/b/"}, Filters: []string{"x"}}
	if ab.Key() != ba.Key() {
		t.Errorf("keys of the same reach differ: %q, %q", ab.Key(), ba.Key())
	}
	if whole.Key() == a.Key() || a.Key() == ab.Key() {
		t.Error("different reaches share a key")
	}
	if ab.Dirs[0] != "/b/" {
		t.Error("Key changed the scope")
	}
}

func FuzzScope(f *testing.F) {
	f.Add("https://h.test", "/a/", "b+", "c{2,5}", "https://h.test/a/b")
	f.Add("http://[::1]:8080", "", "(x{100}){9}", "", "http://[::1]:8080/")
	f.Fuzz(func(t *testing.T, host, dir, filter, exclude, url string) {
		s := Scope{Kind: WholeHost, Host: host}
		if dir != "" {
			s.Kind, s.Dirs = Directory, []string{dir}
		}
		if filter != "" {
			s.Filters = []string{filter}
		}
		if exclude != "" {
			s.Exclude = []string{exclude}
		}
		m, err := s.Compile()
		if (err == nil) != (s.Validate() == nil) {
			t.Fatalf("Compile: %v, Validate: %v", err, s.Validate())
		}
		if err != nil {
			return
		}
		if u, err := Canonical(url); err == nil && m.Contains(u) && Origin(u) != host {
			t.Fatalf("%+v contains %q", s, u)
		}
		s2, seed, err := ScopeOf(host + dir)
		if err != nil || s2.Host != host {
			t.Fatalf("ScopeOf(%q) = %+v, %q, %v", host+dir, s2, seed, err)
		}
	})
}
