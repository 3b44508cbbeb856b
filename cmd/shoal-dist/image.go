package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// imageUser is the account of the image's program: no account of the host's.
const imageUser = 65532

// image makes NAME-VERSION-oci.tar: one image for all Linux systems of the set, in the layout of the OCI, which podman load and the newer image store of Docker read.
// Beside it lies the list that Docker's older store wants: that store knows no images of several systems, so each has a name of its own there.
func (d *dist) image(p *product, wanted []target) error {
	var index v1.ImageIndex = mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	tag := strings.ReplaceAll(d.version.String(), "+", "-")
	name := "shoal.invalid/" + p.name + ":" + tag
	var older []dockerImage
	for _, t := range wanted {
		if t.os != "linux" {
			continue
		}
		img, err := d.imageOf(p, t)
		if err != nil {
			return err
		}
		platform := &v1.Platform{OS: t.os, Architecture: t.arch}
		if t.arch == "arm" {
			platform.Variant = "v7"
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: platform}})
		of, err := listed(img, name+"-"+t.arch)
		if err != nil {
			return err
		}
		older = append(older, of)
	}
	if len(older) == 0 {
		return nil
	}
	// Docker and podman take the name of what they load from the outer index.
	outer := mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), mutate.IndexAddendum{Add: index,
		Descriptor: v1.Descriptor{Annotations: map[string]string{"org.opencontainers.image.ref.name": tag, "io.containerd.image.name": name}}})
	dir := filepath.Join(d.work, "oci", p.name)
	if _, err := layout.Write(dir, outer); err != nil {
		return err
	}
	list, err := json.Marshal(older)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "manifest.json"), list, 0o644); err != nil {
		return err
	}
	return d.tarFolder(dir, fmt.Sprintf("%s-%s-oci.tar", p.name, d.version))
}

// dockerImage is an entry of manifest.json, as docker save writes it: files of the archive that an image is made of.
type dockerImage struct {
	Config   string
	RepoTags []string
	Layers   []string
}

// listed is the entry of an image of the layout.
func listed(img v1.Image, name string) (dockerImage, error) {
	blob := func(of v1.Hash) string { return path.Join("blobs", of.Algorithm, of.Hex) }
	config, err := img.ConfigName()
	if err != nil {
		return dockerImage{}, err
	}
	layers, err := img.Layers()
	if err != nil {
		return dockerImage{}, err
	}
	out := dockerImage{Config: blob(config), RepoTags: []string{name}}
	for _, l := range layers {
		digest, err := l.Digest()
		if err != nil {
			return dockerImage{}, err
		}
		out.Layers = append(out.Layers, blob(digest))
	}
	return out, nil
}

// imageOf is the image for one system: the program, the roots that it trusts, time zones for its schedules, and a folder for its data.
func (d *dist) imageOf(p *product, t target) (v1.Image, error) {
	zones, err := zoneinfo()
	if err != nil {
		return nil, err
	}
	list := []file{{path: "usr/bin/" + p.name, mode: 0o755, from: d.built(t, p.name)}, {path: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, text: roots()},
		{path: "usr/share/zoneinfo.zip", mode: 0o644, from: zones}, {path: "usr/lib/" + p.name + "/packaged", mode: 0o644, text: []byte("image\n")},
		{path: "usr/share/licenses/" + p.name + "/LICENSE", mode: 0o644, from: source("LICENSE")}}
	var layer bytes.Buffer
	if err := tarTo(&layer, list, d.date); err != nil {
		return nil, err
	}
	var own bytes.Buffer
	w := tar.NewWriter(&own)
	for _, dir := range []tar.Header{{Name: "tmp/", Mode: 0o1777}, {Name: strings.TrimPrefix(p.state, "/") + "/", Mode: 0o700, Uid: imageUser, Gid: imageUser}} {
		dir.Typeflag, dir.ModTime, dir.Format = tar.TypeDir, d.date, tar.FormatUSTAR
		if err := w.WriteHeader(&dir); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for _, b := range [][]byte{layer.Bytes(), own.Bytes()} {
		l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }, tarball.WithMediaType(types.OCILayer))
		if err != nil {
			return nil, err
		}
		if img, err = mutate.Append(img, mutate.Addendum{Layer: l, History: v1.History{Created: v1.Time{Time: d.date}, CreatedBy: "shoal-dist"}}); err != nil {
			return nil, err
		}
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = t.os, t.arch, v1.Time{Time: d.date}
	if t.arch == "arm" {
		config.Variant = "v7"
	}
	config.Config = v1.Config{User: fmt.Sprint(imageUser), Entrypoint: []string{"/usr/bin/" + p.name}, Cmd: p.command, WorkingDir: p.state, Volumes: map[string]struct{}{p.state: {}},
		Env:    []string{"HOME=" + p.state, "PATH=/usr/bin", "ZONEINFO=/usr/share/zoneinfo.zip"},
		Labels: map[string]string{"org.opencontainers.image.title": p.name, "org.opencontainers.image.description": p.summary, "org.opencontainers.image.version": d.version.String(), "org.opencontainers.image.licenses": "Apache-2.0"}}
	return mutate.ConfigFile(img, config)
}

// tarFolder packs a folder by name.
func (d *dist) tarFolder(dir, name string) error {
	var list []file
	err := filepath.WalkDir(dir, func(at string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, at)
		list = append(list, file{path: path.Clean(filepath.ToSlash(rel)), mode: 0o644, from: at})
		return err
	})
	if err != nil {
		return err
	}
	out, err := d.create(name)
	if err != nil {
		return err
	}
	return errors.Join(tarTo(out, list, d.date), out.Close())
}

// roots are the certificates that Mozilla trusts, as the Go project publishes them.
func roots() []byte {
	var out bytes.Buffer
	for r := range bundle.Roots() {
		_ = pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: r.Certificate}) // a buffer takes all
	}
	return out.Bytes()
}

// zoneinfo is the file of time zones that comes with Go.
func zoneinfo() (string, error) {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOROOT: %w", err)
	}
	file := filepath.Join(strings.TrimSpace(string(out)), "lib", "time", "zoneinfo.zip")
	_, err = os.Stat(file)
	return file, err
}
