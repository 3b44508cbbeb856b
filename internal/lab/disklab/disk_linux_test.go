package disklab

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// TestCut cuts the power between a file that was synced and one that was not.
func TestCut(t *testing.T) {
	Cuts(t)
	d := For(t, 32<<20)
	for _, name := range []string{"synced", "not"} {
		f, err := os.Create(filepath.Join(d.Root(), name))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write(make([]byte, 100_000)); err != nil {
			t.Fatal(err)
		}
		if name == "synced" {
			err = f.Sync()
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	rng := rand.New(rand.NewPCG(1, 1))
	_, err := d.Cut(rng, d.Now(), 0, func(root string) {
		if info, err := os.Stat(filepath.Join(root, "synced")); err != nil || info.Size() != 100_000 {
			t.Error("what was synced:", info, err)
		}
		if _, err := os.Stat(filepath.Join(root, "not")); err == nil {
			t.Error("what was not synced is there though no piece was kept")
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}
