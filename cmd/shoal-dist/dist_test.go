package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/jedisct1/go-minisign"
	"pgregory.net/rapid"
)

// standin is a small program that is packed in the products' place, built once.
var standin = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "shoal-standin-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	exe := filepath.Join(dir, "standin")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", exe, "./testdata/standin")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, out)
	}
	return os.ReadFile(exe)
})

// packed makes the packages of both products for some systems, from stand-ins for the programs.
func packed(t *testing.T, text string, wanted ...target) *dist {
	t.Helper()
	v, err := parseVersion(text)
	if err != nil {
		t.Fatal(err)
	}
	d := &dist{version: v, date: time.Unix(1_800_000_000, 0).UTC(), out: t.TempDir(), work: t.TempDir(), log: io.Discard, msi: true, programs: t.TempDir()}
	program, err := standin()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"shoal", "shoal-peer", "shoal.exe", "shoal-peer.exe"} {
		if err := os.WriteFile(filepath.Join(d.programs, name), program, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.all(t.Context(), wanted, products()); err != nil {
		t.Fatal(err)
	}
	return d
}

func need(t *testing.T, tools ...string) {
	t.Helper()
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			if os.Getenv("SHOAL_TEST_STRICT") != "" {
				t.Fatalf("%s is not here", tool)
			}
			t.Skipf("%s is not here", tool)
		}
	}
}

func says(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

func (d *dist) path(name string) string { return filepath.Join(d.out, name) }

// TestTwice: the same sources make the same bytes, in another folder and at another time. Signed, too.
func TestTwice(t *testing.T) {
	need(t, "wixl", "msibuild")
	key := testKey(t)
	var sets [2]*dist
	for i := range sets {
		sets[i] = packed(t, "v1.2.3", here, target{"windows", "amd64"}, target{"windows", "arm64"})
		if err := sets[i].seal(key, ""); err != nil {
			t.Fatal(err)
		}
	}
	if len(sets[0].made) < 12 {
		t.Errorf("it made only %v", sets[0].made)
	}
	for _, name := range append(sets[0].made, "SHA256SUMS", "SHA256SUMS.minisig") {
		a, err := os.ReadFile(sets[0].path(name))
		b, err2 := os.ReadFile(sets[1].path(name))
		if err != nil || err2 != nil || !bytes.Equal(a, b) {
			t.Errorf("%s differs between two runs: %v %v", name, err, err2)
		}
	}
}

// testKey is a minisign secret key without a password.
func testKey(t *testing.T) string {
	t.Helper()
	file := filepath.Join("testdata", "minisign.key")
	if _, err := os.Stat(file); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestSeal: sha256sum and minisign find the set whole; a changed file is found.
func TestSeal(t *testing.T) {
	d := packed(t, "v1.2.3", here)
	if err := d.seal(testKey(t), ""); err != nil {
		t.Fatal(err)
	}
	public, err := minisign.NewPublicKeyFromFile(filepath.Join("testdata", "minisign.pub"))
	if err != nil {
		t.Fatal(err)
	}
	sig, err := minisign.NewSignatureFromFile(d.path("SHA256SUMS.minisig"))
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := public.VerifyFromFile(d.path("SHA256SUMS"), sig); !ok {
		t.Error(err)
	}
	if _, err := exec.LookPath("minisign"); err == nil {
		says(t, "minisign", "-V", "-p", filepath.Join("testdata", "minisign.pub"), "-m", d.path("SHA256SUMS"))
	}
	if _, err := exec.LookPath("sha256sum"); err == nil {
		check := func() error {
			cmd := exec.Command("sha256sum", "--strict", "-c", "SHA256SUMS")
			cmd.Dir = d.out
			return cmd.Run()
		}
		if err := check(); err != nil {
			t.Error(err)
		}
		if err := os.WriteFile(d.path(d.made[0]), []byte("another"), 0o600); err != nil {
			t.Fatal(err)
		}
		if check() == nil {
			t.Error("sha256sum finds no fault with a changed file")
		}
	}
	if err := d.seal("testdata/locked.key", ""); err == nil || !strings.Contains(err.Error(), "SHOAL_DIST_PASSWORD") {
		t.Errorf("a key with a password: %v", err)
	}
	if err := d.seal("testdata/locked.key", "wrong"); err == nil || !strings.Contains(err.Error(), "does not open it") {
		t.Errorf("a wrong password: %v", err)
	}
}

// TestDebReads: dpkg reads what the package says and brings.
func TestDebReads(t *testing.T) {
	need(t, "dpkg-deb")
	d := packed(t, "v1.2.3-4-gabcdef0", target{"linux", "arm"})
	deb := d.path("shoal-peer_1.2.3+4.gabcdef0_armhf.deb")
	for field, want := range map[string]string{"Package": "shoal-peer", "Version": "1.2.3+4.gabcdef0", "Architecture": "armhf", "Depends": "passwd, init-system-helpers (>= 1.51)"} {
		if got := strings.TrimSpace(says(t, "dpkg-deb", "-f", deb, field)); got != want {
			t.Errorf("%s: %q, want %q", field, got, want)
		}
	}
	dir := t.TempDir()
	says(t, "dpkg-deb", "-R", deb, dir)
	for file, want := range map[string]string{"DEBIAN/conffiles": "/etc/shoal/peer.env\n", "usr/lib/shoal-peer/packaged": "deb\n", "usr/share/bash-completion/completions/shoal-peer": "shoal-peer completion bash at ~\n"} {
		if b, err := os.ReadFile(filepath.Join(dir, file)); err != nil || string(b) != want {
			t.Errorf("%s: %q %v", file, b, err)
		}
	}
	unit, err := os.ReadFile(filepath.Join(dir, "usr/lib/systemd/system/shoal-peer.service"))
	if err != nil || !strings.Contains(string(unit), "\nExecStart=/usr/bin/shoal-peer service run\n") {
		t.Errorf("%v %s", err, unit)
	}
	for _, script := range []string{"postinst", "prerm", "postrm"} {
		says(t, "sh", "-n", filepath.Join(dir, "DEBIAN", script))
	}
	manager := filepath.Join(t.TempDir(), "shoal")
	says(t, "dpkg-deb", "-R", d.path("shoal_1.2.3+4.gabcdef0_armhf.deb"), manager)
	unit, err = os.ReadFile(filepath.Join(manager, "usr/lib/systemd/system/shoal-manager.service"))
	if err != nil || !strings.Contains(string(unit), "\nExecStart=/usr/bin/shoal manager ") || strings.Contains(string(unit), "Install: copy") {
		t.Errorf("%v %s", err, unit)
	}
	if lintian, err := exec.LookPath("lintian"); err == nil {
		out, _ := exec.Command(lintian, "--fail-on=none", "--allow-root", "--suppress-tags=no-changelog,statically-linked-binary,unstripped-binary-or-object,binary-from-other-architecture", deb).CombinedOutput()
		if strings.Contains(string(out), "E: ") {
			t.Errorf("lintian:\n%s", out)
		}
	}
}

// TestRPM installs, upgrades and removes the package with rpm itself, in a root of its own, without its scripts; those are read by sh.
func TestRPM(t *testing.T) {
	need(t, "rpm")
	at := target{"linux", runtime.GOARCH}
	old, now := packed(t, "v1.2.3", at), packed(t, "v1.2.4", at)
	arch := rpmArch[runtime.GOARCH]
	file := func(d *dist) string { return d.path("shoal-peer-" + d.version.String() + "-1." + arch + ".rpm") }
	says(t, "rpm", "-K", file(old))
	if got := says(t, "rpm", "-qp", "--qf", "%{NAME} %{VERSION} %{RELEASE} %{LICENSE} %{BUILDHOST} %{BUILDTIME}", file(old)); got != "shoal-peer 1.2.3 1 Apache-2.0 shoal.invalid 1800000000" {
		t.Error(got)
	}
	if got := says(t, "rpm", "-qp", "--configfiles", file(old)); strings.TrimSpace(got) != "/etc/shoal/peer.env" {
		t.Errorf("configuration files: %s", got)
	}
	for _, script := range []string{"rpm-post", "rpm-preun"} {
		says(t, "sh", "-n", filepath.Join("files", "shoal-peer."+script))
		says(t, "sh", "-n", filepath.Join("files", "shoal."+script))
	}
	root := t.TempDir()
	rpm := func(args ...string) string {
		t.Helper()
		return says(t, "rpm", append([]string{"--root", root, "--nodeps", "--noscripts"}, args...)...)
	}
	says(t, "rpmdb", "--root", root, "--initdb")
	rpm("-i", file(old))
	env := filepath.Join(root, "etc/shoal/peer.env")
	if err := os.WriteFile(env, []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	rpm("-U", file(now))
	if b, err := os.ReadFile(env); err != nil || string(b) != "mine" {
		t.Errorf("the administrator's file after an upgrade: %q %v", b, err)
	}
	if got := strings.TrimSpace(says(t, "rpm", "--root", root, "-q", "shoal-peer")); !strings.HasPrefix(got, "shoal-peer-1.2.4-1") {
		t.Error(got)
	}
	if got := says(t, "rpm", "--root", root, "-V", "--nodeps", "--noscripts", "--nouser", "--nogroup", "--noconfig", "shoal-peer"); got != "" {
		t.Errorf("rpm -V: %s", got)
	}
	rpm("-e", "shoal-peer")
	if _, err := os.Stat(filepath.Join(root, "usr/bin/shoal-peer")); err == nil {
		t.Error("the program is still there after removal")
	}
}

// TestMSI: the package holds the files, the service, what follows a crash, and says for which processor it is.
func TestMSI(t *testing.T) {
	need(t, "wixl", "msibuild", "msiinfo", "msiextract")
	d := packed(t, "v1.2.3", target{"windows", "amd64"}, target{"windows", "arm64"})
	for _, c := range []struct{ file, platform, service string }{
		{"shoal-peer-1.2.3-windows-amd64.msi", "Template: x64;1033", "NT SERVICE\\shoal-peer"},
		{"shoal-peer-1.2.3-windows-arm64.msi", "Template: Arm64;1033", "NT SERVICE\\shoal-peer"},
		{"shoal-1.2.3-windows-amd64.msi", "Template: x64;1033", ""},
	} {
		msi := d.path(c.file)
		if got := says(t, "msiinfo", "suminfo", msi); !strings.Contains(got, c.platform) {
			t.Errorf("%s: %s", c.file, got)
		}
		if got := says(t, "msiinfo", "export", msi, "ServiceInstall"); c.service != "" && (!strings.Contains(got, c.service) || !strings.Contains(got, "service run --windows-service")) || c.service == "" && strings.Contains(got, "shoal") {
			t.Errorf("%s: %s", c.file, got)
		}
		if c.service != "" {
			if got := says(t, "msiinfo", "export", msi, "MsiServiceConfigFailureActions"); !strings.Contains(got, "restart\tshoal-peer\t5\t86400") {
				t.Errorf("%s: %s", c.file, got)
			}
		}
		if got := says(t, "msiinfo", "export", msi, "Environment"); !strings.Contains(got, "[~];[INSTALLDIR]") {
			t.Errorf("%s: %s", c.file, got)
		}
		sequence := says(t, "msiinfo", "export", msi, "InstallExecuteSequence")
		for _, action := range []string{"InstallServices", "StartServices", "WriteEnvironmentStrings", "MsiConfigureServices", "RemoveExistingProducts"} {
			if !strings.Contains(sequence, action) && (c.service != "" || !strings.Contains(action, "Services")) {
				t.Errorf("%s: no action %s", c.file, action)
			}
		}
		dir := t.TempDir()
		says(t, "msiextract", "-C", dir, msi)
		program := strings.SplitN(c.file, "-1.2.3", 2)[0] + ".exe"
		var found []string
		err := filepath.WalkDir(dir, func(at string, e fs.DirEntry, err error) error {
			if err == nil && e.Name() == program {
				found = append(found, at)
			}
			return err
		})
		if len(found) != 1 {
			t.Fatalf("%s: %v %v: %s", c.file, found, err, says(t, "find", dir))
		}
		a, err := os.ReadFile(found[0])
		b, err2 := os.ReadFile(filepath.Join(d.programs, program))
		if err != nil || err2 != nil || !bytes.Equal(a, b) {
			t.Errorf("%s: the program in it is another one: %v %v", c.file, err, err2)
		}
	}
}

// TestNoTool: a missing tool is named with the package that has it.
func TestNoTool(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"--out", filepath.Join(t.TempDir(), "out"), "--targets", "windows/amd64"}, &out, &errs); code != 1 || !strings.Contains(errs.String(), "apt-get install wixl msitools") {
		t.Errorf("%d: %s", code, errs.String())
	}
	if code := run(t.Context(), []string{"--targets", "plan9/mips"}, &out, &errs); code != 1 || !strings.Contains(errs.String(), "want some of linux/amd64") {
		t.Errorf("%d: %s", code, errs.String())
	}
}

// TestImage: an independent reader of the format finds the image whole; it holds the program, trusted roots and time zones, and runs as no user of the host.
func TestImage(t *testing.T) {
	d := packed(t, "v1.2.3-4-gabcdef0", target{"linux", "amd64"}, target{"linux", "arm"})
	for _, product := range []string{"shoal", "shoal-peer"} {
		loadsInOlderDocker(t, d, product)
	}
	dir := t.TempDir()
	f, err := os.Open(d.path("shoal-peer-1.2.3+4.gabcdef0-oci.tar"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dir, filepath.FromSlash(h.Name))
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(to, 0o755)
		} else {
			var b []byte
			if b, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(to, b, 0o644)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	outer, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(outer); err != nil {
		t.Fatal(err)
	}
	m, err := outer.IndexManifest()
	if err != nil || len(m.Manifests) != 1 {
		t.Fatal(err)
	}
	index, err := outer.ImageIndex(m.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	if m, err = index.IndexManifest(); err != nil || len(m.Manifests) != 2 || m.Manifests[1].Platform.String() != "linux/arm/v7" {
		t.Fatalf("%v %+v", err, m)
	}
	img, err := index.Image(m.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	config, err := img.ConfigFile()
	if err != nil || config.Config.User != "65532" || strings.Join(config.Config.Cmd, " ") != "service run" {
		t.Errorf("%v %+v", err, config)
	}
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, l := range layers {
		r, err := l.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		for files := tar.NewReader(r); ; {
			h, err := files.Next()
			if err != nil {
				break
			}
			names = append(names, fmt.Sprint(h.Name, " ", h.Uid))
			if h.Name == "etc/ssl/certs/ca-certificates.crt" {
				b, _ := io.ReadAll(files)
				if n := bytes.Count(b, []byte("BEGIN CERTIFICATE")); n < 100 {
					t.Errorf("it trusts only %d roots", n)
				}
			}
		}
		r.Close()
	}
	for _, want := range []string{"usr/bin/shoal-peer 0", "usr/share/zoneinfo.zip 0", "var/lib/shoal-peer/ 65532"} {
		if !strings.Contains(strings.Join(names, "\n"), want) {
			t.Errorf("it lacks %s: %v", want, names)
		}
	}
}

// loadsInOlderDocker: Docker's older image store, which reads no OCI layout, finds each system's image whole by manifest.json, under a name of its own.
func loadsInOlderDocker(t *testing.T, d *dist, product string) {
	t.Helper()
	open := func() (io.ReadCloser, error) { return os.Open(d.path(product + "-1.2.3+4.gabcdef0-oci.tar")) }
	list, err := tarball.LoadManifest(open)
	if err != nil || len(list) != 2 {
		t.Errorf("%s: manifest.json has %d images, want 2: %v", product, len(list), err)
		return
	}
	for _, arch := range []string{"amd64", "arm"} {
		tag, err := name.NewTag("shoal.invalid/" + product + ":1.2.3-4.gabcdef0-" + arch)
		if err != nil {
			t.Fatal(err)
		}
		img, err := tarball.Image(open, &tag)
		if err != nil {
			t.Errorf("%s: %v", tag, err)
			continue
		}
		if err := validate.Image(img); err != nil { // each layer unpacks to what the configuration says
			t.Errorf("%s: %v", tag, err)
		}
		if config, err := img.ConfigFile(); err != nil || config.OS != "linux" || config.Architecture != arch || config.Config.Entrypoint[0] != "/usr/bin/"+product {
			t.Errorf("%s: %v %+v", tag, err, config)
		}
	}
}

// TestParts: the list names the modules that are in the program, and no others.
func TestParts(t *testing.T) {
	d := packed(t, "v1.2.3", here)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	d.programs = t.TempDir()
	if err := os.Symlink(self, filepath.Join(d.programs, here.exe("shoal-peer"))); err != nil {
		t.Fatal(err)
	}
	if err := d.parts(&products()[0], []target{here}); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(d.path("shoal-peer-1.2.3.cdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	var bom struct {
		BOMFormat, SpecVersion, SerialNumber string
		Metadata                             struct {
			Component struct{ Name, Version string }
		}
		Components []struct{ Name, Purl string }
	}
	if err := json.Unmarshal(b, &bom); err != nil || bom.BOMFormat != "CycloneDX" || bom.SpecVersion != "1.6" || bom.Metadata.Component.Name != "shoal-peer" {
		t.Errorf("%v %+v", err, bom)
	}
	have := map[string]bool{}
	for _, c := range bom.Components {
		have[c.Name] = true
	}
	if !have["github.com/google/rpmpack"] || !have["Go standard library and runtime"] || have["github.com/dgraph-io/badger/v4"] { // of this test program, which is packed
		t.Errorf("%v", have)
	}
}

// TestArchive: a person who unpacks the archive finds one folder with the program, its guide and its license.
func TestArchive(t *testing.T) {
	d := packed(t, "v1.2.3", here)
	f, err := os.Open(d.path("shoal-peer-1.2.3-" + here.label() + ".tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int64{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		seen[strings.TrimPrefix(h.Name, "shoal-peer-1.2.3-"+here.label()+"/")] = h.Mode
	}
	for name, mode := range map[string]int64{"shoal-peer": 0o755, "LICENSE": 0o644, "README.md": 0o644, "shoal-peer.1": 0o644, "completions/shoal-peer.zsh": 0o644} {
		if got, ok := seen[name]; !ok || got != mode {
			t.Errorf("%s: %v %o", name, ok, got)
		}
	}
}

func TestVersions(t *testing.T) {
	for text, want := range map[string]string{"v1.2.3": "1.2.3", "1.2.3": "1.2.3", "v1.2.3-4-gabcdef0": "1.2.3+4.gabcdef0", "v1.2.3-4-gabcdef0-dirty": "1.2.3+4.gabcdef0.dirty",
		"abcdef0": "0.0.0+git.abcdef0", "abcdef0-dirty": "0.0.0+git.abcdef0.dirty", "devel": "0.0.0+git", "v1.2": "", "1.2.3; rm -rf": "", "": ""} {
		v, err := parseVersion(text)
		if (err == nil) != (want != "") || err == nil && v.String() != want {
			t.Errorf("%q: %s, %v; want %s", text, v, err, want)
		}
		if stamp := "v" + strings.TrimPrefix(text, "v"); err == nil && v.base != "0.0.0" && v.stamp != stamp {
			t.Errorf("%q: the program says that it is %s, and %s is signed", text, v.stamp, stamp)
		}
	}
}

// TestSummary: a package that is cut off or damaged is refused, and nothing panics.
func TestSummary(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "before")
		b = append(b, make([]byte, 28)...)
		b = append(b, formatID...)
		b = binary.LittleEndian.AppendUint32(b, rapid.Uint32Range(0, 300).Draw(t, "offset"))
		for range rapid.IntRange(0, 60).Draw(t, "words") {
			b = binary.LittleEndian.AppendUint32(b, rapid.Uint32Range(0, 80).Draw(t, "word"))
		}
		_ = stampSummary(b, "x64;1033", guid("x"), time.Unix(0, 0))
	})
	if err := stampSummary([]byte("no package"), "x64;1033", guid("x"), time.Unix(0, 0)); err == nil {
		t.Error("what is no package is taken for one")
	}
}

// TestUnitInDeploy: the unit for administrators who install by hand is the one of the packages.
func TestUnitInDeploy(t *testing.T) {
	want, err := peerUnit()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(source("deploy/shoal-peer.service"))
	if err != nil || !strings.HasSuffix(string(got), want) {
		t.Errorf("%v; deploy/shoal-peer.service must end with\n%s", err, want)
	}
}
