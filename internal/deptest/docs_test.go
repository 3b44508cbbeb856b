package deptest

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// fileInDocs matches a path of the project in backquotes: at least one folder, and a name with an ending.
var fileInDocs = regexp.MustCompile("`((?:[a-z0-9_.-]+/)+[A-Za-z0-9_.-]+\\.(?:go|proto|html|sh|service|toml|md|csv))`")

// makeInDocs matches a target of the Makefile, with variables before it or not.
var makeInDocs = regexp.MustCompile("`(?:[A-Z_]+=[^ `]+ )?make ([a-z][a-z-]*)")

// TestDocsNameFilesThatExist keeps the walk of a task, and every other place where the docs name a file or a target of the Makefile, true.
func TestDocsNameFilesThatExist(t *testing.T) {
	root := filepath.Join("..", "..")
	docs := []string{filepath.Join(root, "ARCHITECTURE.md"), filepath.Join(root, "CONTRIBUTING.md"), filepath.Join(root, "README.md"), filepath.Join(root, "SECURITY.md")}
	for _, pattern := range []string{"docs/*.md", "docs/decisions/*.md"} {
		more, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, more...)
	}
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, doc := range docs {
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range makeInDocs.FindAllStringSubmatch(string(text), -1) {
			if !regexp.MustCompile(`(?m)^` + m[1] + `:`).Match(makefile) {
				t.Errorf("%s names make %s, which the Makefile does not have", doc, m[1])
			}
		}
		for _, m := range fileInDocs.FindAllStringSubmatch(string(text), -1) {
			found++
			if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(m[1]))); err != nil {
				t.Errorf("%s names %s, which does not exist: write where its content is now", doc, m[1])
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d names of files were found in the docs: does the pattern still match?", found)
	}
}
