package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"
)

// target is a system that packages are made for.
type target struct{ os, arch string } // as Go names them; arm is ARMv7

var targets = []target{{"linux", "amd64"}, {"linux", "arm64"}, {"linux", "arm"}, {"darwin", "amd64"}, {"darwin", "arm64"}, {"windows", "amd64"}, {"windows", "arm64"}}

func (t target) name() string { return t.os + "/" + t.arch }

// label is the target in names of files.
func (t target) label() string {
	system, arch := t.os, t.arch
	if system == "darwin" {
		system = "macos"
	}
	if arch == "arm" {
		arch = "armv7"
	}
	return system + "-" + arch
}

func (t target) exe(program string) string {
	if t.os == "windows" {
		return program + ".exe"
	}
	return program
}

// version is a version in the forms that packages want.
type version struct {
	stamp string // what the program says of itself
	base  string // three numbers
	more  string // what came after the release: letters, digits and dots; empty for a release
}

var described = regexp.MustCompile(`^v?(\d+\.\d+\.\d+)(?:-(\d+)-(g[0-9a-f]+))?(-dirty)?$|^([0-9a-f]{7,40})(-dirty)?$|^devel$`)

// parseVersion reads what git describe prints. A commit without a release before it counts as after 0.0.0.
func parseVersion(text string) (version, error) {
	m := described.FindStringSubmatch(text)
	if m == nil {
		return version{}, fmt.Errorf("%q is no version; want what git describe --tags --always --dirty prints, such as v1.2.3", text)
	}
	v := version{stamp: text, base: m[1]}
	if v.base != "" && !strings.HasPrefix(text, "v") { // as releases are signed: peers compare the two
		v.stamp = "v" + text
	}
	var more []string
	if m[2] != "" {
		more = append(more, m[2], m[3])
	}
	if v.base == "" {
		v.base = "0.0.0"
		more = append(more, "git", m[5])
	}
	if m[4]+m[6] != "" {
		more = append(more, "dirty")
	}
	v.more = strings.Trim(strings.Join(more, "."), ".")
	return v, nil
}

// String is the version in names of files and in deb and rpm, which count 1.2.3+4 as later than 1.2.3.
func (v version) String() string {
	if v.more == "" {
		return v.base
	}
	return v.base + "+" + v.more
}

// dist makes one set of packages.
type dist struct {
	version version
	date    time.Time
	out     string // folder of the packages
	work    string // scratch
	log     io.Writer
	msi     bool

	programs string   // folder of programs that are built already
	made     []string // names of files in out
}

// here is the system that this program runs on.
var here = target{runtime.GOOS, runtime.GOARCH}

// all builds and packs. The programs' manual pages and completions come from a program that runs here.
func (d *dist) all(ctx context.Context, wanted []target, list []product) error {
	if err := d.compile(ctx, here, list); err != nil {
		return err
	}
	for i := range list {
		if err := d.describe(ctx, &list[i], d.built(here, list[i].name)); err != nil {
			return err
		}
	}
	for _, t := range wanted {
		if t != here {
			if err := d.compile(ctx, t, list); err != nil {
				return err
			}
		}
		for i := range list {
			if err := d.pack(ctx, &list[i], t, d.built(t, list[i].name)); err != nil {
				return fmt.Errorf("%s for %s: %w", list[i].name, t.name(), err)
			}
		}
	}
	for i := range list {
		if err := d.image(&list[i], wanted); err != nil {
			return fmt.Errorf("image of %s: %w", list[i].name, err)
		}
		if err := d.parts(&list[i], wanted); err != nil {
			return fmt.Errorf("parts of %s: %w", list[i].name, err)
		}
	}
	return nil
}

func (d *dist) built(t target, program string) string {
	if d.programs != "" {
		return filepath.Join(d.programs, t.exe(program))
	}
	return filepath.Join(d.work, t.label(), t.exe(program))
}

// compile builds the programs for a target.
func (d *dist) compile(ctx context.Context, t target, list []product) error {
	if d.programs != "" {
		return nil
	}
	began := time.Now()
	args := []string{"build", "-trimpath", "-buildvcs=false", "-tags", "minimal", "-ldflags",
		"-s -w -funcalign=16 -X shoal/internal/version.stamp=" + d.version.stamp, "-o", filepath.Join(d.work, t.label()) + string(filepath.Separator)}
	for _, p := range list {
		args = append(args, "shoal/cmd/"+p.name)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+t.os, "GOARCH="+t.arch, "GOARM=7", "GOAMD64=v1", "GOARM64=v8.0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build for %s: %w\n%s", t.name(), err, out)
	}
	fmt.Fprintf(d.log, "built %s in %.0f s\n", t.name(), time.Since(began).Seconds())
	return nil
}

// describe asks a program that runs here for its manual page and completions. A home of "~" stands in help texts for the reader's.
func (d *dist) describe(ctx context.Context, p *product, exe string) error {
	p.texts = map[string][]byte{}
	for name, args := range map[string][]string{"man": {"man"}, "bash": {"completion", "bash"}, "zsh": {"completion", "zsh"}, "fish": {"completion", "fish"}} {
		cmd := exec.CommandContext(ctx, exe, args...)
		cmd.Env = []string{"HOME=~"}
		out, err := cmd.Output()
		if err != nil {
			return fmt.Errorf("%s %s: %w", p.name, strings.Join(args, " "), err)
		}
		p.texts[name] = out
	}
	return nil
}

// pack makes the packages of one program for one system.
func (d *dist) pack(ctx context.Context, p *product, t target, exe string) error {
	if t.os == "windows" {
		if err := d.zip(p, t, exe); err != nil || !d.msi {
			return err
		}
		return d.installer(ctx, p, t, exe)
	}
	if err := d.tar(p, t, exe); err != nil || t.os != "linux" {
		return err
	}
	if err := d.deb(p, t, exe); err != nil {
		return err
	}
	return d.rpm(p, t, exe)
}

// create makes a file of the set.
func (d *dist) create(name string) (*os.File, error) {
	d.made = append(d.made, name)
	fmt.Fprintf(d.log, "  %s\n", name)
	return os.Create(filepath.Join(d.out, name))
}

// stem is how the names of a program's archives begin.
func (d *dist) stem(p *product, t target) string {
	return p.name + "-" + d.version.String() + "-" + t.label()
}
