package desk

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shoal/recrawl"
)

// Every strategy that can be chosen is explained, on the page as in the documentation.
func TestEveryStrategyIsExplained(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join("..", "..", "docs", "operator.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range recrawl.Names() {
		text := About(name)
		if !strings.Contains(text, "hoose it") && !strings.Contains(text, "safe choice") {
			t.Errorf("%s: %q does not say when to choose it", name, text)
		}
		if !strings.Contains(string(doc), "| `"+name+"` | "+text+" |") {
			t.Errorf("docs/operator.md has no line for %s with %q", name, text)
		}
	}
	if len(about) != len(recrawl.Names()) {
		t.Errorf("%d explanations of %d strategies", len(about), len(recrawl.Names()))
	}
}
