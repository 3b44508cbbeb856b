package evidence

import (
	"testing"

	"shoal/manager/archive/pages"
)

// TestUnmoved looks whether the host may have said itself that nothing has changed.
func TestUnmoved(t *testing.T) {
	head := func(fields string) []byte { return []byte("HTTP/1.1 200 OK\r\n" + fields + "\r\n") }
	const tag, other, date = "ETag: \"a\"\r\n", "ETag: \"b\"\r\n", "Last-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\n"
	for name, c := range map[string]struct {
		said pages.Capture
		now  Fetch
		want bool
	}{
		"the same tag":             {pages.Capture{Status: 304, Header: head(tag)}, Fetch{Header: head(tag)}, true},
		"the same, said weakly":    {pages.Capture{Status: 304, Header: head(tag)}, Fetch{Header: head("ETag: W/\"a\"\r\n")}, true},
		"another tag":              {pages.Capture{Status: 304, Header: head(tag + date)}, Fetch{Header: head(other + date)}, false},
		"the same date":            {pages.Capture{Status: 304, Header: head(date)}, Fetch{Header: head(date)}, true},
		"no validator":             {pages.Capture{Status: 304, Header: head("")}, Fetch{Header: head("")}, false},
		"it had read the page":     {pages.Capture{Status: 200, Header: head(tag)}, Fetch{Header: head(tag)}, false},
		"the same page, less sent": {pages.Capture{Status: 200, Raw: 7}, Fetch{Raw: 7}, true},
		"another page, less sent":  {pages.Capture{Status: 304, Header: head(tag), Raw: 7}, Fetch{Header: head(tag), Raw: 8}, false},
		"less sent, not kept":      {pages.Capture{Status: 200, Raw: 7}, Fetch{}, false},
	} {
		if got := Of(&c.said).Unmoved(&c.now); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
