package signing

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
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
	"shoal/internal/release"
	"shoal/internal/release/trusted"
)

// How long signatures are good.
const (
	rootLife    = 5 * 365 * 24 * time.Hour
	targetsLife = 365 * 24 * time.Hour
)

// keptReleases is how many releases a list has; older ones go.
const keptReleases = 4

// Repo is a folder that an offline computer makes, and that is carried to the manager.
type Repo struct{ Dir string }

// OnlineKey is the file of the manager's key in it.
const OnlineKey = "online.key"

func (r Repo) path(name string) string { return filepath.Join(r.Dir, filepath.FromSlash(name)) }

// Init makes a repository without releases. All of the keys are needed for each signature. seal has the network's root key say so.
func (r Repo) Init(now time.Time, keys []Key, seal func(first [32]byte) ([]byte, error)) error {
	if _, err := os.Stat(r.path(trusted.Anchor)); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s holds a repository already; volunteers' computers trust the first one that they see for ever", r.Dir)
	}
	if err := os.MkdirAll(r.Dir, 0o700); err != nil {
		return err
	}
	online, err := NewKey()
	if err != nil {
		return err
	}
	root := metadata.Root(now.Add(rootLife).UTC())
	if err := roles(root, keys, online); err != nil {
		return err
	}
	if err := sign(root, keys...); err != nil {
		return err
	}
	b, err := root.ToBytes(false)
	if err != nil {
		return err
	}
	word, err := seal(sha256.Sum256(b))
	if err != nil {
		return err
	}
	if err := online.Write(r.path(OnlineKey)); err != nil {
		return err
	}
	if err := member.WriteFile(r.path(trusted.Named(1, metadata.ROOT)), b); err != nil {
		return err
	}
	if err := r.writeTargets(metadata.Targets(now.Add(targetsLife).UTC()), keys); err != nil {
		return err
	}
	return member.WriteFile(r.path(trusted.Anchor), word) // last: what was cut short begins anew
}

func roles(root *metadata.Metadata[metadata.RootType], offline []Key, online Key) error {
	add := func(role string, keys ...Key) error {
		root.Signed.Roles[role] = &metadata.Role{KeyIDs: []string{}, Threshold: len(keys)}
		for _, k := range keys {
			p, err := k.public()
			if err != nil {
				return err
			}
			if err := root.Signed.AddKey(p, role); err != nil {
				return err
			}
		}
		return nil
	}
	root.Signed.Keys = map[string]*metadata.Key{}
	root.Signed.ConsistentSnapshot = true
	return errors.Join(add(metadata.ROOT, offline...), add(metadata.TARGETS, offline...), add(metadata.SNAPSHOT, online), add(metadata.TIMESTAMP, online))
}

// newest returns the newest version of a role's metadata in a folder, and its bytes; 0: there is none.
func newest(dir, role string) (version int64, b []byte, err error) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return 0, nil, err
	}
	for _, e := range list {
		var n int64
		if _, err := fmt.Sscanf(e.Name(), "%d."+role+".json", &n); err == nil && e.Name() == trusted.Named(n, role) && n > version {
			version = n
		}
	}
	if version == 0 {
		return 0, nil, nil
	}
	b, err = os.ReadFile(filepath.Join(dir, trusted.Named(version, role)))
	return version, b, err
}

// root is the newest root metadata.
func (r Repo) root() (*metadata.Metadata[metadata.RootType], error) {
	_, b, err := newest(r.Dir, metadata.ROOT)
	if err != nil || b == nil {
		return nil, fmt.Errorf("%s holds no repository of releases; make one with: shoal release init (%w)", r.Dir, errors.Join(err, fs.ErrNotExist))
	}
	return metadata.Root().FromBytes(b)
}

// list is the newest list of releases, be it signed in full or not.
func (r Repo) list() (*metadata.Metadata[metadata.TargetsType], error) {
	_, b, err := newest(r.Dir, metadata.TARGETS)
	if err != nil || b == nil {
		return nil, fmt.Errorf("%s holds no list of releases (%w)", r.Dir, errors.Join(err, fs.ErrNotExist))
	}
	return metadata.Targets().FromBytes(b)
}

// ours refuses keys that the repository's root metadata does not name.
func (r Repo) ours(keys []Key) error {
	root, err := r.root()
	if err != nil {
		return err
	}
	for _, k := range keys {
		id, err := k.id()
		if err != nil {
			return err
		}
		if !slices.Contains(root.Signed.Roles[metadata.TARGETS].KeyIDs, id) {
			return fmt.Errorf("the key %s... is none of the keys of %s: a list that it signs would be believed by no computer", id[:12], r.Dir)
		}
	}
	return nil
}

// Missing is how many signatures the newest list still needs.
func (r Repo) Missing() (int, error) {
	root, err := r.root()
	if err != nil {
		return 0, err
	}
	t, err := r.list()
	if err != nil {
		return 0, err
	}
	role := root.Signed.Roles[metadata.TARGETS]
	return max(0, role.Threshold-len(t.Signatures)), nil
}

// Add signs a release of programs, and forgets the oldest ones. Keys may be fewer than needed: the others sign it elsewhere.
func (r Repo) Add(now time.Time, version, notes string, programs []File, keys ...Key) (missing int, err error) {
	v, err := release.Parse(version)
	if err != nil {
		return 0, err
	}
	version = v.String()
	if len(notes) > trusted.MaxNotes {
		return 0, fmt.Errorf("notes of %d bytes, at most %d: link to more", len(notes), trusted.MaxNotes)
	}
	if len(programs) == 0 {
		return 0, errors.New("a release without a program")
	}
	if err := r.ours(keys); err != nil {
		return 0, err
	}
	t, err := r.list()
	if err != nil {
		return 0, err
	}
	known, err := trusted.Programs(t)
	if err != nil {
		return 0, err
	}
	for _, p := range known {
		if p.Version == version {
			return 0, fmt.Errorf("%s is signed already; computers that have it would keep it: give the mended one a new version", version)
		}
		if release.Newer(p.Version, version) {
			return 0, fmt.Errorf("%s is older than %s, which is signed already; no computer would take it", version, p.Version)
		}
	}
	for _, f := range programs {
		if !says(f.Bytes, version) {
			return 0, fmt.Errorf("%s does not call itself %s, so that no computer would know it again: build it with that version (make dist VERSION=%s), or give the one that it has", cmp.Or(f.From, "the program for "+f.System+"-"+f.Arch), version, version)
		}
	}
	for _, f := range programs {
		name := release.Target(version, f.System, f.Arch)
		target, err := r.target(name, version, notes, f)
		if err != nil {
			return 0, err
		}
		t.Signed.Targets[name] = target
	}
	if err := r.forget(t); err != nil {
		return 0, err
	}
	t.Signed.Version++
	t.Signed.Expires = now.Add(targetsLife).UTC()
	t.ClearSignatures()
	if err := r.writeTargets(t, keys); err != nil {
		return 0, err
	}
	return r.Missing()
}

func (r Repo) target(name, version, notes string, f File) (*metadata.TargetFiles, error) {
	packed, err := f.packed()
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(f.Bytes)
	custom, err := json.Marshal(trusted.Custom{Version: version, Notes: notes, Size: int64(len(f.Bytes)), Sum: hex.EncodeToString(sum[:])})
	if err != nil {
		return nil, err
	}
	t, err := metadata.TargetFile().FromBytes(name, packed, "sha256")
	if err != nil {
		return nil, err
	}
	raw := json.RawMessage(custom)
	t.Custom = &raw
	path := r.path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	return t, member.WriteFile(path, packed)
}

// forget takes the oldest releases off the list.
func (r Repo) forget(t *metadata.Metadata[metadata.TargetsType]) error {
	var versions []release.Version
	of := func(name string) (release.Version, error) {
		parts := strings.Split(name, "/")
		return release.Parse(parts[min(1, len(parts)-1)])
	}
	for name := range t.Signed.Targets {
		v, err := of(name)
		if err != nil {
			return err
		}
		if !slices.Contains(versions, v) {
			versions = append(versions, v)
		}
	}
	slices.SortFunc(versions, func(a, b release.Version) int { return b.Compare(a) })
	old := versions[min(len(versions), keptReleases):]
	for name := range t.Signed.Targets {
		if v, _ := of(name); slices.Contains(old, v) {
			delete(t.Signed.Targets, name)
			if err := os.RemoveAll(filepath.Dir(r.path(name))); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeTargets signs a list and writes it.
func (r Repo) writeTargets(t *metadata.Metadata[metadata.TargetsType], keys []Key) error {
	if err := sign(t, keys...); err != nil {
		return err
	}
	b, err := t.ToBytes(false)
	if err != nil {
		return err
	}
	if len(b) > trusted.MaxMetadata {
		return fmt.Errorf("the list of releases has %d bytes, at most %d: shorten the notes", len(b), trusted.MaxMetadata)
	}
	return member.WriteFile(r.path(trusted.Named(t.Signed.Version, metadata.TARGETS)), b)
}

// Sign adds another key's signature to the newest list.
func (r Repo) Sign(k Key) (missing int, err error) {
	if err := r.ours([]Key{k}); err != nil {
		return 0, err
	}
	t, err := r.list()
	if err != nil {
		return 0, err
	}
	id, err := k.id()
	if err != nil {
		return 0, err
	}
	t.Signatures = slices.DeleteFunc(t.Signatures, func(s metadata.Signature) bool { return s.KeyID == id })
	if err := r.writeTargets(t, []Key{k}); err != nil {
		return 0, err
	}
	return r.Missing()
}

// Renew signs root and list once more before they expire, with all of the keys. A new online key takes the place of one that may have been stolen.
func (r Repo) Renew(now time.Time, newOnline bool, keys ...Key) error {
	if err := r.ours(keys); err != nil {
		return err
	}
	root, err := r.root()
	if err != nil {
		return err
	}
	if need := root.Signed.Roles[metadata.ROOT].Threshold; len(keys) < need {
		return fmt.Errorf("renewing needs all %d release keys at once, here are %d: name each with --key", need, len(keys))
	}
	if newOnline {
		online, err := NewKey()
		if err != nil {
			return err
		}
		if err := os.Remove(r.path(OnlineKey)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := online.Write(r.path(OnlineKey)); err != nil {
			return err
		}
		if err := roles(root, keys, online); err != nil {
			return err
		}
	}
	root.Signed.Version++
	root.Signed.Expires = now.Add(rootLife).UTC()
	root.ClearSignatures()
	if err := sign(root, keys...); err != nil {
		return err
	}
	b, err := root.ToBytes(false)
	if err != nil {
		return err
	}
	t, err := r.list()
	if err != nil {
		return err
	}
	t.Signed.Version++
	t.Signed.Expires = now.Add(targetsLife).UTC()
	t.ClearSignatures()
	if err := r.writeTargets(t, keys); err != nil {
		return err
	}
	return member.WriteFile(r.path(trusted.Named(root.Signed.Version, metadata.ROOT)), b)
}
