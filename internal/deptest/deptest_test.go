package deptest

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"shoal/internal/plain"
)

const module = "shoal"

// pkg is a package with the files and imports that it has on any system that Shoal runs on.
type pkg struct {
	ImportPath                string
	Dir                       string
	GoFiles                   []string
	Imports                   []string
	TestImports, XTestImports []string
}

// room is the package's path below the module.
func (p *pkg) room() string { return strings.TrimPrefix(p.ImportPath, module+"/") }

// ours are the rooms that the package imports. Of a package that has tests alone they are what its tests import.
func (p *pkg) ours() (rooms []string) {
	all := p.Imports
	if len(p.GoFiles) == 0 || len(p.GoFiles) == 1 && p.GoFiles[0] == "doc.go" {
		all = slices.Concat(p.Imports, p.TestImports, p.XTestImports)
	}
	for _, imp := range all {
		if room, ok := strings.CutPrefix(imp, module+"/"); ok && room != p.room() {
			rooms = append(rooms, room)
		}
	}
	return rooms
}

// systems are those whose files the rules look at.
var systems = []string{"linux", "windows", "darwin"}

// list runs go list, for each system, and joins what it finds of a package.
func list(args ...string) ([]pkg, error) {
	var all []pkg
	at := map[string]int{}
	for _, system := range systems {
		cmd := exec.Command("go", append([]string{"list", "-json=ImportPath,Dir,GoFiles,Imports,TestImports,XTestImports"}, args...)...)
		cmd.Dir = root
		cmd.Env = append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0")
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("go list for %s: %w", system, err)
		}
		for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
			var p pkg
			if err := dec.Decode(&p); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, err
			}
			i, known := at[p.ImportPath]
			if !known {
				at[p.ImportPath] = len(all)
				all = append(all, p)
				continue
			}
			q := &all[i]
			q.GoFiles, q.Imports = join(q.GoFiles, p.GoFiles), join(q.Imports, p.Imports)
			q.TestImports, q.XTestImports = join(q.TestImports, p.TestImports), join(q.XTestImports, p.XTestImports)
		}
	}
	return all, nil
}

func join(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

var root = filepath.Join("..", "..")

var allPackages = sync.OnceValues(func() ([]pkg, error) { return list("./...") })

// packages are all packages of the module; the tests must not change them.
func packages(t *testing.T) []pkg {
	t.Helper()
	all, err := allPackages()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 10 {
		t.Fatalf("go list found only %d packages: the rules would hold of nothing", len(all))
	}
	return all
}

// covers reports whether pattern names the room: exactly, or with "/..." the rooms under it too.
func covers(pattern, room string) bool {
	if pattern == "..." {
		return true
	}
	if base, ok := strings.CutSuffix(pattern, "/..."); ok {
		return room == base || strings.HasPrefix(room, base+"/")
	}
	return pattern == room
}

func ruleOf(room string) *rule {
	for i := range rules {
		if covers(rules[i].room, room) {
			return &rules[i]
		}
	}
	return nil
}

func TestImports(t *testing.T) {
	used := map[[2]string]bool{} // by rule and permission
	for _, p := range packages(t) {
		room := p.room()
		r := ruleOf(room)
		if r == nil {
			t.Errorf("%s: no rule covers this room; give it one in rules_test.go and a line in ARCHITECTURE.md", room)
			continue
		}
		used[[2]string{r.room, ""}] = true
	imports:
		for _, dep := range p.ours() {
			for _, m := range r.may {
				if covers(m, dep) {
					used[[2]string{r.room, m}] = true
					continue imports
				}
			}
			t.Errorf("%s imports %s, which it may not: %s", room, dep, r.why)
		}
	}
	for _, r := range rules {
		if !used[[2]string{r.room, ""}] {
			t.Errorf("the rule of %s covers no package that an earlier rule does not: delete it", r.room)
			continue
		}
		for _, m := range r.may {
			if !used[[2]string{r.room, m}] {
				t.Errorf("%s may import %s, and does not: delete the permission", r.room, m)
			}
		}
	}
}

// Banned in pure packages: what they would bring in with it.
var impureImports = map[string]string{
	"log": "a log", "log/slog": "a log", "os": "files and the environment", "net": "sockets", "net/http": "sockets", "io/ioutil": "files",
	"os/exec": "processes", "crypto/rand": "randomness that no seed repeats", "os/signal": "signals",
}

var impureCalls = map[string]string{
	"time.Now": "a clock; take now as an argument", "time.Since": "a clock", "time.Until": "a clock", "time.Sleep": "a clock",
	"time.After": "a clock", "time.NewTimer": "a clock", "time.NewTicker": "a clock", "time.AfterFunc": "a clock", "time.Tick": "a clock",
	"rand.Int": "global randomness; take a *rand.Rand", "rand.Intn": "global randomness", "rand.IntN": "global randomness",
	"rand.Float64": "global randomness", "rand.Shuffle": "global randomness", "rand.Perm": "global randomness",
	"rand.Uint64": "global randomness", "rand.N": "global randomness", "rand.NormFloat64": "global randomness", "rand.ExpFloat64": "global randomness",
}

// parallel names the pure packages that may compute in parallel, where the result is the same to the last bit.
var parallel = map[string]bool{"recrawl/allocate": true, "recrawl/cycle": true, "channel/order": true}

// keyFiles names files of pure packages that are a runner's: they load what the pure part is handed.
var keyFiles = map[string]bool{"internal/member/keyfile.go": true, "internal/member/keyfiles.go": true}

func TestPure(t *testing.T) {
	for _, p := range packages(t) {
		room := p.room()
		r := ruleOf(room)
		if r == nil || !r.pure {
			continue
		}
		for _, name := range p.GoFiles {
			if keyFiles[room+"/"+name] {
				continue
			}
			set := token.NewFileSet()
			f, err := parser.ParseFile(set, filepath.Join(p.Dir, name), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, imp := range f.Imports {
				path, _ := strconv.Unquote(imp.Path.Value)
				if what, bad := impureImports[path]; bad {
					t.Errorf("%s/%s imports %s: %s has no place in a pure package", room, name, path, what)
				}
			}
			ast.Inspect(f, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.GoStmt:
					if !parallel[room] {
						t.Errorf("%s: a goroutine in a pure package", set.Position(n.Pos()))
					}
				case *ast.CallExpr:
					if sel, ok := n.Fun.(*ast.SelectorExpr); ok {
						if x, ok := sel.X.(*ast.Ident); ok && x.Obj == nil {
							if what, bad := impureCalls[x.Name+"."+sel.Sel.Name]; bad {
								t.Errorf("%s: %s.%s in a pure package: %s", set.Position(n.Pos()), x.Name, sel.Sel.Name, what)
							}
						}
					}
				}
				return true
			})
		}
	}
}

func TestOnePackageComment(t *testing.T) {
	for _, p := range packages(t) {
		var with []string
		for _, name := range p.GoFiles {
			f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.ParseComments|parser.PackageClauseOnly)
			if err != nil {
				t.Fatal(err)
			}
			if f.Doc != nil && !strings.HasSuffix(name, ".pb.go") {
				with = append(with, name)
			}
		}
		generated := len(p.GoFiles) > 0
		for _, name := range p.GoFiles {
			generated = generated && strings.HasSuffix(name, ".pb.go")
		}
		if len(with) != 1 && !generated && len(p.GoFiles) > 0 {
			t.Errorf("%s has %d package comments (%v); it wants one that says what it is for and what not", p.ImportPath, len(with), with)
		}
	}
}

// inspect visits the syntax of all files that a program links.
func (p *pkg) inspect(t *testing.T, visit func(file string, n ast.Node)) {
	t.Helper()
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool { visit(p.room()+"/"+name, n); return true })
	}
}

// TestNoPackageNameIsShown: an error begins with its package's name for programmers, and internal/plain takes it off for people.
func TestNoPackageNameIsShown(t *testing.T) {
	seen := 0
	for _, p := range packages(t) {
		begin := path.Base(p.room()) + ": "
		lab, program := strings.HasPrefix(p.room(), "internal/lab/") && p.room() != "internal/lab/pond", path.Dir(p.room()) == "cmd" // a program says its own name
		if lab || program {
			continue
		}
		p.inspect(t, func(file string, n ast.Node) {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return
			}
			if text, _ := strconv.Unquote(lit.Value); strings.HasPrefix(text, begin) {
				seen++
				if says := plain.Error(errors.New(text)); strings.HasPrefix(says, begin) {
					t.Errorf("%s: people read %q: add the package to those in internal/plain/plain.go", file, says)
				}
			}
		})
	}
	if seen < 100 {
		t.Errorf("only %d errors begin with their package's name", seen)
	}
}

func TestOnlyProgramsExit(t *testing.T) {
	for _, p := range packages(t) {
		if strings.HasPrefix(p.room(), "cmd/") {
			continue
		}
		p.inspect(t, func(file string, n ast.Node) {
			if d, ok := n.(*ast.FuncDecl); ok && d.Recv == nil && d.Name.Name == "init" && !strings.HasSuffix(file, ".pb.go") {
				t.Errorf("%s has an init function: state belongs to a value that its user makes", file)
			}
			if sel, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := sel.X.(*ast.Ident); ok && x.Obj == nil && (x.Name == "os" && sel.Sel.Name == "Exit" || x.Name == "log" && strings.HasPrefix(sel.Sel.Name, "Fatal")) {
					t.Errorf("%s exits the process: return an error, cmd/ exits", file)
				}
			}
		})
	}
}
