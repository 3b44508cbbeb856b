package deptest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

const (
	maxLines   = 80 // of a function: it fits a screen
	maxMethods = 75 // of a type
)

// TestSizes finds functions that fit no screen, and types that no reader can keep in mind. Tests and generated code may be longer.
func TestSizes(t *testing.T) {
	for _, p := range packages(t) {
		methods := map[string]int{}
		for _, file := range p.GoFiles {
			if strings.HasSuffix(file, ".pb.go") {
				continue
			}
			files := token.NewFileSet()
			parsed, err := parser.ParseFile(files, filepath.Join(p.Dir, file), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range parsed.Decls {
				f, ok := d.(*ast.FuncDecl)
				if !ok {
					continue
				}
				if n := files.Position(f.End()).Line - files.Position(f.Pos()).Line + 1; n > maxLines {
					t.Errorf("%s/%s: %s has %d lines, at most %d fit a screen", p.room(), file, f.Name.Name, n, maxLines)
				}
				if f.Recv != nil {
					methods[receiver(f.Recv.List[0].Type)]++
				}
			}
		}
		for name, n := range methods {
			if n > maxMethods {
				t.Errorf("%s: type %s has %d methods, at most %d: it is the owner of parts that could be types", p.room(), name, n, maxMethods)
			}
		}
	}
}

// receiver is the type of a method, without its pointer and its parameters.
func receiver(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.StarExpr:
		return receiver(x.X)
	case *ast.IndexExpr:
		return receiver(x.X)
	case *ast.Ident:
		return x.Name
	}
	return ""
}
