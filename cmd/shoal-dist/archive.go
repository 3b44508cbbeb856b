package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"errors"
	"io"
	"path"
	"strings"
	"time"
)

// tar makes NAME-VERSION-SYSTEM.tar.gz, with everything in one folder of that name.
func (d *dist) tar(p *product, t target, exe string) error {
	out, err := d.create(d.stem(p, t) + ".tar.gz")
	if err != nil {
		return err
	}
	z, err := gzip.NewWriterLevel(out, gzip.BestCompression)
	if err != nil {
		return err
	}
	list := p.unpacked(t, exe)
	for i := range list {
		list[i].path = path.Join(d.stem(p, t), list[i].path)
	}
	return errors.Join(tarTo(z, list, d.date), z.Close(), out.Close())
}

// tarTo writes files as an archive whose bytes depend on them and the date alone. Their folders come first, once each.
func tarTo(w io.Writer, list []file, date time.Time) error {
	t := tar.NewWriter(w)
	seen := map[string]bool{".": true}
	for i := range list {
		f := &list[i]
		var above []string
		before, name, dotted := strings.Cut(f.path, "./") // as deb has it
		if !dotted || before != "" {
			name = f.path
		}
		for dir := path.Dir(name); !seen[dir]; dir = path.Dir(dir) {
			seen[dir] = true
			above = append([]string{strings.TrimSuffix(f.path, name) + dir}, above...)
		}
		for _, dir := range above {
			if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755, ModTime: date, Format: tar.FormatUSTAR}); err != nil {
				return err
			}
		}
		b, err := f.bytes()
		if err != nil {
			return err
		}
		if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f.path, Mode: int64(f.mode), Size: int64(len(b)), ModTime: date, Format: tar.FormatUSTAR}); err != nil {
			return err
		}
		if _, err := t.Write(b); err != nil {
			return err
		}
	}
	return t.Close()
}

// zip makes NAME-VERSION-SYSTEM.zip.
func (d *dist) zip(p *product, t target, exe string) error {
	out, err := d.create(d.stem(p, t) + ".zip")
	if err != nil {
		return err
	}
	z := zip.NewWriter(out)
	z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, flate.BestCompression) })
	for _, f := range p.unpacked(t, exe) {
		b, err := f.bytes()
		if err != nil {
			return err
		}
		h := &zip.FileHeader{Name: path.Join(d.stem(p, t), f.path), Method: zip.Deflate, Modified: d.date}
		h.SetMode(f.mode)
		w, err := z.CreateHeader(h)
		if err != nil {
			return err
		}
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	return errors.Join(z.Close(), out.Close())
}

// gzipped compresses a text without a date or a name.
func gzipped(b []byte) ([]byte, error) {
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(b); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
