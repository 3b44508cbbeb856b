package markup

import "testing"

// TestValues are attributes as the HTML standard has them, and as pages have them.
func TestValues(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"/a?x=1&section=2&copy=3&reg=4", "/a?x=1&section=2&copy=3&reg=4"}, {"/a?x&copy", "/a?x©"}, {"/a?x&copyx", "/a?x&copyx"}, {"&copy;=", "©="},
		{"/a&amp;b", "/a&b"}, {"/a&ampb", "/a&ampb"}, {"/a&amp", "/a&"}, {"/?a&lt;b&gt", "/?a<b>"}, {"&#x2f;a&#47b", "/a/b"}, {"&sol;x", "/x"}, {"&nosuch;&section;", "&nosuch;&section;"},
		{"&&&", "&&&"}, {"&;", "&;"}, {"&#;&#x;", "&#;&#x;"}, {"a&", "a&"}, {"&notin;", "∉"}, {"&not", "¬"}, {"&notit;", "&notit;"}, {"?a=b&amp;amp;c", "?a=b&amp;c"}, {"&semi;", ";"},
	} {
		if got := Value([]byte(c.in)); got != c.want {
			t.Errorf("%q: %q, want %q", c.in, got, c.want)
		}
	}
}
