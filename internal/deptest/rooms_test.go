package deptest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestRooms holds ARCHITECTURE.md's table of rooms against the packages that there are: it names each of them, and nothing else.
func TestRooms(t *testing.T) {
	named := namedRooms(t)
	for _, p := range packages(t) {
		if !named[p.room()] {
			t.Errorf("ARCHITECTURE.md's table of rooms does not name %s/: add it to the row where a stranger would look for it", p.room())
		}
		delete(named, p.room())
	}
	for room := range named {
		if files, _ := filepath.Glob(filepath.Join(root, room, "*.go")); len(files) == 0 {
			t.Errorf("ARCHITECTURE.md's table of rooms names %s/, where no package is", room)
		}
	}
}

var roomName = regexp.MustCompile("`([a-z0-9/-]+)/`")

// namedRooms are the packages in the first column of the table under the heading Rooms.
func namedRooms(t *testing.T) map[string]bool {
	text, err := os.ReadFile(filepath.Join(root, "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rooms, _ := strings.Cut(string(text), "\n## Rooms\n")
	rooms, _, _ = strings.Cut(rooms, "\n## ")
	named := map[string]bool{}
	for line := range strings.Lines(rooms) {
		if !strings.HasPrefix(line, "|") {
			continue
		}
		first, _, _ := strings.Cut(line[1:], "|")
		for _, m := range roomName.FindAllStringSubmatch(first, -1) {
			if named[m[1]] {
				t.Errorf("ARCHITECTURE.md's table of rooms names %s/ twice", m[1])
			}
			named[m[1]] = true
		}
	}
	if len(named) == 0 {
		t.Fatal("ARCHITECTURE.md has no table of rooms under the heading \"## Rooms\"")
	}
	return named
}

// floors are the top-level folders from the ground up. Folders in one entry stand side by side.
var floors = [][]string{{"coords"}, {"recrawl"}, {"channel"}, {"internal"}, {"overlay"}, {"peer"}, {"manager"}, {"cmd"}}

// upward are the arrows between folders that run upward all the same, with the reason; at most maxUpward.
var upward = map[[2]string]string{
	{"channel", "internal"}: "a database on a server waits between its tries as all else does",
	{"internal", "overlay"}: "the rogue member of the labs speaks the overlay's messages",
}

const maxUpward = 2

// TestFloors draws the folders by what their packages import outside of tests: arrows run downward.
func TestFloors(t *testing.T) {
	level := map[string]int{}
	for i, floor := range floors {
		for _, folder := range floor {
			level[folder] = i
		}
	}
	drawn := map[[2]string]bool{}
	for _, p := range packages(t) {
		from, _, _ := strings.Cut(p.room(), "/")
		if _, ok := level[from]; !ok {
			t.Errorf("%s: folder %s has no floor", p.room(), from)
			continue
		}
		for _, imp := range p.Imports {
			dep, ours := strings.CutPrefix(imp, module+"/")
			to, _, _ := strings.Cut(dep, "/")
			if !ours || to == from || level[to] < level[from] {
				continue
			}
			arrow := [2]string{from, to}
			drawn[arrow] = true
			if upward[arrow] == "" {
				t.Errorf("%s imports %s: an arrow from %s up to %s", p.room(), dep, from, to)
			}
		}
	}
	for arrow := range upward {
		if !drawn[arrow] {
			t.Errorf("no arrow runs from %s up to %s any more: delete the exception", arrow[0], arrow[1])
		}
	}
	if len(upward) > maxUpward {
		t.Errorf("%d kinds of arrows run upward, at most %d may", len(upward), maxUpward)
	}
}

// TestEveryRoomIsInAProgram finds packages that no program contains. Labs, contracts and stores in memory are for tests.
func TestEveryRoomIsInAProgram(t *testing.T) {
	in := map[string]bool{}
	programs, err := list("-deps", "./cmd/...")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range programs {
		in[p.ImportPath] = true
	}
	for _, p := range packages(t) {
		forTests := strings.HasPrefix(p.room(), "internal/lab/") || strings.HasSuffix(p.room(), "test") ||
			strings.HasSuffix(p.room(), "/memledger") || strings.HasSuffix(p.room(), "/memory")
		if !in[p.ImportPath] && !forTests {
			t.Errorf("no program contains %s: use it in the product, delete it, or make it one of the labs", p.room())
		}
	}
}
