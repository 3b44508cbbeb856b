package member

import (
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// Files of a key folder, each readable by its owner alone.
const (
	fileRoot = "root.key"    // may be kept elsewhere once backed up: only new delegations need it
	fileWork = "manager.key" // working key, its delegation and the one before it
	fileNode = "node.key"    // identity in the overlay
	// fileStolen has the serial up to which working keys were said to be in others' hands.
	fileStolen = "stolen"
)

const maxKeyFile = 4 << 10

// Keys is a manager's key folder.
type Keys struct {
	Dir       string
	Network   NetworkID
	Authority *Authority
	Previous  []byte   // sealed delegation before the current one; nil: none, or its key was lost to others
	Node      [32]byte // Ed25519 seed of the identity in the overlay
	Stolen    uint64   // up to this serial working keys are in others' hands; 0: none is

	root    *[32]byte // nil: kept offline
	work    [32]byte
	earlier []Earlier // the oldest first
	ahead   uint64    // added to the serial of a first delegation, so that managers of one network have serials of their own
}

// LoadOrCreate opens a key folder, or makes a new network in an empty one. A delegation in its last sixth is renewed if the root key
// is at hand.
func LoadOrCreate(dir string, now time.Time) (*Keys, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("key folder: %w", err)
	}
	k, err := load(dir)
	if err != nil {
		return nil, err
	}
	if k.root == nil && k.Authority == nil {
		k.Node, k.root = [32]byte{}, new([32]byte)
		rand.Read(k.root[:]) // never fails: crypto/rand
		rand.Read(k.Node[:])
		if err := k.write(fileNode, encodeText(kindNode, k.Node[:])); err != nil {
			return nil, err
		}
		if err := k.write(fileRoot, encodeText(kindRoot, k.root[:])); err != nil {
			return nil, err
		}
	}
	if k.Authority == nil { // new, or creating it was cut short here
		return k, k.delegate(now, true, false)
	}
	d := k.Authority.Delegation()
	if left := d.NotAfter.Sub(now); left < DelegationLife/6 && k.root != nil {
		return k, k.delegate(now, false, true)
	} else if left < -Skew {
		return nil, fmt.Errorf("%w: the manager's delegation ended at %s and %s is not in %s; restore it from the backup and run `shoal key rotate`",
			ErrExpired, stamp(d.NotAfter), fileRoot, dir)
	}
	return k, nil
}

// Refresh serves a manager that runs for long: like a start, it renews a delegation in its last sixth. Users of these
// keys sign under the new delegation from then on. A working key that was rotated meanwhile waits for the next start.
func (k *Keys) Refresh(now time.Time) error {
	if k.Authority.Delegation().NotAfter.Sub(now) >= DelegationLife/6 {
		return nil
	}
	disk, err := LoadOrCreate(k.Dir, now)
	if err != nil {
		return err
	}
	if disk.work == k.work && disk.Authority.Delegation().Serial > k.Authority.Delegation().Serial {
		k.Previous, k.earlier = disk.Previous, disk.earlier
		k.Authority.by.Store(disk.Authority.by.Load())
		return k.Begin(now)
	}
	return nil
}

// load reads what is there. Neither root nor working key: the folder is empty, or making a network in it was cut short.
func load(dir string) (*Keys, error) {
	k := &Keys{Dir: dir}
	found := map[string]bool{}
	for _, f := range []struct {
		name string
		take func(string) error
	}{{fileNode, k.takeNode}, {fileRoot, k.takeRoot}, {fileWork, k.takeWork}, {fileStolen, k.takeStolen}, {fileEarlier, k.takeEarlier}} {
		s, err := ReadSecret(filepath.Join(dir, f.name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = f.take(s)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Join(dir, f.name), err)
		}
		found[f.name] = true
	}
	switch {
	case !found[fileNode] && (found[fileRoot] || found[fileWork]):
		return nil, fmt.Errorf("member: %s is missing in %s; restore it from the backup (`shoal key restore`)", fileNode, dir)
	case found[fileRoot] && found[fileWork] && NewRoot(*k.root).ID() != k.Authority.Network():
		return nil, fmt.Errorf("member: %s and %s in %s are of different networks; restore them from the backup", fileRoot, fileWork, dir)
	}
	return k, nil
}

func (k *Keys) takeNode(s string) (err error) {
	k.Node, err = decodeKey(kindNode, s)
	return err
}

func (k *Keys) takeStolen(s string) (err error) {
	k.Stolen, err = strconv.ParseUint(strings.TrimSpace(s), 10, 64)
	return err
}

func (k *Keys) takeRoot(s string) error {
	seed, err := decodeKey(kindRoot, s)
	if err != nil {
		return err
	}
	k.root, k.Network = &seed, NewRoot(seed).ID()
	return nil
}

func (k *Keys) takeWork(s string) error {
	lines := strings.Fields(s)
	if len(lines) < 2 || len(lines) > 3 {
		return fmt.Errorf("%w: it holds %d lines; restore it from the backup or run `shoal key rotate`", ErrMalformed, len(lines))
	}
	var err error
	if k.work, err = decodeKey(kindWork, lines[0]); err != nil {
		return err
	}
	sealed, err := decodeText(kindDeleg, lines[1])
	if err != nil {
		return err
	}
	d, err := ReadDelegation(sealed)
	if err != nil {
		return err
	}
	k.Network = d.Network
	if len(lines) == 3 {
		if k.Previous, err = decodeText(kindPrev, lines[2]); err != nil {
			return err
		}
	}
	k.Authority, err = NewAuthority(k.work, d.Network, sealed)
	return err
}

// delegate signs a delegation to a fresh or the same working key and writes it.
func (k *Keys) delegate(now time.Time, fresh, keepPrevious bool) error {
	if k.root == nil {
		return fmt.Errorf("member: %s is not in %s; put it there or restore it from the backup, then rotate", fileRoot, k.Dir)
	}
	work, root := k.work, NewRoot(*k.root)
	if fresh {
		rand.Read(work[:])
	}
	// The serial is the clock's, so that a manager restored from an old backup still issues above all that it ever issued.
	serial := uint64(max(now.Unix(), 1)) + k.ahead
	var previous []byte
	if k.Authority != nil {
		serial = max(serial, k.Authority.Delegation().Serial+1)
		if keepPrevious {
			previous = k.Authority.Sealed()
		}
	}
	key := [32]byte(ed25519.NewKeyFromSeed(work[:]).Public().(ed25519.PublicKey))
	sealed, err := root.Delegate(Delegation{Key: key, Roles: AllRoles, NotBefore: now, NotAfter: now.Add(DelegationLife), Serial: serial})
	if err != nil {
		return err
	}
	a, err := NewAuthority(work, root.ID(), sealed)
	if err != nil {
		return err
	}
	out := []string{encodeText(kindWork, work[:]), encodeText(kindDeleg, sealed)}
	if previous != nil {
		out = append(out, encodeText(kindPrev, previous))
	}
	if err := k.noteEarlier(previous); err != nil {
		return err
	}
	if err := k.write(fileWork, out...); err != nil {
		return err
	}
	k.work, k.Network, k.Authority, k.Previous = work, root.ID(), a, previous
	return nil
}

// Rotate makes a new working key. Members go on trusting what the old one signed until all of them have renewed, unless it is in
// others' hands (stolen): then nothing that it signed is worth anything to a member that has learnt the next document.
func Rotate(dir string, now time.Time, stolen bool) (*Keys, error) {
	k, err := load(dir)
	if err != nil {
		return nil, err
	}
	was := k.Authority
	if err := k.delegate(now, true, !stolen); err != nil || !stolen || was == nil {
		return k, err
	}
	k.Stolen = was.Delegation().Serial
	return k, k.write(fileStolen, strconv.FormatUint(k.Stolen, 10))
}

// Outdate makes a new working key above a serial up to which keys are in others' hands, where this one's is not above it.
func (k *Keys) Outdate(now time.Time, stolen uint64) error {
	if k.Authority.Delegation().Serial > stolen {
		return nil
	}
	k.ahead = 0
	if at := uint64(max(now.Unix(), 1)); stolen >= at {
		k.ahead = stolen + 1 - at
	}
	return k.delegate(now, true, false)
}

// HasRoot reports whether the root key is at hand.
func (k *Keys) HasRoot() bool { return k.root != nil }

// Delegations are those that a document should name now, and the lowest serial in use. A previous key stays good for as long as
// certificates under it may last. Earlier tells of those whose certificates may still be renewed.
func (k *Keys) Delegations(now time.Time) (sealed [][]byte, minSerial uint64) {
	d := k.Authority.Delegation()
	if k.Previous != nil && now.Before(d.NotBefore.Add(2*CertificateLife)) {
		if p, err := openDelegation(k.Network, k.Previous); err == nil {
			return [][]byte{k.Authority.Sealed(), k.Previous}, p.Serial
		}
	}
	return [][]byte{k.Authority.Sealed()}, d.Serial
}

// Backup is all that is needed to continue the network on another disk, as text for paper or a password manager.
func (k *Keys) Backup() (string, error) {
	if k.root == nil {
		return "", fmt.Errorf("member: %s is not in %s, so there is nothing to back up; keep the backup that was made before it was taken away", fileRoot, k.Dir)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# Shoal: backup of network %s\n", k.Network)
	b.WriteString("# Whoever holds this text holds the network. Keep it offline. To use it: shoal key restore FILE\n")
	fmt.Fprintln(&b, encodeText(kindRoot, k.root[:]))
	fmt.Fprintln(&b, encodeText(kindNode, k.Node[:]))
	return b.String(), nil
}

// Restore writes the key folder of a backup, with a fresh working key. Where the folder has a working key of that network
// which is still good, and an identity, both stay, and the root key alone is put there: kept says so. Restore never
// overwrites the keys of another network.
func Restore(dir, backup string, now time.Time) (k *Keys, kept bool, err error) {
	if k, err = parseBackup(backup); err != nil {
		return nil, false, err
	}
	k.Dir = dir
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, false, fmt.Errorf("key folder: %w", err)
	}
	if old, err := load(dir); err == nil && old.Network != (NetworkID{}) {
		if old.Network != k.Network {
			return nil, false, fmt.Errorf("member: %s holds the keys of network %s; restore into another folder, or move those away first", dir, old.Network)
		}
		if old.Authority != nil && old.Authority.Delegation().NotAfter.Sub(now) >= -Skew {
			old.root = k.root
			return old, true, old.write(fileRoot, encodeText(kindRoot, k.root[:]))
		}
		k.Authority, k.Node = old.Authority, old.Node // for its serial; another manager of the network has another identity
	} else if s, rerr := ReadSecret(filepath.Join(dir, fileRoot)); rerr == nil {
		if seed, derr := decodeKey(kindRoot, s); derr == nil && seed != *k.root {
			return nil, false, fmt.Errorf("member: %s holds another network's %s; restore into another folder, or move it away first", dir, fileRoot)
		}
	}
	if err := k.write(fileRoot, encodeText(kindRoot, k.root[:])); err != nil {
		return nil, false, err
	}
	if err := k.write(fileNode, encodeText(kindNode, k.Node[:])); err != nil {
		return nil, false, err
	}
	return k, false, k.delegate(now, true, false)
}

// Join writes the key folder of a further manager of a backup's network: with an identity and a working key of its own. It never overwrites keys.
func Join(dir, backup string, now time.Time) (*Keys, error) {
	k, err := parseBackup(backup)
	if err != nil {
		return nil, err
	}
	k.Dir = dir
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("key folder: %w", err)
	}
	if old, err := load(dir); err != nil || old.Network != (NetworkID{}) {
		return nil, errors.Join(fmt.Errorf("member: %s holds keys already: name another folder for a further manager", dir), err)
	}
	rand.Read(k.Node[:])
	k.ahead = uint64(k.Node[0])<<8 | uint64(k.Node[1])
	if err := k.write(fileNode, encodeText(kindNode, k.Node[:])); err != nil {
		return nil, err
	}
	if err := k.write(fileRoot, encodeText(kindRoot, k.root[:])); err != nil {
		return nil, err
	}
	return k, k.delegate(now, true, false)
}

func parseBackup(backup string) (*Keys, error) {
	if len(backup) > maxKeyFile {
		return nil, fmt.Errorf("%w: backup of %d bytes, at most %d", ErrTooLarge, len(backup), maxKeyFile)
	}
	k := &Keys{}
	var node, root bool
	for _, line := range strings.Split(backup, "\n") {
		line = strings.TrimSpace(line)
		var err error
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, kindNode):
			k.Node, err = decodeKey(kindNode, line)
			node = true
		default:
			err = k.takeRoot(line)
			root = true
		}
		if err != nil {
			return nil, fmt.Errorf("backup: %w", err)
		}
	}
	if !root || !node {
		return nil, fmt.Errorf("%w: the backup is not whole: it holds a line that begins with %q and one with %q", ErrMalformed, kindRoot, kindNode)
	}
	return k, nil
}

// LoadOrCreateNode is the identity of a peer or an archive: node.key in its folder.
func LoadOrCreateNode(dir string) (seed [32]byte, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return seed, fmt.Errorf("key folder: %w", err)
	}
	path := filepath.Join(dir, fileNode)
	s, err := ReadSecret(path)
	if err == nil {
		if seed, err = decodeKey(kindNode, s); err != nil {
			return seed, fmt.Errorf("%s: %w; move it away to become a new peer", path, err)
		}
		return seed, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return seed, fmt.Errorf("%s: %w", path, err)
	}
	rand.Read(seed[:])
	return seed, WriteFile(path, []byte(encodeText(kindNode, seed[:])+"\n"))
}

func decodeKey(kind, s string) ([32]byte, error) {
	b, err := decodeText(kind, s)
	if err != nil {
		return [32]byte{}, err
	}
	return key32(kindName(kind), b)
}

// ReadSecret reads a small file that its owner alone may read, and refuses one that others can read too.
func ReadSecret(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("others on this machine can read %s, which is secret; run: chmod 600 %s", filepath.Base(path), path)
	}
	if info.Size() > maxKeyFile {
		return "", fmt.Errorf("%w: file of %d bytes", ErrTooLarge, info.Size())
	}
	b, err := os.ReadFile(path)
	return string(b), err
}

func (k *Keys) write(name string, lines ...string) error {
	return WriteFile(filepath.Join(k.Dir, name), []byte(strings.Join(lines, "\n")+"\n"))
}

func (k *Keys) remove(name string) error {
	err := os.Remove(filepath.Join(k.Dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// WriteFile replaces a small secret file: the old one or the new one is there after a crash, never half of it.
func WriteFile(path string, b []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // mode 0600
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	_, err = f.Write(b)
	if serr := f.Sync(); err == nil {
		err = serr
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if runtime.GOOS != "windows" { // which cannot sync a folder
		d, err := os.Open(filepath.Dir(path))
		if err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
		defer d.Close()
		if err := d.Sync(); err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
	}
	return nil
}
