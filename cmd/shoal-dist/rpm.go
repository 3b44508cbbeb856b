package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/google/rpmpack"
)

var rpmArch = map[string]string{"amd64": "x86_64", "arm64": "aarch64", "arm": "armv7hl"}

// rpm makes a package for distributions that use rpm.
func (d *dist) rpm(p *product, t target, exe string) error {
	list, err := p.installed(exe, "rpm")
	if err != nil {
		return err
	}
	m := rpmpack.RPMMetaData{Name: p.name, Summary: p.summary, Description: strings.ReplaceAll(p.description, "\n ", "\n"), Version: d.version.String(), Release: "1", Arch: rpmArch[t.arch], OS: "linux",
		Vendor: "Shoal", URL: "https://example.org/shoal", Packager: "The Shoal developers", Group: "Applications/Internet", Licence: "Apache-2.0", BuildHost: "shoal.invalid",
		Compressor: "gzip:9", BuildTime: d.date}
	for _, need := range p.depends["rpm"] {
		if err := m.Requires.Set(need); err != nil {
			return err
		}
	}
	if err := m.Provides.Set(fmt.Sprintf("%s = %s-1", p.name, d.version)); err != nil {
		return err
	}
	r, err := rpmpack.NewRPM(m)
	if err != nil {
		return err
	}
	for i := range list {
		b, err := list[i].bytes()
		if err != nil {
			return err
		}
		kind := rpmpack.GenericFile
		if list[i].config {
			kind = rpmpack.ConfigFile | rpmpack.NoReplaceFile
		}
		r.AddFile(rpmpack.RPMFile{Name: list[i].path, Body: b, Mode: uint(list[i].mode), Owner: "root", Group: "root", MTime: uint32(d.date.Unix()), Type: kind})
	}
	for name, add := range map[string]func(string){"rpm-post": r.AddPostin, "rpm-preun": r.AddPreun} {
		text, err := files.ReadFile("files/" + p.name + "." + name)
		if err != nil {
			return err
		}
		add(string(text))
	}
	out, err := d.create(fmt.Sprintf("%s-%s-1.%s.rpm", p.name, d.version, rpmArch[t.arch]))
	if err != nil {
		return err
	}
	return errors.Join(r.Write(out), out.Close())
}
