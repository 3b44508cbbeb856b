package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestCutListsSayMore: a list that is not whole says so.
func TestCutListsSayMore(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			fmt.Fprint(w, `{"hosts":[{"name":"https://a.example"}],"more":true}`)
			return
		}
		var named []string
		for i := range 100 {
			named = append(named, fmt.Sprintf(`{"line":%d,"channel":%d}`, i+1, i+1))
		}
		fmt.Fprintf(w, `{"added":150,"duplicates":0,"refused":[],"new":[%s]}`, strings.Join(named, ","))
	}))
	defer s.Close()
	add := []string{"channel", "add"}
	for i := range 150 {
		add = append(add, fmt.Sprintf("https://site-%d.example/", i))
	}
	for want, args := range map[string][]string{"There are more: -n 2": {"host", "list", "-n", "1"}, "and 50 more: shoal channel list": add} {
		if code, out, said := call(t, append(args, "--manager", s.URL, "--token", "t")...); code != 0 || !strings.Contains(out+said, want) {
			t.Errorf("%v: %d, wanted %q in %s%s", args[:2], code, want, out, said)
		}
	}
}
