package programs

import (
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"shoal/internal/release"
	"shoal/internal/release/trusted"
)

// disk is what the folder needs of a file system. Tests cut its power.
type disk interface {
	Create(name string) (file, error) // or empties it
	Append(name string) (file, error)
	Rename(from, to string) error
	Remove(name string) error
	SyncDir(dir string) error
}

type file interface {
	io.WriteCloser
	Sync() error
}

// Folder holds programs and the state.
type Folder struct {
	Dir  string
	disk disk
}

// At returns the folder of programs in a peer's folder. Nothing is made before it is needed.
func At(data string) Folder { return Folder{filepath.Join(data, "programs"), system{}} }

func (f Folder) path(name string) string { return filepath.Join(f.Dir, name) }

const stateFile = "state"

// maxState bounds the file of the state.
const maxState = 256 << 10

// Load reads the state. What is missing or damaged has the installed program run: no volunteer should have to mend it.
func (f Folder) Load() (State, error) {
	b, err := os.ReadFile(f.path(stateFile))
	if errors.Is(err, fs.ErrNotExist) {
		return State{}, nil
	}
	if err != nil {
		return State{}, fmt.Errorf("programs: %w", err)
	}
	var s State
	if len(b) > maxState || json.Unmarshal(b, &s) != nil || !s.whole() {
		return State{Last: "the record of updates was damaged; the installed program runs"}, nil
	}
	return s, nil
}

// whole refuses a state that names files elsewhere.
func (s *State) whole() bool {
	list := []*Program{s.Current, s.Next}
	if s.Trial != nil {
		list = append(list, &s.Trial.Program)
	}
	for _, p := range list {
		if p == nil {
			continue
		}
		if _, err := release.Parse(p.Version); err != nil || p.File != fileOf(p.Version) {
			return false
		}
	}
	return true
}

// save makes the state durable.
func (f Folder) save(s State) error {
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	if err := f.write(stateFile, func(w io.Writer) error { _, err := w.Write(append(b, '\n')); return err }); err != nil {
		return fmt.Errorf("programs: the record of updates cannot be written: %w", err)
	}
	return nil
}

const lockFile = "lock"

// Change reads the state, has it changed, and makes it durable. An error of do keeps the old one. The installed program and the version that it watches change
// the same state, each in a process of its own: one waits for the other.
func (f Folder) Change(do func(*State) error) error {
	if err := os.MkdirAll(f.Dir, 0o700); err != nil {
		return fmt.Errorf("programs: %w", err)
	}
	lock, err := os.OpenFile(f.path(lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("programs: the record of updates cannot be locked: %w", err)
	}
	defer lock.Close() // which ends the lock
	if err := flock(lock); err != nil {
		return fmt.Errorf("programs: the record of updates cannot be locked: %w", err)
	}
	s, err := f.Load()
	if err != nil {
		return err
	}
	if err := do(&s); err != nil {
		return err
	}
	return f.save(s)
}

// write replaces a file: after a power cut the old one or the new one is there.
func (f Folder) write(name string, fill func(io.Writer) error) (err error) {
	to := f.path(name)
	w, err := f.disk.Create(to + ".new")
	if err != nil {
		return err
	}
	if err = fill(w); err == nil {
		err = w.Sync()
	}
	if err = errors.Join(err, w.Close()); err != nil {
		return errors.Join(err, ignoreAbsent(f.disk.Remove(to+".new")))
	}
	if err := f.disk.Rename(to+".new", to); err != nil {
		return err
	}
	return f.disk.SyncDir(f.Dir)
}

func ignoreAbsent(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// fileOf is the file of a version. On Windows programs end in .exe.
func fileOf(version string) string {
	if runtime.GOOS == "windows" {
		return "shoal-peer-" + version + ".exe"
	}
	return "shoal-peer-" + version
}

// Path is where a program lies.
func (f Folder) Path(p *Program) string { return f.path(p.File) }

// Verify reads a program again: a disk forgets, and other programs write.
func (f Folder) Verify(p *Program) error {
	r, err := os.Open(f.Path(p))
	if err != nil {
		return fmt.Errorf("programs: %w", err)
	}
	defer r.Close()
	h := sha256.New()
	if _, err := io.Copy(h, r); err != nil {
		return fmt.Errorf("programs: %w", err)
	}
	if hex.EncodeToString(h.Sum(nil)) != p.Sum {
		return fmt.Errorf("programs: %w: %s on the disk differs from what was signed", trusted.ErrForged, p.File)
	}
	return nil
}

// partOf is the file of a download that goes on. It names what is signed, so that a download of something else begins anew.
func partOf(p *trusted.Program) string {
	return fmt.Sprintf("%s-%x.part", p.Version, p.SHA256[:6])
}

// Have is how much of a program is downloaded.
func (f Folder) Have(p *trusted.Program) int64 {
	info, err := os.Stat(f.path(partOf(p)))
	if err != nil || info.Size() > p.Length {
		return 0
	}
	return info.Size()
}

// Put adds to a download.
func (f Folder) Put(p *trusted.Program, have int64, b []byte) error {
	if err := os.MkdirAll(f.Dir, 0o700); err != nil {
		return fmt.Errorf("programs: %w", err)
	}
	open := f.disk.Append
	if have == 0 {
		open = f.disk.Create
	}
	w, err := open(f.path(partOf(p)))
	if err != nil {
		return fmt.Errorf("programs: %w", err)
	}
	_, err = w.Write(b)
	if err = errors.Join(err, w.Close()); err != nil {
		return fmt.Errorf("programs: the download cannot be stored: %w", err)
	}
	return nil
}

// Reasons for refusing a program that came whole.
var (
	// ErrPlatform says that the program is for another system.
	ErrPlatform = errors.New("programs: the program is for another system")
)

// Finish checks a download, unpacks it, and checks what came out: it is what was signed, and runs on this system.
func (f Folder) Finish(p *trusted.Program, system, arch string) (*Program, error) {
	part := f.path(partOf(p))
	if err := f.checkPart(part, p); err != nil {
		if errors.Is(err, trusted.ErrForged) {
			err = errors.Join(err, ignoreAbsent(f.disk.Remove(part)))
		}
		return nil, err
	}
	out := &Program{Version: p.Version, File: fileOf(p.Version), Sum: p.Sum, Notes: p.Notes}
	err := f.write(out.File, func(w io.Writer) error { return unpack(part, w, p) })
	if err != nil {
		return nil, fmt.Errorf("programs: %s cannot be stored: %w", out.File, err)
	}
	if err := f.Verify(out); err != nil {
		return nil, err
	}
	if err := f.runsOn(out, system, arch); err != nil {
		return nil, errors.Join(err, ignoreAbsent(f.disk.Remove(f.Path(out))), ignoreAbsent(f.disk.Remove(part)))
	}
	return out, ignoreAbsent(f.disk.Remove(part))
}

func (f Folder) checkPart(part string, p *trusted.Program) error {
	r, err := os.Open(part)
	if err != nil {
		return fmt.Errorf("programs: %w", err)
	}
	defer r.Close()
	h := sha256.New()
	n, err := io.Copy(h, r)
	if err != nil {
		return fmt.Errorf("programs: %w", err)
	}
	if n != p.Length || [32]byte(h.Sum(nil)) != p.SHA256 {
		return fmt.Errorf("programs: %w: the download of %s differs from what was signed; it begins anew", trusted.ErrForged, p.Version)
	}
	return nil
}

func unpack(part string, w io.Writer, p *trusted.Program) error {
	r, err := os.Open(part)
	if err != nil {
		return err
	}
	defer r.Close()
	z, err := gzip.NewReader(r)
	if err != nil {
		return err
	}
	b := bufio.NewWriterSize(w, 1<<20)
	if _, err := io.Copy(b, io.LimitReader(z, min(p.Size, trusted.MaxProgram)+1)); err != nil { // Verify finds what is longer
		return err
	}
	return b.Flush()
}

// runsOn refuses a program that was built for another system, however well it is signed.
func (f Folder) runsOn(p *Program, system, arch string) error {
	r, err := os.Open(f.Path(p))
	if err != nil {
		return fmt.Errorf("programs: %w", err)
	}
	defer r.Close()
	s, a, err := trusted.Platform(r)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrPlatform, err)
	}
	if s != system || a != arch {
		return fmt.Errorf("%w: it is for %s-%s, and this is %s-%s", ErrPlatform, s, a, system, arch)
	}
	return nil
}

// Tidy removes what the state does not need. A program that runs cannot be removed on Windows; it goes another time.
func (f Folder) Tidy(s *State, keep *trusted.Program) {
	need := []string{stateFile, signsFile}
	for _, p := range []*Program{s.Current, s.Next} {
		if p != nil {
			need = append(need, p.File)
		}
	}
	if s.Trial != nil {
		need = append(need, s.Trial.File)
	}
	if keep != nil {
		need = append(need, partOf(keep))
	}
	list, err := os.ReadDir(f.Dir)
	if err != nil {
		return
	}
	for _, e := range list {
		if !slices.Contains(need, e.Name()) && (strings.HasPrefix(e.Name(), "shoal-peer-") || strings.HasSuffix(e.Name(), ".part") || strings.HasSuffix(e.Name(), ".new")) {
			_ = f.disk.Remove(f.path(e.Name()))
		}
	}
}

// signsFile is where a program on trial tells how it does.
const signsFile = "signs"

// Signs are what a program on trial tells of itself.
type Signs struct {
	Version string `json:"version"`
	release.Sign
}

// Tell has the program on trial tell how it does.
func (f Folder) Tell(s Signs) error {
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	name := f.path(signsFile)
	if err := os.WriteFile(name+".new", b, 0o600); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

// Told is what the program on trial has told; nothing where it is silent.
func (f Folder) Told(version string) (s Signs) {
	b, err := os.ReadFile(f.path(signsFile))
	if err != nil || len(b) > maxState || json.Unmarshal(b, &s) != nil || s.Version != version {
		return Signs{}
	}
	return s
}

// Silence forgets what an earlier program told.
func (f Folder) Silence() error { return ignoreAbsent(os.Remove(f.path(signsFile))) }
