package measurements

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// docs is the project's documentation, seen from this package.
const docs = "../../../docs"

func published(t *testing.T) []Row {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(docs, "measurements.csv"))
	if err != nil {
		t.Fatal(err)
	}
	rows, err := Read(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// TestReadme checks that every figure of the README's table is in the file, with the date and the target that the README names.
func TestReadme(t *testing.T) {
	raw, err := os.ReadFile("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(raw), "\n## Measured\n")
	if !ok {
		t.Fatal("README.md has no section Measured")
	}
	date := regexp.MustCompile(`\d{4}-\d\d-\d\d`).FindString(section)
	rows, found := published(t), 0
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 4 || strings.HasPrefix(line, "|---") || strings.HasPrefix(line, "| what") {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		found++
		what, measured, toMeet := cells[0], cells[1], cells[2]
		if !slices.ContainsFunc(rows, func(r Row) bool {
			return r.What == what && r.Date == date && r.Quiet() && Text(r.Value, r.Unit) == measured && meets(&r) == toMeet
		}) {
			t.Errorf("README.md: %q, %s, to meet %q: docs/measurements.csv has no such figure of %s on a quiet machine", what, measured, toMeet, date)
		}
	}
	if found == 0 {
		t.Error("README.md's table of measurements is empty")
	}
}

// meets words a target as the README does.
func meets(r *Row) string {
	bound, atLeast, ok := r.Target()
	switch {
	case !ok:
		return ""
	case atLeast:
		return "at least " + Text(bound, r.Unit)
	}
	return "at most " + Text(bound, r.Unit)
}

// TestDrawings checks that the drawings in the docs are those of the file.
func TestDrawings(t *testing.T) {
	dir := t.TempDir()
	files, err := draw(published(t), dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		want, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(docs, "measurements", filepath.Base(f))
		got, err := os.ReadFile(name)
		if err != nil || runtime.GOARCH == "amd64" && !bytes.Equal(got, want) { // other processors may round a coordinate otherwise
			t.Errorf("%s is not drawn from docs/measurements.csv: run make measurements (%v)", name, err)
		}
	}
	kept, err := filepath.Glob(filepath.Join(docs, "measurements", "*.svg"))
	if err != nil || len(kept) != len(files) {
		t.Errorf("%d drawings in docs/measurements, %d figures to draw (%v): remove what is not drawn any more", len(kept), len(files), err)
	}
}

func TestRead(t *testing.T) {
	head := strings.Join(columns, ",") + "\n"
	const good = "2026-11-21,m,v1,size,44.7,MB,<= 45,,make size\n"
	rows, err := Read(strings.NewReader(head + good + "2026-11-22,m,v2,size,41,MB,<= 42,busy,make size\n"))
	if err != nil || len(rows) != 2 || rows[0].Value != 44.7 || !rows[0].Quiet() || rows[1].Quiet() {
		t.Fatalf("%v, %v", rows, err)
	}
	if bound, atLeast, ok := rows[1].Target(); bound != 42 || atLeast || !ok {
		t.Errorf("target: %v, %v, %v", bound, atLeast, ok)
	}
	newest := Newest(rows)
	if len(newest) != 1 || newest[0].Newest.Version != "v1" {
		t.Errorf("the newest figure of a quiet machine: %+v", newest)
	}
	for name, c := range map[string]struct{ text, says string }{
		"no header":     {good, "header line"},
		"bad date":      {head + strings.Replace(good, "2026-11-21", "21.11.2026", 1), "line 2: date"},
		"no value":      {head + strings.Replace(good, "44.7", "about 44", 1), "line 2: value"},
		"no command":    {head + strings.Replace(good, "make size", "", 1), "command is empty"},
		"bad target":    {head + strings.Replace(good, "<= 45", "45", 1), "line 2: to_meet"},
		"another unit":  {head + good + strings.Replace(good, "MB", "MiB", 1), `line 3: "size" is in "MiB"`},
		"dates go back": {head + good + strings.Replace(good, "2026", "2025", 1), "line 3: date"},
		"missing cell":  {head + "2026-11-21,m\n", "wrong number of fields"},
	} {
		if _, err := Read(strings.NewReader(c.text)); !errors.Is(err, ErrFile) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}

func TestNewestTakesTheMedian(t *testing.T) {
	rows := []Row{
		{Date: "2026-11-20", Version: "v1", What: "rtt", Value: 90},
		{Date: "2026-11-21", Version: "v2", What: "rtt", Value: 21},
		{Date: "2026-11-21", Version: "v2", What: "rtt", Value: 18},
		{Date: "2026-11-21", Version: "v2", What: "rtt", Value: 20},
		{Date: "2026-11-21", Version: "v2", What: "rtt", Value: 50, Load: "30"},
	}
	if got := Newest(rows); len(got) != 1 || got[0].Median() != 20 || len(got[0].Values) != 3 {
		t.Errorf("%+v", got)
	}
}

func TestText(t *testing.T) {
	for _, c := range []struct {
		v          float64
		unit, want string
	}{
		{44.7, "MB", "44.7 MB"}, {12570, "1/s", "12,570 a second"}, {1270697, "", "1,270,697"}, {2.17, "ratio", "2.17 times"},
		{99.333, "%", "99.33%"}, {.02, "% of a core", "0.02% of a core"}, {999, "ms", "999 ms"}, {1000, "ms", "1,000 ms"},
	} {
		if got := Text(c.v, c.unit); got != c.want {
			t.Errorf("Text(%v, %q) = %q, want %q", c.v, c.unit, got, c.want)
		}
	}
}
