package pond

import (
	"math"
	"strconv"
	"time"
)

var words = [...]string{"the", "of", "and", "to", "in", "water", "shoal", "river", "stone", "morning", "harbour", "letter", "for", "with",
	"is", "was", "that", "on", "as", "by", "light", "engine", "market", "garden", "field", "winter", "summer", "bridge", "paper", "network",
	"story", "child", "mother", "city", "village", "music", "from", "at", "an", "which", "be", "this", "not", "are", "have", "were", "measure",
	"number", "table", "figure", "method", "result", "history", "school", "report", "question", "answer", "mountain", "island", "forest",
	"teacher", "painter", "captain", "journey", "kitchen", "window", "evening", "season", "weather", "science", "language", "machine",
	"reason", "nature", "people", "country", "government", "company", "product", "service", "price", "quality", "picture", "library",
	"station", "railway", "coast", "current", "salmon", "heron", "reed", "pebble", "tide", "anchor", "lantern", "compass", "map", "needle",
	"thread", "copper", "silver", "timber", "granite", "meadow", "orchard", "cellar", "attic", "ladder", "rope", "basket", "barrel", "wheel",
	"spring", "autumn", "quiet", "early", "distant", "narrow", "broad", "ancient", "modern", "common", "strange", "useful", "bright", "heavy"}

// appendWords appends a run of words of about n bytes.
func appendWords(b []byte, s *stream, n int) []byte {
	for end := len(b) + n; len(b) < end; {
		x := s.next()
		for range 6 { // six words a draw
			b = append(b, words[x%uint64(len(words))]...)
			b = append(b, ' ')
			x >>= 10
		}
	}
	b[len(b)-1] = '.'
	return b
}

// size returns the size of a page in bytes: lognormal around Config.Bytes.
func (w *World) size(host, page int) int {
	const sigma = .6
	s := stream{w.hash(saltText, uint64(host), uint64(page), 1)}
	z := math.Sqrt(-2*math.Log(1-s.unit())) * math.Cos(2*math.Pi*s.unit())
	return int(float64(w.cfg.Bytes) * math.Exp(sigma*z-sigma*sigma/2))
}

// AppendPage appends the HTML of a page in a version.
func (w *World) AppendPage(b []byte, host, page int, v Version) []byte {
	h := &w.hosts[host]
	want := len(b) + w.size(host, page)
	s := stream{w.hash(saltText, uint64(host), uint64(page), 2, v.Text)}
	b = append(b, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>"...)
	b = appendWords(b, &s, 30)
	b = append(b, "</title>\n<meta name=\"viewport\" content=\"width=device-width\">\n<link rel=\"stylesheet\" href=\"/style.css\">\n</head>\n<body>\n<nav><ul>\n"...)
	links := w.Links(host, page)
	nav := min(len(links), 6)
	for _, t := range links[:nav] {
		b = append(b, "<li>"...)
		b = w.appendLink(b, host, t)
		b = append(b, "</li>\n"...)
	}
	if h.Private && page == 0 {
		b = append(b, "<li><a href=\"/private/\">members</a></li>\n"...)
	}
	b = append(b, "</ul></nav>\n<main>\n<h1>"...)
	b = append(b, h.Name...)
	b = append(b, " page "...)
	b = strconv.AppendInt(b, int64(page), 10)
	b = append(b, "</h1>\n"...)
	rest := links[nav:]
	const tail = 60
	for {
		left := want - len(b) - tail - 80*len(rest)
		if left < 40 {
			break
		}
		b = append(b, "<p>"...)
		b = appendWords(b, &s, min(left, 200+s.intn(400)))
		if len(rest) > 0 {
			b = append(b, ' ')
			b = w.appendLink(b, host, rest[0])
			rest = rest[1:]
		}
		b = append(b, "</p>\n"...)
	}
	for _, t := range rest {
		b = append(b, "<p>"...)
		b = w.appendLink(b, host, t)
		b = append(b, "</p>\n"...)
	}
	b = append(b, "</main>\n<footer>"...)
	b = append(b, v.Since.UTC().Format(time.DateOnly)...)
	return append(b, "</footer>\n</body>\n</html>\n"...)
}

// appendLink writes a link. A link within the host is a path.
func (w *World) appendLink(b []byte, host int, t Target) []byte {
	b = append(b, `<a href="`...)
	if t.Host != host {
		b = append(b, "http://"...)
		b = append(b, w.hosts[t.Host].Name...)
	}
	n := w.hosts[t.Host].Pages
	b = w.appendPath(b, t.Host, t.Page, n)
	b = append(b, `">`...)
	k := w.hash(saltText, uint64(t.Host), uint64(t.Page), 3)
	b = append(b, words[k%uint64(len(words))]...)
	b = append(b, ' ')
	b = append(b, words[k>>20%uint64(len(words))]...)
	return append(b, "</a>"...)
}

// AppendRobots appends the robots.txt of a host that has one.
func (w *World) AppendRobots(b []byte, host int) []byte {
	h := &w.hosts[host]
	b = append(b, "# "...)
	b = append(b, h.Name...)
	b = append(b, "\nUser-agent: *\n"...)
	if h.Private {
		b = append(b, "Disallow: /private/\nDisallow: /*.cgi$\n"...)
	} else {
		b = append(b, "Disallow:\n"...)
	}
	if h.CrawlDelay > 0 {
		b = append(b, "Crawl-delay: "...)
		b = strconv.AppendFloat(b, h.CrawlDelay.Seconds(), 'f', -1, 64)
		b = append(b, '\n')
	}
	if h.Sitemap {
		b = append(b, "\nSitemap: http://"...)
		b = append(b, h.Name...)
		b = append(b, "/sitemap.xml\n"...)
	}
	return b
}

// MaxSitemap bounds the URLs of a sitemap, as the sitemap protocol does. Further pages are left out.
const MaxSitemap = 50_000

// AppendSitemap appends the sitemap of a host with the time of each page's last change.
func (w *World) AppendSitemap(b []byte, host int, at time.Time) []byte {
	b = append(b, `<?xml version="1.0" encoding="UTF-8"?>`+"\n"+`<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">`+"\n"...)
	for p := range min(w.hosts[host].Pages, MaxSitemap) {
		b = append(b, "<url><loc>"...)
		b = append(b, w.URL(host, p)...)
		b = append(b, "</loc><lastmod>"...)
		b = append(b, w.Version(host, p, at).Since.UTC().Format(time.RFC3339)...)
		b = append(b, "</lastmod></url>\n"...)
	}
	return append(b, "</urlset>\n"...)
}
