package overlaysim

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shoal/internal/datafile"
	"shoal/internal/sim"
)

// matrixOf is a matrix of n nodes as text.
func matrixOf(n int, at func(i, j int) float64) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "n%d%s", i, map[bool]string{true: "\n", false: ","}[i == n-1])
	}
	for i := range n {
		for j := range n {
			fmt.Fprintf(&b, "%g%s", at(i, j), map[bool]string{true: "\n", false: ","}[j == n-1])
		}
	}
	return b.String()
}

// A latency file is known by its content, packed or not, and one that gives no distances is an error.
// TestCutFilesAreNamed: of a packed file that broke off the error says that, not what is wrong with the last piece of a line.
func TestCutFilesAreNamed(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	times := matrixOf(60, func(int, int) float64 { return float64(1000+rng.IntN(99_000)) / 1000 })
	var embedding strings.Builder
	for i := range 200 {
		fmt.Fprintf(&embedding, "%d %g %g\n", i, 100*rng.Float64(), 100*rng.Float64())
	}
	path := filepath.Join(t.TempDir(), "cut.csv.gz")
	for _, text := range []string{times, embedding.String()} {
		var z bytes.Buffer
		w := gzip.NewWriter(&z)
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		for n := 20; n < z.Len(); n += 37 {
			if err := os.WriteFile(path, z.Bytes()[:n], 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := newGround(path, Apart, 40, 40, false, rand.New(rand.NewPCG(1, 1)))
			if !errors.Is(err, sim.ErrLatency) || !errors.Is(err, datafile.ErrCut) {
				t.Errorf("%d of %d bytes: %v", n, z.Len(), err)
			}
		}
	}
}

func TestLatencyFiles(t *testing.T) {
	dir := t.TempDir()
	load := func(name, text string, pack bool) error {
		b := []byte(text)
		if pack {
			var z bytes.Buffer
			w := gzip.NewWriter(&z)
			if _, err := w.Write(b); err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			b = z.Bytes()
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		g, err := newGround(path, Apart, 40, 40, false, rand.New(rand.NewPCG(1, 1)))
		if err == nil {
			for a := range 80 {
				for b := range 80 {
					if d := g.rtt(a, b); !(d > 0 && d < 1e4) {
						t.Fatalf("%s: %g ms between %d and %d", name, d, a, b)
					}
				}
			}
		}
		return err
	}
	matrix := matrixOf(24, func(i, j int) float64 { return float64(10 * max(i-j, j-i)) })
	var embedding strings.Builder
	for i := range 24 {
		fmt.Fprintf(&embedding, "%d %d %d\n", i, i*7%24, i*5%24)
	}
	for _, name := range []string{"rtt.csv", "rtt.csv.gz", "rtt.txt", "rtt"} {
		for _, pack := range []bool{false, true} {
			if err := load(name, matrix, pack); err != nil {
				t.Errorf("a matrix called %s, packed %v: %v", name, pack, err)
			}
			if err := load(name, embedding.String(), pack); err != nil {
				t.Errorf("an embedding called %s, packed %v: %v", name, pack, err)
			}
		}
	}
	for what, c := range map[string]struct{ text, want string }{
		"zeros":         {matrixOf(24, func(int, int) float64 { return 0 }), "0 ms from every other"},
		"one node of 0": {matrixOf(24, func(i, j int) float64 { return float64(min(i, j)) }), "node 1 is 0 ms"},
		"one place":     {strings.Repeat("1 5 5\n", 24), "in one place"},
		"one way only": {matrixOf(24, func(i, j int) float64 {
			if i == 4 && j == 2 {
				return 0
			}
			return float64(10 * max(i-j, j-i))
		}), "0 ms from node 5 to node 3, and 20 ms back"},
		"empty":      {"", "is empty"},
		"blank":      {"\n\n", "is empty"},
		"no header":  {strings.SplitAfterN(matrix, "\n", 2)[1], "23 lines after the header"},
		"not square": {"a,b\n" + strings.Repeat("1,2\n", 24), "square"},
	} {
		if err := load("bad", c.text, false); !errors.Is(err, sim.ErrLatency) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want something about %q", what, err, c.want)
		}
	}
}

// TestTriangle: a matrix that has one side of the diagonal only means what the whole matrix means. Its times are not halved.
func TestTriangle(t *testing.T) {
	const n = 24
	whole := func(i, j int) float64 { return float64(10*max(i-j, j-i)) + .5 }
	for name, has := range map[string]func(i, j int) bool{"whole": func(i, j int) bool { return true }, "above": func(i, j int) bool { return i < j }, "below": func(i, j int) bool { return i > j }} {
		path := filepath.Join(t.TempDir(), "matrix.csv")
		text := matrixOf(n, func(i, j int) float64 {
			if i == j || !has(i, j) {
				return 0
			}
			return whole(i, j)
		})
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		m, err := loadMatrix(path)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for i := range m {
			for j := range m {
				if i != j && m[i][j] != whole(i, j) {
					t.Fatalf("%s: %g ms between %d and %d, want %g", name, m[i][j], i, j, whole(i, j))
				}
			}
		}
	}
}

// TestFaultyNodes: a node that is 1 ms from nodes in different parts of the world is left out; one that has many near neighbours is not.
func TestFaultyNodes(t *testing.T) {
	const n, faulty = 60, 7
	at := func(i, j int) float64 {
		switch {
		case i == j:
			return 0
		case i == faulty || j == faulty:
			return 1
		case i/20 == j/20: // three towns
			return 2
		}
		return 100
	}
	path := filepath.Join(t.TempDir(), "matrix.csv")
	if err := os.WriteFile(path, []byte(matrixOf(n, at)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, keep := range []bool{false, true} {
		g, err := newGround(path, Shared, n, n, keep, rand.New(rand.NewPCG(1, 1)))
		if err != nil {
			t.Fatal(err)
		}
		if want := map[bool]int{false: n - 1, true: n}[keep]; len(g.matrix) != want || g.faulty != n-want {
			t.Errorf("kept %v: %d nodes, %d left out", keep, len(g.matrix), g.faulty)
		}
		for i := range g.matrix {
			for j := range g.matrix[i] {
				if !keep && g.matrix[i][j] == 1 {
					t.Fatalf("the faulty node is %d or %d", i, j)
				}
			}
		}
	}
}
