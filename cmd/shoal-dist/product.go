package main

import (
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"shoal/internal/service"
)

//go:embed files
var files embed.FS

// product is a program with what its packages say and bring.
type product struct {
	name, summary, description string
	unit                       string // name of its systemd unit
	unitText                   func() (string, error)
	env                        string // its variables: a file that administrators edit
	guide                      string // its page among the docs
	depends                    map[string][]string
	upgrade                    string // MSI: what ties its versions together; never changes
	runs                       bool   // its packages have it run by itself
	command                    []string
	state                      string // folder of its data in the image

	texts map[string][]byte // man, bash, zsh, fish
}

func products() []product {
	return []product{
		{name: "shoal-peer", summary: "lends this computer to a search company that crawls the Web",
			description: "The volunteer's program of Shoal, a network that keeps a copy of the Web fresh. It\n fetches public pages near you, politely and unnoticed, within limits that you\n and your network's admin set.",
			unit:        "shoal-peer.service", unitText: peerUnit, env: "peer.env", guide: "docs/volunteer.md",
			depends: map[string][]string{"deb": {"passwd", "init-system-helpers (>= 1.51)"}, "rpm": {"/usr/sbin/useradd", "/usr/bin/getent"}}, runs: true,
			upgrade: "8C7A6C0E-6C0B-4B52-9D0F-0D6B1D5B7A01", command: []string{"service", "run"}, state: "/var/lib/shoal-peer"},
		{name: "shoal", summary: "manager and archive of a crawling network of volunteers",
			description: "The search company's program of Shoal: manager, archive and their\n pages. It hands crawls to volunteers' computers near each site and keeps what\n they fetch.",
			unit:        "shoal-manager.service", unitText: managerUnit, env: "manager.env", guide: "docs/operator.md",
			depends: map[string][]string{"deb": {"init-system-helpers (>= 1.51)"}},
			upgrade: "8C7A6C0E-6C0B-4B52-9D0F-0D6B1D5B7A02", command: []string{"manager", "--data", "/var/lib/shoal"}, state: "/var/lib/shoal"},
	}
}

// peerUnit is what `shoal-peer --system service install` writes, for a program in /usr/bin.
func peerUnit() (string, error) {
	const data = "/var/lib/shoal-peer"
	s := service.Spec{Exec: "/usr/bin/shoal-peer", Args: []string{"service", "run"}, System: true, User: "shoal-peer", Data: data,
		Env: []string{"SHOAL_PEER_CONFIG=" + data + "/peer.toml", "SHOAL_PEER_DATA=" + data}}
	return service.Unit(&s), s.Validate()
}

// managerUnit is the one in deploy/, for a program in /usr/bin. How to install it by hand is left out.
func managerUnit() (string, error) {
	b, err := os.ReadFile(source("deploy/shoal-manager.service"))
	if err != nil {
		return "", err
	}
	_, text, ok := strings.Cut(string(b), "[Unit]\n")
	if !ok || !strings.Contains(text, "ExecStart=/usr/local/bin/shoal ") {
		return "", fmt.Errorf("deploy/shoal-manager.service has no [Unit] that runs /usr/local/bin/shoal")
	}
	return "[Unit]\n" + strings.Replace(text, "/usr/local/bin/", "/usr/bin/", 1), nil
}

// root is the folder of the sources: that of go.mod, above the working folder.
var root = func() string {
	dir, err := os.Getwd()
	for err == nil && dir != filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		dir = filepath.Dir(dir)
	}
	return "."
}()

func source(path string) string { return filepath.Join(root, filepath.FromSlash(path)) }

// file is one file of a package.
type file struct {
	path   string // in the package
	mode   os.FileMode
	text   []byte
	from   string // or a file here
	config bool   // administrators edit it
}

func (f *file) bytes() ([]byte, error) {
	if f.from != "" {
		return os.ReadFile(f.from)
	}
	return f.text, nil
}

// unpacked are the files of an archive that is unpacked anywhere.
func (p *product) unpacked(t target, exe string) []file {
	list := []file{{path: t.exe(p.name), mode: 0o755, from: exe}, {path: "LICENSE", mode: 0o644, from: source("LICENSE")},
		{path: "CHANGELOG.md", mode: 0o644, from: source("CHANGELOG.md")}, {path: "README.md", mode: 0o644, from: source(p.guide)}}
	if t.os != "windows" {
		list = append(list, file{path: p.name + ".1", mode: 0o644, text: p.texts["man"]})
		for _, shell := range []string{"bash", "fish", "zsh"} {
			list = append(list, file{path: "completions/" + p.name + "." + shell, mode: 0o644, text: p.texts[shell]})
		}
	}
	return list
}

// installed are the files of a package of a Linux distribution.
func (p *product) installed(exe, format string) ([]file, error) {
	unit, err := p.unitText()
	if err != nil {
		return nil, err
	}
	env, err := files.ReadFile("files/" + p.env)
	if err != nil {
		return nil, err
	}
	man, err := gzipped(p.texts["man"])
	if err != nil {
		return nil, err
	}
	doc := "/usr/share/doc/" + p.name + "/"
	zsh := "vendor-completions"
	license := file{path: doc + "copyright", mode: 0o644, text: []byte("Copyright the Shoal developers.\nShoal is licensed under the Apache License, Version 2.0. On Debian systems its text is in\n/usr/share/common-licenses/Apache-2.0.\n")}
	if format == "rpm" {
		zsh = "site-functions"
		license = file{path: "/usr/share/licenses/" + p.name + "/LICENSE", mode: 0o644, from: source("LICENSE")}
	}
	return []file{
		{path: "/usr/bin/" + p.name, mode: 0o755, from: exe},
		{path: "/usr/lib/systemd/system/" + p.unit, mode: 0o644, text: []byte(unit)},
		{path: "/etc/shoal/" + p.env, mode: 0o644, text: env, config: true},
		{path: "/usr/share/man/man1/" + p.name + ".1.gz", mode: 0o644, text: man},
		{path: "/usr/share/bash-completion/completions/" + p.name, mode: 0o644, text: p.texts["bash"]},
		{path: "/usr/share/zsh/" + zsh + "/_" + p.name, mode: 0o644, text: p.texts["zsh"]},
		{path: "/usr/share/fish/vendor_completions.d/" + p.name + ".fish", mode: 0o644, text: p.texts["fish"]},
		{path: doc + "README.md", mode: 0o644, from: source(p.guide)},
		{path: doc + "CHANGELOG.md", mode: 0o644, from: source("CHANGELOG.md")},
		license,
		{path: "/usr/lib/" + p.name + "/packaged", mode: 0o644, text: []byte(format + "\n")},
	}, nil
}
