package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/xml"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"shoal/internal/service"
)

// haveMSI says what is missing to make MSI packages.
func haveMSI() error {
	for _, tool := range []string{"wixl", "msibuild"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("%s, which makes MSI packages, is not installed (Debian: apt-get install wixl msitools); install it, or leave the MSI packages out with --no-msi", tool)
		}
	}
	return nil
}

// installer makes NAME-VERSION-windows-ARCH.msi for the whole computer. It puts the program on the path; the peer's has it run as a service too.
func (d *dist) installer(ctx context.Context, p *product, t target, exe string) error {
	stage := filepath.Join(d.work, "msi", p.name, t.label())
	list := p.unpacked(t, exe)
	for i := range list {
		b, err := list[i].bytes()
		if err != nil {
			return err
		}
		to, err := staged(stage, list[i].path, b, list[i].mode)
		if err != nil {
			return err
		}
		if err := os.Chtimes(to, d.date, d.date); err != nil { // the cabinet keeps it
			return err
		}
	}
	wxs, err := staged(stage, "package.wxs", []byte(d.wxs(p, t, list)), 0o644)
	if err != nil {
		return err
	}
	name := d.stem(p, t) + ".msi"
	msi := filepath.Join(stage, "package.msi")
	if err := tool(ctx, stage, "wixl", "-a", "x64", "-o", msi, wxs); err != nil { // wixl knows no arm64: the mark is set below
		return err
	}
	tables := d.tables(p)
	for _, table := range slices.Sorted(maps.Keys(tables)) {
		idt, err := staged(stage, table+".idt", []byte(strings.ReplaceAll(tables[table], "\n", "\r\n")), 0o644)
		if err != nil {
			return err
		}
		if err := tool(ctx, stage, "msibuild", msi, "-i", idt); err != nil {
			return err
		}
	}
	for _, action := range sequence {
		if err := tool(ctx, stage, "msibuild", msi, "-q", "INSERT INTO `InstallExecuteSequence` (`Action`, `Sequence`) VALUES "+action); err != nil {
			return err
		}
	}
	b, err := os.ReadFile(msi)
	if err != nil {
		return err
	}
	platform := map[string]string{"amd64": "x64", "arm64": "Arm64"}[t.arch]
	sum := sha256.New()
	for i := range list {
		part, err := list[i].bytes()
		if err != nil {
			return err
		}
		sum.Write(part)
	}
	if err := stampSummary(b, platform+";1033", guid("package", d.stem(p, t), string(sum.Sum(nil))), d.date); err != nil {
		return err
	}
	out, err := d.create(name)
	if err != nil {
		return err
	}
	_, err = out.Write(b)
	return errors.Join(err, out.Close())
}

// staged writes a text below a scratch folder and returns where.
func staged(stage, name string, text []byte, mode os.FileMode) (string, error) {
	to := filepath.Join(stage, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return "", err
	}
	return to, os.WriteFile(to, text, mode)
}

// tool runs a program that makes no two equal files in two time zones, in one.
func tool(ctx context.Context, dir, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "TZ=UTC", "LC_ALL=C.UTF-8")
	out, err := cmd.CombinedOutput()
	if errors.Is(err, fs.ErrNotExist) {
		return haveMSI()
	}
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, out)
	}
	return nil
}

// guid derives an identifier from words, so that the same package always has the same.
func guid(words ...string) string {
	h := sha256.Sum256([]byte("shoal\x00" + strings.Join(words, "\x00")))
	h[6], h[8] = h[6]&0x0f|0x80, h[8]&0x3f|0x80 // RFC 9562: of its own kind
	return strings.ToUpper(fmt.Sprintf("{%x-%x-%x-%x-%x}", h[0:4], h[4:6], h[6:8], h[8:10], h[10:16]))
}

func attribute(s string) string {
	var b bytes.Buffer
	_ = xml.EscapeText(&b, []byte(s)) // a buffer takes all
	return b.String()
}

// wxs describes the package to wixl.
func (d *dist) wxs(p *product, t target, list []file) string {
	var parts, refs strings.Builder
	for i, f := range list {
		extra := ""
		if i == 0 && p.runs {
			extra = fmt.Sprintf(`
<ServiceInstall Id="service" Name="%[1]s" DisplayName="Shoal peer" Description="Crawls the Web for the search company that this computer is lent to." Type="ownProcess" Start="auto" ErrorControl="normal" Account="NT SERVICE\%[1]s" Arguments="%[2]s"/>
<ServiceControl Id="control" Name="%[1]s" Start="install" Stop="both" Remove="uninstall" Wait="yes"/>`, p.name, strings.Join(append(p.command[:len(p.command):len(p.command)], service.WindowsFlag), " "))
		}
		fmt.Fprintf(&parts, `<Component Id="c%d" Guid="%s" Win64="yes"><File Id="f%d" Name="%s" Source="%s" KeyPath="yes"/>%s</Component>
`, i, guid("component", p.name, f.path), i, attribute(f.path), attribute(f.path), extra)
		fmt.Fprintf(&refs, `<ComponentRef Id="c%d"/>`, i)
	}
	return fmt.Sprintf(`<?xml version="1.0" encoding="utf-8"?>
<Wix xmlns="http://schemas.microsoft.com/wix/2006/wi">
<Product Id="%[1]s" Name="%[2]s" Version="%[3]s" Manufacturer="Shoal" Language="1033" UpgradeCode="%[4]s">
<Package InstallerVersion="500" Compressed="yes" InstallScope="perMachine" Description="%[5]s"/>
<MajorUpgrade AllowSameVersionUpgrades="yes" DowngradeErrorMessage="A newer version of %[2]s is installed already. Remove it first if you want this one."/>
<Media Id="1" Cabinet="files.cab" EmbedCab="yes"/>
<Directory Id="TARGETDIR" Name="SourceDir"><Directory Id="ProgramFiles64Folder"><Directory Id="INSTALLDIR" Name="%[2]s">
%[6]s</Directory></Directory></Directory>
<Feature Id="all" Level="1">%[7]s</Feature>
</Product></Wix>
`, guid("product", d.stem(p, t)), map[string]string{"shoal-peer": "Shoal peer", "shoal": "Shoal"}[p.name], d.version.base, p.upgrade, attribute(p.summary), parts.String(), refs.String())
}

// sequence has the actions that carry out the tables below, at the places that Windows Installer suggests.
var sequence = []string{"('RemoveEnvironmentStrings', 3300)", "('WriteEnvironmentStrings', 5200)", "('MsiConfigureServices', 5850)"}

// tables are what wixl cannot write: the program's folder on the path, and that the service is started again a second after each crash; the program
// itself waits longer each time.
func (d *dist) tables(p *product) map[string]string {
	out := map[string]string{"Environment": "Environment\tName\tValue\tComponent_\ns72\tl255\tL255\ts72\nEnvironment\tEnvironment\npath\t=-*PATH\t[~];[INSTALLDIR]\tc0\n"}
	if p.runs {
		out["MsiServiceConfigFailureActions"] = "MsiServiceConfigFailureActions\tName\tEvent\tResetPeriod\tRebootMessage\tCommand\tActions\tDelayActions\tComponent_\n" +
			"s72\ts255\ti2\tI4\tL255\tL255\tS255\tS255\ts72\nMsiServiceConfigFailureActions\tMsiServiceConfigFailureActions\n" +
			"restart\t" + p.name + "\t5\t86400\t\t\t1[~]1[~]1\t1000[~]1000[~]1000\tc0\n"
	}
	return out
}
