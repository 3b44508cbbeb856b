package robots

import (
	"encoding/binary"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"shoal/channel"
)

// vectors holds every rule of RFC 9309 that decides a URL: a file, and URLs with "+" (may be fetched) or "-" before them.
var vectors = []struct{ name, file, verdicts string }{
	{"empty file", "", "+/ +/a"},
	{"no group for us", "User-agent: other\nDisallow: /", "+/ +/a"},
	{"all others", "User-agent: *\nDisallow: /a", "+/ -/a -/a/b -/ab +/b"},
	{"ours before all others", "User-agent: *\nDisallow: /\n\nUser-agent: shoal\nDisallow: /x", "+/a -/x"},
	{"ours before all others, in either order", "User-agent: shoal\nDisallow: /x\nUser-agent: *\nDisallow: /", "+/a -/x"},
	{"an empty group of ours allows", "User-agent: *\nDisallow: /\n\nUser-agent: shoal\nDisallow:", "+/ +/a"},
	{"token in any case", "USER-AGENT: SHOAL\nDISALLOW: /x", "-/x +/X"},
	{"version after the token", "User-agent: Shoal/1.2 (any)\nDisallow: /x", "-/x"},
	{"a prefix is another token", "User-agent: sho\nDisallow: /\nUser-agent: shoal-images\nDisallow: /\nUser-agent: shoalbot\nDisallow: /", "+/x"},
	{"groups of one token merge", "User-agent: shoal\nDisallow: /a\n\nUser-agent: x\nDisallow: /\n\nUser-agent: shoal\nDisallow: /b", "-/a -/b +/c"},
	{"several tokens, one group", "User-agent: x\nUser-agent: shoal\nUser-agent: y\nDisallow: /a", "-/a +/b"},
	{"lines between tokens do not end the list", "User-agent: shoal\nSitemap: http://h/s\nCrawl-delay: 3\n\nUser-agent: y\nDisallow: /a", "-/a"},
	{"rules before any group", "Disallow: /a\nUser-agent: shoal\nDisallow: /b", "+/a -/b"},
	{"longest match", "User-agent: *\nDisallow: /a\nAllow: /a/b\nDisallow: /a/b/c", "-/a/x +/a/b/x -/a/b/c"},
	{"order does not matter", "User-agent: *\nAllow: /a/b\nDisallow: /a/b/c\nDisallow: /a", "-/a/x +/a/b/x -/a/b/c"},
	{"allow on a tie", "User-agent: *\nDisallow: /page\nAllow: /page", "+/page"},
	{"wildcards count in the length", "User-agent: *\nAllow: /page\nDisallow: /*.htm", "-/page.htm +/page"},
	{"robots.txt is always allowed", "User-agent: *\nDisallow: /", "+/robots.txt -/robots.txt2 -/"},
	{"paths in their case", "User-agent: *\nDisallow: /Secret", "-/Secret +/secret"},
	{"star", "User-agent: *\nDisallow: /*/private", "-/a/private -/a/b/private/c +/private +/a/privat"},
	{"star at the end is nothing", "User-agent: *\nDisallow: /fish*", "-/fish -/fish.html -/fishheads/yummy +/Fish +/catfish"},
	{"star is anchored on the left", "User-agent: *\nDisallow: /a*b", "-/ab -/axxb -/axbx +/x/ab"},
	{"leading star", "User-agent: *\nDisallow: *.php", "-/index.php -/folder/filename.php?p +/php +/windows.PHP"},
	{"many stars", "User-agent: *\nDisallow: /*a*a*a*$x", "+/aaaaaaaaaaaaaaaaaaaaaaaaaaaaa -/aaa$x -/aaa%24x"},
	{"dollar", "User-agent: *\nDisallow: /*.php$", "-/filename.php +/filename.php?x +/filename.php/ +/filename.php5"},
	{"dollar and a repeated end", "User-agent: *\nDisallow: /*ab$", "-/abab -/xab +/abx"},
	{"dollar alone is the whole path", "User-agent: *\nDisallow: /$", "-/ +/a"},
	{"dollar in the middle is itself", "User-agent: *\nDisallow: /a$b", "-/a$b -/a%24b +/a"},
	{"escaped star", "User-agent: *\nDisallow: /file-%2A.html", "-/file-*.html -/file-%2a.html +/file-x.html"},
	{"escaped dollar", "User-agent: *\nDisallow: /cost%24", "-/cost$ -/cost%24x +/cost"},
	{"percent-encoding of unreserved", "User-agent: *\nDisallow: /%61%7Eb", "-/a~b -/%61~b -/a%7eb"},
	{"percent-encoding of reserved", "User-agent: *\nDisallow: /a%2fb", "-/a%2Fb +/a/b"},
	{"beyond ASCII", "User-agent: *\nDisallow: /ツ", "-/%E3%83%84 -/ツ -/%e3%83%84x"},
	{"beyond ASCII, encoded", "User-agent: *\nDisallow: /%E3%83%84", "-/%E3%83%84 -/ツ"},
	{"lone percent", "User-agent: *\nDisallow: /100%", "-/100% -/100%x"},
	{"query", "User-agent: *\nDisallow: /*?sort=", "-/a?sort=up +/a?x=1 +/a"},
	{"comments and space", " \t User-agent :\tshoal # us\n#Disallow: /x\nDisallow : /a # b\n", "-/a +/x +/b"},
	{"CR alone", "User-agent: *\rDisallow: /a\r\rDisallow: /b", "-/a -/b"},
	{"CRLF", "User-agent: *\r\nDisallow: /a\r\n", "-/a"},
	{"byte order mark", "\xef\xbb\xbfUser-agent: *\nDisallow: /a", "-/a"},
	{"the beginning of a byte order mark", "\xef\xbbUser-agent: *\nDisallow: /a", "-/a"},
	{"a broken byte order mark spoils its line", "\xef\x11\xbfUser-agent: *\nDisallow: /a", "+/a"},
	{"forgotten colons", "user-agent shoal\ndisallow /a\ndisallow /b c", "-/a +/b"},
	{"CR, LF and CRLF mixed", "User-agent: *\rDisallow: /a\nDisallow: /b\r\nDisallow: /c\r\r\nDisallow: /d", "-/a -/b -/c -/d +/e"},
	{"unknown lines do not part a list of tokens", "User-agent: x\nfoo: /foo/bar\nUser-agent: shoal\nDisallow: /a", "-/a"},
	{"a rule begins a group anew", "User-agent: x\nDisallow: /a\nUser-agent: shoal\nDisallow: /b", "+/a -/b"},
	{"a token up to its first space", "User-agent: Shoal Images\nDisallow: /a", "-/a"},
	{"a URL within a query", "User-agent: *\nDisallow: /\nAllow: /a/b?q=t&z=http://h.test?t&p", "+/a/b?q=t&z=http://h.test?t&p -/a/b"},
	{"the longer Allow", "User-agent: *\nAllow: /x/page.\nDisallow: /*.html", "+/x/page.html -/x/y.html"},
	{"a comment within a path", "User-agent: *\nDisallow: /a/quz#qux", "-/a/quz -/a/quzz +/a/qu"},
	{"a dollar after a star", "User-agent: *\nDisallow: /a*$", "-/a -/ab +/b"},
	{"stars in a row", "User-agent: *\nDisallow: /a***b", "-/ab -/axb +/a"},
	{"half an escape", "User-agent: *\nDisallow: /a%2", "-/a%252 -/a%2"},
	{"no octet is lost beyond UTF-8", "User-agent: *\nDisallow: /\xff", "-/%FF +/%FE"},
	{"misspelt", "useragent: *\nDisalow: /a\ndissallow: /b", "-/a -/b"},
	{"rubbish between", "User-agent: *\n<html>\nNoindex: /a\nDisallow\nDisallow: /b\n\x00\xff: /c", "+/a -/b +/c"},
	{"a rule that no path can match", "User-agent: *\nDisallow: a", "+/a +/"},
	{"empty rules", "User-agent: *\nDisallow:\nAllow:", "+/"},
	{"star with a remark", "User-agent: * all\nDisallow: /a", "-/a"},
}

func each(verdicts string, f func(path string, want bool)) {
	for _, v := range strings.Fields(verdicts) {
		f(v[1:], v[0] == '+')
	}
}

func TestVectors(t *testing.T) {
	for _, v := range vectors {
		r := Parse([]byte(v.file), "Shoal")
		each(v.verdicts, func(path string, want bool) {
			if got := r.Allowed(path); got != want {
				t.Errorf("%s: %s allowed %v, want %v", v.name, path, got, want)
			}
		})
	}
}

func TestDelayAndSitemaps(t *testing.T) {
	for _, c := range []struct {
		file     string
		delay    time.Duration
		sitemaps int
	}{
		{"User-agent: *\nCrawl-delay: 2.5\nDisallow: /a\nSitemap: http://h/a.xml\nsitemap: /b.xml", 2500 * time.Millisecond, 2},
		{"User-agent: shoal\nCrawl-delay: 3\nDisallow:\nUser-agent: *\nCrawl-delay: 9", 3 * time.Second, 0},
		{"User-agent: shoal\nDisallow: /a\nUser-agent: *\nCrawl-delay: 9", 0, 0},
		{"User-agent: sho\nCrawl-delay: 9\nDisallow: /\n", 0, 0},
		{"User-agent: *\nCrawl-delay: 86400", MaxDelay, 0},
		{"User-agent: *\nCrawl-delay: -1\nSitemap: http://h/s", 0, 1},
		{"User-agent: *\nCrawl-delay: soon\nDisallow: /", 0, 0},
		{"User-agent: *\nCrawl-delay: NaN", 0, 0},
		{"User-agent: *\nCrawl-delay: 1e300", 0, 0},
		{"User-agent: *\nCrawl-delay: 10s\nUser-agent: a\nCrawl-delay: 1 second", 10 * time.Second, 0},
		{"User-agent: *\nCrawl-delay: 2,5", 2500 * time.Millisecond, 0},
		{"User-agent: *\nCrawl-delay: 7 seconds # please\nSitemap http://h/s.xml\nSitemap:", 7 * time.Second, 1},
		{strings.Repeat("Sitemap: http://h/s\n", 500), 0, 500},
		{strings.Repeat("Sitemap: http://h/s http://h/t http://h/u\n", 500), 0, 1500},
		{strings.Repeat("Sitemap:/a\n", MaxBytes/11), 0, MaxBytes / 11},
		{strings.Repeat("Sitemap:/\n", MaxBytes/10), 0, MaxSitemaps},
		{"Sitemap: http://h/s, https://h/t; /no,\nSitemap: /a,b\nSitemap: , /c", 0, 3},
		{"User-agent: *\nCrawl-delay: 10seconds", 10 * time.Second, 0},
		{"User-agent: *\nCrawl-delay: \"7\"", 7 * time.Second, 0},
		{"User-agent: *\nCrawl-delay: = 7;", 7 * time.Second, 0},
		{"User-agent: *\nCrawl-delay: 10, 20", 10 * time.Second, 0},
		{"User-agent: *\nCrawl-delay: 5.", 5 * time.Second, 0},
		{"User-agent: *\nCrawl-delay: .5", 500 * time.Millisecond, 0},
		{"User-agent: *\nCrawl-delay: 500ms", 500 * time.Millisecond, 0},
		{"User-agent: *\nCrawl-delay: 0.1 min", 6 * time.Second, 0},
		{"User-agent: *\nCrawl-delay: 1h", MaxDelay, 0},
		{"User-agent: *\nCrawl-delay: 1.2.3", 0, 0},
		{"User-agent: *\nCrawl-delay: +7", 7 * time.Second, 0},
		{"User-agent: *\nCrawl-delay: (7)", 7 * time.Second, 0},
		{"User-agent: *\nCrawl-delay: at least 7.5 please", 7500 * time.Millisecond, 0},
		{"User-agent: *\nCrawl-delay: 7x", 7 * time.Second, 0},
		{"User-agent: *\nCrawl-delay: 7e0", 7 * time.Second, 0},
		{"User-agent: *\nCrawl-delay: 1 day", MaxDelay, 0},
		{"User-agent: *\nCrawl-delay: 3-7", 3 * time.Second, 0},
		{"User-agent: *\nCrawl-delay=7", 7 * time.Second, 0},
		{"User-agent: *\nCrawl-delay = 7 seconds", 7 * time.Second, 0},
		{"User-agent *\nCrawl-delay 7 seconds", 7 * time.Second, 0},
		{"User-agent:\u00a0*\nCrawl-delay:\u00a07", 7 * time.Second, 0},
		{"Sitemap: \"http://h/s\"\nSitemap: <http://h/t>", 0, 2},
		{"User-agent: *\nCrawl_delay: 9\nCrawl delay: 8", 8 * time.Second, 0},
	} {
		r := Parse([]byte(c.file), "shoal")
		if r.CrawlDelay != c.delay || len(r.Sitemaps) != c.sitemaps {
			t.Errorf("%q: delay %v, %d sitemaps; want %v, %d", c.file[:min(60, len(c.file))], r.CrawlDelay, len(r.Sitemaps), c.delay, c.sitemaps)
		}
	}
}

// TestBrokenLinesSpoilNothing: what one line says badly costs no other line its delay or its sitemap, and no group gets another's delay.
func TestBrokenLinesSpoilNothing(t *testing.T) {
	const sitemap = "\nSitemap: http://h/s.xml"
	for _, c := range []struct {
		name, file string
		delay      time.Duration
	}{
		{"an agent of digits alone", "User-agent: 008\nDisallow: /\n\nUser-agent: *\nCrawl-delay: 10\nDisallow: /a" + sitemap, 10 * time.Second},
		{"an agent of digits, and its delay", "User-agent: *\nDisallow: /a\n\nUser-agent: 008\nCrawl-delay: 10\nDisallow: /" + sitemap, 0},
		{"an agent that begins with a digit", "User-agent: *\nCrawl-delay: 2\n\nUser-agent: 360Spider\nCrawl-delay: 20\nDisallow: /" + sitemap, 2 * time.Second},
		{"an agent beyond ASCII", "User-agent: *\nCrawl-delay: 2\n\nUser-agent: паук\nCrawl-delay: 20" + sitemap, 2 * time.Second},
		{"an empty agent", "User-agent:\nDisallow: /\nUser-agent: *\nCrawl-delay: 10" + sitemap, 10 * time.Second},
		{"an empty agent, and its delay", "User-agent: *\nDisallow: /a\nUser-agent:\nCrawl-delay: 10" + sitemap, 0},
		{"a rule before any group", "Disallow: /a\nUser-agent: *\nCrawl-delay: 10" + sitemap, 10 * time.Second},
		{"a delay before any group", "Crawl-delay: 9\nUser-agent: *\nCrawl-delay: 10" + sitemap, 10 * time.Second},
		{"a delay before any group, and none in it", "Crawl-delay: 9\nUser-agent: *\nDisallow: /a" + sitemap, 0},
		{"an agent in a list with others", "User-agent: 008\nUser-agent: shoal\nCrawl-delay: 10\nDisallow: /a\nUser-agent: *\nCrawl-delay: 3" + sitemap, 10 * time.Second},
		{"delays alone", "User-agent: a\nCrawl-delay: 10\nUser-agent: shoal\nCrawl-delay: 4\nUser-agent: *\nCrawl-delay: 20" + sitemap, 4 * time.Second},
		{"a delay that is none", "User-agent: *\nCrawl-delay: 10\nUser-agent: a\nCrawl-delay: soon\nDisallow: /" + sitemap, 10 * time.Second},
		{"a token that is the beginning of ours", "User-agent: sho\nCrawl-delay: 9\nDisallow: /a\nUser-agent: *\nCrawl-delay: 10" + sitemap, 10 * time.Second},
		{"a pattern that no library compiles", "User-agent: *\nCrawl-delay: 10\nDisallow: /\xff*\xfe$(\n" + sitemap, 10 * time.Second},
		{"a value without a key", ": /\nUser-agent: *\nCrawl-delay: 10\n:\n" + sitemap, 10 * time.Second},
	} {
		r := Parse([]byte(c.file), "Shoal")
		if r.CrawlDelay != c.delay || len(r.Sitemaps) != 1 || r.Sitemaps[0] != "http://h/s.xml" {
			t.Errorf("%s: delay %v, sitemaps %q; want %v and one", c.name, r.CrawlDelay, r.Sitemaps, c.delay)
		}
	}
}

// TestKeysAsTheyAreMet: keys may be longer than they should be, and lack their colon, as in Google's parser. Marks and NULs that editors leave
// cost no line.
func TestKeysAsTheyAreMet(t *testing.T) {
	const file = "User-agent: *\nDisallow: /a\nCrawl-delay: 7\nSitemap: http://h/s"
	wide := func(mark string, order binary.AppendByteOrder) string {
		b := []byte(mark)
		for _, c := range utf16.Encode([]rune(file)) {
			b = order.AppendUint16(b, c)
		}
		return string(b)
	}
	for name, file := range map[string]string{
		"longer keys":                    "User-agents: *\nDisallowed: /a\nCrawl-delays: 7\nSitemap_index: http://h/s",
		"misspelt":                       "useragent: *\ndissalow: /a\nCrawlDelay: 7\nsite-map: http://h/s",
		"a colon in the path alone":      "User-agent: *\nDisallow /a:b\nDisallow: /a$\nCrawl-delay 7\nSitemap http://h/s",
		"two byte order marks":           mark + mark + file,
		"a byte order mark in the file":  "User-agent: shoals\nDisallow: /\n" + mark + file,
		"NULs in keys":                   strings.ReplaceAll(file, ": ", "\x00: "),
		"NULs behind values":             strings.ReplaceAll(file, "\n", "\x00x\n"),
		"UTF-16, the lower octet first":  wide("\xff\xfe", binary.LittleEndian),
		"UTF-16, the higher octet first": wide("\xfe\xff", binary.BigEndian),
		"UTF-16 without a mark":          wide("", binary.LittleEndian),
		"the other one without a mark":   wide("", binary.BigEndian),
	} {
		r := Parse([]byte(file), "Shoal")
		if r.Allowed("/a") || r.Allowed("/a:b") || !r.Allowed("/b") || r.CrawlDelay != 7*time.Second || len(r.Sitemaps) != 1 || r.Sitemaps[0] != "http://h/s" {
			t.Errorf("%s: /a %v, /a:b %v, /b %v, delay %v, sitemaps %q", name, r.Allowed("/a"), r.Allowed("/a:b"), r.Allowed("/b"), r.CrawlDelay, r.Sitemaps)
		}
	}
}

func TestCutAt500KiB(t *testing.T) {
	file := "User-agent: *\nDisallow: /a\n" + strings.Repeat("# filler\n", MaxBytes/9) + "Disallow: /b\n"
	r := Parse([]byte(file), "shoal")
	if r.Allowed("/a") || !r.Allowed("/b") {
		t.Error("what lies beyond 500 KiB counts")
	}
}

// TestCutRule: a rule that goes across the limit is no rule, one that ends there is.
func TestCutRule(t *testing.T) {
	head := "User-agent: *\nDisallow: /\n#"
	for _, c := range []struct {
		last string
		over int // octets of it beyond the limit
		want bool
	}{{"Allow: /ab", 0, true}, {"Allow: /ab", 1, false}, {"Allow: /ab", 5, false}} {
		pad := MaxBytes - len(head) - 1 - len(c.last) + c.over
		file := head + strings.Repeat("x", pad) + "\n" + c.last
		for _, end := range []string{"", "\n", "\r\nAllow: /c\n"} {
			r := Parse([]byte(file+end), "shoal")
			if r.Allowed("/ab") != c.want || r.Allowed("/a") || r.Allowed("/c") && c.over == 0 {
				t.Errorf("%q with %d octets beyond, %q after it: %v, want %v", c.last, c.over, end, r.Allowed("/ab"), c.want)
			}
		}
	}
}

// TestManyStars would not end with a matcher that tries every way to place them.
func TestManyStars(t *testing.T) {
	r := Parse([]byte("User-agent: *\nDisallow: /"+strings.Repeat("a*", 1000)+"b$"), "shoal")
	if !r.Allowed("/" + strings.Repeat("a", 2000)) {
		t.Error("matched")
	}
}

func FuzzParse(f *testing.F) {
	for _, v := range vectors {
		f.Add([]byte(v.file), "/a?b")
	}
	f.Fuzz(func(t *testing.T, file []byte, path string) {
		r := Parse(file, "Shoal")
		got := r.Allowed(path)
		if !r.Allowed("/robots.txt") {
			t.Error("robots.txt forbidden")
		}
		// The slow, obviously right way: every rule by recursion, longest first.
		best, want := -1, true
		if path != "/robots.txt" {
			for _, rule := range r.rules {
				if len(rule.pattern) <= 40 && len(path) <= 40 && slow(rule.pattern, rule.anchored, normal(path)) {
					if n := rule.length; n > best || n == best && rule.allow {
						best, want = n, rule.allow
					}
				} else if len(rule.pattern) > 40 || len(path) > 40 {
					return
				}
			}
		}
		if got != want {
			t.Errorf("%q on %q: %v, want %v", path, file, got, want)
		}
	})
}

func slow(pattern string, anchored bool, path string) bool {
	if anchored && pattern == "$" {
		return path == ""
	}
	if pattern == "" {
		return true
	}
	if pattern[0] == '*' {
		for i := 0; i <= len(path); i++ {
			if slow(pattern[1:], anchored, path[i:]) {
				return true
			}
		}
		return false
	}
	return path != "" && path[0] == pattern[0] && slow(pattern[1:], anchored, path[1:])
}

func BenchmarkAllowed(b *testing.B) {
	r := Parse([]byte("User-agent: *\nDisallow: /private/\nDisallow: /*?sort=\nAllow: /private/open\nDisallow: /*.pdf$\n"), "shoal")
	b.ReportAllocs()
	for b.Loop() {
		r.Allowed("/a/b/c/page-123.html?x=1")
	}
}

// TestOctetsThatParsersEncode: a rule that has an octet as people type it holds for the link that a parser has made of the same text.
func TestOctetsThatParsersEncode(t *testing.T) {
	for _, c := range []struct {
		rule, link string
		same       bool
	}{
		{"/search/{search_term_string}", "/search/{search_term_string}", true}, {"/search/%7Bx%7d$", "/search/{x}", true}, {"/*{", "/a?q={x}", true},
		{"/a<b>", "/a<b>c", true}, {"/\"quoted\"", "/\"quoted\"", true}, {"/`x`", "/`x`", true}, {"/*?q='", "/a?q='b'", true}, {"/o'x", "/o'x", true},
		{"/a|b", "/a|b", true}, {"/a|b", "/a%7Cb", true}, {"/a^b", "/a^b", true}, {"/a^b", "/a%5eb", true},
		{"/100%/x", "/100%/x", true}, {"/100%", "/100%/x", true}, {"/*%", "/a%20b", true}, {"/*%2", "/a%20b", true}, {"/%zz", "/%zz", true}, {"/%7$", "/%7", false},
		{"/a[b", "/a%5Bb", false}, {"/a?b", "/a%3Fb", false}, {"/{a}", "/{b}", false}, {"/a'b", "/a\"b", false},
	} {
		u, err := channel.Canonical("http://h.test" + c.link)
		if err != nil {
			t.Fatal(err)
		}
		if r := Parse([]byte("User-agent: *\nDisallow: "+c.rule+"\n"), "Shoal"); r.Allowed(u[len("http://h.test"):]) == c.same {
			t.Errorf("Disallow: %s on %s, which is %s: allowed %v", c.rule, c.link, u, c.same)
		}
	}
	for _, rule := range []string{"/*{", "/*'"} { // each is as long as it was typed
		if r := Parse([]byte("User-agent: *\nAllow: /a/b\nDisallow: "+rule+"\n"), "Shoal"); !r.Allowed("/a/b{'") {
			t.Errorf("%s is longer than /a/b", rule)
		}
	}
}
