// Package trusted reads the metadata of releases by the rules of The Update Framework, version 1.0 (https://theupdateframework.github.io/specification/v1.0.31/).
// It says which programs a network's peers may run, and why it believes none.
//
// Trust begins with a word of the network's root key, which names the first root metadata by its hash. A peer keeps the first word that it hears.
// The roles root and targets are of offline keys; snapshot and timestamp are of a key at the manager, which can neither sign a program nor bring
// back an old one, nor hold new ones back for longer than a timestamp lasts.
//
// The package fetches nothing by itself and knows no network: a Fetch brings the files. Whatever they hold, at most MaxMetadata of each is read.
package trusted

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/theupdateframework/go-tuf/v2/metadata"
	"github.com/theupdateframework/go-tuf/v2/metadata/trustedmetadata"

	"shoal/internal/member"
	"shoal/internal/release"
)

// Limits of what is read.
const (
	MaxMetadata = 64 << 10 // bytes of one file of metadata
	MaxProgram  = 64 << 20 // bytes of a program, packed or not
	MaxNotes    = 1000     // bytes of what its signer says about a release
	maxRoots    = 64       // new root metadata at a time
	maxTargets  = 200      // programs that are listed
)

// Names of files, beside those with a version in front.
const (
	Anchor    = "anchor"
	Timestamp = "timestamp.json"
)

// Named is the name of a role's metadata of a version.
func Named(version int64, role string) string { return fmt.Sprintf("%d.%s.json", version, role) }

// Reasons for believing nothing.
var (
	// ErrAbsent is wrapped by a Fetch where there is no such file.
	ErrAbsent = errors.New("trusted: no such file")
	// ErrNone says that the network signs no releases.
	ErrNone = errors.New("trusted: this network signs no releases")
	// ErrForged says that a signature is missing, or that bytes are not those that were signed.
	ErrForged = errors.New("trusted: not signed by the network's release keys")
	// ErrOld says that metadata is older than what was known before.
	ErrOld = errors.New("trusted: older than what this computer has seen before")
	// ErrMalformed says that metadata cannot be read.
	ErrMalformed = errors.New("trusted: cannot be read")
)

// Expired says that metadata is not valid any more: it is held back, or a clock is wrong.
type Expired struct {
	What  string
	Until time.Time
	Now   time.Time
}

func (e *Expired) Error() string {
	return fmt.Sprintf("the signed list of updates (%s) was good until %s, and it is %s by this computer's clock: set the clock if it is wrong; if it is right, the server holds updates back, and the company has to renew the list",
		e.What, e.Until.UTC().Format("2006-01-02 15:04"), e.Now.UTC().Format("2006-01-02 15:04 MST"))
}

// Fetch brings a file of at most max bytes.
type Fetch func(ctx context.Context, name string, max int) ([]byte, error)

// Program is one program that offline keys have signed.
type Program struct {
	Target string // its name
	Length int64  // of the packed file
	SHA256 [32]byte
	Custom
}

// Is reports whether bytes are those of the packed file that was signed.
func (p Program) Is(b []byte) bool { return int64(len(b)) == p.Length && sha256.Sum256(b) == p.SHA256 }

// Custom is what the signer says about a program.
type Custom struct {
	Version string `json:"version"`
	Notes   string `json:"notes,omitempty"`
	Size    int64  `json:"size"`   // of the program, unpacked
	Sum     string `json:"sha256"` // of the program, unpacked, as hex digits
}

// A Reader keeps what a computer has seen of a network's releases in a folder. It is owned by one goroutine.
type Reader struct {
	Dir     string
	Network member.NetworkID
	Damaged func(name string) // is told of a kept file that is not what was signed any more, and is fetched anew; nil: nothing
}

func (r *Reader) damaged(name string) {
	if r.Damaged != nil {
		r.Damaged(name)
	}
}

// Update fetches what is new, and returns the programs that may be run at that time.
func (r *Reader) Update(ctx context.Context, now time.Time, fetch Fetch) (map[string]Program, error) {
	if err := os.MkdirAll(r.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("trusted: %w", err)
	}
	get := func(name string) ([]byte, error) {
		b, err := fetch(ctx, name, MaxMetadata)
		if err == nil && len(b) > MaxMetadata {
			return nil, fmt.Errorf("%w: %s has %d bytes, at most %d", ErrMalformed, name, len(b), MaxMetadata)
		}
		return b, err
	}
	set, err := r.roots(get)
	if err != nil {
		return nil, err
	}
	set.RefTime = now.UTC()
	if until := set.Root.Signed.Expires; now.After(until) {
		return nil, &Expired{"root", until, now}
	}
	if err := r.timestamp(set, now, get); err != nil {
		return nil, err
	}
	if err := r.snapshot(set, now, get); err != nil {
		return nil, err
	}
	return r.targets(set, now, get)
}

// roots returns the newest root metadata.
func (r *Reader) roots(get func(string) ([]byte, error)) (*trustedmetadata.TrustedMetadata, error) {
	first, err := r.load("root.json")
	var set *trustedmetadata.TrustedMetadata
	if err == nil {
		if err = checkRoot(first); err == nil {
			set, err = trustedmetadata.New(first)
		}
		if err != nil { // damaged on the disk: the pinned word leads there again
			r.damaged("root.json")
			first = nil
		}
	}
	if first == nil {
		if set, err = r.first(get); err != nil {
			return nil, err
		}
	}
	for range maxRoots {
		online := keysOf(set.Root)
		next := set.Root.Signed.Version + 1
		b, err := get(Named(next, metadata.ROOT))
		if errors.Is(err, ErrAbsent) {
			break
		}
		if err != nil {
			return nil, err
		}
		if err := checkRoot(b); err != nil {
			return nil, err
		}
		if _, err := set.UpdateRoot(b); err != nil {
			return nil, told("root", err)
		}
		if keysOf(set.Root) != online { // what a stolen key has said, such as a version that nothing follows, counts no more (5.3.11)
			for _, name := range []string{"timestamp.json", "snapshot.json"} {
				if err := os.Remove(r.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
					return nil, fmt.Errorf("trusted: %w", err)
				}
			}
		}
		if err := r.save("root.json", b); err != nil {
			return nil, err
		}
	}
	return set, nil
}

// keysOf are the keys at the manager, as text to compare.
func keysOf(root *metadata.Metadata[metadata.RootType]) string {
	return fmt.Sprint(root.Signed.Roles[metadata.TIMESTAMP].KeyIDs, root.Signed.Roles[metadata.SNAPSHOT].KeyIDs)
}

// first returns the root metadata that the network's root key names.
func (r *Reader) first(get func(string) ([]byte, error)) (*trustedmetadata.TrustedMetadata, error) {
	word, err := r.load(Anchor)
	kept := err == nil
	if kept {
		if _, err := member.OpenReleases(r.Network, word); err != nil { // damaged on the disk: the network's key signs each one
			r.damaged(Anchor)
			kept = false
		}
	}
	if !kept {
		if word, err = get(Anchor); errors.Is(err, ErrAbsent) {
			return nil, ErrNone
		} else if err != nil {
			return nil, err
		}
	}
	sum, err := member.OpenReleases(r.Network, word)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrForged, err)
	}
	b, err := get(Named(1, metadata.ROOT))
	if err != nil {
		return nil, err
	}
	if sha256.Sum256(b) != sum {
		return nil, fmt.Errorf("%w: the first root metadata is not the one that the network's key names", ErrForged)
	}
	if err := checkRoot(b); err != nil {
		return nil, err
	}
	set, err := trustedmetadata.New(b)
	if err != nil {
		return nil, told("root", err)
	}
	if !kept {
		if err := r.save(Anchor, word); err != nil {
			return nil, err
		}
	}
	return set, r.save("root.json", b)
}

func (r *Reader) timestamp(set *trustedmetadata.TrustedMetadata, now time.Time, get func(string) ([]byte, error)) error {
	if b, err := r.load("timestamp.json"); err == nil {
		if err = checkMeta(b, "snapshot.json"); err == nil {
			_, err = set.UpdateTimestamp(b)
		}
		var late *metadata.ErrExpiredMetadata
		if err != nil && !errors.As(err, &late) { // what has expired still tells what may not come back; what is damaged tells nothing
			r.damaged("timestamp.json")
		}
	}
	b, err := get(Timestamp)
	if errors.Is(err, ErrAbsent) { // the manager signs it seconds after the first release came
		return ErrNone
	}
	if err != nil {
		return err
	}
	if err := checkMeta(b, "snapshot.json"); err != nil {
		return err
	}
	_, err = set.UpdateTimestamp(b)
	var same *metadata.ErrEqualVersionNumber
	switch {
	case errors.As(err, &same), err == nil:
	default:
		var late *metadata.ErrExpiredMetadata
		if !errors.As(err, &late) {
			return told("timestamp", err)
		}
	}
	if until := set.Timestamp.Signed.Expires; now.After(until) {
		return &Expired{"timestamp", until, now}
	}
	if err != nil {
		return nil // the one that is kept
	}
	return r.save("timestamp.json", b)
}

func (r *Reader) snapshot(set *trustedmetadata.TrustedMetadata, now time.Time, get func(string) ([]byte, error)) error {
	if b, err := r.load("snapshot.json"); err == nil {
		list := metadata.Snapshot()
		if err = checkMeta(b, "targets.json"); err == nil {
			list, err = list.FromBytes(b)
		}
		if err == nil {
			err = set.Root.VerifyDelegate(metadata.SNAPSHOT, list)
		}
		if err != nil {
			r.damaged("snapshot.json")
		} else if _, err := set.UpdateSnapshot(b, true); err == nil { // else it is an older one
			return nil
		}
	}
	version := set.Timestamp.Signed.Meta["snapshot.json"].Version
	b, err := get(Named(version, metadata.SNAPSHOT))
	if err != nil {
		return err
	}
	if err := checkMeta(b, "targets.json"); err != nil {
		return err
	}
	if _, err := set.UpdateSnapshot(b, false); err != nil {
		var late *metadata.ErrExpiredMetadata
		if errors.As(err, &late) && set.Snapshot != nil {
			return &Expired{"snapshot", set.Snapshot.Signed.Expires, now}
		}
		return told("snapshot", err)
	}
	return r.save("snapshot.json", b)
}

func (r *Reader) targets(set *trustedmetadata.TrustedMetadata, now time.Time, get func(string) ([]byte, error)) (map[string]Program, error) {
	old, known := r.known(set) // which not even a lost snapshot brings back
	version := set.Snapshot.Signed.Meta["targets.json"].Version
	if version < known {
		return nil, fmt.Errorf("%w: list %d of releases, %d was known", ErrOld, version, known)
	}
	b, err := old, error(nil)
	if version != known {
		if b, err = get(Named(version, metadata.TARGETS)); err != nil {
			return nil, err
		}
	}
	t, err := set.UpdateTargets(b)
	if err != nil {
		var late *metadata.ErrExpiredMetadata
		if errors.As(err, &late) {
			if t, err := metadata.Targets().FromBytes(b); err == nil {
				return nil, &Expired{"targets", t.Signed.Expires, now}
			}
		}
		return nil, told("targets", err)
	}
	if version != known {
		if err := r.save("targets.json", b); err != nil {
			return nil, err
		}
	}
	return Programs(t)
}

// known returns the list of releases that is kept, and its version; 0 where there is none. One that the keys of now have not signed tells nothing: a disk has
// changed it, or the keys are others.
func (r *Reader) known(set *trustedmetadata.TrustedMetadata) (list []byte, version int64) {
	list, err := r.load("targets.json")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0
	}
	t := metadata.Targets()
	if err == nil {
		t, err = t.FromBytes(list)
	}
	if err == nil {
		err = set.Root.VerifyDelegate(metadata.TARGETS, t)
	}
	if err != nil {
		r.damaged("targets.json")
		return nil, 0
	}
	return list, t.Signed.Version
}

// Programs are those that signed metadata lists. It refuses what this version cannot understand.
func Programs(t *metadata.Metadata[metadata.TargetsType]) (map[string]Program, error) {
	if len(t.Signed.Targets) > maxTargets {
		return nil, fmt.Errorf("%w: %d programs in the list, at most %d", ErrMalformed, len(t.Signed.Targets), maxTargets)
	}
	out := map[string]Program{}
	for name, f := range t.Signed.Targets {
		if f == nil || f.Custom == nil {
			continue // of a newer kind
		}
		p := Program{Target: name, Length: f.Length}
		sum := f.Hashes["sha256"]
		if err := json.Unmarshal(*f.Custom, &p.Custom); err != nil || len(sum) != sha256.Size || p.Length <= 0 || p.Length > MaxProgram || p.Size <= 0 || p.Size > MaxProgram || len(p.Notes) > MaxNotes {
			return nil, fmt.Errorf("%w: program %.60q in the list of releases", ErrMalformed, name)
		}
		if b, err := hex.DecodeString(p.Sum); err != nil || len(b) != sha256.Size {
			return nil, fmt.Errorf("%w: program %.60q in the list of releases has no hash", ErrMalformed, name)
		}
		if _, err := release.Parse(p.Version); err != nil || !strings.HasPrefix(name, "shoal-peer/"+p.Version+"/") {
			return nil, fmt.Errorf("%w: program %.60q in the list of releases is of version %.40q", ErrMalformed, name, p.Version)
		}
		copy(p.SHA256[:], sum)
		out[name] = p
	}
	return out, nil
}

// told puts a library's error into our words.
func told(what string, err error) error {
	var old *metadata.ErrBadVersionNumber
	var unsigned *metadata.ErrUnsignedMetadata
	var bytes *metadata.ErrLengthOrHashMismatch
	switch {
	case errors.As(err, &old):
		return fmt.Errorf("%w: %s: %w", ErrOld, what, err)
	case errors.As(err, &unsigned), errors.As(err, &bytes):
		return fmt.Errorf("%w: %s: %w", ErrForged, what, err)
	}
	return fmt.Errorf("%w: %s: %w", ErrMalformed, what, err)
}

// checkMeta refuses metadata that does not name another file, which the library would not survive.
func checkMeta(b []byte, name string) error {
	var m struct {
		Signed struct {
			Meta map[string]*struct{ Version int64 }
		}
	}
	if err := json.Unmarshal(b, &m); err != nil {
		return fmt.Errorf("%w: metadata: %w", ErrMalformed, err)
	}
	if m.Signed.Meta[name] == nil {
		return fmt.Errorf("%w: metadata that does not name %s", ErrMalformed, name)
	}
	for other, f := range m.Signed.Meta {
		if f == nil {
			return fmt.Errorf("%w: metadata with an empty entry %.40q", ErrMalformed, other)
		}
	}
	return nil
}

// key is a key in root metadata.
type key struct {
	Keyval struct{ Public string }
}

func (k *key) public() string {
	if k == nil {
		return ""
	}
	return k.Keyval.Public
}

// checkRoot refuses root metadata that lacks a role or a key, which the library would not survive.
func checkRoot(b []byte) error {
	var m struct {
		Signed struct {
			Keys  map[string]*key
			Roles map[string]*struct{ Threshold int }
		}
	}
	if err := json.Unmarshal(b, &m); err != nil {
		return fmt.Errorf("%w: root: %w", ErrMalformed, err)
	}
	for _, role := range metadata.TOP_LEVEL_ROLE_NAMES {
		if r := m.Signed.Roles[role]; r == nil || r.Threshold < 1 {
			return fmt.Errorf("%w: root without the role %s", ErrMalformed, role)
		}
	}
	for id, k := range m.Signed.Keys {
		if b, err := hex.DecodeString(k.public()); err != nil || len(b) != ed25519.PublicKeySize { // a release key is of no other kind
			return fmt.Errorf("%w: root with a key %.20q that is none", ErrMalformed, id)
		}
	}
	return nil
}

func (r *Reader) path(name string) string { return filepath.Join(r.Dir, name) }

func (r *Reader) load(name string) ([]byte, error) {
	b, err := os.ReadFile(r.path(name))
	if err == nil && len(b) > MaxMetadata {
		return nil, ErrMalformed
	}
	return b, err
}

func (r *Reader) save(name string, b []byte) error {
	if old, err := r.load(name); err == nil && bytes.Equal(old, b) {
		return nil
	}
	return member.WriteFile(r.path(name), b)
}
