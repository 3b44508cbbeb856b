package deptest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// shares starts goroutines in one place. Of it make race runs the test that has them work at once.
const (
	shares     = "./recrawl/allocate"
	sharesTest = "TestSameForAnyNumberOfCores"
)

// TestOneGoroutine: make race leaves out packages because they run on one goroutine. None of their files, tests included, starts another.
func TestOneGoroutine(t *testing.T) {
	if _, err := exec.LookPath("make"); err != nil {
		if os.Getenv("SHOAL_TEST_STRICT") == "1" {
			t.Fatal("make is not installed, and SHOAL_TEST_STRICT=1 wants it")
		}
		t.Skip("make is not installed")
	}
	cmd := exec.Command("make", "-s", "unraced")
	cmd.Dir, cmd.Stderr = "../..", os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("make unraced: %v", err)
	}
	if makefile, err := os.ReadFile("../../Makefile"); err != nil || !strings.Contains(string(makefile), "\nSHARED := "+sharesTest+"\n") {
		t.Errorf("make race does not run %s: %v", sharesTest, err)
	}
	rooms := strings.Fields(string(out))
	if len(rooms) < 2 {
		t.Fatalf("make unraced names %q", rooms)
	}
	for _, room := range rooms {
		if room == "./internal/lab/e2e" { // make race runs what of it does not drive programs
			continue
		}
		starts, raced := 0, false
		files, err := filepath.Glob(filepath.Join("../..", room, "*.go"))
		if err != nil || len(files) == 0 {
			t.Errorf("%s: %d files, %v", room, len(files), err)
		}
		for _, name := range files {
			set := token.NewFileSet()
			f, err := parser.ParseFile(set, name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(f, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.FuncDecl:
					raced = raced || n.Name.Name == sharesTest
				case *ast.GoStmt, *ast.CallExpr:
					if !startsGoroutine(n) {
						break
					}
					if starts++; room != shares || starts > 1 {
						t.Errorf("%s starts a goroutine: take %s out of ALONE or SHARES in the Makefile", set.Position(n.Pos()), room)
					}
				}
				return true
			})
		}
		if room == shares && !raced {
			t.Errorf("%s has no %s, which make race runs", room, sharesTest)
		}
	}
}

func startsGoroutine(n ast.Node) bool {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		_, ok = n.(*ast.GoStmt)
		return ok
	}
	sel, ok := call.Fun.(*ast.SelectorExpr)
	return ok && (sel.Sel.Name == "Go" || sel.Sel.Name == "Parallel")
}
