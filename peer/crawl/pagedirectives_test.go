package crawl

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

func TestRobotsTag(t *testing.T) {
	now := time.Date(2024, 6, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		fields   []string
		unstored string
		nofollow bool
	}{
		{nil, "", false},
		{[]string{"noindex"}, "noindex", false},
		{[]string{"NoFollow , NOINDEX"}, "noindex", true},
		{[]string{"none"}, "noindex", true},
		{[]string{"noarchive"}, "noarchive", false},
		{[]string{"noarchive", "noindex"}, "noarchive", false},
		{[]string{"index, follow, all"}, "", false},
		{[]string{"shoal: noindex"}, "noindex", false},
		{[]string{"Shoal:noindex"}, "noindex", false},
		{[]string{"otherbot: noindex, nofollow"}, "", false},
		{[]string{"otherbot: noindex", "nofollow"}, "", true},
		{[]string{"otherbot: noindex, shoal: nofollow, noarchive"}, "noarchive", true},
		{[]string{"shoal: nofollow, otherbot: noindex, none"}, "", true},
		{[]string{"noindex, otherbot: nofollow"}, "noindex", false},
		{[]string{"max-snippet:20, noindex"}, "noindex", false},
		{[]string{"max-image-preview: large"}, "", false},
		{[]string{"otherbot: max-snippet: 5, nofollow"}, "", false},
		{[]string{"unavailable_after: 25 Jun 2010 15:00:00 PST"}, "expired", false},
		{[]string{"unavailable_after: Fri, 25 Jun 2010 15:00:00 GMT, nofollow"}, "expired", true},
		{[]string{"unavailable_after: 2010-06-25"}, "expired", false},
		{[]string{"unavailable_after: 25-Jun-2030 15:00:00 EST"}, "", false},
		{[]string{"shoal: unavailable_after: 2010-06-25T15:00:00Z"}, "expired", false},
		{[]string{"otherbot: unavailable_after: 2010-06-25"}, "", false},
		{[]string{"unavailable_after: never"}, "", false},
		{[]string{"", ",", ":", "shoal:", "noindexed"}, "", false},
	} {
		if w := parseRobotsTag(c.fields, "shoal", now); w.unstored != c.unstored || w.nofollow != c.nofollow {
			t.Errorf("%q: %+v, want %q, %v", c.fields, w, c.unstored, c.nofollow)
		}
	}
}

// TestNamesOfOtherRobots: what is meant for a robot whose name has several words or a version is not for us, and what is for us with a version is. Dates and
// directives before a colon are no names.
func TestNamesOfOtherRobots(t *testing.T) {
	now := time.Date(2024, 6, 1, 12, 0, 0, 0, time.UTC)
	for field, want := range map[string]directives{
		"bad bot: noindex": {}, "other/1.0: none": {}, "Mozilla/5.0: noindex": {}, "other.example: noindex": {}, "bot 2: noindex": {}, "noindex, bad bot: nofollow": {unstored: "noindex"}, `"otherbot: noindex"`: {},
		"Shoal/1.2: noindex": {unstored: "noindex"}, "shoal 1.2: nofollow": {nofollow: true}, "shoaling/1: noindex": {}, "other/1: none, shoal/1: nofollow": {nofollow: true},
		`"noindex"`: {unstored: "noindex"}, `"noindex, nofollow"`: {unstored: "noindex", nofollow: true}, `'none'`: {unstored: "noindex", nofollow: true}, `"shoal: noindex"`: {unstored: "noindex"},
		"noindex max-snippet: 5": {unstored: "noindex"}, "noindex unavailable_after: 2030-01-01": {unstored: "noindex"}, "noindex shoal: nofollow": {unstored: "noindex", nofollow: true},
		"unavailable_after: Fri, Jun 25 2030 15:00:00 GMT, noindex": {unstored: "noindex"}, "unavailable_after: Jun 25, 2030 15:00:00 GMT, noindex": {unstored: "noindex"},
		"unavailable_after: Fri, Jun 25 2010 15:00:00 GMT": {unstored: "expired"}, " : noindex": {unstored: "noindex"}, "* : noindex": {unstored: "noindex"},
	} {
		if got := parseRobotsTag([]string{field}, "shoal", now); got != want {
			t.Errorf("%q: %+v, want %+v", field, got, want)
		}
	}
}

func FuzzRobotsTag(f *testing.F) {
	f.Add("noindex, shoal: none", "unavailable_after: Fri, 25 Jun 2010 15:00:00 GMT")
	f.Fuzz(func(t *testing.T, a, b string) {
		now := time.Unix(1_700_000_000, 0)
		one, two := parseRobotsTag([]string{a}, "shoal", now), parseRobotsTag([]string{b}, "shoal", now)
		if both := parseRobotsTag([]string{a, b}, "shoal", now); both != one.and(two) {
			t.Errorf("%q, %q: %+v, apart %+v", a, b, both, one.and(two))
		}
	})
}

// TestDirectives sees in a crawl what each directive does: what is kept of the page, whether its links are followed, and what the report counts.
func TestDirectives(t *testing.T) {
	pages := []struct {
		header, head   string
		kept, followed bool
		counted        string
	}{
		{"", "", true, true, ""},
		{"", `<meta name="robots" content="noindex">`, false, true, "noindex"},
		{"", `<META NAME="ROBOTS" CONTENT="NoFollow">`, true, false, "skipped-nofollow"},
		{"", `<meta name=shoal content=none>`, false, false, "noindex"},
		{"", `<meta name="otherbot" content="none">`, true, true, ""},
		{"", `<meta content="noarchive, follow" name="robots">`, false, true, "noarchive"},
		{"", `<meta name="robots" content="unavailable_after: 2001-01-01">`, false, true, "expired"},
		{"noindex", "", false, true, "noindex"},
		{"otherbot: none", "", true, true, ""},
		{"shoal: nofollow", "", true, false, "skipped-nofollow"},
	}
	for i, p := range pages {
		cfg, s := task(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/":
				if p.header != "" {
					rw.Header().Set("X-Robots-Tag", p.header)
				}
				hypertext(fmt.Sprintf(`<html><head>%s<title>t</title></head><a href="/next">n</a>`, p.head))(rw, r)
			case "/next":
				hypertext("next")(rw, r)
			default:
				http.NotFound(rw, r)
			}
		}))
		r := run(t, cfg)
		first := s.pages()[0]
		if kept := len(first.Body) > 0; kept != p.kept || (r.Pages == 2) != p.followed || p.counted != "" && r.Errors[p.counted] != 1 || p.counted == "" && len(r.Errors) > 0 {
			t.Errorf("page %d: kept %v, %d pages, %v; want %+v", i, kept, r.Pages, r.Errors, p)
		}
		if !p.kept && (first.Error != p.counted || len(first.Links) > 0) {
			t.Errorf("page %d: error %q, links %v", i, first.Error, first.Links)
		}
	}
}
