package channel

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Hosts are the Web hosts that an operator means by a name: example.org is http and https on every port, example.org:8080 both on that
// port, https://example.org that one.
type Hosts struct {
	name    string   // without scheme and port
	origins []string // as Scope.Host; nil: every scheme and port of name
}

// ErrHost is returned for what is not the name of a Web host.
var ErrHost = errors.New("channel: no Web host")

// ParseHosts reads what an operator writes.
func ParseHosts(raw string) (Hosts, error) {
	raw = strings.TrimSpace(raw)
	tries := []string{raw}
	if !strings.Contains(raw, "://") {
		tries = []string{"https://" + raw, "http://" + raw}
	}
	if raw != "" && strings.Trim(raw, "0123456789") == "" {
		return Hosts{}, fmt.Errorf("%w: %q is a number: write the host's name, as example.org", ErrHost, raw)
	}
	var h Hosts
	for _, t := range tries {
		u, err := Canonical(t)
		if err != nil || raw == "" || strings.ContainsRune(raw, '@') {
			return Hosts{}, fmt.Errorf("%w: %q: write example.org or https://example.org", ErrHost, raw)
		}
		origin, path := split(u)
		if path != "/" {
			return Hosts{}, fmt.Errorf("%w: %q is a part of one: write %s for all of it", ErrHost, raw, strings.TrimSuffix(raw, path))
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

// Has tells whether an origin, as in Scope.Host, is one of them.
func (h Hosts) Has(origin string) bool {
	if h.origins != nil {
		return slices.Contains(h.origins, origin)
	}
	name, _ := nameOf(origin)
	return name == h.name
}

// Name is what they have in common, without scheme and port.
func (h Hosts) Name() string { return h.name }

// Origins are those that an operator named, or http and https on their usual ports: others may be meant too.
func (h Hosts) Origins() []string {
	if h.origins != nil {
		return h.origins
	}
	return []string{"https://" + h.name, "http://" + h.name}
}

// HostsOf are all that share an origin's name, and whether it has a port of its own.
func HostsOf(origin string) (h Hosts, port bool) {
	name, p := nameOf(origin)
	return Hosts{name: name}, p != ""
}
