package crawl

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/net/html"

	"shoal/internal/lab/pond"
)

// BenchmarkPage reads pages, and beside it x/net/html's tokenizer does no more than cut the same ones into tokens. Pages are the pond's, or with
// SHOAL_PAGES those of a folder and of what is in it (*.html), for figures on real ones.
func BenchmarkPage(b *testing.B) {
	pages := pondPages(b)
	if dir := os.Getenv("SHOAL_PAGES"); dir != "" {
		pages = pagesIn(b, dir)
	}
	size := 0
	for _, p := range pages {
		size += len(p)
	}
	each := func(name string, read func(page []byte)) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(size / len(pages)))
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				read(pages[i%len(pages)])
			}
		})
	}
	var p page
	each("read", func(text []byte) { p.read("http://site.test/d/", text, "text/html", "shoal", false) })
	each("baseline", tokensOnly)
}

// tokensOnly has x/net/html's tokenizer cut a page into tokens.
func tokensOnly(text []byte) {
	for z := html.NewTokenizer(bytes.NewReader(text)); z.Next() != html.ErrorToken || !errors.Is(z.Err(), io.EOF); {
	}
}

// pagesIn gives the pages of a folder and of what is in it.
func pagesIn(t testing.TB, dir string) (pages [][]byte) {
	t.Helper()
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(name) != ".html" {
			return err
		}
		text, err := os.ReadFile(name)
		pages = append(pages, text)
		return err
	})
	if err != nil || len(pages) == 0 {
		t.Fatalf("no pages in %s: %v", dir, err)
	}
	return pages
}

func pondPages(b *testing.B) (pages [][]byte) {
	w, err := pond.NewWorld(pond.Config{Seed: 1, Hosts: 1, Pages: 100, MaxHost: 100, Links: 20, Bytes: 8000, Static: true, Plain: true})
	if err != nil {
		b.Fatal(err)
	}
	for n := range 100 {
		pages = append(pages, w.AppendPage(nil, 0, n, pond.Version{}))
	}
	return pages
}
