package channel

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cespare/xxhash/v2"
	whatwgerrors "github.com/nlnwa/whatwg-url/errors"
)

// ErrURL is returned for text that is not an http or https URL that a peer may fetch.
var ErrURL = errors.New("channel: not a Web URL")

// maxRawURL bounds the input of the parser. Percent-encoding turns one byte into three, and some of the parser's
// steps take quadratic time.
const maxRawURL = 3 * MaxURL

// Canonical returns the one form in which a URL is stored, compared and hashed. It follows the WHATWG URL Standard
// (https://url.spec.whatwg.org) and adds these rules: the scheme is http or https; there is no fragment, user name or
// password; the host has no final dot and is an IP address or consists of letters, digits, "-", "_" and ".";
// percent-encodings of unreserved characters are decoded, the others use upper case, and a lone "%" becomes "%25"
// (RFC 3986, 6.2.2); the URL has at most MaxURL bytes. The result is ASCII without spaces or control characters, has
// a path, and is its own canonical form.
func Canonical(raw string) (string, error) {
	if isCanonical(raw) {
		return raw, nil
	}
	return slowCanonical("", raw)
}

// Resolve returns the canonical form of a reference found on the page base. Common forms take a fast path.
func Resolve(base, ref string) (string, error) {
	if u, ok := fastResolve(base, ref); ok {
		return u, nil
	}
	return slowCanonical(base, ref)
}

// IsURL reports whether a reference found on the page base is a URL by the URL Standard, of whatever scheme.
func IsURL(base, ref string) bool {
	if len(ref) > maxRawURL || len(base) > maxRawURL || longUserInfo(ref) || longUserInfo(base) {
		return false
	}
	_, err := parse(base, ref)
	return err == nil
}

// URLHash returns the hash that identifies a canonical URL in digests and seen sets.
func URLHash(canonical string) uint64 { return xxhash.Sum64String(canonical) }

// ContentDigest returns the fingerprint of a page's content.
func ContentDigest(content []byte) uint64 { return xxhash.Sum64(content) }

// Origin returns scheme and authority of a canonical URL, as in Scope.Host: "https://example.org",
// "http://example.org:8080".
func Origin(canonical string) string {
	_, path := split(canonical)
	return canonical[:len(canonical)-len(path)]
}

// split cuts a canonical URL before its path.
func split(canonical string) (origin, path string) {
	i := strings.Index(canonical, "://")
	if i < 0 {
		return canonical, ""
	}
	i += len("://")
	if j := strings.IndexByte(canonical[i:], '/'); j >= 0 {
		return canonical[:i+j], canonical[i+j:]
	}
	return canonical, ""
}

func slowCanonical(base, ref string) (string, error) {
	if len(ref) > maxRawURL || len(base) > maxRawURL {
		return "", urlError(ref, fmt.Sprintf("longer than %d bytes", maxRawURL))
	}
	if longUserInfo(ref) || longUserInfo(base) {
		return "", urlError(ref, fmt.Sprintf("a user name of more than %d bytes", maxUserInfo))
	}
	u, err := parse(base, ref)
	if err != nil {
		return "", urlError(ref, parserSays(err))
	}
	if s := u.Scheme(); s != "http" && s != "https" {
		return "", urlError(ref, "neither http nor https")
	}
	host, err := canonicalHost(u.Hostname())
	if err != nil {
		return "", urlError(ref, err.Error())
	}
	if strings.Contains(host, "xn--") && !isPlainText(ref) {
		if again, err := parse("", "http://"+host+"/"); err != nil || again.Hostname() != host {
			return "", urlError(ref, "the DNS can have no such name")
		}
	}
	u.SetUsername("")
	u.SetPassword("")
	port := u.Port()
	if port == "0" {
		return "", urlError(ref, "ports go from 1 to 65535")
	}
	authority := u.Host()
	_, tail, _ := strings.Cut(u.Href(true), "://"+authority)
	var b strings.Builder
	b.Grow(len(u.Scheme()) + 3 + len(authority) + len(tail))
	b.WriteString(u.Scheme())
	b.WriteString("://")
	b.WriteString(host)
	if port != "" {
		b.WriteByte(':')
		b.WriteString(port)
	}
	writeEscapes(&b, tail)
	if b.Len() > MaxURL {
		return "", urlError(ref, fmt.Sprintf("longer than %d bytes", MaxURL))
	}
	return b.String(), nil
}

// maxUserInfo bounds user name and password. The parser takes 50 ms for 6 kB of them, and Canonical drops them
// anyway.
const maxUserInfo = 512

// longUserInfo looks wherever an authority may be: before the first slashes, and between them and the next.
func longUserInfo(s string) bool {
	isSlash := func(r rune) bool { return r == '/' || r == '\\' }
	for range 2 {
		s = strings.TrimLeftFunc(s, isSlash)
		part := s
		if i := strings.IndexAny(s, "/\\?#"); i >= 0 {
			part = s[:i]
		}
		if strings.LastIndexByte(part, '@') > maxUserInfo {
			return true
		}
		s = s[len(part):]
	}
	return false
}

func urlError(raw, why string) error {
	return fmt.Errorf("%w: %q: %s", ErrURL, short(raw), why)
}

// parserSays returns what the parser found, as a part of a sentence. The parser repeats the whole URL.
func parserSays(err error) string {
	switch kind := whatwgerrors.Type(err); kind {
	case "":
		return err.Error()
	case whatwgerrors.MissingSchemeNonRelativeURL:
		return "write https:// or http:// before it"
	case whatwgerrors.HostMissing:
		return "it names no host"
	case whatwgerrors.DomainToASCII:
		return "the DNS can have no such name"
	case whatwgerrors.DomainInvalidCodePoint:
		return fmt.Sprintf("no host's name can have %q in it", whatwgerrors.Description(err))
	case whatwgerrors.PortOutOfRange:
		return "ports go from 1 to 65535"
	case whatwgerrors.PortInvalid:
		return "what stands behind the colon is no port"
	case whatwgerrors.IPv4OutOfRangePart:
		return "each part of an IPv4 address is at most 255"
	default:
		if strings.Contains(string(kind), "IPv6") {
			return "this is no IPv6 address"
		}
		if strings.Contains(string(kind), "IPv4") {
			return "this is no IPv4 address, and no host's name ends with a number"
		}
		says := strings.ToLower(string(kind[0])) + string(kind[1:])
		if descr := whatwgerrors.Description(err); descr != "" {
			says += fmt.Sprintf(": %q", descr)
		}
		return says
	}
}

// canonicalHost checks for names that the parser accepts but that cannot exist in the DNS.
func canonicalHost(h string) (string, error) {
	if strings.HasPrefix(h, "[") {
		return h, nil
	}
	h = strings.ToLower(strings.TrimSuffix(h, "."))
	if h == "" || len(h) > 253 {
		return "", errors.New("host name empty or longer than 253 bytes")
	}
	for label := range strings.SplitSeq(h, ".") {
		if label == "" || len(label) > 63 {
			return "", errors.New("host name with an empty label or one of more than 63 bytes")
		}
	}
	for i := range len(h) {
		if c := h[i]; !isLower(c) && !isDigit(c) && c != '-' && c != '.' && c != '_' {
			return "", fmt.Errorf("no host's name can have %q in it", string(c))
		}
	}
	return h, nil
}

// writeEscapes brings percent-encodings to their normal form.
func writeEscapes(b *strings.Builder, s string) {
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b.WriteByte(s[i])
			continue
		}
		if i+2 >= len(s) || !isHex(s[i+1]) || !isHex(s[i+2]) {
			b.WriteString("%25")
			continue
		}
		if c := unhex(s[i+1])<<4 | unhex(s[i+2]); isUnreserved(c) {
			b.WriteByte(c)
		} else {
			b.WriteString(strings.ToUpper(s[i : i+3]))
		}
		i += 2
	}
}

// isCanonical recognises most canonical URLs without parsing. If it returns false, the URL may still be canonical.
func isCanonical(s string) bool {
	if len(s) > MaxURL {
		return false
	}
	rest, defaultPort := "", ""
	switch {
	case strings.HasPrefix(s, "https://"):
		rest, defaultPort = s[len("https://"):], "443"
	case strings.HasPrefix(s, "http://"):
		rest, defaultPort = s[len("http://"):], "80"
	default:
		return false
	}
	i := strings.IndexByte(rest, '/')
	return i > 0 && plainAuthority(rest[:i], defaultPort) && plainTail(rest[i:])
}

// plainAuthority accepts host names that are certainly canonical: no IDN, no IP address.
func plainAuthority(a, defaultPort string) bool {
	host, port, hasPort := strings.Cut(a, ":")
	if hasPort {
		if port == "" || len(port) > 5 || port[0] == '0' || port == defaultPort {
			return false
		}
		n := 0
		for i := range len(port) {
			if !isDigit(port[i]) {
				return false
			}
			n = n*10 + int(port[i]-'0')
		}
		if n > 65535 {
			return false
		}
	}
	if len(host) > 253 {
		return false
	}
	start := 0 // of the label
	for i := 0; i <= len(host); i++ {
		if i < len(host) && host[i] != '.' {
			c := host[i]
			if !isLower(c) && !isDigit(c) && (c != '-' || i == start || host[i-1] == '-') {
				return false
			}
			continue
		}
		if i == start || i-start > 63 || host[i-1] == '-' {
			return false
		}
		if i == len(host) {
			return isLower(host[start]) // a last label that begins with a digit may make the name an address
		}
		start = i + 1
	}
	return false
}

// plainTail accepts a path that begins with "/", with or without a query, if it is certainly canonical.
func plainTail(s string) bool {
	query := false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '?':
			query = true
		case c == '%':
			if i+2 >= len(s) || !isUpperHex(s[i+1]) || !isUpperHex(s[i+2]) || isUnreserved(unhex(s[i+1])<<4|unhex(s[i+2])) {
				return false
			}
			i += 2
		case c == '.':
			if !query && i > 0 && s[i-1] == '/' { // perhaps a dot segment
				return false
			}
		case isUnreserved(c) || c == '/' || plainMarks[c]:
		default:
			return false
		}
	}
	return true
}

// plainMarks are reserved characters that stand for themselves in path and query.
var plainMarks = [256]bool{'!': true, '$': true, '&': true, '(': true, ')': true, '*': true, '+': true, ',': true, ';': true, '=': true, ':': true, '@': true}

func fastResolve(base, ref string) (string, bool) {
	ref, _, _ = strings.Cut(ref, "#")
	if isCanonical(ref) {
		return ref, true
	}
	if !isCanonical(base) {
		return "", false
	}
	if ref == "" {
		return base, true
	}
	origin, path := split(base)
	path, _, _ = strings.Cut(path, "?")
	var u string
	switch {
	case ref[0] == '/':
		if len(ref) > 1 && ref[1] == '/' || !plainTail(ref) {
			return "", false
		}
		u = origin + ref
	case ref[0] == '?':
		if !plainTail(ref) {
			return "", false
		}
		u = origin + path + ref
	default:
		end := strings.IndexAny(ref, "/?:")
		if ref[0] == '.' || end >= 0 && ref[end] == ':' || !plainTail(ref) { // a dot segment, or a scheme
			return "", false
		}
		u = origin + path[:strings.LastIndexByte(path, '/')+1] + ref
	}
	return u, len(u) <= MaxURL
}

func isLower(c byte) bool    { return 'a' <= c && c <= 'z' }
func isDigit(c byte) bool    { return '0' <= c && c <= '9' }
func isUpperHex(c byte) bool { return isDigit(c) || 'A' <= c && c <= 'F' }
func isHex(c byte) bool      { return isUpperHex(c) || 'a' <= c && c <= 'f' }

func unhex(c byte) byte {
	switch {
	case isDigit(c):
		return c - '0'
	case c >= 'a':
		return c - 'a' + 10
	}
	return c - 'A' + 10
}

// isUnreserved reports whether c is an unreserved character of RFC 3986, 2.3.
func isUnreserved(c byte) bool {
	return isLower(c) || 'A' <= c && c <= 'Z' || isDigit(c) || c == '-' || c == '.' || c == '_' || c == '~'
}
