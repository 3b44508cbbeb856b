package desk

import "testing"

// Who looks for a site writes its name in any case and script, or has its whole URL.
func TestSearchesTakeWhatPeopleWrite(t *testing.T) {
	for text, want := range map[string]string{
		"":                             "",
		"site-00":                      "site-00",
		" Example.ORG ":                "example.org",
		"https://Example.org/News/a?b": "https://example.org",
		"example.org/news/":            "example.org",
		"https://":                     "https://",
		"http://exam":                  "http://exam",
		"/":                            "/",
		"B\u00dcCHER.example":          "xn--bcher-kva.example",
		"https://b\u00fccher.example/": "https://xn--bcher-kva.example",
		"example.org:8080":             "example.org:8080",
	} {
		if got := hostPart(text); got != want {
			t.Errorf("%q is looked for as %q, want %q", text, got, want)
		}
	}
}
