package channel

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestErrorKindsAreExplained holds the table for operators to the kinds that there are.
func TestErrorKindsAreExplained(t *testing.T) {
	b, err := os.ReadFile("../docs/operator.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(b), "| kind | what happened |\n|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	explained := map[string]string{}
	for row := range strings.Lines(table) {
		words := strings.Split(row, "|")
		if len(words) < 3 {
			t.Fatalf("no row: %q", row)
		}
		for _, w := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(words[1], -1) {
			if explained[w[1]] != "" {
				t.Errorf("%s is explained twice", w[1])
			}
			explained[w[1]] = words[2]
		}
	}
	for _, kind := range append(slices.Sorted(maps.Keys(errorKinds)), "http-404", "robots-503") {
		if explained[kind] == "" {
			t.Errorf("docs/operator.md does not explain %s", kind)
		}
		delete(explained, kind)
	}
	for kind := range explained {
		t.Errorf("docs/operator.md explains %s, which is no kind", kind)
	}
}

// TestCrawlsCountKnownKinds looks for the words by which crawls count: an archive counts others as errors of a kind that nobody can look up.
func TestCrawlsCountKnownKinds(t *testing.T) {
	var found []string
	for _, p := range []struct{ file, words string }{
		{"errorkinds", `return "([a-z0-9-]+)"`}, {"pagedirectives", `unstored = "([a-z-]+)"`}, {"changesignals", `count\("([a-z-]+)"\)`}, {"redirects", `count\("([a-z-]+)"\)`},
		{"responses", `(?:count\(|Errors\[)"([a-z-]+)"`}, {"seeding", `count\("([a-z-]+)"\)`}, {"session", `count\("([a-z-]+)"\)`}, {"sitemap", `count\("([a-z-]+)"\)`},
	} {
		b, err := os.ReadFile("../peer/crawl/" + p.file + ".go")
		if err != nil {
			t.Fatal(err)
		}
		words := regexp.MustCompile(p.words).FindAllStringSubmatch(string(b), -1)
		if len(words) == 0 {
			t.Errorf("%s counts nothing: look where its counts are now", p.file)
		}
		for _, w := range words {
			found = append(found, w[1])
			if ErrorKind(w[1]) != w[1] {
				t.Errorf("%s counts %s, which is kept as %s", p.file, w[1], ErrorKind(w[1]))
			}
		}
	}
	for _, kind := range []string{"noindex", "noarchive", "expired", "signalled", "signal-right", "skipped-nofollow", "skipped-robots"} {
		if !slices.Contains(found, kind) || !Noted(kind) {
			t.Errorf("%s is counted: %t, is no failure: %t", kind, slices.Contains(found, kind), Noted(kind))
		}
	}
	if Noted("timeout") || Noted("other") || Noted("http-404") {
		t.Error("a failure is none")
	}
}
