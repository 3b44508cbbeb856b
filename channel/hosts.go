package channel

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Hosts is the set of Web hosts that an operator means by a name: example.org is http and https on every port,
// example.org:8080 is both on that port, and https://example.org is that origin alone.
type Hosts struct {
	name    string   // without scheme and port
	origins []string // as Scope.Host; nil: every scheme and port of name
}

// ErrHost is returned for text that does not name a Web host.
var ErrHost = errors.New("channel: not a Web host")

// ParseHosts parses a host name as an operator writes it.
func ParseHosts(raw string) (Hosts, error) {
	raw = strings.TrimSpace(raw)
	tries := []string{raw}
	if !strings.Contains(raw, "://") {
		tries = []string{"https://" + raw, "http://" + raw}
	}
	if raw != "" && strings.Trim(raw, "0123456789") == "" {
		return Hosts{}, fmt.Errorf("%w: %q is a number: write a host name such as example.org", ErrHost, raw)
	}
	var h Hosts
	for _, t := range tries {
		u, err := Canonical(t)
		if err != nil || raw == "" || strings.ContainsRune(raw, '@') {
			return Hosts{}, fmt.Errorf("%w: %q: write example.org or https://example.org", ErrHost, raw)
		}
		origin, path := split(u)
		if path != "/" {
			return Hosts{}, fmt.Errorf("%w: %q is only a part of a host: write %s for the whole host", ErrHost, raw, strings.TrimSuffix(raw, path))
		}
		h.origins = append(h.origins, origin)
		if name, port := nameOf(origin); h.name == "" || port == "" {
			h.name = name
		}
	}
	if len(tries) == 2 && !strings.Contains(strings.TrimPrefix(strings.TrimSuffix(raw, "/"), "["+strings.Trim(h.name, "[]")+"]"), ":") {
		h.origins = nil
	}
	return h, nil
}

// nameOf cuts scheme and port off an origin.
func nameOf(origin string) (name, port string) {
	_, name, _ = strings.Cut(origin, "://")
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, ']') {
		return name[:i], name[i+1:]
	}
	return name, ""
}

// Has reports whether h contains an origin, given as in Scope.Host.
func (h Hosts) Has(origin string) bool {
	if h.origins != nil {
		return slices.Contains(h.origins, origin)
	}
	name, _ := nameOf(origin)
	return name == h.name
}

// Name returns the name that all hosts of h share, without scheme and port.
func (h Hosts) Name() string { return h.name }

// Origins returns the origins that the operator named. If h covers every scheme and port, it returns http and https
// on their usual ports; h then contains others as well.
func (h Hosts) Origins() []string {
	if h.origins != nil {
		return h.origins
	}
	return []string{"https://" + h.name, "http://" + h.name}
}

// HostsOf returns all hosts that share an origin's name, and reports whether the origin names a port.
func HostsOf(origin string) (h Hosts, port bool) {
	name, p := nameOf(origin)
	return Hosts{name: name}, p != ""
}
