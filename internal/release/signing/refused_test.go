package signing

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestPrograms finds programs in a folder of packages, and refuses what is none.
func TestPrograms(t *testing.T) {
	dir := t.TempDir()
	if _, _, err := Programs(dir); err == nil || !strings.Contains(err.Error(), "make dist") {
		t.Error(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"shoal-peer", "shoal-peer_1.2.3_amd64.deb", "SHA256SUMS", "shoal-peer-1.2.3-linux-amd64.cdx.json"} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	files, version, err := Programs(dir)
	if err != nil || len(files) != 1 || version != "" || files[0].System == "" || files[0].Arch == "" {
		t.Errorf("%v %q %v", len(files), version, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "shoal-peer.exe"), []byte("MZ"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Programs(dir); err == nil {
		t.Error("no program is taken for one")
	}
}

// TestProgramsOfAnotherVersion refuses to sign the volunteers' program under a version that it does not call itself.
func TestProgramsOfAnotherVersion(t *testing.T) {
	exe := filepath.Join(t.TempDir(), "shoal-peer")
	build := func(more ...string) File {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "go", append(append([]string{"build", "-trimpath", "-buildvcs=false", "-o", exe}, more...), ".")...)
		cmd.Dir, cmd.Env = filepath.Join(t.TempDir(), "cmd", "shoal-peer"), append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64", "GOWORK=off")
		root := filepath.Dir(filepath.Dir(cmd.Dir))
		for name, text := range map[string]string{"go.mod": "module shoal\n", "internal/version/version.go": "package version\n\nvar stamp string\n\nfunc String() string { return stamp }\n",
			"cmd/shoal-peer/main.go": "package main\n\nimport \"shoal/internal/version\"\n\nfunc main() { println(version.String()) }\n"} {
			if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o700), os.WriteFile(filepath.Join(root, name), []byte(text), 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		b, err := os.ReadFile(exe)
		if err != nil {
			t.Fatal(err)
		}
		return File{System: "linux", Arch: "amd64", From: exe, Bytes: b}
	}
	for _, c := range []struct {
		stamp, version string
		good           bool
	}{{"v1.2.3", "v1.2.3", true}, {"1.2.4", "v1.2.4", true}, {"v1.2.5-rc.1", "v1.2.5-rc.1", true}, {"v1.2.6-1-gabcdef0", "v1.2.6", false}, {"v11.2.7", "v1.2.7", false}, {"v1.2.8", "v1.2.80", false}, {"", "v1.2.9", false}} {
		n := newNetwork(t, 1)
		_, err := n.repo.Add(n.now, c.version, "", []File{build("-ldflags", "-s -w -X shoal/internal/version.stamp="+c.stamp)}, n.keys...)
		if (err == nil) != c.good || err != nil && !strings.Contains(err.Error(), "does not call itself "+c.version) {
			t.Errorf("a program that calls itself %q, signed as %s: %v", c.stamp, c.version, err)
		}
	}
}

// TestTwoLists: a list with the number of the one that is served, and other content, is not published: computers that have seen the served one would refuse it.
// Further signatures change nothing.
func TestTwoLists(t *testing.T) {
	n := newNetwork(t, 1)
	n.add("v1.0.0")
	apart := Repo{t.TempDir()}
	n.ok(os.CopyFS(apart.Dir, os.DirFS(n.repo.Dir)))
	n.add("v1.1.0")
	n.serve()
	n.serve() // the same once more
	ours := n.repo
	n.repo = apart
	n.add("v1.2.0")
	if err := n.shelf.Take(n.repo, n.id, n.now); err == nil || !strings.Contains(err.Error(), "another list 3 of releases") {
		t.Errorf("a list that was signed apart is published: %v", err)
	}
	n.repo = ours
	if _, err := n.repo.Sign(n.keys[0]); err != nil {
		t.Fatal(err)
	}
	n.serve()
	n.has("v1.0.0", "v1.1.0")
}
