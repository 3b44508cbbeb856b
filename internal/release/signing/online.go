package signing

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/theupdateframework/go-tuf/v2/metadata"

	"shoal/internal/member"
	"shoal/internal/release/trusted"
)

// How long the manager's signatures are good, and how long before it signs anew. A manager that holds new lists back is found out after timestampLife.
const (
	timestampLife = 24 * time.Hour
	snapshotLife  = 7 * 24 * time.Hour
	freshFor      = 6 * time.Hour
)

// Shelf is the folder from which a manager serves releases.
type Shelf struct{ Dir string }

func (s Shelf) path(name string) string { return filepath.Join(s.Dir, filepath.FromSlash(name)) }

// find returns the files whose names match a pattern. The folder's own name is taken as it is, whatever characters that has.
func (s Shelf) find(pattern string) ([]string, error) {
	names, err := fs.Glob(os.DirFS(s.Dir), pattern)
	for i, name := range names {
		names[i] = s.path(name)
	}
	return names, err
}

// Empty reports whether nothing was ever put on it.
func (s Shelf) Empty() bool {
	_, err := os.Stat(s.path(trusted.Anchor))
	return err != nil
}

// Take copies a repository to the shelf, if the network's volunteers would believe it. The list comes last, so that all that it names is there.
func (s Shelf) Take(r Repo, network member.NetworkID, now time.Time) error {
	if err := r.check(network, now); err != nil {
		return err
	}
	if old, err := os.ReadFile(s.path(trusted.Anchor)); err == nil {
		if b, err := os.ReadFile(r.path(trusted.Anchor)); err != nil || string(b) != string(old) {
			return fmt.Errorf("%s is another repository than the one that is served: volunteers' computers trust the first one that they have seen, and would refuse it", r.Dir)
		}
		was, served, err := newest(s.Dir, metadata.TARGETS)
		if err != nil {
			return err
		}
		is, given, err := newest(r.Dir, metadata.TARGETS)
		if err != nil {
			return err
		}
		if is < was {
			return fmt.Errorf("%s has list %d of releases, %d is served already: it is an old copy", r.Dir, is, was)
		}
		if is == was && !sameList(served, given) {
			return fmt.Errorf("%s has another list %d of releases than the one that is served: two copies of the folder were signed apart, and computers that have seen the served one would refuse this one; "+
				"go on with the copy that was published, and sign what it lacks there", r.Dir, is)
		}
	}
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return err
	}
	t, err := r.list()
	if err != nil {
		return err
	}
	for name := range t.Signed.Targets {
		if err := copyFile(r.path(name), s.path(name)); err != nil {
			return err
		}
	}
	list, err := os.ReadDir(r.Dir)
	if err != nil {
		return err
	}
	slices.SortFunc(list, func(a, b fs.DirEntry) int { // roots, then lists
		return strings.Compare(strings.TrimLeft(a.Name(), "0123456789"), strings.TrimLeft(b.Name(), "0123456789"))
	})
	for _, e := range list {
		if e.Type().IsRegular() {
			if err := copyFile(r.path(e.Name()), s.path(e.Name())); err != nil {
				return err
			}
		}
	}
	return s.tidy(t)
}

// sameList reports whether two lists say the same, whoever has signed them.
func sameList(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	x, err := metadata.Targets().FromBytes(a)
	if err != nil {
		return false
	}
	y, err := metadata.Targets().FromBytes(b)
	if err != nil {
		return false
	}
	left, err := json.Marshal(x.Signed)
	if err != nil {
		return false
	}
	right, err := json.Marshal(y.Signed)
	return err == nil && bytes.Equal(left, right)
}

// tidy removes the programs that no list names any more.
func (s Shelf) tidy(t *metadata.Metadata[metadata.TargetsType]) error {
	old, err := s.find("shoal-peer/*")
	if err != nil {
		return err
	}
	for _, dir := range old {
		if !slices.ContainsFunc(keysIn(t), func(name string) bool { return filepath.Dir(s.path(name)) == dir }) {
			if err := os.RemoveAll(dir); err != nil {
				return err
			}
		}
	}
	return nil
}

func keysIn(t *metadata.Metadata[metadata.TargetsType]) (names []string) {
	for name := range t.Signed.Targets {
		names = append(names, name)
	}
	return names
}

// check reads a repository as a volunteer's computer would.
func (r Repo) check(network member.NetworkID, now time.Time) error {
	word, err := os.ReadFile(r.path(trusted.Anchor))
	if err != nil {
		return fmt.Errorf("%s holds no repository of releases: %w", r.Dir, err)
	}
	first, err := member.OpenReleases(network, word)
	if err != nil {
		return fmt.Errorf("%s is not of this network: %w", r.Dir, err)
	}
	b, err := os.ReadFile(r.path(trusted.Named(1, metadata.ROOT)))
	if err != nil {
		return err
	}
	if sha256.Sum256(b) != first {
		return fmt.Errorf("%s: its first root metadata is not the one that the network's key names", r.Dir)
	}
	root, err := r.root()
	if err != nil {
		return err
	}
	missing, err := r.Missing()
	if err != nil {
		return err
	}
	if missing > 0 {
		return fmt.Errorf("the list of releases needs %d more of %d signatures: sign it on the other offline computer with: shoal release sign", missing, root.Signed.Roles[metadata.TARGETS].Threshold)
	}
	t, err := r.list()
	if err != nil {
		return err
	}
	if err := root.VerifyDelegate(metadata.TARGETS, t); err != nil {
		return fmt.Errorf("the list of releases in %s is not signed by its keys: %w", r.Dir, err)
	}
	if t.Signed.IsExpired(now) || root.Signed.IsExpired(now) {
		return fmt.Errorf("the signatures in %s have expired: sign anew with: shoal release renew", r.Dir)
	}
	programs, err := trusted.Programs(t)
	if err != nil {
		return err
	}
	for name, p := range programs {
		b, err := os.ReadFile(r.path(name))
		if err != nil {
			return err
		}
		if sha256.Sum256(b) != p.SHA256 {
			return fmt.Errorf("%s differs from what was signed: copy it anew", name)
		}
	}
	text, err := os.ReadFile(r.path(OnlineKey)) // a stick that it was carried on may know no permissions
	if err != nil {
		return err
	}
	online, err := parseKey(r.path(OnlineKey), string(text))
	if err != nil {
		return err
	}
	id, err := online.id()
	if err == nil && !slices.Contains(root.Signed.Roles[metadata.TIMESTAMP].KeyIDs, id) {
		err = fmt.Errorf("%s is not the key that %s names", OnlineKey, r.Dir)
	}
	return err
}

func copyFile(from, to string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	return member.WriteFile(to, b)
}

// Programs are those that the shelf offers, and until when the offline signatures are good.
func (s Shelf) Programs() (list map[string]trusted.Program, until time.Time, err error) {
	t, err := Repo(s).list()
	if err != nil {
		return nil, until, err
	}
	list, err = trusted.Programs(t)
	return list, t.Signed.Expires, err
}

// state is what a shelf holds of what its key signs.
type state struct {
	listed, number int64                                      // newest list and snapshot
	list, body     []byte                                     // likewise
	stamp          *metadata.Metadata[metadata.TimestampType] // nil: none
	key            Key
	snapGood       bool // the snapshot is of the list, and good for long
	stampGood      bool // the timestamp is of that snapshot, and young
}

// look reads what the key has signed; nil: there is no list.
func (s Shelf) look(now time.Time) (*state, error) {
	var at state
	var err error
	if at.listed, at.list, err = newest(s.Dir, metadata.TARGETS); err != nil || at.list == nil {
		return nil, err
	}
	if b, err := os.ReadFile(s.path(trusted.Timestamp)); err == nil {
		at.stamp, err = metadata.Timestamp().FromBytes(b)
		if err != nil {
			return nil, fmt.Errorf("%s is damaged (%w): carry the repository here once more", trusted.Timestamp, err)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if at.key, err = ReadKey(s.path(OnlineKey)); err != nil {
		return nil, err
	}
	id, err := at.key.id()
	if err != nil {
		return nil, err
	}
	if at.number, at.body, err = newest(s.Dir, metadata.SNAPSHOT); err != nil {
		return nil, err
	}
	if at.body != nil {
		snap, err := metadata.Snapshot().FromBytes(at.body)
		at.snapGood = err == nil && snap.Signed.Meta["targets.json"] != nil && snap.Signed.Meta["targets.json"].Version == at.listed && signedBy(snap.Signatures, id) && snap.Signed.Expires.Sub(now) > snapshotLife/2
	}
	if t := at.stamp; t != nil {
		left := t.Signed.Expires.Sub(now)
		at.stampGood = at.snapGood && signedBy(t.Signatures, id) && t.Signed.Meta["snapshot.json"] != nil && t.Signed.Meta["snapshot.json"].Version == at.number && left > timestampLife-freshFor && left <= timestampLife
	}
	return &at, nil
}

// Due reports whether Refresh would sign.
func (s Shelf) Due(now time.Time) (bool, error) {
	at, err := s.look(now)
	return at != nil && !at.stampGood, err
}

// Refresh signs snapshot and timestamp where the list is new or the signatures grow old. It returns whether it did.
func (s Shelf) Refresh(now time.Time) (bool, error) {
	at, err := s.look(now)
	if err != nil || at == nil || at.stampGood {
		return false, err
	}
	number, body := at.number, at.body
	if !at.snapGood {
		snap := metadata.Snapshot(now.Add(snapshotLife).UTC())
		number = after(number, now)
		snap.Signed.Version = number
		snap.Signed.Meta["targets.json"] = metaFile(at.listed, at.list)
		if body, err = s.put(trusted.Named(number, metadata.SNAPSHOT), snap.ToBytes, func() error { return sign(snap, at.key) }); err != nil {
			return false, err
		}
	}
	next := metadata.Timestamp(now.Add(timestampLife).UTC())
	next.Signed.Version = now.Unix()
	if at.stamp != nil {
		next.Signed.Version = after(at.stamp.Signed.Version, now)
	}
	next.Signed.Meta["snapshot.json"] = metaFile(number, body)
	if _, err := s.put(trusted.Timestamp, next.ToBytes, func() error { return sign(next, at.key) }); err != nil {
		return false, err
	}
	return true, s.forgetSnapshots(number)
}

// signedBy reports whether a key has signed. A file that was written by hand may have no signature at all.
func signedBy(all []metadata.Signature, id string) bool {
	return slices.ContainsFunc(all, func(s metadata.Signature) bool { return s.KeyID == id })
}

// put signs metadata and writes it.
func (s Shelf) put(name string, toBytes func(bool) ([]byte, error), sign func() error) ([]byte, error) {
	if err := sign(); err != nil {
		return nil, err
	}
	b, err := toBytes(false)
	if err != nil {
		return nil, err
	}
	return b, member.WriteFile(s.path(name), b)
}

func metaFile(version int64, b []byte) *metadata.MetaFiles {
	sum := sha256.Sum256(b)
	return &metadata.MetaFiles{Version: version, Length: int64(len(b)), Hashes: metadata.Hashes{"sha256": sum[:]}}
}

// after is the version that follows another. It is a time, so that a manager that was restored from a backup does not go back.
func after(version int64, now time.Time) int64 { return max(version+1, now.Unix()) }

// forgetSnapshots removes all but the newest and the one before, which members may be about to fetch.
func (s Shelf) forgetSnapshots(now int64) error {
	old, err := s.find("*.snapshot.json")
	if err != nil {
		return err
	}
	var before int64
	number := func(path string) (n int64) {
		_, _ = fmt.Sscanf(filepath.Base(path), "%d.snapshot.json", &n) // 0 where it is none
		return n
	}
	for _, path := range old {
		if n := number(path); n < now {
			before = max(before, n)
		}
	}
	for _, path := range old {
		if number(path) < before {
			if err := os.Remove(path); err != nil {
				return err
			}
		}
	}
	return nil
}
