package main

import (
	"bytes"
	"crypto/md5" // what the format asks for; SHA256SUMS is what vouches for the package
	"errors"
	"fmt"
	"io"
	"strings"
)

// deb makes a Debian package (deb(5), deb-control(5)): an ar archive of the format's version, what dpkg is to know, and the files.
func (d *dist) deb(p *product, t target, exe string) error {
	arch := t.arch
	if arch == "arm" {
		arch = "armhf"
	}
	list, err := p.installed(exe, "deb")
	if err != nil {
		return err
	}
	var sums, conffiles strings.Builder
	size := 0
	for i := range list {
		f := &list[i]
		b, err := f.bytes()
		if err != nil {
			return err
		}
		size += (len(b) + 1023) / 1024
		fmt.Fprintf(&sums, "%x  %s\n", md5.Sum(b), strings.TrimPrefix(f.path, "/"))
		if f.config {
			fmt.Fprintln(&conffiles, f.path)
		}
		f.path = "." + f.path
	}
	control := []file{{path: "./control", mode: 0o644, text: []byte(d.debControl(p, arch, size))}, {path: "./md5sums", mode: 0o644, text: []byte(sums.String())},
		{path: "./conffiles", mode: 0o644, text: []byte(conffiles.String())}}
	for _, name := range []string{"postinst", "prerm", "postrm"} {
		text, err := files.ReadFile("files/" + p.name + "." + name)
		if err != nil {
			return err
		}
		control = append(control, file{path: "./" + name, mode: 0o755, text: text})
	}
	out, err := d.create(fmt.Sprintf("%s_%s_%s.deb", p.name, d.version, arch))
	if err != nil {
		return err
	}
	return errors.Join(d.writeDeb(out, control, list), out.Close())
}

func (d *dist) debControl(p *product, arch string, size int) string {
	return fmt.Sprintf(`Package: %s
Version: %s
Architecture: %s
Maintainer: The Shoal developers <shoal@example.org>
Installed-Size: %d
Depends: %s
Section: net
Priority: optional
Homepage: https://example.org/shoal
Description: %s
 %s
`, p.name, d.version, arch, size, strings.Join(p.depends["deb"], ", "), p.summary, p.description)
}

// writeDeb writes the three members.
func (d *dist) writeDeb(out io.Writer, control, data []file) error {
	if _, err := io.WriteString(out, "!<arch>\n"); err != nil {
		return err
	}
	if err := d.member(out, "debian-binary", []byte("2.0\n")); err != nil {
		return err
	}
	for _, m := range []struct {
		name string
		list []file
	}{{"control.tar.gz", control}, {"data.tar.gz", data}} {
		var plain bytes.Buffer
		if err := tarTo(&plain, m.list, d.date); err != nil {
			return err
		}
		packed, err := gzipped(plain.Bytes())
		if err != nil {
			return err
		}
		if err := d.member(out, m.name, packed); err != nil {
			return err
		}
	}
	return nil
}

// member writes one member of an ar archive, padded to an even length.
func (d *dist) member(out io.Writer, name string, b []byte) error {
	if _, err := fmt.Fprintf(out, "%-16s%-12d%-6d%-6d%-8s%-10d`\n", name, d.date.Unix(), 0, 0, "100644", len(b)); err != nil {
		return err
	}
	if len(b)%2 == 1 {
		b = append(b[:len(b):len(b)], '\n')
	}
	_, err := out.Write(b)
	return err
}
