package crawl

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/net/html"

	"shoal/internal/lab/pond"
)

// BenchmarkPage reads pages, and beside it x/net/html's tokenizer does no more than cut the same ones into tokens. Pages are the pond's, or with
// SHOAL_PAGES those of a folder (*.html), for figures on real ones.
func BenchmarkPage(b *testing.B) {
	pages := pondPages(b)
	if dir := os.Getenv("SHOAL_PAGES"); dir != "" {
		pages = nil
		names, err := filepath.Glob(filepath.Join(dir, "*.html"))
		if err != nil || len(names) == 0 {
			b.Fatalf("no pages in %s: %v", dir, err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				b.Fatal(err)
			}
			pages = append(pages, text)
		}
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
	each("baseline", func(text []byte) {
		for z := html.NewTokenizer(bytes.NewReader(text)); z.Next() != html.ErrorToken || !errors.Is(z.Err(), io.EOF); {
		}
	})
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
