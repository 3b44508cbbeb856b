package limit

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Bounds of a block list.
const (
	maxList      = 32 << 20  // bytes
	MaxListNames = 1_000_000 // of all lists together
)

// Blocked is a set of names from block lists. It is made once and then only read. It keeps each name's hash: a million names take 8 MB.
type Blocked struct {
	names []uint64 // sorted
}

// CheckListName reports what is wrong with the name of a block list: a path of a file, or a URL.
func CheckListName(at string) error {
	if !strings.Contains(at, "://") {
		if !filepath.IsAbs(at) {
			return errors.New("want the whole path of a file, such as /etc/shoal/blocked, or a URL")
		}
		return nil
	}
	u, err := url.Parse(at)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return errors.New("want https://host/path or the path of a file")
	case u.Scheme == "http" && !isLocal(u.Hostname()):
		return errors.New("want https://, since anyone on the way could change what comes over http")
	}
	return nil
}

// ReadList returns the text of a block list from a file, or over HTTP with the given client. It follows redirects that CheckListName admits.
func ReadList(ctx context.Context, c *http.Client, at string) ([]byte, error) {
	if !strings.Contains(at, "://") {
		f, err := os.Open(at)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("limit: block list %s: there is no such file", at)
		}
		if err != nil {
			return nil, fmt.Errorf("limit: block list: %w", err)
		}
		defer f.Close()
		return bounded(f, at)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, fmt.Errorf("limit: block list: %w", err)
	}
	resp, err := followed(c, req, CheckListName)
	if err != nil {
		return nil, fmt.Errorf("limit: block list: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("limit: block list %s: the server answers %s", at, resp.Status)
	}
	return bounded(resp.Body, at)
}

func bounded(r io.Reader, at string) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxList+1))
	if err != nil {
		return nil, fmt.Errorf("limit: block list %s: %w", at, err)
	}
	if len(b) > maxList {
		return nil, fmt.Errorf("limit: block list %s has more than %d MiB", at, maxList>>20)
	}
	return b, nil
}

// ownNames are names in hosts files that mean the computer itself.
var ownNames = []string{"localhost", "localhost.localdomain", "local", "broadcasthost", "ip6-localhost", "ip6-loopback", "ip6-localnet", "ip6-mcastprefix", "ip6-allnodes", "ip6-allrouters", "ip6-allhosts", "0.0.0.0"}

// NewBlocked reads lists in the format of a hosts file: "0.0.0.0 ads.example # why", several names a line, or a name alone. What is not a name
// is passed over. Lists with more names than MaxListNames together lose the rest, and say so.
func NewBlocked(lists ...[]byte) (*Blocked, error) {
	b := &Blocked{}
	var err error
	for _, text := range lists {
		s := bufio.NewScanner(bytes.NewReader(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))))
		for s.Buffer(nil, maxList+1); s.Scan(); {
			line, _, _ := strings.Cut(s.Text(), "#")
			fields := strings.Fields(line)
			if len(fields) > 1 {
				if _, bad := netip.ParseAddr(fields[0]); bad != nil {
					continue
				}
				fields = fields[1:]
			}
			for _, name := range fields {
				name = strings.TrimSuffix(strings.ToLower(name), ".")
				if slices.Contains(ownNames, name) || !strings.Contains(name, ".") || strings.ContainsAny(name, "/:*|^") {
					continue
				}
				if len(b.names) == MaxListNames {
					err = fmt.Errorf("limit: the block lists have more than %d names; the rest is not blocked", MaxListNames)
					break
				}
				b.names = append(b.names, hash(Domain(name)))
			}
		}
	}
	slices.Sort(b.names)
	b.names = slices.Compact(b.names)
	return b, err
}

// Join returns all names of several sets.
func Join(sets ...*Blocked) (*Blocked, error) {
	out := &Blocked{}
	for _, s := range sets {
		if s != nil {
			out.names = append(out.names, s.names...)
		}
	}
	slices.Sort(out.names)
	out.names = slices.Compact(out.names)
	if len(out.names) > MaxListNames {
		out.names = out.names[:MaxListNames]
		return out, fmt.Errorf("limit: the block lists have more than %d names; the rest is not blocked", MaxListNames)
	}
	return out, nil
}

// hash is FNV-1a. Two of a million names share one with a chance of 1 in 37 million.
func hash(name string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	return h
}

// Len returns the number of names.
func (b *Blocked) Len() int {
	if b == nil {
		return 0
	}
	return len(b.names)
}

// Has returns the name on the lists that blocks a host: itself, or a domain that it is below. "" means that none does.
func (b *Blocked) Has(host string) string {
	if b.Len() == 0 {
		return ""
	}
	for host = strings.TrimSuffix(strings.ToLower(host), "."); strings.Contains(host, "."); {
		if _, found := slices.BinarySearch(b.names, hash(host)); found {
			return host
		}
		_, host, _ = strings.Cut(host, ".")
	}
	return ""
}
