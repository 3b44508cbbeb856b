package channel

import (
	"slices"
	"strings"
	"unicode/utf8"

	whatwgerrors "github.com/nlnwa/whatwg-url/errors"
	whatwg "github.com/nlnwa/whatwg-url/url"
	"golang.org/x/net/idna"
	"golang.org/x/text/unicode/norm"
)

// parser is the library's, with host names as today's UTS 46 maps them.
var parser = newParser(strict)

// laxParser takes the names that the library refuses for what stands in them beside letters of other alphabets, as "_": the URL Standard does not
// ask for STD3's rules. Hosts are read here, and the library's own opinion does not count.
var laxParser = newParser(lax, whatwg.WithLaxHostParsing())

func newParser(host func(string) string, more ...whatwg.ParserOption) whatwg.Parser {
	return whatwg.NewParser(append(more, whatwg.WithPathPercentEncodeSet(pathSet), whatwg.WithPreParseHostFunc(func(u *whatwg.Url, said string) string {
		if !u.IsSpecialScheme() {
			return said
		}
		return host(said)
	}))...)
}

// pathSet is the standard's "path percent-encode set", which has "^" since 2025.
var pathSet = whatwg.PathPercentEncodeSet.Set('^')

// strict gives the library a host's name as it takes it: if it has percent-encodings or letters of other alphabets, as the DNS has it. The library
// would decode a name before it maps it, and what comes of that once more.
func strict(host string) string {
	if strings.HasPrefix(host, "[") {
		return bracketed(host)
	}
	if !isPlainText(host) {
		ascii, ok := toASCII(host)
		if !ok {
			return noName
		}
		if i := strings.IndexFunc(ascii, isForbidden); i >= 0 {
			return "a" + ascii[i:i+1] // the error names the character
		}
		host = ascii
	} else if hasEmptyPunycode(host) {
		return noName
	}
	if hasSigns(host) {
		return noAddress
	}
	return host
}

// lax is strict for the lax parser, which takes almost anything.
func lax(host string) string {
	if strings.HasPrefix(host, "[") {
		return bracketed(host)
	}
	ascii, ok := toASCII(host)
	if !ok || strings.ContainsFunc(ascii, isForbidden) || hasSigns(ascii) {
		return noHost
	}
	return ascii
}

// What stands for a host that is none. The parser's error differs.
const (
	noHost    = "["     // for either parser
	noName    = "xn--a" // the DNS can have no such name
	noAddress = "a.1"   // this is no IPv4 address
)

// bracketed gives what can be an IPv6 address. The library would take off any number of brackets.
func bracketed(host string) string {
	if strings.ContainsAny(strings.TrimSuffix(host[1:], "]"), "[]") {
		return noHost
	}
	return host
}

// toASCII is the URL Standard's way from a host's name as it is written to "domain to ASCII": percent-encodings are decoded, once, and then it is mapped.
func toASCII(host string) (ascii string, ok bool) {
	name := decoded(host)
	if !utf8.ValidString(name) {
		return "", false
	}
	name = strings.Map(today, name)
	ascii, err := domains.ToASCII(name)
	return ascii, err == nil && ascii != "" && !hasEmptyPunycode(name)
}

// hasEmptyPunycode reports whether a label of a name is mapped to one that begins with "xn--" and has no code behind it, as "xn--" and "xn--a-", or one that is
// not ASCII. UTS 46 refuses them; the library leaves the first out and takes the letters of the others for what they say.
func hasEmptyPunycode(name string) bool {
	name = norm.NFKC.String(name)
	if strings.Count(name, "-") < len("--") { // most names
		return false
	}
	for _, label := range strings.FieldsFunc(name, func(r rune) bool { return r == '.' || r == '。' }) {
		if isPlainText(label) && (len(label) < len("xn--") || !strings.EqualFold(label[:len("xn--")], "xn--")) {
			continue
		}
		mapped, _ := domains.ToUnicode("a" + label) // so that it is mapped, but not decoded
		if code, ok := strings.CutPrefix(mapped, "axn--"); ok && (code == "" || strings.HasSuffix(code, "-") || !isPlainText(code)) {
			return true
		}
	}
	return false
}

// decoded decodes the percent-encodings of a host.
func decoded(host string) string {
	b := make([]byte, 0, len(host))
	for i := 0; i < len(host); i++ {
		if host[i] == '%' && i+2 < len(host) && isHex(host[i+1]) && isHex(host[i+2]) {
			b = append(b, unhex(host[i+1])<<4|unhex(host[i+2]))
			i += 2
			continue
		}
		b = append(b, host[i])
	}
	return string(b)
}

// isForbidden reports whether a character is one of the standard's "forbidden domain code points".
func isForbidden(r rune) bool {
	return r <= ' ' || r == 0x7f || r < 0x7f && strings.IndexByte("#%/:<>?@[\\]^|", byte(r)) >= 0
}

// hasSigns reports whether a host is none since numbers in it have signs, with which the library would read it as an IPv4 address: "+1.2.3.4", "0x-1". The
// standard takes a few of these for names, such as "-1", but the DNS has none.
func hasSigns(host string) bool {
	if !strings.ContainsAny(host, "+-") {
		return false
	}
	labels := strings.Split(strings.TrimSuffix(host, "."), ".")
	if digits, _ := number(labels[len(labels)-1]); !digits {
		return false
	}
	return slices.ContainsFunc(labels, func(label string) bool {
		_, signed := number(label)
		return signed
	})
}

// number tells of a label whether it is a number, perhaps with a sign, and whether it has one.
func number(label string) (digits, signed bool) {
	set := "0123456789"
	if len(label) > 1 && label[0] == '0' {
		if label = label[1:]; label[0] == 'x' || label[0] == 'X' {
			label, set = label[1:], "0123456789abcdefABCDEF"
		}
	}
	if signed = label != "" && (label[0] == '+' || label[0] == '-'); signed {
		label = label[1:]
	}
	return strings.Trim(label, set) == "", signed
}

// domains is the URL Standard's "domain to ASCII" (https://url.spec.whatwg.org/#concept-domain-to-ascii). Names with characters that no host's name has
// pass; canonicalHost refuses them.
var domains = idna.New(idna.MapForLookup(), idna.BidiRule(), idna.VerifyDNSLength(false), idna.StrictDomainName(false), idna.ValidateLabels(true),
	idna.CheckHyphens(false), idna.CheckJoiners(true), idna.Transitional(false))

// parse parses a reference, and the page that it was found on if there is one.
func parse(base, ref string) (*whatwg.Url, error) {
	with := func(p whatwg.Parser) (*whatwg.Url, error) {
		if base == "" {
			return p.Parse(ref)
		}
		return p.ParseRef(base, ref)
	}
	u, err := with(parser)
	if err == nil || whatwgerrors.Type(err) != whatwgerrors.DomainToASCII {
		return u, err
	}
	if lax, laxErr := with(laxParser); laxErr == nil {
		return lax, nil
	}
	return u, err
}

// today maps one character as UTS 46 has mapped it since Unicode 15.1, if it was mapped otherwise or not at all in Unicode 15.0; -1: it is ignored. The
// tables of golang.org/x/net are those of 15.0 before Go 1.27. Names with characters that are newer than 15.0 are refused till then.
func today(r rune) rune {
	switch {
	case 0x10a0 <= r && r <= 0x10c5: // Georgian capitals
		return r - 0x10a0 + 0x2d00
	case 0x206a <= r && r <= 0x206f, 0x2061 <= r && r <= 0x2063, 0x1d173 <= r && r <= 0x1d17a:
		return -1
	case 0x1ccd6 <= r && r <= 0x1ccef:
		return r - 0x1ccd6 + 'a'
	case 0x1ccf0 <= r && r <= 0x1ccf9:
		return r - 0x1ccf0 + '0'
	}
	switch r {
	case 0x115f, 0x1160, 0x17b4, 0x17b5, 0x180e, 0x3164, 0xffa0:
		return -1
	case 'ẞ': // it was "ss", which is another host
		return 'ß'
	case 0x04c0:
		return 0x04cf
	case 0x2132:
		return 0x214e
	case 0x2183:
		return 0x2184
	case 0xa7cb:
		return 0x0264
	case 0xa7dc:
		return 0x019b
	case 0xa7f1:
		return 's'
	case 0x2f868:
		return 0x36fc
	case 0x2f874:
		return 0x5f53
	case 0x2f91f:
		return 0x243ab
	case 0x2f95f:
		return 0x7aee
	case 0x2f9bf:
		return 0x45d7
	}
	return r
}

// isPlainText reports whether the parser takes the name of a host in a reference as it stands there. From other names it may make one that it would
// not read.
func isPlainText(ref string) bool {
	for i := range len(ref) {
		if ref[i] >= utf8.RuneSelf || ref[i] == '%' {
			return false
		}
	}
	return true
}
