package evidence

import (
	"reflect"
	"testing"
)

// TestBothAreReadOnce has two fetches of a page that are the same read once, and two that differ in anything that is compared each by itself.
func TestBothAreReadOnce(t *testing.T) {
	page := func(change func(*Fetch)) *Fetch {
		f := &Fetch{URL: "http://a.test/", Status: 200, Header: []byte("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nDate: now\r\n"), Body: []byte("<p>one <a href=/two>two</a>"), Size: 26}
		change(f)
		return f
	}
	a := page(func(*Fetch) {})
	for name, c := range map[string]struct {
		change func(*Fetch)
		once   bool
	}{
		"the same":        {func(*Fetch) {}, true},
		"another date":    {func(f *Fetch) { f.Header = []byte("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nDate: later\r\n") }, true},
		"another body":    {func(f *Fetch) { f.Body = []byte("<p>one <a href=/six>two</a>") }, false},
		"another size":    {func(f *Fetch) { f.Size++ }, false},
		"another status":  {func(f *Fetch) { f.Status = 404 }, false},
		"it leads on":     {func(f *Fetch) { f.Status, f.Final = 301, "http://b.test/" }, false},
		"another type":    {func(f *Fetch) { f.Header = []byte("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n") }, false},
		"the end is lost": {func(f *Fetch) { f.Short = true }, false},
		"nothing came":    {func(f *Fetch) { f.Status = 0 }, false},
		"another page":    {func(f *Fetch) { f.URL = "http://a.test/six" }, false},
	} {
		b := page(c.change)
		of, and := Both(a, b)
		if (of == and) != c.once || !reflect.DeepEqual(of, a.Features()) || !reflect.DeepEqual(and, b.Features()) {
			t.Errorf("%s: read once: %v; %+v and %+v", name, of == and, of, and)
		}
	}
	if of, and := Both(nil, nil); of != nil || and != nil {
		t.Errorf("of nothing: %v, %v", of, and)
	}
}
