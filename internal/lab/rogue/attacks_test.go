package rogue

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// TestAttacksAreDocumented compares the attacks with the table of what each cost.
func TestAttacksAreDocumented(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "hostile.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range Attacks() {
		if !regexp.MustCompile("(?m)^\\| `" + a.Name + "` \\| .+ \\|").Match(text) {
			t.Errorf("docs/hostile.md has no row for the attack %s: %s", a.Name, a.What)
		}
	}
}
