package deptest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// notCounted are reasons of answers that are no refusals, and of certificates of contribution, which no connection carries: shoal_wire_refused_total has none of them.
var notCounted = []string{"not_hidden", "not_seen", "not_here", "text"}

// TestRefusalReasonsAreDocumented: docs/metrics.md names all reasons that shoal_wire_refused_total can have. Those of the overlay and of the archive are found as
// they are counted, without the word before them.
func TestRefusalReasonsAreDocumented(t *testing.T) {
	doc, err := os.ReadFile(filepath.FromSlash("../../docs/metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(doc), "`shoal_wire_refused_total` has a label")
	list, _, ended := strings.Cut(list, "\n## ")
	if !ended {
		t.Fatal("docs/metrics.md has no list of reasons below shoal_wire_refused_total: does the test still look for the right words?")
	}
	reasons := map[string]string{}
	for _, room := range []string{"internal/member", "internal/wire", "internal/wire/gate", "internal/wire/uplink", "overlay/p2p", "cmd/shoal", "cmd/shoal-peer"} {
		files, err := filepath.Glob(filepath.Join("..", "..", filepath.FromSlash(room), "*.go"))
		if err != nil || len(files) == 0 {
			t.Errorf("%s: %d files, %v", room, len(files), err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, word := range reasonsIn(f) {
				reasons[word] = name
			}
		}
	}
	if len(reasons) < 30 {
		t.Errorf("only %d reasons were found in the code: does the test still look for the right words?", len(reasons))
	}
	for _, word := range slices.Sorted(maps.Keys(reasons)) {
		named := slices.ContainsFunc([]string{"", "overlay_", "overlay_task_"}, func(before string) bool { return strings.Contains(list, "`"+before+word+"`") })
		if !named && !slices.Contains(notCounted, word) {
			t.Errorf("%s counts refusals as %s, which docs/metrics.md does not name", reasons[word], word)
		}
	}
}

// reasonsIn are the words by which a file counts refusals: what is handed to a counter, what a Status has as its reason, and the table of package member.
func reasonsIn(f *ast.File) (out []string) {
	take := func(e ast.Expr) {
		if lit, is := e.(*ast.BasicLit); is && lit.Kind == token.STRING {
			if word, err := strconv.Unquote(lit.Value); err == nil && word != "" {
				out = append(out, word)
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if sel, is := n.Fun.(*ast.SelectorExpr); is && len(n.Args) == 1 && slices.Contains([]string{"rejected", "Rejected", "Refuse", "count"}, sel.Sel.Name) {
				take(n.Args[0])
			}
		case *ast.KeyValueExpr:
			if key, is := n.Key.(*ast.Ident); is && key.Name == "Reason" {
				take(n.Value)
			}
		case *ast.AssignStmt:
			for i, to := range n.Lhs {
				if sel, is := to.(*ast.SelectorExpr); is && sel.Sel.Name == "Reason" && len(n.Rhs) == len(n.Lhs) {
					take(n.Rhs[i])
				}
			}
		case *ast.ValueSpec:
			if len(n.Names) == 1 && n.Names[0].Name == "reasons" {
				for _, v := range n.Values {
					ast.Inspect(v, func(n ast.Node) bool {
						if lit, is := n.(*ast.BasicLit); is {
							take(lit)
						}
						return true
					})
				}
			}
		}
		return true
	})
	return out
}
