package pages

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
)

// Lines come out in order, whether they fit into memory or not, and no temporary file is left.
func TestLineSorter(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{0, 1, 10, 1000} {
		for _, run := range []int{1, 300, 1 << 20} {
			s := lineSorter{run: run}
			var want []string
			for range n {
				line := fmt.Sprintf("%x %d\n", rng.IntN(50), rng.IntN(1000))
				want = append(want, line)
				if err := s.add([]byte(line)); err != nil {
					t.Fatal(err)
				}
			}
			slices.Sort(want)
			for _, limit := range []int{0, 1, 7} {
				var out bytes.Buffer
				if err := s.write(t.Context(), &out, limit); err != nil {
					t.Fatal(err)
				}
				most := want
				if limit > 0 {
					most = want[:min(limit, n)]
				}
				if out.String() != strings.Join(most, "") {
					t.Errorf("%d lines, %d bytes in memory, limit %d: not in order", n, run, limit)
				}
			}
			if err := s.close(); err != nil {
				t.Error(err)
			}
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
