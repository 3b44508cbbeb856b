package programs

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"shoal/internal/release"
	"shoal/internal/release/trusted"
)

var own = sync.OnceValues(func() ([]byte, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return os.ReadFile(exe)
})

// signed packs this test's own program, which says what it was built for.
func signed(t *testing.T, version string) (p *trusted.Program, packed []byte) {
	t.Helper()
	b, err := own()
	if err != nil {
		t.Fatal(err)
	}
	var z bytes.Buffer
	w, err := gzip.NewWriterLevel(&z, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(b)
	return &trusted.Program{Target: release.Target(version, runtime.GOOS, runtime.GOARCH), Length: int64(z.Len()), SHA256: sha256.Sum256(z.Bytes()),
		Custom: trusted.Custom{Version: version, Size: int64(len(b)), Sum: hex.EncodeToString(sum[:])}}, z.Bytes()
}

// download puts what is missing, in pieces.
func download(f Folder, p *trusted.Program, packed []byte) (*Program, error) {
	for have := f.Have(p); have < p.Length; have = f.Have(p) {
		if err := f.Put(p, have, packed[have:min(have+1<<20, p.Length)]); err != nil {
			return nil, err
		}
	}
	return f.Finish(p, runtime.GOOS, runtime.GOARCH)
}

// TestHalfDownloaded goes on where a download stopped, begins anew where it was damaged, and starts no half program.
func TestHalfDownloaded(t *testing.T) {
	f := At(t.TempDir())
	p, packed := signed(t, "v1.1.0")
	half := p.Length / 2
	if err := f.Put(p, 0, packed[:half]); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Finish(p, runtime.GOOS, runtime.GOARCH); !errors.Is(err, trusted.ErrForged) {
		t.Fatal("half a download is a program:", err)
	}
	if f.Have(p) != 0 {
		t.Error("what cannot be used is kept")
	}
	if err := f.Put(p, 0, packed[:half]); err != nil {
		t.Fatal(err)
	}
	if got := f.Have(p); got != half {
		t.Errorf("has %d bytes of %d", got, half)
	}
	other := *p
	other.SHA256[0]++
	if f.Have(&other) != 0 {
		t.Error("a download goes on as one of something else")
	}
	got, err := download(f, p, packed)
	if err != nil || f.Verify(got) != nil {
		t.Fatal(got, err)
	}
	if f.Have(p) != 0 {
		t.Error("the download stays beside the program")
	}
	b, err := os.ReadFile(f.Path(got))
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2]++
	if err := os.WriteFile(f.Path(got), b, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := f.Verify(got); !errors.Is(err, trusted.ErrForged) {
		t.Error("a damaged program:", err)
	}
	// A program that is longer than what was signed, in a package that is signed.
	long := *p
	long.Size, long.Sum = 10, strings.Repeat("0", 64)
	if err := f.Put(&long, 0, packed); err != nil {
		t.Fatal(err)
	}
	if got, err := f.Finish(&long, runtime.GOOS, runtime.GOARCH); !errors.Is(err, trusted.ErrForged) {
		t.Error(got, err)
	}
}

// TestWrongPlatform refuses a program of another system although its signature is good.
func TestWrongPlatform(t *testing.T) {
	f := At(t.TempDir())
	p, packed := signed(t, "v1.1.0")
	if err := f.Put(p, 0, packed); err != nil {
		t.Fatal(err)
	}
	got, err := f.Finish(p, "plan9", runtime.GOARCH)
	if !errors.Is(err, ErrPlatform) || !strings.Contains(err.Error(), "this is plan9-"+runtime.GOARCH) {
		t.Error(got, err)
	}
	if list, err := os.ReadDir(f.Dir); err != nil || len(list) != 0 {
		t.Error("it stays:", list, err)
	}
}

// full is a disk that has room for some bytes.
type full struct {
	system
	room *int
}

func (d full) Create(name string) (file, error) {
	w, err := d.system.Create(name)
	return fullFile{w, d.room}, err
}
func (d full) Append(name string) (file, error) {
	w, err := d.system.Append(name)
	return fullFile{w, d.room}, err
}

type fullFile struct {
	file
	room *int
}

func (w fullFile) Write(b []byte) (int, error) {
	n := min(len(b), *w.room)
	*w.room -= n
	if _, err := w.file.Write(b[:n]); err != nil {
		return 0, err
	}
	if n < len(b) {
		return n, syscall.ENOSPC
	}
	return n, nil
}

// TestFullDisk runs out of room at many places. The state stays what it was, and with room the update goes on.
func TestFullDisk(t *testing.T) {
	p, packed := signed(t, "v1.1.0")
	whole := int(p.Length + p.Size)
	for i, room := range []int{0, 1, int(p.Length) - 1, int(p.Length), int(p.Length) + 1, whole - 1, whole, whole + 10} {
		f := At(t.TempDir())
		before := State{Current: &Program{Version: "v1.0.0", File: fileOf("v1.0.0"), Sum: "x"}}
		if err := f.Change(to(before)); err != nil {
			t.Fatal(err)
		}
		f.disk = full{room: &room}
		next, err := download(f, p, packed)
		if err == nil {
			s := before
			s.Next = next
			err = f.Change(to(s))
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("%d: a full disk: %v", i, err)
		}
		if got, err := f.Load(); err != nil || !reflect.DeepEqual(got, before) {
			t.Errorf("%d: the state is %+v, %v", i, got, err)
		}
		f.disk = system{}
		if next, err = download(f, p, packed); err != nil || f.Verify(next) != nil {
			t.Errorf("%d: with room: %v", i, err)
		}
	}
}

var errCut = errors.New("the power is cut")

// torn is a disk whose power is cut after some operations. What was not synced is then there in part, or not at all.
type torn struct {
	left    *int
	rng     *rand.Rand
	files   map[string]int // unsynced bytes at the end of files, by name
	renamed *[][2]string   // renames whose folder was not synced, with what they replaced
	saved   map[string][]byte
}

func (d *torn) op() error {
	if *d.left--; *d.left < 0 {
		return errCut
	}
	return nil
}

func (d *torn) Create(name string) (file, error) {
	if err := d.op(); err != nil {
		return nil, err
	}
	d.files[name] = 0
	w, err := system{}.Create(name)
	return &tornFile{w, name, d}, err
}

func (d *torn) Append(name string) (file, error) {
	if err := d.op(); err != nil {
		return nil, err
	}
	w, err := system{}.Append(name)
	return &tornFile{w, name, d}, err
}

func (d *torn) Rename(from, to string) error {
	if err := d.op(); err != nil {
		return err
	}
	if old, err := os.ReadFile(to); err == nil {
		d.saved[to] = old
	}
	d.files[to] = d.files[from]
	delete(d.files, from)
	*d.renamed = append(*d.renamed, [2]string{from, to})
	return os.Rename(from, to)
}

func (d *torn) Remove(name string) error {
	if err := d.op(); err != nil {
		return err
	}
	delete(d.files, name)
	return os.Remove(name)
}

func (d *torn) SyncDir(string) error {
	if err := d.op(); err != nil {
		return err
	}
	*d.renamed = nil
	return nil
}

type tornFile struct {
	file
	name string
	d    *torn
}

func (w *tornFile) Write(b []byte) (int, error) {
	if err := w.d.op(); err != nil {
		return 0, err
	}
	w.d.files[w.name] += len(b)
	return w.file.Write(b)
}

func (w *tornFile) Sync() error {
	if err := w.d.op(); err != nil {
		return err
	}
	w.d.files[w.name] = 0
	return nil
}

// cut leaves what a power failure may leave.
func (d *torn) cut(t *testing.T) {
	t.Helper()
	for i := len(*d.renamed) - 1; i >= 0; i-- {
		r := (*d.renamed)[i]
		if d.rng.IntN(2) == 0 {
			break // it and those before reached the disk
		}
		b, err := os.ReadFile(r[1])
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(r[0], b, 0o700); err != nil {
			t.Fatal(err)
		}
		if old, was := d.saved[r[1]]; was {
			err = os.WriteFile(r[1], old, 0o700)
		} else {
			err = os.Remove(r[1])
		}
		if err != nil {
			t.Fatal(err)
		}
		d.files[r[0]] = d.files[r[1]]
		delete(d.files, r[1])
	}
	for name, n := range d.files {
		if n == 0 {
			continue
		}
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		lost := d.rng.IntN(n + 1)
		if err := os.Truncate(name, info.Size()-int64(lost)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPowerCut cuts the power at every operation of an update, from the first byte of the download to the record that the new program runs. After each cut
// the next start runs a whole program, the old one or the new one, and the update can be made again.
func TestPowerCut(t *testing.T) {
	p, packed := signed(t, "v1.1.0")
	now := time.Unix(1e9, 0)
	update := func(f Folder) error {
		next, err := download(f, p, packed)
		if err != nil {
			return err
		}
		s, err := f.Load()
		if err != nil {
			return err
		}
		s.Next, s.Since = next, now
		if err := f.Change(to(s)); err != nil {
			return err
		}
		s.Begin("v1.0.0", now)
		return f.Change(to(s))
	}
	cuts := 0
	for at := 0; ; at++ {
		f := At(t.TempDir())
		if err := f.Change(to(State{})); err != nil {
			t.Fatal(err)
		}
		left := at
		d := &torn{&left, rand.New(rand.NewPCG(uint64(at), 1)), map[string]int{}, &[][2]string{}, map[string][]byte{}}
		f.disk = d
		err := update(f)
		if err != nil && !errors.Is(err, errCut) {
			t.Fatal(err)
		}
		d.cut(t)
		f.disk = system{}
		s, lerr := f.Load()
		if lerr != nil || s.Last != "" {
			t.Fatalf("cut %d: the state is %+v, %v", at, s, lerr)
		}
		switch run := s.Start("v1.0.0", "boot", now); {
		case run != nil && f.Verify(run) != nil:
			t.Fatalf("cut %d: a program that is not whole would run: %+v", at, s)
		case run == nil && err == nil:
			t.Fatal("an update that was finished is forgotten")
		case run == nil:
			f.Tidy(&s, p)
			if at%4 != 0 { // which takes long
				break
			}
			if err := update(f); err != nil {
				t.Fatalf("cut %d: the update cannot be made again: %v", at, err)
			}
		}
		if err == nil {
			break
		}
		cuts++
	}
	if cuts < 20 {
		t.Errorf("only %d cuts", cuts)
	}
	t.Logf("%d cuts", cuts)
}

// TestTenDowngrades falls back from ten versions in a row, and takes none of them again. The program before runs each time.
func TestTenDowngrades(t *testing.T) {
	f := At(t.TempDir())
	now := time.Unix(1e9, 0)
	for i := range 10 {
		version := fmt.Sprintf("v1.%d.0", i+1)
		s, err := f.Load()
		if err != nil {
			t.Fatal(err)
		}
		if _, refused := s.Refuses(version); refused {
			t.Fatal(version, "is refused before it was tried")
		}
		s.Next = &Program{Version: version, File: fileOf(version), Sum: "x"}
		s.Begin("v1.0.0", now)
		for crash := range release.MaxCrashes {
			if run := s.Start("v1.0.0", "boot", now); run == nil || run.Version != version {
				t.Fatalf("start %d of %s runs %+v", crash, version, run)
			}
			if err := f.Change(to(s)); err != nil {
				t.Fatal(err)
			}
			if s, err = f.Load(); err != nil {
				t.Fatal(err)
			}
		}
		if run := s.Start("v1.0.0", "boot", now); run != nil {
			t.Fatalf("after %d crashes %+v runs", release.MaxCrashes, run)
		}
		if err := f.Change(to(s)); err != nil {
			t.Fatal(err)
		}
	}
	s, err := f.Load()
	if err != nil || len(s.Falls()) != 10 {
		t.Fatal(s.Falls(), err)
	}
	for _, x := range s.Falls() {
		if r, refused := s.Refuses(x.Version); !refused || !r.Fell || r.Why != "crashed 3 times" {
			t.Errorf("%s would be taken again", x.Version)
		}
		s.Allow(x.Version)
	}
	if len(s.Falls()) != 10 {
		t.Error("what a computer fell back from is allowed again")
	}
	for i := range 2 * maxRefused {
		s.Refuse(fmt.Sprintf("v2.%d.0", i), now)
	}
	if _, refused := s.Refuses(fmt.Sprintf("v2.%d.0", 2*maxRefused-1)); !refused || len(s.Refused) > maxRefused {
		t.Error(len(s.Refused))
	}
}

// TestStarts plays what may happen between two starts.
func TestStarts(t *testing.T) {
	now := time.Unix(1e9, 0)
	next := func() State {
		s := State{Next: &Program{Version: "v1.1.0", File: fileOf("v1.1.0")}}
		s.Begin("v1.0.0", now)
		return s
	}
	s := next()
	for range 5 { // the computer goes down with it each time
		if run := s.Start("v1.0.0", fmt.Sprint(rand.Int()), now); run == nil || s.Trial.Seen.Crashes != 0 {
			t.Fatalf("%+v", s.Trial)
		}
	}
	s.Ended()
	if run := s.Start("v1.0.0", "b", now); run == nil || s.Trial.Seen.Crashes != 0 {
		t.Error("an orderly end is a crash")
	}
	s.Kept(now)
	if run := s.Start("v1.0.0", "b", now); run == nil || run.Version != "v1.1.0" || s.Trial != nil {
		t.Error("what is kept does not run")
	}
	if run := s.Start("v1.2.0", "b", now); run != nil || s.Current != nil {
		t.Error("a newer installed program gives way to an older one")
	}
	s = next()
	if run := s.Start("v1.1.0", "b", now); run != nil || s.Trial != nil {
		t.Error("the same version is tried")
	}
	s = next()
	if run := s.Start("devel", "b", now); run != nil {
		t.Error("a program that was built by hand gives way")
	}
	s = State{Next: &Program{Version: "v1.1.0", File: fileOf("v1.1.0")}}
	s.Refuse("v1.1.0", now)
	if _, refused := s.Refuses("v1.1.0"); !refused || s.Next != nil {
		t.Error("a refused version waits")
	}
	s.Allow("v1.1.0")
	if _, refused := s.Refuses("v1.1.0"); refused {
		t.Error("the volunteer cannot take it back")
	}
}

// to is a change to that state.
func to(s State) func(*State) error { return func(x *State) error { *x = s; return nil } }

// TestOneRecord has two processes change the state at the same time, each with a folder of its own, as the installed program and the version that it
// watches do. No change is lost.
func TestOneRecord(t *testing.T) {
	data := t.TempDir()
	var wg sync.WaitGroup
	const each = 15
	for writer := range 2 {
		f := At(data)
		wg.Go(func() {
			for i := range each {
				if err := f.Change(func(s *State) error { s.Refuse(fmt.Sprintf("v%d.%d.0", writer+1, i), time.Now()); return nil }); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	s, err := At(data).Load()
	if err != nil || len(s.Refused) != 2*each {
		t.Errorf("%v: %d of %d changes are left", err, len(s.Refused), 2*each)
	}
	no := errors.New("no")
	if err := At(data).Change(func(s *State) error { s.Refused = nil; return no }); !errors.Is(err, no) {
		t.Error(err)
	}
	if s, err := At(data).Load(); err != nil || len(s.Refused) != 2*each {
		t.Errorf("what was not to be kept is kept: %+v %v", s, err)
	}
}

// TestBoots tells a restart of the computer from a crash, also where the computer's start is known by its time alone.
func TestBoots(t *testing.T) {
	at := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		then, now string
		crashes   int
	}{
		{"a", "a", 1}, {"a", "b", 0}, {"", "b", 1}, {"a", "", 1},
		{BootAt(at), BootAt(at.Add(20 * time.Second)), 1}, // the clock was corrected
		{BootAt(at), BootAt(at.Add(-20 * time.Second)), 1},
		{BootAt(at), BootAt(at.Add(3 * time.Minute)), 0},
		{BootAt(at), "a", 0},
	} {
		s := State{Trial: &Trial{Program: Program{Version: "v1.1.0"}, Running: true, Boot: c.then}}
		s.Start("v1.0.0", c.now, at)
		if s.Trial.Seen.Crashes != c.crashes {
			t.Errorf("started in %q, and again in %q: %d crashes", c.then, c.now, s.Trial.Seen.Crashes)
		}
	}
}
