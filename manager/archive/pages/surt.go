package pages

import (
	"slices"
	"strings"
	"time"

	"shoal/manager/archive/schema"
)

// CaptureKey is the key of a visit. Captures sort by host, path and time.
func CaptureKey(url string, at time.Time) []byte {
	return schema.CaptureKey(SURT(url), at, strings.HasPrefix(url, "https:"))
}

// SURT is the Sort-friendly URI Reordering Transform of a canonical URL, by which CDX indexes sort: "org,example)/path".
func SURT(canonical string) string {
	_, rest, ok := strings.Cut(canonical, "://")
	if !ok {
		return canonical
	}
	n := strings.IndexAny(rest, "/?")
	if n < 0 {
		n = len(rest)
	}
	host, path := rest[:n], rest[n:]
	port := ""
	if !strings.HasSuffix(host, "]") {
		if i := strings.LastIndexByte(host, ':'); i >= 0 {
			host, port = host[:i], host[i:]
		}
	}
	var b strings.Builder
	b.Grow(len(rest) + 1)
	if strings.HasPrefix(host, "[") || isIPv4(host) {
		b.WriteString(host)
	} else {
		labels := strings.Split(host, ".")
		for i := len(labels) - 1; i >= 0; i-- {
			b.WriteString(labels[i])
			if i > 0 {
				b.WriteByte(',')
			}
		}
	}
	b.WriteString(port)
	b.WriteByte(')')
	b.WriteString(path)
	return b.String()
}

// HostPrefix is how the SURTs of a host's URLs begin, without its port, whatever that is. Others' do too: as of org,example2.
func HostPrefix(name string) string {
	return strings.TrimSuffix(SURT("http://"+name+"/"), ")/")
}

// URLOfCapture makes the URL of a capture from its key.
func URLOfCapture(key []byte) string {
	surt, _, https := schema.CaptureOf(key)
	scheme := "http://"
	if https {
		scheme = "https://"
	}
	host, path, _ := strings.Cut(surt, ")")
	if strings.HasPrefix(host, "[") {
		return scheme + host + path
	}
	host, port, hasPort := strings.Cut(host, ":")
	labels := strings.Split(host, ",")
	slices.Reverse(labels)
	if host = strings.Join(labels, "."); hasPort {
		host += ":" + port
	}
	return scheme + host + path
}

func isIPv4(host string) bool {
	for _, c := range host {
		if (c < '0' || c > '9') && c != '.' {
			return false
		}
	}
	return host != ""
}

// SearchableURL is the key by which CDXJ indexes sort, as the readers of webrecorder make it of the URL that they look for: lower case, without
// www, the host's labels reversed, the parts of the query sorted.
func SearchableURL(url string) string {
	_, rest, _ := strings.Cut(strings.ToLower(url), "://")
	host, path := rest, ""
	if n := strings.IndexAny(rest, "/?"); n >= 0 {
		host, path = rest[:n], rest[n:]
	}
	port := ""
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		host, port = host[:i], host[i:]
	}
	labels := strings.Split(withoutWWW(host), ".")
	slices.Reverse(labels)
	path, query, _ := strings.Cut(path, "?")
	if query == "" {
		return strings.Join(labels, ",") + port + ")" + path
	}
	parts := strings.Split(query, "&")
	slices.Sort(parts)
	return strings.Join(labels, ",") + port + ")" + path + "?" + strings.Join(parts, "&")
}

// withoutWWW leaves out a first label that is www, with or without a number.
func withoutWWW(host string) string {
	rest, ok := strings.CutPrefix(host, "www")
	if !ok {
		return host
	}
	name := strings.TrimLeft(rest, "0123456789")
	if after, ok := strings.CutPrefix(name, "."); ok {
		return after
	}
	return host
}
