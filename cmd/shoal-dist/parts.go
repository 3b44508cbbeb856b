package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/jedisct1/go-minisign"
)

// parts writes NAME-VERSION.cdx.json, the program's list of parts (CycloneDX 1.6): the modules that the linker put into it on any system of the set, as the
// program files themselves say.
func (d *dist) parts(p *product, wanted []target) error {
	modules := map[string]*debug.Module{}
	goVersion := ""
	for _, t := range wanted {
		info, err := buildinfo.ReadFile(d.built(t, p.name))
		if err != nil {
			return err
		}
		goVersion = strings.TrimPrefix(info.GoVersion, "go")
		for _, m := range info.Deps {
			if m.Replace != nil && !strings.HasPrefix(m.Replace.Path, ".") {
				m = m.Replace
			}
			modules[m.Path+"@"+m.Version] = m
		}
	}
	self := cdx.Component{BOMRef: p.name, Type: cdx.ComponentTypeApplication, Name: p.name, Version: d.version.String(), Description: p.summary,
		Licenses: &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}}}
	list := []cdx.Component{{BOMRef: "go", Type: cdx.ComponentTypeFramework, Name: "Go standard library and runtime", Version: goVersion, PackageURL: "pkg:golang/std@" + goVersion}}
	refs := []string{"go"}
	for _, key := range slices.Sorted(maps.Keys(modules)) {
		m := modules[key]
		c := cdx.Component{BOMRef: key, Type: cdx.ComponentTypeLibrary, Name: m.Path, Version: m.Version, PackageURL: "pkg:golang/" + m.Path + "@" + m.Version}
		switch {
		case m.Replace != nil: // by a stand-in among our own sources
			c.Version, c.PackageURL = d.version.String(), ""
			c.Description = "stand-in of Shoal's own: " + strings.TrimPrefix(m.Replace.Path, "./")
		case m.Sum != "":
			c.Properties = &[]cdx.Property{{Name: "go.sum", Value: m.Sum}}
		}
		list = append(list, c)
		refs = append(refs, key)
	}
	serial := strings.ToLower(strings.Trim(guid("parts", p.name, d.version.String(), strings.Join(refs, " ")), "{}"))
	bom := cdx.NewBOM()
	bom.SerialNumber = "urn:uuid:" + serial
	bom.Metadata = &cdx.Metadata{Timestamp: d.date.Format(time.RFC3339), Component: &self}
	bom.Components = &list
	bom.Dependencies = &[]cdx.Dependency{{Ref: self.BOMRef, Dependencies: &refs}}
	out, err := d.create(fmt.Sprintf("%s-%s.cdx.json", p.name, d.version))
	if err != nil {
		return err
	}
	return errors.Join(cdx.NewBOMEncoder(out, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cdx.SpecVersion1_6), out.Close())
}

// seal writes SHA256SUMS, as sha256sum reads it, and its minisign signature if there is a key.
func (d *dist) seal(keyFile, password string) error {
	slices.Sort(d.made)
	var sums strings.Builder
	for _, name := range d.made {
		b, err := os.ReadFile(filepath.Join(d.out, name))
		if err != nil {
			return err
		}
		sum := sha256.Sum256(b)
		fmt.Fprintf(&sums, "%s  %s\n", hex.EncodeToString(sum[:]), name)
	}
	if err := os.WriteFile(filepath.Join(d.out, "SHA256SUMS"), []byte(sums.String()), 0o644); err != nil {
		return err
	}
	if keyFile == "" {
		fmt.Fprintln(d.log, "SHA256SUMS is not signed: name the secret key with --key (make dist KEY=FILE); minisign -G makes one")
		return nil
	}
	key, err := minisign.NewPrivateKeyFromFile(keyFile)
	if err != nil {
		return fmt.Errorf("key %s: %w", keyFile, err)
	}
	if key.IsEncrypted() {
		if password == "" {
			return fmt.Errorf("key %s: it has a password; put it into the variable SHOAL_DIST_PASSWORD", keyFile)
		}
		if err := key.Decrypt(password); err != nil {
			return fmt.Errorf("key %s: the password in SHOAL_DIST_PASSWORD does not open it: %w", keyFile, err)
		}
	}
	defer key.Wipe()
	sig, err := key.Sign([]byte(sums.String()), minisign.SignOptions{Hashed: true, UntrustedComment: "checksums of Shoal " + d.version.String(),
		TrustedComment: fmt.Sprintf("shoal %s timestamp:%d", d.version, d.date.Unix())})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(d.out, "SHA256SUMS.minisig"), sig.Encode(), 0o644)
}
