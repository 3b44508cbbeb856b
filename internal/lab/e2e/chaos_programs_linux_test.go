package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"shoal/internal/lab/clocklab"
)

// chaosOld is the folder of an earlier version's programs, in that of the present ones.
const chaosOld = "old"

var chaosBuild sync.Once

// chaosPrograms builds the programs once more, with clocks that can be stepped, and a manager that takes hosts which have names of their own. Those of an earlier version,
// if the run begins in one, are built likewise.
func chaosPrograms(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(bin, "chaos")
	chaosBuild.Do(func() {
		if _, err := os.Stat(dir); err == nil {
			return // they were built before, for another run
		}
		root := filepath.Join("..", "..", "..")
		buildChaos(t, dir, root)
		if commit := os.Getenv(chaosOldEnv); commit != "" {
			buildChaos(t, filepath.Join(dir, chaosOld), checkout(t, root, commit))
		}
	})
	return dir
}

func buildChaos(t *testing.T, dir, root string) {
	t.Helper()
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	const reach = "func pondReach(origin string) error {" // a pond's manager takes no other hosts
	overlay, err := clocklab.Overlay(dir, root, []string{"cmd/shoal", "cmd/shoal-peer"}, clocklab.Change{File: "cmd/shoal/uppond.go", Old: reach,
		New: reach + "\n\tif strings.HasSuffix(origin, \"" + chaosNames + "\") {\n\t\treturn nil\n\t}"})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "build", "-overlay", overlay, "-o", dir+string(filepath.Separator), "./cmd/shoal", "./cmd/shoal-peer")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the programs: %v\n%s", err, out)
	}
}

// checkout gives the files of a commit a folder, with the present clocks in them.
func checkout(t *testing.T, root, commit string) string {
	t.Helper()
	to := t.TempDir()
	const script = `set -e; git -C "$1" archive "$2" -o "$3/all.tar"; tar -x -f "$3/all.tar" -C "$3"; rm -r -f "$3/all.tar" "$3/internal/lab/clocklab"; cp -r "$1/internal/lab/clocklab" "$3/internal/lab/"`
	if out, err := exec.Command("sh", "-c", script, "checkout", root, commit, to).CombinedOutput(); err != nil {
		t.Fatalf("%s=%s: want a commit: %v\n%s", chaosOldEnv, commit, err, out)
	}
	return to
}
