package signing

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"shoal/internal/release/trusted"
)

// File is a program for one system.
type File struct {
	System, Arch string // as the program itself says
	From         string // where it was found
	Bytes        []byte
}

// packed is the program as it travels.
func (f *File) packed() ([]byte, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(f.Bytes); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// archived are the packages that volunteers unpack: shoal-peer-1.2.3-linux-amd64.tar.gz.
var archived = regexp.MustCompile(`^shoal-peer-(v?\d+\.\d+\.\d+[^-]*(?:-(?:alpha|beta|rc)[.\d]*)?)-[a-z]+-[a-z0-9]+\.(?:tar\.gz|zip)$`)

// Programs finds the volunteers' programs in a folder: those in archives that `make dist` made, or the programs themselves. version is that of the
// archives' names; empty: they have none.
func Programs(dir string) (files []File, version string, err error) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil, "", err
	}
	for _, e := range list {
		if !e.Type().IsRegular() {
			continue
		}
		at := filepath.Join(dir, e.Name())
		var b []byte
		if m := archived.FindStringSubmatch(e.Name()); m != nil {
			if version != "" && m[1] != version {
				return nil, "", fmt.Errorf("%s holds packages of %s and of %s: name a folder with one release", dir, version, m[1])
			}
			version = m[1]
			b, err = unpacked(at)
		} else if strings.HasPrefix(e.Name(), "shoal-peer") && !strings.Contains(e.Name(), ".json") && (filepath.Ext(e.Name()) == ".exe" || !isPackage(e.Name())) {
			b, err = readMost(at)
		} else {
			continue
		}
		if err != nil {
			return nil, "", fmt.Errorf("%s: %w", at, err)
		}
		f := File{From: at, Bytes: b}
		if f.System, f.Arch, err = Platform(b); err != nil {
			return nil, "", fmt.Errorf("%s: %w", at, err)
		}
		for _, other := range files {
			if other.System == f.System && other.Arch == f.Arch && !bytes.Equal(other.Bytes, f.Bytes) {
				return nil, "", fmt.Errorf("%s and %s are both for %s-%s, and differ", other.From, at, f.System, f.Arch)
			}
		}
		files = append(files, f)
	}
	if len(files) == 0 {
		return nil, "", fmt.Errorf("%s holds no program shoal-peer: name the folder that `make dist` has filled", dir)
	}
	return files, version, nil
}

func isPackage(name string) bool {
	for _, end := range []string{".deb", ".rpm", ".msi", ".tar", ".gz", ".zip", ".asc", ".minisig", ".sum"} {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	return false
}

var errBig = fmt.Errorf("more than %d bytes", trusted.MaxProgram)

func most(r io.Reader) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, trusted.MaxProgram+1))
	if err == nil && len(b) > trusted.MaxProgram {
		return nil, errBig
	}
	return b, err
}

func readMost(at string) ([]byte, error) {
	f, err := os.Open(at)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return most(f)
}

var errNoProgram = errors.New("no program shoal-peer in it")

// unpacked takes the program out of an archive.
func unpacked(at string) ([]byte, error) {
	is := func(name string) bool {
		base := path.Base(name)
		return base == "shoal-peer" || base == "shoal-peer.exe"
	}
	if strings.HasSuffix(at, ".zip") {
		z, err := zip.OpenReader(at)
		if err != nil {
			return nil, err
		}
		defer z.Close()
		for _, f := range z.File {
			if is(f.Name) && f.Mode().IsRegular() {
				r, err := f.Open()
				if err != nil {
					return nil, err
				}
				defer r.Close()
				return most(r)
			}
		}
		return nil, errNoProgram
	}
	f, err := os.Open(at)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	for t := tar.NewReader(z); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil, errNoProgram
		}
		if err != nil {
			return nil, err
		}
		if is(h.Name) && h.Typeflag == tar.TypeReg {
			return most(t)
		}
	}
}

// Platform is the system and architecture that a program was built for, by what its builder wrote into it.
func Platform(program []byte) (system, arch string, err error) {
	return trusted.Platform(bytes.NewReader(program))
}

// peerProgram is what the Go tool calls the volunteers' program.
const peerProgram = "shoal/cmd/shoal-peer"

// says reports whether the volunteers' program calls itself that version, as the linker or the Go tool wrote it into it. Of what is not that program nothing
// is known. A program that calls itself otherwise is taken by no computer for what was signed: it would be fetched and started again and again.
func says(program []byte, version string) bool {
	info, err := buildinfo.Read(bytes.NewReader(program))
	if err != nil || info.Path != peerProgram || info.Main.Version == version {
		return true
	}
	stamp := append([]byte(strings.TrimPrefix(version, "v")), 0) // the linker ends it so; with a v before it, or none
	for from := 0; ; {
		i := bytes.Index(program[from:], stamp)
		if i < 0 {
			return false
		}
		if at := from + i; at == 0 || !strings.ContainsRune("0123456789.", rune(program[at-1])) {
			return true
		}
		from += i + 1
	}
}
