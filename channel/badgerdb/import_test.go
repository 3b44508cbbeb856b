package badgerdb

import (
	"errors"
	"fmt"
	"testing"

	"shoal/channel"
)

// TestImportsSideBySide starts an import that fails while another one is half done. The failing import must neither
// count the other's channels as existing, because they may never be, nor undo them.
func TestImportsSideBySide(t *testing.T) {
	db, err := Open(t.Context(), Default(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	e, err := db.Take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	line := func(n int) channel.Line {
		host := fmt.Sprintf("https://h%d.example", n)
		return channel.Line{N: n, Channel: channel.Channel{State: channel.Active, Seeds: []string{host + "/"}, Scope: channel.Scope{Kind: channel.WholeHost, Host: host}}}
	}
	const all = 3 * importBatch
	out, err := db.Import(t.Context(), e, func(yield func(channel.Line) bool) {
		for n := 1; n <= all; n++ {
			if n == all { // two batches are staged, or are being
				for what, second := range map[string]func(func(channel.Line) bool){
					"a bad line": func(yield func(channel.Line) bool) { yield(channel.Line{N: 1, Err: errors.New("bad")}) },
					"a site of the first": func(yield func(channel.Line) bool) {
						if yield(line(all + 1)) {
							yield(line(1))
						}
					},
				} {
					_, err := db.Import(t.Context(), e, second)
					if err == nil || what == "a site of the first" && !errors.Is(err, ErrImporting) {
						t.Errorf("a second import with %s: %v", what, err)
					}
				}
			}
			if !yield(line(n)) {
				return
			}
		}
	})
	if err != nil || out.Added != all || out.Duplicates != 0 {
		t.Fatalf("added %d, %d duplicates, %v", out.Added, out.Duplicates, err)
	}
	for _, n := range []int{1, importBatch, 2 * importBatch, all} {
		if id, err := db.Lookup(t.Context(), line(n).Channel.Seeds[0]); err != nil || id == 0 {
			t.Errorf("line %d is not there: %d, %v", n, id, err)
		}
	}
	again, err := db.Import(t.Context(), e, func(yield func(channel.Line) bool) { _ = yield(line(1)) && yield(line(all+1)) })
	if err != nil || again.Added != 1 || again.Duplicates != 1 {
		t.Errorf("afterwards: %+v, %v", again, err)
	}
}
