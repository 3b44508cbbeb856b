package signing

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/theupdateframework/go-tuf/v2/metadata"

	"shoal/internal/member"
	"shoal/internal/release"
	"shoal/internal/release/trusted"
)

// Files are what several managers serve of releases, by name: all but the programs. The online key is among them, so that each can sign for all.
type Files map[string][]byte

// shared are the names of Files. They come from a database: none may lead out of a folder.
var shared = regexp.MustCompile(`^(anchor|online\.key|timestamp\.json|[0-9]{1,19}\.(root|snapshot|targets)\.json)$`)

// numbered splits the name of versioned metadata; 0: it is none.
func numbered(name string) (version int64, role string) {
	number, rest, _ := strings.Cut(name, ".")
	version, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return 0, ""
	}
	return version, strings.TrimSuffix(rest, ".json")
}

// newest is the highest version of a role's metadata.
func (f Files) newest(role string) (version int64) {
	for name := range f {
		if n, of := numbered(name); of == role {
			version = max(version, n)
		}
	}
	return version
}

// stamped is the version of the timestamp; 0: there is none that can be read.
func (f Files) stamped() int64 {
	t, err := metadata.Timestamp().FromBytes(f[trusted.Timestamp])
	if err != nil {
		return 0
	}
	return t.Signed.Version
}

// Files reads what the shelf holds: roots and the newest of all else.
func (s Shelf) Files() (Files, error) {
	list, err := os.ReadDir(s.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	f := Files{}
	for _, e := range list {
		if !e.Type().IsRegular() || !shared.MatchString(e.Name()) {
			continue
		}
		if f[e.Name()], err = os.ReadFile(s.path(e.Name())); err != nil {
			return nil, err
		}
	}
	listed := f.newest(metadata.TARGETS)
	maps.DeleteFunc(f, func(name string, _ []byte) bool {
		n, role := numbered(name)
		return role == metadata.TARGETS && n < listed
	})
	return f, nil
}

// Ahead reports whether the shelf holds anything newer than what managers share: an operator has put it there.
func (s Shelf) Ahead(of Files) (bool, error) {
	if s.Empty() {
		return false, nil
	}
	own, err := s.Files()
	if err != nil {
		return false, err
	}
	return own.newest(metadata.ROOT) > of.newest(metadata.ROOT) || own.newest(metadata.TARGETS) > of.newest(metadata.TARGETS) || own.stamped() > of.stamped(), nil
}

// ErrOther says that a shelf holds another repository than the one that the managers share.
var ErrOther = errors.New("signing: another repository of releases")

// Merge makes of what managers share and what this shelf holds what they are to share next, and signs it where that is due. It changes nothing on the
// shelf, so that the shelf never holds what the others do not learn of. It returns whether anything is new.
func (s Shelf) Merge(was Files, now time.Time) (next Files, changed bool, err error) {
	own, err := s.Files()
	if err != nil {
		return nil, false, err
	}
	if len(was) > 0 && len(own[trusted.Anchor]) > 0 && !bytes.Equal(own[trusted.Anchor], was[trusted.Anchor]) {
		return nil, false, fmt.Errorf("%w: %s holds another one than the one that the managers serve, which volunteers' computers trust; move that folder away to serve theirs", ErrOther, s.Dir)
	}
	next = Files{}
	maps.Copy(next, was)
	if len(own[trusted.Anchor]) > 0 {
		if own.newest(metadata.ROOT) > was.newest(metadata.ROOT) {
			next[OnlineKey] = own[OnlineKey]
		}
		if own.stamped() > was.stamped() {
			next[trusted.Timestamp] = own[trusted.Timestamp]
		}
		for name, b := range own {
			n, role := numbered(name)
			if _, has := next[name]; !has && (n == 0 || role == metadata.ROOT || n > was.newest(role)) {
				next[name] = b
			}
		}
	}
	if next, err = refreshed(next, now); err != nil {
		return nil, false, err
	}
	return next, !maps.EqualFunc(was, next, bytes.Equal), nil
}

// refreshed signs files anew where that is due.
func refreshed(f Files, now time.Time) (Files, error) {
	dir, err := os.MkdirTemp("", "shoal-releases-")
	if err != nil {
		return nil, err
	}
	s := Shelf{dir}
	next, err := func() (Files, error) {
		for name, b := range f {
			if err := os.WriteFile(s.path(name), b, 0o600); err != nil {
				return nil, err
			}
		}
		if _, err := s.Refresh(now); err != nil {
			return nil, err
		}
		return s.Files()
	}()
	return next, errors.Join(err, os.RemoveAll(dir))
}

// Put has the shelf hold what the managers share. What the newest list names comes before the list, and the timestamp last. Programs that the list
// does not name any more go.
func (s Shelf) Put(f Files) error {
	if len(f) == 0 {
		return nil
	}
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return err
	}
	own, err := s.Files()
	if err != nil {
		return err
	}
	order := []string{metadata.ROOT, "", metadata.TARGETS, metadata.SNAPSHOT} // "": the anchor and the key
	names := slices.SortedFunc(maps.Keys(f), func(a, b string) int {
		at := func(name string) int {
			if name == trusted.Timestamp {
				return len(order)
			}
			_, role := numbered(name)
			return slices.Index(order, role)
		}
		return at(a) - at(b)
	})
	for _, name := range names {
		if !shared.MatchString(name) {
			return fmt.Errorf("signing: %.40q is no file of releases", name)
		}
		if bytes.Equal(own[name], f[name]) {
			continue
		}
		if err := member.WriteFile(s.path(name), f[name]); err != nil {
			return err
		}
	}
	for name := range own {
		if _, is := f[name]; is || !strings.HasSuffix(name, ".snapshot.json") {
			continue
		}
		if err := os.Remove(s.path(name)); err != nil {
			return err
		}
	}
	return s.tidyOld()
}

// tidyOld removes programs older than all that the list names. A newer one may be about to be published.
func (s Shelf) tidyOld() error {
	t, err := Repo(s).list()
	if err != nil {
		return err
	}
	known, err := trusted.Programs(t)
	if err != nil || len(known) == 0 {
		return err
	}
	dirs, err := s.find("shoal-peer/*")
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		old := true
		for _, p := range known {
			old = old && release.Newer(p.Version, filepath.Base(dir))
		}
		if old {
			if err := os.RemoveAll(dir); err != nil {
				return err
			}
		}
	}
	return nil
}

// Lacks are the programs of the list that the shelf does not hold as they were signed, by name. seen are those that were found good before; it is
// completed.
func (s Shelf) Lacks(seen map[string][32]byte) (lacks map[string]trusted.Program, err error) {
	programs, _, err := s.Programs()
	if err != nil {
		return nil, err
	}
	lacks = map[string]trusted.Program{}
	for name, p := range programs {
		if seen[name] == p.SHA256 {
			continue
		}
		b, err := os.ReadFile(s.path(name))
		if err == nil && p.Is(b) {
			seen[name] = p.SHA256
			continue
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		lacks[name] = p
	}
	return lacks, nil
}

// Add takes in a program that another manager has sent.
func (s Shelf) Add(p trusted.Program, b []byte) error {
	if !p.Is(b) {
		return fmt.Errorf("%w: %s is not what was signed", trusted.ErrForged, p.Target)
	}
	if err := os.MkdirAll(filepath.Dir(s.path(p.Target)), 0o700); err != nil {
		return err
	}
	return member.WriteFile(s.path(p.Target), b)
}
