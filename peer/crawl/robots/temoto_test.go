package robots

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
