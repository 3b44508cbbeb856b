package board

import (
	"fmt"
	"html"
	"net/http"
	"strings"
	"unicode/utf8"

	"shoal/manager"
)

// shield is a badge as the services read it that draw badges (https://shields.io/badges/endpoint-badge). They want these keys and no others.
type shield struct {
	Version int    `json:"schemaVersion"`
	Label   string `json:"label"`
	Message string `json:"message"`
	Color   string `json:"color"`
}

// badge serves NAME.svg and NAME.json, of what was verified ever.
func (s *server) badge(of func(*list) ([]row, map[string]int)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		file := r.PathValue("file")
		name, svg := strings.CutSuffix(file, ".svg")
		if !svg {
			var is bool
			if name, is = strings.CutSuffix(file, ".json"); !is || len(file) > maxName {
				http.Error(w, "A badge is NAME.svg or NAME.json.", http.StatusNotFound)
				return
			}
		}
		l, err := s.list(r.Context(), 0)
		if err != nil {
			s.cfg.Log.Warn("the board cannot be read", "err", err)
			http.Error(w, "The board cannot be read now. Try again later.", http.StatusServiceUnavailable)
			return
		}
		rows, by := of(l)
		i, known := by[manager.NameKey(name)]
		if !known {
			http.Error(w, "Nobody of that name is on the board.", http.StatusNotFound)
			return
		}
		open(w)
		w.Header().Set("Cache-Control", "public, max-age=300")
		label, message := "Shoal · "+rows[i].Name, count(rows[i].Pages)+" pages verified"
		if rows[i].Pages == 1 {
			message = "1 page verified"
		}
		if !svg {
			send(w, shield{1, label, message, "0b6e8f"})
			return
		}
		w.Header().Set("Content-Type", "image/svg+xml")
		_, _ = w.Write(draw(label, message)) // a client that has gone needs no answer
	}
}

// draw draws a badge. Each text is told how long it is, so that it fits whatever the reader's font is.
func draw(label, message string) []byte {
	const glyph, pad = 66, 60 // tenths of a pixel
	a, b := glyph*utf8.RuneCountInString(label), glyph*utf8.RuneCountInString(message)
	left, all := (a+2*pad)/10, (a+2*pad)/10+(b+2*pad)/10
	return fmt.Appendf(nil, `<svg xmlns="http://www.w3.org/2000/svg" width="%[1]d" height="20" role="img" aria-label="%[2]s: %[3]s">
<title>%[2]s: %[3]s</title>
<rect width="%[1]d" height="20" rx="3" fill="#3b4652"/><path d="M%[4]d 0h%[5]da3 3 0 0 1 3 3v14a3 3 0 0 1-3 3h-%[5]dz" fill="#0b6e8f"/>
<g fill="#ffffff" font-family="Verdana,DejaVu Sans,Geneva,sans-serif" font-size="11"><text x="6" y="14" textLength="%[6]d" lengthAdjust="spacingAndGlyphs">%[2]s</text><text x="%[7]d" y="14" textLength="%[8]d" lengthAdjust="spacingAndGlyphs">%[3]s</text></g>
</svg>
`, all, html.EscapeString(label), html.EscapeString(message), left, all-left-3, a/10, left+6, b/10)
}
