package limit

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// Wrong is a setting that cannot be as it is. It is an ErrSettings.
type Wrong struct {
	Key   string // as in a file: "down_kib_per_s", or "windows[2].from" in the second window
	Text  string // what is there and what is allowed: "is -3; want 0 or more"
	Where string // "/etc/shoal/policy.toml, line 3"; may be empty
}

// Bad returns a *Wrong.
func Bad(key, format string, args ...any) error {
	return &Wrong{Key: key, Text: fmt.Sprintf(format, args...)}
}

func (w *Wrong) Error() string {
	s := w.Key
	if w.Key != "" && w.Text != "" {
		s += " "
	}
	if s += w.Text; w.Where != "" {
		s = w.Where + ": " + s
	}
	return "limit: " + s
}

// Is makes errors.Is(err, ErrSettings) work.
func (w *Wrong) Is(target error) bool { return target == ErrSettings }

// Located says in which file and line a wrong setting is. Other errors stay as they are.
func Located(err error, file string, text []byte) error {
	var w *Wrong
	if !errors.As(err, &w) || w.Where != "" {
		return err
	}
	out := *w
	if out.Where = file; out.Key != "" {
		if n := lineOf(text, out.Key); n > 0 {
			out.Where = fmt.Sprintf("%s, line %d", file, n)
		}
	}
	return &out
}

// Parse reads TOML and checks names and types against the fields of a struct with their tags. The errors name line and key, and what is
// allowed.
func Parse(text []byte, file string, known map[string]reflect.Type, tag string) (map[string]any, error) {
	return ParseBut(text, file, known, tag, nil)
}

// ParseBut is Parse that passes over some settings, whatever they are.
func ParseBut(text []byte, file string, known map[string]reflect.Type, tag string, but map[string]bool) (map[string]any, error) {
	m := map[string]any{}
	for mark, is := range map[string]string{"\xef\xbb\xbf": "begins with a byte order mark, which some editors write; save it as UTF-8 without that mark", "\xff\xfe": utf16, "\xfe\xff": utf16} {
		if bytes.HasPrefix(text, []byte(mark)) {
			return nil, &Wrong{Text: "the file " + is, Where: file + ", line 1"}
		}
	}
	if err := toml.Unmarshal(text, &m); err != nil {
		var at *toml.DecodeError
		if !errors.As(err, &at) {
			return nil, &Wrong{Text: strings.TrimPrefix(err.Error(), "toml: "), Where: file}
		}
		line, column := at.Position()
		what := strings.TrimPrefix(at.Error(), "toml: ")
		if key := strings.Join(at.Key(), "."); key != "" {
			what += " (" + key + ")"
		}
		return nil, &Wrong{Text: what + "; want lines such as: down_kib_per_s = 200", Where: fmt.Sprintf("%s, line %d, column %d", file, line, column)}
	}
	maps.DeleteFunc(m, func(key string, _ any) bool { return but[key] })
	if err := check(m, known, tag, ""); err != nil {
		return nil, Located(err, file, text)
	}
	return m, nil
}

const utf16 = "is UTF-16; save it as UTF-8"

// Keys returns the types of a struct's fields by the names in their tags.
func Keys(t reflect.Type, tag string) map[string]reflect.Type {
	out := map[string]reflect.Type{}
	for i := range t.NumField() {
		f := t.Field(i)
		key := f.Tag.Get(tag)
		if f.Anonymous {
			maps.Copy(out, Keys(f.Type, tag))
		} else if key != "" && key != "-" {
			out[key] = f.Type
		}
	}
	return out
}

// check reports the first name, in their order, that is unknown or has a value of another type.
func check(m map[string]any, known map[string]reflect.Type, tag, inside string) error {
	for _, key := range slices.Sorted(maps.Keys(m)) {
		kind, ok := known[key]
		if !ok {
			return &Wrong{Key: inside + key, Text: "is not a setting" + Nearest(key, known)}
		}
		if err := checkValue(inside+key, m[key], kind, tag); err != nil {
			return err
		}
	}
	return nil
}

func checkValue(key string, value any, kind reflect.Type, tag string) error {
	if want := Wants(kind, value); want != "" {
		if kind.Kind() == reflect.Slice && kind.Elem().Kind() == reflect.Struct {
			want = fmt.Sprintf("tables: [[%s]] and its lines below it", key)
		}
		return Bad(key, "is %s; want %s", shown(value), want)
	}
	list, ok := value.([]any)
	if !ok {
		return nil
	}
	for i, one := range list {
		at := fmt.Sprintf("%s[%d]", key, i+1)
		if kind.Elem().Kind() != reflect.Struct {
			if err := checkValue(at, one, kind.Elem(), tag); err != nil {
				return err
			}
			continue
		}
		table, ok := one.(map[string]any)
		if !ok {
			return Bad(at, "is %s; want a table: [[%s]] and its lines below it", shown(one), key)
		}
		if err := check(table, Keys(kind.Elem(), tag), tag, at+"."); err != nil {
			return err
		}
	}
	return nil
}

// shown prints a value as a file has it, shortened.
func shown(v any) string {
	s := fmt.Sprintf("%#v", v)
	switch v := v.(type) {
	case map[string]any:
		s = "a table"
	case []any:
		s = "a list"
	case fmt.Stringer: // times and dates
		s = v.String()
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1e15 { // so that one sees why it is no whole number
			s = strconv.FormatFloat(v, 'f', 1, 64)
		}
	}
	if len(s) > 60 {
		s = s[:60] + "..."
	}
	return s
}

// Wants returns the type that a setting wants, in words, or "" if the given value has it.
func Wants(kind reflect.Type, value any) string {
	given := reflect.TypeOf(value)
	switch {
	case given == nil || kind.Kind() == reflect.Int && given.Kind() != reflect.Int && given.Kind() != reflect.Int64:
		return "a whole number"
	case kind.Kind() == reflect.Bool && given.Kind() != reflect.Bool:
		return "true or false"
	case kind.Kind() == reflect.String && given.Kind() != reflect.String:
		return "a text in quotes"
	case kind.Kind() == reflect.Slice && given.Kind() != reflect.Slice:
		return "a list, such as [\"example.org\"]"
	}
	return ""
}

// Nearest suggests the known name with the longest common prefix, or lists the names where they are few.
func Nearest(key string, known map[string]reflect.Type) string {
	names, key := slices.Sorted(maps.Keys(known)), strings.ToLower(key)
	best, n := "", 2
	for _, k := range names {
		i := 0
		for i < len(k) && i < len(key) && k[i] == key[i] {
			i++
		}
		if i > n {
			best, n = k, i
		}
	}
	switch {
	case best != "":
		return fmt.Sprintf("; did you mean %q?", best)
	case len(names) <= fewNames:
		return "; want one of " + strings.Join(names, ", ")
	}
	return ""
}

const fewNames = 20

// lineOf returns the line of a key, or of what it is part of; 0: it is nowhere.
func lineOf(text []byte, key string) int {
	lines := map[string]int{}
	counts := map[string]int{}
	var p unstable.Parser
	p.Reset(text)
	prefix := ""
	for p.NextExpression() {
		e := p.Expression()
		name, at := "", -1
		for it := e.Key(); it.Next(); {
			if at < 0 {
				at = int(it.Node().Raw.Offset)
			}
			if name != "" {
				name += "."
			}
			name += string(it.Node().Data)
		}
		if at < 0 {
			continue
		}
		line := 1 + bytes.Count(text[:at], []byte("\n"))
		for part := name; ; part = part[:max(strings.LastIndex(part, "."), 0)] { // a key with dots is also one of the table that it makes
			if _, known := lines[prefixOf(e.Kind, prefix)+part]; !known && part != "" {
				lines[prefixOf(e.Kind, prefix)+part] = line
			}
			if part == "" {
				break
			}
		}
		switch e.Kind {
		case unstable.ArrayTable:
			counts[name]++
			prefix = fmt.Sprintf("%s[%d]", name, counts[name])
			lines[prefix] = line
			prefix += "."
		case unstable.Table:
			prefix = name + "."
		}
	}
	for key != "" {
		if n := lines[key]; n > 0 {
			return n
		}
		key = key[:max(strings.LastIndexAny(key, ".["), 0)]
	}
	return 0
}

// prefixOf is what stands before the keys of an expression: nothing where it begins a table of its own.
func prefixOf(kind unstable.Kind, prefix string) string {
	if kind == unstable.ArrayTable || kind == unstable.Table {
		return ""
	}
	return prefix
}
