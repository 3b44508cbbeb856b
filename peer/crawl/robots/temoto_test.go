package robots

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/temoto/robotstxt"
	"pgregory.net/rapid"
)

// temotoDiffers names the vectors on which temoto/robotstxt differs from RFC 9309, and so from us, by reason.
var temotoDiffers = []struct {
	why  string
	keys []string
}{
	{"an empty Disallow forbids nothing, but leaves it without a group for us", []string{"an empty group of ours allows /", "an empty group of ours allows /a"}},
	{"it compares the token with all that stands in the line", []string{"version after the token /x"}},
	{"it takes a token that is a prefix of ours for ours", []string{"a prefix is another token /x"}},
	{"a Crawl-delay ends its list of tokens", []string{"lines between tokens do not end the list /a"}},
	{"it refuses a whole file for a rule before the first group", []string{"rules before any group /a", "a broken byte order mark spoils its line /a"}},
	{"the first of two rules of the same length wins", []string{"allow on a tie /page"}},
	{"it lets robots.txt itself be forbidden", []string{"robots.txt is always allowed /robots.txt"}},
	{"its wildcards match anywhere in the path", []string{"star is anchored on the left /x/ab"}},
	{`it takes "$" for an end of path anywhere`, []string{"many stars /aaa$x", "many stars /aaa%24x", "dollar in the middle is itself /a$b", "dollar in the middle is itself /a%24b"}},
	{"it compares octets as they are written", []string{"escaped star /file-*.html", "escaped star /file-%2a.html", "escaped dollar /cost$",
		"percent-encoding of unreserved /a~b", "percent-encoding of unreserved /%61~b", "percent-encoding of unreserved /a%7eb", "percent-encoding of reserved /a%2Fb",
		"beyond ASCII /%E3%83%84", "beyond ASCII /%e3%83%84x", "beyond ASCII, encoded /ツ"}},
	{"it knows no space before the colon", []string{"comments and space /a"}},
	{"it knows no misspellings", []string{"misspelt /a", "misspelt /b"}},
	{"it takes two values for one", []string{"forgotten colons /b"}},
	{"the first rule that matches wins", []string{"the longer Allow /x/page.html"}},
	{"it takes a # within a word for part of it", []string{"a comment within a path /a/quz", "a comment within a path /a/quzz"}},
	{"it knows no octets that are not UTF-8", []string{"no octet is lost beyond UTF-8 /%FF"}},
	{`it puts a "/" before a rule that has none`, []string{"a rule that no path can match /a"}},
}

// TestAgainstTemoto lists where the library differs from us on our own vectors, and why. A verdict that begins to agree, or to differ,
// fails: then the list is to be read again.
func TestAgainstTemoto(t *testing.T) {
	known := map[string]bool{}
	for _, group := range temotoDiffers {
		for _, key := range group.keys {
			known[key] = true
		}
	}
	for _, v := range vectors {
		data, err := robotstxt.FromString(v.file)
		each(v.verdicts, func(path string, want bool) {
			got := err == nil && data.TestAgent(path, "Shoal")
			key := v.name + " " + path
			if known[key] != (got != want) {
				t.Errorf("%q: the library says %v (%v), we say %v", key, got, err, want)
			}
		})
	}
}

// TestAgreesWithTemotoOnPlainFiles: of a file without anything that the library reads in its own way, both read the same groups, delays and
// sitemaps, and come to the same verdicts.
func TestAgreesWithTemotoOnPlainFiles(t *testing.T) {
	tokens := []string{"shoal", "*", "other", "crawler-x"} // none the beginning of another
	rapid.Check(t, func(t *rapid.T) {
		var file strings.Builder
		paths := []string{"/"}
		for range rapid.IntRange(0, 6).Draw(t, "groups") {
			for range rapid.IntRange(1, 2).Draw(t, "tokens") {
				fmt.Fprintf(&file, "User-agent: %s\n", rapid.SampledFrom(tokens).Draw(t, "token"))
			}
			for i := range rapid.IntRange(1, 4).Draw(t, "rules") {
				path := fmt.Sprintf("/%s%d", rapid.StringMatching("[ab]{1,4}").Draw(t, "path"), len(paths)*10+i) // no two the same
				paths = append(paths, path, path+"/x")
				fmt.Fprintf(&file, "%s: %s\n", rapid.SampledFrom([]string{"Disallow", "Allow"}).Draw(t, "key"), path)
			}
			if rapid.Bool().Draw(t, "delayed") {
				fmt.Fprintf(&file, "Crawl-delay: %d\n", rapid.IntRange(0, 25).Draw(t, "delay"))
			}
			if rapid.Bool().Draw(t, "mapped") {
				fmt.Fprintf(&file, "Sitemap: http://h/%d.xml\n", rapid.IntRange(0, 9).Draw(t, "sitemap"))
			}
			file.WriteByte('\n')
		}
		theirs, err := robotstxt.FromString(file.String())
		if err != nil {
			t.Fatalf("%v\n%s", err, &file)
		}
		ours := Parse([]byte(file.String()), "Shoal")
		var delay time.Duration
		if g := theirs.FindGroup("shoal"); g != nil {
			delay = g.CrawlDelay
		}
		if ours.CrawlDelay != delay || !slices.Equal(ours.Sitemaps, theirs.Sitemaps) {
			t.Fatalf("delay %v and sitemaps %q, the library: %v and %q\n%s", ours.CrawlDelay, ours.Sitemaps, delay, theirs.Sitemaps, &file)
		}
		for _, p := range paths {
			if got, want := ours.Allowed(p), theirs.TestAgent(p, "Shoal"); got != want {
				t.Fatalf("%s: %v, the library: %v\n%s", p, got, want, &file)
			}
		}
	})
}
