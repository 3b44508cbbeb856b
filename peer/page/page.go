// Package page has the volunteer's page: files within the program that ask the control API as shoal-peer does. There is no build step, and nothing is
// loaded from elsewhere. The page computes no sentence and no limit: it shows what the API says, in the words of package words.
package page

import (
	"bytes"
	"embed"
	"fmt"
	"hash/crc32"
	"html"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"

	"shoal/peer/control"
	"shoal/peer/words"
)

//go:embed files
var embedded embed.FS

// names are the files and their types, by the paths under which a browser asks for them.
var names = map[string]string{"/": "index.html", "/style.css": "style.css", "/enter.js": "enter.js", "/page.js": "page.js", "/parts.js": "parts.js", "/charts.js": "charts.js", "/limits.js": "limits.js", "/about.js": "about.js", "/networks.js": "networks.js", "/contribution.js": "contribution.js", "/icon.svg": "icon.svg"}

var types = map[string]string{".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml", ".json": "application/json"}

// Files serves the page's files.
func Files() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			http.Error(w, "only to look at", http.StatusMethodNotAllowed)
			return
		}
		if lang, ok := strings.CutPrefix(r.URL.Path, "/words/"); ok {
			lang, ok = strings.CutSuffix(lang, ".json")
			if !ok || words.Pick(lang) != lang {
				http.NotFound(w, r)
				return
			}
			send(w, r, ".json", words.File(lang))
			return
		}
		name, ok := names[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		send(w, r, path.Ext(name), file(name))
	})
}

// file returns an embedded file.
func file(name string) []byte {
	b, err := fs.ReadFile(embedded, "files/"+name)
	if err != nil {
		panic("page: " + err.Error()) // it is part of the program
	}
	return b
}

// send sends a file. A browser that has it asks with its tag, and gets nothing but the answer that it is the same.
func send(w http.ResponseWriter, r *http.Request, ext string, b []byte) {
	w.Header().Set("Content-Type", types[ext])
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("ETag", fmt.Sprintf(`"%08x"`, crc32.ChecksumIEEE(b)))
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(b))
}

// small is a page without the catalogue: for a browser on its way in, and for one that stays outside.
const small = `<!doctype html>
<html lang="%s"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>Shoal</title>%s</head>
<body><main><h1>Shoal</h1><p>%s</p>%s</main></body></html>
`

// Enter shows a browser in that has just got its session: a script keeps the page's half of it and goes on to the page.
func Enter(w http.ResponseWriter, r *http.Request) {
	lang := words.Pick(r.Header.Get("Accept-Language"))
	head := fmt.Sprintf(`<meta name="key" content="%s"><script src="/enter.js"></script>`, html.EscapeString(control.Key(r)))
	w.Header().Set("Content-Type", types[".html"])
	fmt.Fprintf(w, small, lang, head, words.T("enter.wait").In(lang), "") // a client that has gone needs no answer
}

// Shut tells a browser without a session how to get one.
func Shut(w http.ResponseWriter, r *http.Request) {
	lang := words.Pick(r.Header.Get("Accept-Language"))
	w.Header().Set("Content-Type", types[".html"])
	w.WriteHeader(http.StatusUnauthorized)
	fmt.Fprintf(w, small, lang, "", words.T("enter.shut").In(lang), "<p><code>shoal-peer open</code></p>") // a client that has gone needs no answer
}
