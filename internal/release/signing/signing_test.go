package signing

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/theupdateframework/go-tuf/v2/metadata"

	"shoal/internal/member"
	"shoal/internal/release/trusted"
)

// network is a network with an offline repository, a manager's shelf and a computer that reads it.
type network struct {
	t      *testing.T
	now    time.Time
	id     member.NetworkID
	keys   []Key
	repo   Repo
	shelf  Shelf
	reader *trusted.Reader
}

func newNetwork(t *testing.T, keys int) *network {
	t.Helper()
	k, err := member.LoadOrCreate(t.TempDir(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	n := &network{t: t, now: time.Now(), id: k.Network, repo: Repo{filepath.Join(t.TempDir(), "repo")}, shelf: Shelf{filepath.Join(t.TempDir(), "shelf [1]")}}
	for range keys {
		k, err := NewKey()
		n.ok(err)
		n.keys = append(n.keys, k)
	}
	n.ok(n.repo.Init(n.now, n.keys, k.SealReleases))
	n.computer()
	return n
}

func (n *network) ok(err error) {
	n.t.Helper()
	if err != nil {
		n.t.Fatal(err)
	}
}

// computer is a new one, which knows nothing yet.
func (n *network) computer() { n.reader = &trusted.Reader{Dir: n.t.TempDir(), Network: n.id} }

func (n *network) add(version string) {
	n.t.Helper()
	missing, err := n.repo.Add(n.now, version, "mends "+version, []File{{System: "linux", Arch: "amd64", Bytes: []byte("program " + version)}}, n.keys...)
	if err != nil || missing != 0 {
		n.t.Fatal(missing, err)
	}
}

// serve carries the repository to the manager, which signs.
func (n *network) serve() {
	n.t.Helper()
	n.ok(n.shelf.Take(n.repo, n.id, n.now))
	_, err := n.shelf.Refresh(n.now)
	n.ok(err)
}

func from(dir string) trusted.Fetch {
	return func(_ context.Context, name string, most int) ([]byte, error) {
		b, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, trusted.ErrAbsent
		}
		return b, err
	}
}

func (n *network) update() (map[string]trusted.Program, error) {
	return n.reader.Update(context.Background(), n.now, from(n.shelf.Dir))
}

func (n *network) has(versions ...string) {
	n.t.Helper()
	got, err := n.update()
	n.ok(err)
	if len(got) != len(versions) {
		n.t.Errorf("the computer may run %v, want %v", got, versions)
	}
	for _, v := range versions {
		p, ok := got["shoal-peer/"+v+"/linux-amd64"]
		b, err := os.ReadFile(n.shelf.path(p.Target))
		if !ok || p.Version != v || err != nil || sha256.Sum256(b) != p.SHA256 || p.Notes != "mends "+v {
			n.t.Errorf("%s: %+v %v", v, p, err)
		}
		if z, err := gzip.NewReader(bytes.NewReader(b)); err != nil {
			n.t.Error(err)
		} else if b, err = io.ReadAll(z); err != nil || string(b) != "program "+v || int64(len(b)) != p.Size {
			n.t.Errorf("%s is packed as %q, %v", v, b, err)
		}
	}
}

// snapshotOf copies what is served now.
func snapshotOf(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(to, OnlineKey), 0o600); err != nil {
		t.Fatal(err)
	}
	return to
}

// TestReleases signs releases, with one key and with two, and keeps the newest few.
func TestReleases(t *testing.T) {
	for keys := 1; keys <= 2; keys++ {
		n := newNetwork(t, keys)
		n.serve()
		n.has()
		all := []string{"v1.0.0", "v1.1.0-rc.1", "v1.1.0", "v1.2.0", "v1.3.0"}
		for _, v := range all {
			n.add(v)
		}
		n.serve()
		n.has(all[1:]...)
		if err := errors.Join(n.shelf.Take(n.repo, n.id, n.now), n.shelf.Take(Repo{snapshotOf(t, n.repo.Dir)}, n.id, n.now)); err != nil {
			t.Error("carried twice:", err)
		}
		for _, bad := range []string{"v1.3.0", "v1.2.5", "devel", "../x"} {
			if _, err := n.repo.Add(n.now, bad, "", []File{{System: "linux", Arch: "amd64", Bytes: []byte("x")}}, n.keys...); err == nil {
				t.Errorf("%s is signed", bad)
			}
		}
		other, err := NewKey()
		n.ok(err)
		if _, err := n.repo.Add(n.now, "v9.0.0", "", []File{{System: "linux", Arch: "amd64", Bytes: []byte("x")}}, other); err == nil || !strings.Contains(err.Error(), "none of the keys") {
			t.Error("a key of no one's:", err)
		}
		if err := n.repo.Init(n.now, n.keys, nil); err == nil {
			t.Error("a second repository in one folder")
		}
	}
}

// TestSecondKey signs on two computers. The first signature alone reaches no manager, and no volunteer even if a manager serves it.
func TestSecondKey(t *testing.T) {
	n := newNetwork(t, 2)
	n.serve()
	n.has()
	missing, err := n.repo.Add(n.now, "v1.0.0", "mends v1.0.0", []File{{System: "linux", Arch: "amd64", Bytes: []byte("program v1.0.0")}}, n.keys[0])
	if err != nil || missing != 1 {
		t.Fatal(missing, err)
	}
	if err := n.shelf.Take(n.repo, n.id, n.now); err == nil || !strings.Contains(err.Error(), "needs 1 more of 2 signatures") {
		t.Error(err)
	}
	if missing, err := n.repo.Sign(n.keys[0]); err != nil || missing != 1 {
		t.Error("the same key signs twice:", missing, err)
	}
	half := snapshotOf(t, n.repo.Dir)
	_, err = Shelf{half}.Refresh(n.now.Add(time.Second))
	n.ok(err)
	if got, err := n.reader.Update(t.Context(), n.now, from(half)); !errors.Is(err, trusted.ErrForged) {
		t.Error("one signature of two is believed:", got, err)
	}
	if missing, err := n.repo.Sign(n.keys[1]); err != nil || missing != 0 {
		t.Fatal(missing, err)
	}
	n.now = n.now.Add(time.Minute)
	n.serve()
	n.has("v1.0.0")
}

// TestStolenOnlineKey has a thief with all that a manager holds. It signs no program, brings back no older list, and mixes none.
func TestStolenOnlineKey(t *testing.T) {
	n := newNetwork(t, 1)
	n.add("v1.0.0")
	n.serve()
	n.has("v1.0.0")
	old := snapshotOf(t, n.shelf.Dir)
	n.add("v1.1.0")
	n.now = n.now.Add(time.Minute)
	n.serve()
	n.has("v1.0.0", "v1.1.0")
	online, err := ReadKey(n.shelf.path(OnlineKey))
	n.ok(err)

	forged := Shelf{snapshotOf(t, n.shelf.Dir)}
	list, err := Repo(forged).list()
	n.ok(err)
	list.Signed.Version++
	list.ClearSignatures()
	n.ok(Repo(forged).writeTargets(list, []Key{online}))
	n.now = n.now.Add(time.Minute)
	_, err = forged.Refresh(n.now)
	n.ok(err)
	if got, err := n.reader.Update(t.Context(), n.now, from(forged.Dir)); !errors.Is(err, trusted.ErrForged) {
		t.Error("a list of programs that the online key has signed:", got, err)
	}

	// The list of before, signed anew by the thief: the programs in it are good, but older.
	back := Shelf{old}
	n.ok(os.Remove(back.path(trusted.Timestamp)))
	n.now = n.now.Add(time.Minute)
	_, err = back.Refresh(n.now)
	n.ok(err)
	if got, err := n.reader.Update(t.Context(), n.now, from(back.Dir)); !errors.Is(err, trusted.ErrOld) {
		t.Error("an old list:", got, err)
	}

	// A new root, which would name the thief's key for the list.
	root, err := n.repo.root()
	n.ok(err)
	root.Signed.Version++
	n.ok(roles(root, []Key{online}, online))
	root.ClearSignatures()
	n.ok(sign(root, online))
	b, err := root.ToBytes(false)
	n.ok(err)
	n.ok(os.WriteFile(forged.path(trusted.Named(2, metadata.ROOT)), b, 0o600))
	if got, err := n.reader.Update(t.Context(), n.now, from(forged.Dir)); !errors.Is(err, trusted.ErrForged) {
		t.Error("a root that the online key has signed:", got, err)
	}

	// A word about another repository altogether, to a computer that has seen the true one. After a theft the online key is replaced.
	n.now = n.now.Add(time.Minute)
	n.ok(n.repo.Renew(n.now, true, n.keys...))
	n.serve()
	n.has("v1.0.0", "v1.1.0")
	thiefs := newNetwork(t, 1)
	thiefs.add("v9.0.0")
	thiefs.serve()
	if got, err := n.reader.Update(t.Context(), n.now, from(thiefs.shelf.Dir)); err == nil {
		t.Error("another repository:", got)
	}
	n.computer()
	if got, err := n.reader.Update(t.Context(), n.now, from(thiefs.shelf.Dir)); !errors.Is(err, trusted.ErrForged) {
		t.Error("another network's repository, to a new computer:", got, err)
	}
}

// TestMixed takes each file from another moment.
func TestMixed(t *testing.T) {
	n := newNetwork(t, 1)
	n.add("v1.0.0")
	n.serve()
	old := snapshotOf(t, n.shelf.Dir)
	n.add("v1.1.0")
	n.now = n.now.Add(time.Minute)
	n.serve()
	list, number, err := newest(old, metadata.SNAPSHOT)
	n.ok(err)
	latest, _, err := newest(n.shelf.Dir, metadata.SNAPSHOT)
	n.ok(err)
	if list == latest {
		t.Fatal("the same snapshot")
	}
	mixed := snapshotOf(t, n.shelf.Dir)
	n.ok(os.WriteFile(filepath.Join(mixed, trusted.Named(latest, metadata.SNAPSHOT)), number, 0o600))
	if got, err := n.reader.Update(t.Context(), n.now, from(mixed)); !errors.Is(err, trusted.ErrForged) {
		t.Error("an old snapshot:", got, err)
	}
	mixed = snapshotOf(t, n.shelf.Dir)
	b, err := os.ReadFile(filepath.Join(old, trusted.Named(2, metadata.TARGETS)))
	n.ok(err)
	n.ok(os.WriteFile(filepath.Join(mixed, trusted.Named(3, metadata.TARGETS)), b, 0o600))
	if got, err := n.reader.Update(t.Context(), n.now, from(mixed)); !errors.Is(err, trusted.ErrForged) {
		t.Error("an old list under a new name:", got, err)
	}
	n.has("v1.0.0", "v1.1.0")
}

// TestFrozen holds new lists back: after a day the computer says so, with its own clock's time, which may be what is wrong.
func TestFrozen(t *testing.T) {
	n := newNetwork(t, 1)
	n.add("v1.0.0")
	n.serve()
	n.has("v1.0.0")
	n.now = n.now.Add(timestampLife - time.Minute)
	n.has("v1.0.0")
	n.now = n.now.Add(2 * time.Minute)
	_, err := n.update()
	var late *trusted.Expired
	if !errors.As(err, &late) || late.What != "timestamp" || !strings.Contains(err.Error(), "set the clock if it is wrong") || !strings.Contains(err.Error(), n.now.UTC().Format("2006-01-02 15:04")) {
		t.Errorf("frozen: %v", err)
	}
	n.now = n.now.Add(20 * 365 * 24 * time.Hour) // a clock without a battery's year
	if _, err = n.update(); !errors.As(err, &late) || late.What != "root" {
		t.Errorf("far ahead: %v", err)
	}
	n.now = time.Now()
	n.serve()
	n.has("v1.0.0")

	// Lists that the operator forgets to renew.
	n.now = n.now.Add(targetsLife + time.Hour)
	if _, err := n.shelf.Refresh(n.now); err != nil {
		t.Fatal(err)
	}
	if _, err = n.update(); !errors.As(err, &late) || late.What != "targets" {
		t.Errorf("an old list: %v", err)
	}
	if err := n.shelf.Take(n.repo, n.id, n.now); err == nil || !strings.Contains(err.Error(), "release renew") {
		t.Error(err)
	}
	n.ok(n.repo.Renew(n.now, false, n.keys...))
	n.serve()
	n.has("v1.0.0")
}

// TestRotated renews the root twice, with a new online key after the old one was stolen and had said a version that nothing follows.
func TestRotated(t *testing.T) {
	n := newNetwork(t, 2)
	n.add("v1.0.0")
	n.serve()
	n.has("v1.0.0")
	online, err := ReadKey(n.shelf.path(OnlineKey))
	n.ok(err)
	b, err := os.ReadFile(n.shelf.path(trusted.Timestamp))
	n.ok(err)
	stamp, err := metadata.Timestamp().FromBytes(b)
	n.ok(err)
	thiefs := Shelf{snapshotOf(t, n.shelf.Dir)}
	stamp.Signed.Version = math.MaxInt64
	stamp.ClearSignatures()
	_, err = thiefs.put(trusted.Timestamp, stamp.ToBytes, func() error { return sign(stamp, online) })
	n.ok(err)
	if _, err := n.reader.Update(t.Context(), n.now, from(thiefs.Dir)); err != nil {
		t.Fatal("it is signed well:", err)
	}
	if _, err := n.update(); !errors.Is(err, trusted.ErrOld) {
		t.Fatal(err)
	}
	for range 2 {
		if err := n.repo.Renew(n.now, true, n.keys[0]); err == nil || !strings.Contains(err.Error(), "all 2 release keys") {
			t.Error("renewed with one key of two:", err)
		}
		n.ok(n.repo.Renew(n.now, true, n.keys...))
	}
	n.now = n.now.Add(time.Minute)
	n.serve()
	n.has("v1.0.0")
	if got, err := n.reader.Update(t.Context(), n.now, from(thiefs.Dir)); !errors.Is(err, trusted.ErrForged) {
		t.Error("the thief's key is still believed:", got, err)
	}
}

// TestBroken feeds files that are no metadata, and damages what the computer keeps.
func TestBroken(t *testing.T) {
	n := newNetwork(t, 1)
	n.add("v1.0.0")
	n.serve()
	n.has("v1.0.0")
	kept, err := os.ReadDir(n.reader.Dir)
	n.ok(err)
	for _, e := range kept {
		if e.Name() == trusted.Anchor {
			continue
		}
		n.ok(os.WriteFile(filepath.Join(n.reader.Dir, e.Name()), []byte(`{"signed":`), 0o600))
		n.has("v1.0.0")
	}
	online, err := ReadKey(n.shelf.path(OnlineKey))
	n.ok(err)
	for i, what := range []string{"", "null", "[]", `{"signed":{"_type":"timestamp","spec_version":"1.0.31","version":9,"expires":"2099-01-01T00:00:00Z","meta":{}},"signatures":[]}`,
		`{"signed":{"_type":"timestamp","spec_version":"1.0.31","version":9,"expires":"2099-01-01T00:00:00Z","meta":{"snapshot.json":null}},"signatures":[]}`, strings.Repeat("[", trusted.MaxMetadata), strings.Repeat(" ", trusted.MaxMetadata+1)} {
		for _, name := range []string{trusted.Anchor, trusted.Timestamp, trusted.Named(1, metadata.ROOT), trusted.Named(2, metadata.ROOT), trusted.Named(2, metadata.TARGETS)} {
			n.computer()
			dir := snapshotOf(t, n.shelf.Dir)
			n.ok(os.WriteFile(filepath.Join(dir, name), []byte(what), 0o600))
			if got, err := n.reader.Update(t.Context(), n.now, from(dir)); err == nil {
				t.Errorf("%d as %s: %v", i, name, got)
			}
		}
	}
	// Signed by the online key, and without what it must name.
	stamp := metadata.Timestamp(n.now.Add(time.Hour))
	stamp.Signed.Version = n.now.Unix() + 99
	delete(stamp.Signed.Meta, "snapshot.json")
	_, err = n.shelf.put(trusted.Timestamp, stamp.ToBytes, func() error { return sign(stamp, online) })
	n.ok(err)
	if got, err := n.update(); !errors.Is(err, trusted.ErrMalformed) {
		t.Error(got, err)
	}
}

// TestFlipped flips single bits of what the computer keeps, as failing disks do: everything is fetched anew, and said.
func TestFlipped(t *testing.T) {
	n := newNetwork(t, 1)
	n.add("v1.0.0")
	n.add("v1.1.0")
	n.serve()
	n.has("v1.1.0", "v1.0.0")
	said := map[string]int{}
	n.reader.Damaged = func(name string) { said[name]++ }
	kept, err := os.ReadDir(n.reader.Dir)
	n.ok(err)
	const steps = 16 // of each file
	for _, e := range kept {
		name := filepath.Join(n.reader.Dir, e.Name())
		good, err := os.ReadFile(name)
		n.ok(err)
		for at := 0; at < len(good); at += max(len(good)/steps, 1) {
			bad := bytes.Clone(good)
			bad[at] ^= 1
			n.ok(os.WriteFile(name, bad, 0o600))
			if e.Name() == trusted.Anchor { // which is read where the root metadata is lost
				n.ok(os.Remove(filepath.Join(n.reader.Dir, "root.json")))
			}
			n.has("v1.1.0", "v1.0.0")
		}
		if said[e.Name()] < steps/4 {
			t.Errorf("of %s it was said %d times that it is damaged", e.Name(), said[e.Name()])
		}
	}
	list := filepath.Join(n.reader.Dir, "targets.json")
	b, err := os.ReadFile(list)
	n.ok(err)
	newer := bytes.Replace(b, []byte(`"version":3`), []byte(`"version":7`), 1)
	if bytes.Equal(b, newer) {
		t.Fatalf("the list has no version 3: %s", b)
	}
	n.ok(os.WriteFile(list, newer, 0o600)) // as if a newer one had been seen
	n.has("v1.1.0", "v1.0.0")
}

// TestRefresh signs once where nothing changes, and again when the signatures grow old.
func TestRefresh(t *testing.T) {
	n := newNetwork(t, 1)
	if did, err := n.shelf.Refresh(n.now); did || err == nil && !n.shelf.Empty() {
		t.Error("an empty shelf:", did, err)
	}
	n.serve()
	signed := 0
	for range 24 * 7 {
		n.now = n.now.Add(time.Hour)
		did, err := n.shelf.Refresh(n.now)
		n.ok(err)
		if did {
			signed++
		}
		n.has()
	}
	if signed < 24 || signed > 30 {
		t.Errorf("signed %d times in a week", signed)
	}
	if left, _ := n.shelf.find("*.snapshot.json"); len(left) > 2 {
		t.Error(left)
	}
	if info, err := os.Stat(n.shelf.path(OnlineKey)); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Error(info.Mode(), err)
	}
}

// TestUnsignedShelf has the manager sign anew where metadata on its shelf lacks signatures, or does not name what it should.
func TestUnsignedShelf(t *testing.T) {
	n := newNetwork(t, 1)
	n.add("v1.0.0")
	n.serve()
	number, body, err := newest(n.shelf.Dir, metadata.SNAPSHOT)
	n.ok(err)
	snap, err := metadata.Snapshot().FromBytes(body)
	n.ok(err)
	snap.ClearSignatures()
	n.ok(snap.ToFile(n.shelf.path(trusted.Named(number, metadata.SNAPSHOT)), false))
	stamp, err := metadata.Timestamp().FromFile(n.shelf.path(trusted.Timestamp))
	n.ok(err)
	stamp.ClearSignatures()
	delete(stamp.Signed.Meta, "snapshot.json")
	n.ok(stamp.ToFile(n.shelf.path(trusted.Timestamp), false))
	if did, err := n.shelf.Refresh(n.now); err != nil || !did {
		t.Fatal(did, err)
	}
	if list, err := n.update(); err != nil || len(list) != 1 {
		t.Error(list, err)
	}
}

// TestTogether has two managers share files. What is published at either is served by both under one version; a computer that changes between them
// refuses neither; the later of two that sign at the same time finds that the other one has; and another repository changes nothing.
func TestTogether(t *testing.T) {
	n := newNetwork(t, 1)
	shelves := []Shelf{n.shelf, {filepath.Join(t.TempDir(), "other")}}
	var record Files
	turn := func(i int) (signed bool) {
		t.Helper()
		ahead, err := shelves[i].Ahead(record)
		n.ok(err)
		next, changed, err := shelves[i].Merge(record, n.now)
		n.ok(err)
		if ahead && !changed {
			t.Error("what was published is not shared")
		}
		record = next
		n.ok(shelves[i].Put(record))
		return changed
	}
	visit := func(i int) {
		t.Helper()
		list, err := n.reader.Update(context.Background(), n.now, from(shelves[i].Dir))
		n.ok(err)
		lacks, err := shelves[i].Lacks(map[string][32]byte{})
		n.ok(err)
		for name, p := range lacks {
			b, err := os.ReadFile(shelves[1-i].path(name))
			n.ok(err)
			if shelves[i].Add(p, append([]byte("x"), b...)) == nil {
				t.Error("a program that is not the signed one is taken in")
			}
			n.ok(shelves[i].Add(p, b))
		}
		if lacks, err = shelves[i].Lacks(map[string][32]byte{}); err != nil || len(lacks) > 0 || len(list) == 0 {
			t.Errorf("manager %d lacks %v of %v, %v", i, lacks, list, err)
		}
	}
	for k, version := range []string{"v1.0.0", "v1.1.0", "v1.2.0"} {
		at := k % 2
		n.add(version)
		n.ok(shelves[at].Take(n.repo, n.id, n.now))
		turn(at)
		if turn(1 - at) {
			t.Error("both managers sign")
		}
		visit(at)
		visit(1 - at)
		visit(at)
		n.now = n.now.Add(freshFor + time.Minute)
		if !turn(1-at) || turn(at) {
			t.Error("one of two managers signs anew in time")
		}
		visit(1 - at)
		visit(at)
	}
	n.ok(n.repo.Renew(n.now, true, n.keys...)) // with another online key
	n.ok(shelves[1].Take(n.repo, n.id, n.now))
	turn(1)
	turn(0)
	visit(0)
	visit(1)

	other := newNetwork(t, 1)
	other.ok(other.shelf.Take(other.repo, other.id, other.now))
	if _, _, err := other.shelf.Merge(record, n.now); !errors.Is(err, ErrOther) {
		t.Errorf("another repository: %v", err)
	}
	if err := shelves[0].Put(Files{"../x": nil}); err == nil {
		t.Error("a name that leads out of the folder is taken")
	}
}
