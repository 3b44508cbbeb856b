package page

import (
	"encoding/xml"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"shoal/peer/words"
)

// maxPage is the most bytes that all files of the page may have together, with one language's words.
const maxPage = 150 << 10

func get(path string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	Files().ServeHTTP(w, r)
	return w
}

// TestFiles checks that every file is served under its type, that all of them are small, and that none loads anything from elsewhere.
func TestFiles(t *testing.T) {
	total, served := 0, []string{}
	for path, name := range names {
		w := get(path)
		total += w.Body.Len()
		served = append(served, name)
		if w.Code != http.StatusOK || w.Body.Len() == 0 || w.Header().Get("Content-Type") == "" {
			t.Errorf("%s: %d, %d bytes", path, w.Code, w.Body.Len())
		}
		if again := get(path, "If-None-Match", w.Header().Get("ETag")); again.Code != http.StatusNotModified || again.Body.Len() != 0 {
			t.Errorf("%s is sent again: %d", path, again.Code)
		}
		for _, u := range regexp.MustCompile(`(?:https?:)?//[a-z0-9.]+\.[a-z]+`).FindAllString(w.Body.String(), -1) {
			if u != "http://www.w3.org" {
				t.Errorf("%s names %s", path, u)
			}
		}
		for _, bad := range []string{"innerHTML", "eval(", "style=", "onclick=\"", "document.write"} {
			if strings.Contains(w.Body.String(), bad) {
				t.Errorf("%s has %s", path, bad)
			}
		}
	}
	total += len(words.File("de"))
	if total > maxPage {
		t.Errorf("the page has %d bytes, more than %d", total, maxPage)
	}
	t.Logf("the page has %d bytes", total)
	files, err := fs.ReadDir(embedded, "files")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !slices.Contains(served, f.Name()) {
			t.Errorf("%s is not served", f.Name())
		}
	}
	for _, path := range []string{"/words/xx.json", "/words/de", "/words/../page.go", "/files/index.html", "/none"} {
		if w := get(path); w.Code != http.StatusNotFound {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}

// TestWords checks that each text that a script names is in the catalogue, and that the catalogue has no text of the page that nothing names.
func TestWords(t *testing.T) {
	var all strings.Builder
	for path := range names {
		all.WriteString(get(path).Body.String())
	}
	text := all.String()
	for _, m := range regexp.MustCompile(`"((?:ui|name|amount|group|enter)\.[a-z0-9_.]+)"`).FindAllStringSubmatch(text, -1) {
		if !words.Has(m[1]) {
			t.Errorf("there are no words for %s", m[1])
		}
	}
	for _, m := range regexp.MustCompile(`"(ui\.[a-z0-9.]+)":`).FindAllStringSubmatch(string(words.File("en")), -1) {
		if !strings.Contains(text, `"`+m[1]+`"`) {
			t.Errorf("nothing shows %s", m[1])
		}
	}
}

// TestWays checks what a browser gets on its way in, and outside.
func TestWays(t *testing.T) {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Accept-Language", "de")
	w := httptest.NewRecorder()
	Shut(w, r)
	if w.Code != http.StatusUnauthorized || !strings.Contains(w.Body.String(), "shoal-peer open") || !strings.Contains(w.Body.String(), "nur für den Benutzer") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	w = httptest.NewRecorder()
	Enter(w, r)
	if !strings.Contains(w.Body.String(), `<script src="/enter.js">`) {
		t.Error(w.Body)
	}
}

// TestPicture checks that the picture is well-formed and says numbers alone.
func TestPicture(t *testing.T) {
	for lang, says := range map[string]string{"en": "1,234,567 pages fetched", "de": "1.234.567 Seiten geholt"} {
		svg := string(Picture(lang, 1234567, time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)))
		if !strings.Contains(svg, says) {
			t.Errorf("%s: %s", lang, svg)
		}
		for d := xml.NewDecoder(strings.NewReader(svg)); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
	}
	for lang, says := range map[string]string{"en": ">1 page fetched<", "de": ">1 Seite geholt<"} {
		if svg := string(Picture(lang, 1, time.Now())); !strings.Contains(svg, says) {
			t.Errorf("%s: %s", lang, svg)
		}
	}
	if grouped(999, "en") != "999" || grouped(1000, "en") != "1,000" || grouped(-1, "en") != "0" {
		t.Error("grouped")
	}
}
