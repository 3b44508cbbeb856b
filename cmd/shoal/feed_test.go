package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"shoal/manager/archive"
)

// --limit bounds the changes that are printed in all, however many requests that takes; without it all are.
func TestFeedLimit(t *testing.T) {
	const all = 2500
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at, _ := strconv.Atoi(r.FormValue("cursor"))
		n, err := strconv.Atoi(r.FormValue("limit"))
		if err != nil || n < 1 || n > 1000 {
			t.Errorf("a request for %q changes", r.FormValue("limit"))
		}
		to := min(at+n, all)
		w.Header().Set(archive.CursorHeader, strconv.Itoa(to))
		for i := at; i < to; i++ {
			fmt.Fprintf(w, "{\"n\":%d}\n", i)
		}
	}))
	defer s.Close()
	for limit, want := range map[int]int{1: 1, 3: 3, 1000: 1000, 1700: 1700, 9999: all, 0: all} {
		var out, errs strings.Builder
		code := run(t.Context(), []string{"feed", "--limit", strconv.Itoa(limit), "--manager", s.URL, "--token", "x"}, streams{&out, &errs})
		if n := strings.Count(out.String(), "\n"); code != 0 || n != want || !strings.Contains(errs.String(), fmt.Sprintf("next: --since %d", want)) {
			t.Errorf("--limit %d: %d, %d changes, want %d; %s", limit, code, n, want, errs.String())
		}
	}
}
