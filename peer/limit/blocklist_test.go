package limit

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestBlockLists reads lists as they are published.
func TestBlockLists(t *testing.T) {
	b, err := NewBlocked([]byte("# a list\n127.0.0.1 localhost\n0.0.0.0 0.0.0.0\n0.0.0.0 Ads.Example # why\n::1 six.example two.example.\n\nplain.example\n||adblock.example^\nhttp://url.example/\nnodots\n"),
		[]byte("0.0.0.0 ads.example\r\n0.0.0.0 dos.example\r\n"))
	if err != nil || b.Len() != 5 {
		t.Errorf("%d names, %v", b.Len(), err)
	}
	for host, want := range map[string]string{"ads.example": "ads.example", "www.ADS.example": "ads.example", "x.six.example": "six.example", "two.example.": "two.example", "plain.example": "plain.example", "dos.example": "dos.example",
		"badads.example": "", "example": "", "localhost": "", "": "", "0.0.0.0": ""} {
		if got := b.Has(host); got != want {
			t.Errorf("%s: %q, want %q", host, got, want)
		}
	}
	long := "\xef\xbb\xbffirst.example\nbücher.example\n0.0.0.0" + strings.Repeat(" many.example", 10_000) + "\nlast.example\n"
	b, err = NewBlocked([]byte(long)) // a mark, a name beyond ASCII, and a line of 130 kB
	for _, host := range []string{"first.example", "www.xn--bcher-kva.example", "many.example", "last.example"} {
		if err != nil || b.Has(host) == "" {
			t.Errorf("%s is not blocked, %v", host, err)
		}
	}
	var none *Blocked
	if none.Has("a.example") != "" || none.Len() != 0 {
		t.Error("no list blocks")
	}
	if b, err := NewBlocked([]byte(strings.Repeat("a.example ", 3)), []byte("0.0.0.0\n")); b.Len() != 0 || err != nil { // three words: the first is no address
		t.Error(b.Len(), err)
	}
}

func TestReadList(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/list":
		case "/moved":
			http.Redirect(w, r, "/list", http.StatusFound)
			return
		case "/open": // what comes from there anyone on the way could change
			http.Redirect(w, r, "http://lists.example/list", http.StatusFound)
			return
		default:
			http.NotFound(w, r)
			return
		}
		w.Write([]byte("0.0.0.0 a.example\n"))
	}))
	defer s.Close()
	file := filepath.Join(t.TempDir(), "list")
	if err := os.WriteFile(file, []byte("0.0.0.0 a.example\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for at, says := range map[string]string{s.URL + "/list": "", file: "", s.URL + "/none": "404", s.URL + "/moved": "", s.URL + "/open": "want https://", file + "2": "no such file"} {
		if b, err := ReadList(t.Context(), s.Client(), at); (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) || err == nil && string(b) != "0.0.0.0 a.example\n" {
			t.Errorf("%s: %q, %v", at, b, err)
		}
	}
	for at, ok := range map[string]bool{"/etc/hosts": true, "https://a.example/x": true, "http://127.0.0.1/x": true, "http://a.example/x": false, "hosts": false, "ftp://a.example/": false, "": false} {
		if err := CheckListName(at); (err == nil) != ok {
			t.Errorf("%q: %v", at, err)
		}
	}
}
