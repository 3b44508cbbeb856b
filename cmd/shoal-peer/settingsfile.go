package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"shoal/internal/member"
	"shoal/peer/limit"
)

// This file changes single lines of a settings file, as a person would. Comments and the order of lines stay.

// changes are new values of settings by their names; nil removes a setting from the file, so that its default counts.
type changes map[string]any

// edit returns a settings file's text with changes.
func edit(text []byte, c changes) ([]byte, error) {
	d := &document{lines: splitLines(text)}
	if i := bytes.LastIndexByte(text, '\n'); i+1 < len(text) {
		d.unended = string(text[i+1:])
	}
	for _, key := range slices.Sorted(maps.Keys(c)) {
		value := c[key]
		if key == "windows" {
			windows, ok := value.([]limit.Window)
			if !ok && value != nil {
				return nil, fmt.Errorf("windows are a %T", value)
			}
			if err := d.setWindows(windows); err != nil {
				return nil, err
			}
			continue
		}
		if err := d.set(key, value); err != nil {
			return nil, err
		}
	}
	out := strings.Join(d.lines, "")
	if n := len(d.lines); n > 0 && d.unended != "" && d.lines[n-1] == d.unended+"\n" { // the last line stays as it was, too
		out = strings.TrimSuffix(out, "\n")
	}
	return []byte(out), nil
}

// splitLines returns the lines, each with its end. The last one gets an end too.
func splitLines(text []byte) (out []string) {
	for line := range strings.Lines(string(text)) {
		out = append(out, line)
	}
	if n := len(out); n > 0 && !strings.HasSuffix(out[n-1], "\n") {
		out[n-1] += "\n"
	}
	return out
}

// document is a file's lines.
type document struct {
	lines   []string
	unended string // the file's last line, if it had no end
}

// noted is a new value with a comment for its line, if the line is new.
type noted struct {
	value any
	note  string
}

// top returns the number of lines before the first table.
func (d *document) top() int {
	for i := 0; i < len(d.lines); {
		if strings.HasPrefix(strings.TrimSpace(d.lines[i]), "[") {
			return i
		}
		i = d.end(i)
	}
	return len(d.lines)
}

// end returns where the statement that begins at a line ends: behind the shortest run of lines that can be read by itself.
func (d *document) end(from int) int {
	for to := from + 1; to <= len(d.lines); to++ {
		if toml.Unmarshal([]byte(strings.Join(d.lines[from:to], "")), &map[string]any{}) == nil {
			return to
		}
	}
	return from + 1
}

// find returns the lines of a setting before the first table; from is -1 where it is not set.
func (d *document) find(key string) (from, to int) {
	top := d.top()
	for i := 0; i < top; {
		end := d.end(i)
		m := map[string]any{}
		if toml.Unmarshal([]byte(strings.Join(d.lines[i:end], "")), &m) == nil {
			if _, is := m[key]; is {
				return i, end
			}
		}
		i = end
	}
	return -1, -1
}

func (d *document) set(key string, value any) error {
	note := ""
	if n, is := value.(noted); is {
		value, note = n.value, " # "+n.note
	}
	from, to := d.find(key)
	switch {
	case value == nil && from < 0:
		return nil
	case value == nil:
		d.lines = slices.Delete(d.lines, from, to)
		return nil
	}
	if list, is := value.([]string); is && to-from > 1 && d.setList(from, to, list) {
		return nil
	}
	text, err := tomlOf(value)
	if err != nil {
		return err
	}
	if from < 0 {
		d.insert(d.place(), key+" = "+text+note+"\n")
		return nil
	}
	name, _, _ := strings.Cut(d.lines[from], "=")
	d.lines = slices.Replace(d.lines, from, to, name+"= "+text+commentOf(d.lines[to-1])+"\n")
	return nil
}

// place returns where a new setting goes: behind the last one before the first table.
func (d *document) place() int {
	at := 0
	for i, top := 0, d.top(); i < top; {
		end := d.end(i)
		if line := strings.TrimSpace(d.lines[i]); line != "" && !strings.HasPrefix(line, "#") {
			at = end
		}
		i = end
	}
	if at == 0 { // there is none; comments at the top are about the file, unless a table follows at once
		at = d.top()
		for at < len(d.lines) && at > 0 && strings.HasPrefix(strings.TrimSpace(d.lines[at-1]), "#") {
			at--
		}
	}
	return at
}

func (d *document) insert(at int, lines ...string) { d.lines = slices.Insert(d.lines, at, lines...) }

// setList changes a list that has an entry on each line, and reports whether it could. Entries that stay keep their comments.
func (d *document) setList(from, to int, want []string) bool {
	first, last := strings.TrimSpace(d.lines[from]), strings.TrimSpace(d.lines[to-1])
	if head, _, _ := strings.Cut(first, "#"); !strings.HasSuffix(strings.TrimSpace(head), "[") || !strings.HasPrefix(last, "]") {
		return false
	}
	kept := map[string]bool{}
	var body []string
	for _, line := range d.lines[from+1 : to-1] {
		var one struct{ A []string }
		if toml.Unmarshal([]byte("a = [\n"+line+"]\n"), &one) != nil || len(one.A) > 1 {
			return false
		}
		if len(one.A) == 1 {
			if !slices.Contains(want, one.A[0]) || kept[one.A[0]] {
				continue
			}
			kept[one.A[0]] = true
			line = withComma(line, one.A[0])
		}
		body = append(body, line)
	}
	for _, w := range want {
		if !kept[w] {
			kept[w] = true
			body = append(body, "    "+tomlText(w)+",\n")
		}
	}
	d.lines = slices.Replace(d.lines, from+1, to-1, body...)
	return true
}

// withComma puts a comma behind the entry of a line.
func withComma(line, entry string) string {
	comment := commentOf(line)
	code := strings.TrimRight(strings.TrimSuffix(strings.TrimRight(line, "\r\n"), comment), " \t")
	if strings.HasSuffix(code, ",") {
		return line
	}
	return code + "," + comment + "\n"
}

// commentOf returns a line's comment with the space before it. A mark within quotes begins none.
func commentOf(line string) string {
	line = strings.TrimRight(line, "\r\n")
	quote := byte(0)
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case quote == '"' && c == '\\':
			i++
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '"' || c == '\''):
			quote = c
		case quote == 0 && c == '#':
			return line[len(strings.TrimRight(line[:i], " \t")):]
		}
	}
	return ""
}

// tomlOf writes a value on one line.
func tomlOf(value any) (string, error) {
	switch v := value.(type) {
	case int:
		return strconv.Itoa(v), nil
	case bool:
		return strconv.FormatBool(v), nil
	case string:
		return tomlText(v), nil
	case []string:
		var out []string
		for _, s := range v {
			out = append(out, tomlText(s))
		}
		return "[" + strings.Join(out, ", ") + "]", nil
	}
	return "", fmt.Errorf("a setting cannot be a %T", value)
}

// tomlText writes a text in quotes. TOML's escapes are fewer than Go's.
func tomlText(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < 0x20 || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String() + `"`
}

// block is a table of the file: its header's line and the end of its last statement.
type block struct {
	from, to int
	window   limit.Window
}

// windows returns the file's windows of the week.
func (d *document) windows() (out []block) {
	for i := d.top(); i < len(d.lines); {
		header := strings.TrimSpace(strings.TrimSuffix(strings.TrimRight(d.lines[i], "\r\n"), commentOf(d.lines[i])))
		if strings.ReplaceAll(header, " ", "") != "[[windows]]" {
			i = d.end(i)
			continue
		}
		b := block{from: i, to: i + 1}
		for i++; i < len(d.lines); {
			line := strings.TrimSpace(d.lines[i])
			if strings.HasPrefix(line, "[") {
				break
			}
			i = d.end(i)
			if line != "" && !strings.HasPrefix(line, "#") {
				b.to = i
			}
		}
		var m struct{ Windows []limit.Window }
		if toml.Unmarshal([]byte(strings.Join(d.lines[b.from:b.to], "")), &m) == nil && len(m.Windows) == 1 {
			b.window = m.Windows[0]
		}
		out = append(out, b)
	}
	return out
}

// setWindows makes the file's windows the given ones. Those that stay keep their lines.
func (d *document) setWindows(want []limit.Window) error {
	if from, to := d.find("windows"); from >= 0 { // written as one list: it becomes tables
		d.lines = slices.Delete(d.lines, from, to)
	}
	have := d.windows()
	keep := common(have, want)
	at := len(d.lines)
	if n := len(have); n > 0 {
		at = have[n-1].to
	}
	// From the end, so that the numbers of the lines before stay.
	for i, w := len(have)-1, len(want)-1; i >= 0 || w >= 0; {
		switch {
		case i >= 0 && w >= 0 && keep[i] == w:
			at = have[i].from
			i, w = i-1, w-1
		case w >= 0 && (i < 0 || keep[i] < 0 && !slices.Contains(keep, w) || keep[i] >= 0 && keep[i] < w):
			d.insert(at, linesOf(&want[w])...)
			w--
		default:
			d.lines = slices.Delete(d.lines, have[i].from, have[i].to)
			at = have[i].from
			i--
		}
	}
	return nil
}

// common returns for each block which wanted window it stays as, or -1: a longest common subsequence.
func common(have []block, want []limit.Window) []int {
	best := make([][]int, len(have)+1)
	for i := range best {
		best[i] = make([]int, len(want)+1)
	}
	for i := len(have) - 1; i >= 0; i-- {
		for j := len(want) - 1; j >= 0; j-- {
			best[i][j] = max(best[i+1][j], best[i][j+1])
			if have[i].window == want[j] {
				best[i][j] = max(best[i][j], best[i+1][j+1]+1)
			}
		}
	}
	keep := make([]int, len(have))
	for i, j := 0, 0; i < len(have); i++ {
		keep[i] = -1
		for k := j; k < len(want); k++ {
			if have[i].window == want[k] && best[i][j] == best[i+1][k+1]+1 {
				keep[i], j = k, k+1
				break
			}
		}
	}
	return keep
}

// linesOf writes a window as a table.
func linesOf(w *limit.Window) []string {
	out := []string{"\n", "[[windows]]\n"}
	v := reflect.ValueOf(w).Elem()
	for i := range v.NumField() {
		if v.Field(i).IsZero() {
			continue
		}
		text, err := tomlOf(v.Field(i).Interface())
		if err == nil { // a window has texts, numbers and switches
			out = append(out, v.Type().Field(i).Tag.Get("toml")+" = "+text+"\n")
		}
	}
	return out
}

// save changes a settings file on the disk, which may not exist yet. It writes nothing that could not be read again.
func save(file string, c changes) error {
	if at, err := filepath.EvalSymlinks(file); err == nil {
		file = at // a link stays one
	}
	before, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	text, err := edit(before, c)
	if err != nil {
		return err
	}
	if bytes.Equal(text, before) {
		return nil
	}
	if _, err := limit.Parse(text, file, limit.Keys(reflect.TypeFor[settings](), "koanf"), "koanf"); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	mode := fs.FileMode(0)
	if st, err := os.Stat(file); err == nil {
		mode = st.Mode().Perm()
	}
	if err := member.WriteFile(file, text); err != nil {
		return err
	}
	if mode != 0 {
		return os.Chmod(file, mode)
	}
	return nil
}
