package limit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"shoal/channel"
)

// ReadPolicy reads the policy of this machine. It returns nil if there is none. It returns an error if anyone but
// root may write the file, because the file is not the admin's word then.
func ReadPolicy(path string) (*Policy, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, dangling(path)
	}
	if err != nil {
		return nil, fmt.Errorf("limit: policy: %w", err)
	}
	defer f.Close()
	st, err := f.Stat() // of what is read, whatever the name means by now
	if err != nil {
		return nil, fmt.Errorf("limit: policy: %w", err)
	}
	if err := ownedByRoot(path, st); err != nil {
		return nil, fmt.Errorf("limit: policy %s: %w", path, err)
	}
	return decode(f, path, "the file is empty; write a policy, of comments alone where nothing is limited, or remove the file")
}

// dangling returns an error if a policy is a link to what is not there, or lies in a folder that is one: the place that it leads to may come later, as a
// network's disk does.
func dangling(path string) error {
	for _, at := range []string{path, filepath.Dir(path)} {
		st, err := os.Lstat(at)
		if err != nil || st.Mode()&fs.ModeSymlink == 0 {
			continue
		}
		if _, err := os.Stat(at); err != nil {
			return fmt.Errorf("limit: policy %s: %s is a link to what is not there: %w", path, at, err)
		}
	}
	return nil
}

// ErrNoPolicy is returned where a URL answers that there is no policy.
var ErrNoPolicy = errors.New("limit: there is no policy")

// FetchPolicy fetches a policy from a URL, and follows redirects that CheckPolicyURL admits. It returns ErrNoPolicy for the answers 404 and
// 410.
func FetchPolicy(ctx context.Context, c *http.Client, url string) (*Policy, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, fmt.Errorf("limit: policy: %w", err)
	}
	if err := CheckPolicyURL(url); err != nil {
		return nil, err
	}
	resp, err := followed(c, req, CheckPolicyURL)
	if err != nil {
		return nil, fmt.Errorf("limit: policy: %w", err)
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
		return decode(resp.Body, url, "the answer is empty; want a policy, of comments alone where nothing is limited, or the answer 404 where there is none")
	case http.StatusNotFound, http.StatusGone:
		return nil, fmt.Errorf("%w at %s: it answers %s", ErrNoPolicy, url, resp.Status)
	}
	return nil, fmt.Errorf("limit: policy %s: status %s", url, resp.Status)
}

// decode reads a policy. empty is what is wrong where there is nothing to read: a file that lost its text must not lift what it limited.
func decode(r io.Reader, from, empty string) (*Policy, error) {
	b, err := io.ReadAll(io.LimitReader(r, MaxPolicy+1))
	if err != nil {
		return nil, fmt.Errorf("limit: policy %s: %w", from, err)
	}
	if len(bytes.TrimSpace(b)) == 0 {
		return nil, &Wrong{Text: empty, Where: from}
	}
	p, err := ParsePolicy(b, from)
	if err != nil {
		return nil, err
	}
	return &p, nil
}

// maxHops bounds the redirects to a policy, and to a block list.
const maxHops = 5

// followed asks, and follows redirects to URLs that pass a check. Its errors show each address as Shown has it: a redirect may lead to one with a key of its own.
func followed(c *http.Client, req *http.Request, check func(url string) error) (*http.Response, error) {
	own, seen := *c, []string{req.URL.String()}
	own.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		seen = append(seen, req.URL.String())
		if len(via) >= maxHops {
			return fmt.Errorf("%d redirects; want at most %d", len(via), maxHops)
		}
		return check(req.URL.String())
	}
	resp, err := own.Do(req)
	if err == nil {
		return resp, nil
	}
	text := err.Error()
	for _, at := range seen {
		text = Hide(text, at)
	}
	if strings.Contains(text, badLocation) { // and quotes it, whatever it holds
		text = "the address to which " + Shown(seen[len(seen)-1]) + " redirects cannot be read"
	}
	return nil, &veiled{text, err}
}

const badLocation = "failed to parse Location header" // in errors of net/http

// veiled is an error whose text was rid of what gives access to an address.
type veiled struct {
	text string
	err  error
}

func (v *veiled) Error() string { return v.text }

// Unwrap gives the error itself, for its kind.
func (v *veiled) Unwrap() error { return v.err }

// InDomains returns the entry of a list that covers a host name, or "" if none does. An entry covers its domain and
// everything below it.
func InDomains(host string, list []string) string {
	host = strings.Trim(strings.ToLower(strings.TrimSuffix(host, ".")), "[]")
	for _, d := range list {
		if d = Domain(d); d != "" && (host == d || strings.HasSuffix(host, "."+d)) {
			return d
		}
	}
	return ""
}

// Domain brings a domain to the form in which hosts are named, as people write it: "*.Example.org", "https://example.org/", "bücher.example".
func Domain(d string) string {
	d = strings.ToLower(strings.TrimSpace(d))
	if _, behind, ok := strings.Cut(d, "://"); ok {
		d = behind
	}
	if i := strings.IndexAny(d, "/?#"); i >= 0 {
		d = d[:i]
	}
	if host, _, err := net.SplitHostPort(d); err == nil {
		d = host
	}
	d = strings.Trim(strings.Trim(strings.TrimPrefix(d, "*"), "."), "[]")
	if strings.IndexFunc(d, func(r rune) bool { return r >= utf8.RuneSelf }) < 0 {
		return d
	}
	if u, err := channel.Canonical("http://" + d + "/"); err == nil {
		_, d, _ = strings.Cut(channel.Origin(u), "://")
	}
	return d
}

// IsDomain reports whether a text names a domain or an address, as Domain reads it. One that does not would be on a list and deny nothing.
func IsDomain(text string) bool {
	d := Domain(text)
	return d != "" && len(d) <= 253 && !strings.ContainsAny(d, " *@\\\"'\t\r\n")
}

// network reads a network of IPv4 also where it is written as one of IPv6.
func network(s string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(s)
	if err == nil && p.Addr().Is4In6() && p.Bits() >= 96 {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p, err
}

// DeniesAddr returns an error for an address in a network that a policy denies. It serves as Guard.Allow.
func (l *Limits) DeniesAddr(_ string, a netip.Addr) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.policies {
		for _, n := range l.policies[i].policy.DenyNetworks {
			if p, err := network(n); err == nil && p.Contains(a.Unmap()) {
				return fmt.Errorf("%w: %v is in %v, denied by the policy from %s", ErrForbidden, a, p, Shown(l.policies[i].name))
			}
		}
	}
	return nil
}
