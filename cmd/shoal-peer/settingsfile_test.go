package main

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"shoal/peer/limit"
)

// TestEditKeepsTheRest changes single lines. What is not about a changed setting stays as it is.
func TestEditKeepsTheRest(t *testing.T) {
	const file = `# My computer
threads = 2   # it is old
down_kib_per_s = 500
deny = [ # not these
    "a.test", # my own
    "b.test"
]
account = "a # b" # me

# Office hours
[[windows]]
days = "mon-fri" # not at work
from = "08:00"
to = "18:00"
pause = true

# At night
[[windows]]
from = "22:00"
to = "06:00"
down_kib_per_s = 2000
`
	office := limit.Window{Days: "mon-fri", From: "08:00", To: "18:00", Pause: true}
	night := limit.Window{From: "22:00", To: "06:00", DownKiBPerS: 2000}
	weekend := limit.Window{Days: "sat,sun", UpKiBPerS: 10}
	for name, c := range map[string]struct {
		changes changes
		from    []string // pairs: what a place was and is
	}{
		"a number":      {changes{"threads": 3}, []string{"threads = 2   # it is old", "threads = 3   # it is old"}},
		"a text":        {changes{"account": `x"y\`}, []string{`account = "a # b" # me`, `account = "x\"y\\" # me`}},
		"a new one":     {changes{"quic": false}, []string{"# me\n", "# me\nquic = false\n"}},
		"gone":          {changes{"down_kib_per_s": nil}, []string{"down_kib_per_s = 500\n", ""}},
		"more in list":  {changes{"deny": []string{"a.test", "b.test", "c.test"}}, []string{"    \"b.test\"\n", "    \"b.test\",\n    \"c.test\",\n"}},
		"less in list":  {changes{"deny": []string{"a.test"}}, []string{"    \"b.test\"\n", ""}},
		"no window":     {changes{"windows": []limit.Window{night}}, []string{"[[windows]]\ndays = \"mon-fri\" # not at work\nfrom = \"08:00\"\nto = \"18:00\"\npause = true\n", ""}},
		"a window more": {changes{"windows": []limit.Window{office, night, weekend}}, []string{"down_kib_per_s = 2000\n", "down_kib_per_s = 2000\n\n[[windows]]\ndays = \"sat,sun\"\nup_kib_per_s = 10\n"}},
		"one between":   {changes{"windows": []limit.Window{office, weekend, night}}, []string{"# At night\n[[windows]]", "# At night\n\n[[windows]]\ndays = \"sat,sun\"\nup_kib_per_s = 10\n[[windows]]"}},
		"another night": {changes{"windows": []limit.Window{office, weekend}}, []string{"[[windows]]\nfrom = \"22:00\"\nto = \"06:00\"\ndown_kib_per_s = 2000\n", "\n[[windows]]\ndays = \"sat,sun\"\nup_kib_per_s = 10\n"}},
		"the same":      {changes{"windows": []limit.Window{office, night}, "threads": 2, "deny": []string{"a.test", "b.test"}}, []string{"\"b.test\"\n", "\"b.test\",\n"}},
	} {
		got, err := edit([]byte(file), c.changes)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if want := strings.Replace(file, c.from[0], c.from[1], 1); string(got) != want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
		}
	}
	for before, after := range map[string]string{"": "threads = 3\n", "queue = 1": "queue = 1\nthreads = 3\n", "# About.\n": "# About.\nthreads = 3\n", "# W\n[[windows]]\npause = true\n": "threads = 3\n# W\n[[windows]]\npause = true\n"} {
		if got, err := edit([]byte(before), changes{"threads": 3}); string(got) != after || err != nil {
			t.Errorf("%q becomes %q, %v", before, got, err)
		}
	}
}

// TestEditSaysWhatIsWanted makes any changes to any file, and reads them back.
func TestEditSaysWhatIsWanted(t *testing.T) {
	text := rapid.StringOf(rapid.RuneFrom([]rune("a.#\"'\\=[]\u00e4\t ")))
	window := rapid.Custom(func(t *rapid.T) limit.Window {
		return limit.Window{Days: rapid.SampledFrom([]string{"", "mon", "sat,sun"}).Draw(t, "days"), From: rapid.SampledFrom([]string{"", "08:00"}).Draw(t, "from"), DownKiBPerS: rapid.IntRange(0, 2).Draw(t, "down"), Pause: rapid.Bool().Draw(t, "pause")}
	})
	change := rapid.Custom(func(t *rapid.T) changes {
		c := changes{}
		for key, gen := range map[string]*rapid.Generator[any]{"threads": rapid.Just[any](nil), "queue": rapid.Map(rapid.IntRange(0, 9), func(n int) any { return n }), "account": rapid.Map(text, func(s string) any { return s }),
			"deny": rapid.Map(rapid.SliceOfDistinct(text, rapid.ID), func(s []string) any { return s }), "windows": rapid.Map(rapid.SliceOfN(window, 0, 5), func(w []limit.Window) any { return w })} {
			if rapid.Bool().Draw(t, "change "+key) {
				c[key] = gen.Draw(t, key)
			}
		}
		return c
	})
	rapid.Check(t, func(t *rapid.T) {
		file := []byte(rapid.SampledFrom([]string{"", "# all\nthreads = 1 # x\n", "deny = [\n  \"a\", # one\n  \"b\"\n]\n# w\n[[windows]] # it\npause = true\n# end\n",
			"windows = [{days = \"mon\"}]\n", "account = \"\"\"\nx\n\"\"\"\nqueue = 1"}).Draw(t, "file"))
		var was map[string]any
		for range 3 {
			c := change.Draw(t, "changes")
			got, err := edit(file, c)
			if err != nil {
				t.Fatal(err)
			}
			was = c
			file = got
			m, err := limit.Parse(file, "file", limit.Keys(reflect.TypeFor[settings](), "koanf"), "koanf")
			if err != nil {
				t.Fatalf("%v\n%s", err, file)
			}
			for key, want := range was {
				if got := plainly(m[key]); !reflect.DeepEqual(got, plainly(want)) {
					t.Fatalf("%s is %#v, want %#v, in\n%s", key, got, plainly(want), file)
				}
			}
		}
	})
}

// plainly makes values comparable, whoever made them.
func plainly(v any) any {
	switch v := v.(type) {
	case int64:
		return int(v)
	case []string:
		var out []any
		for _, s := range slices.Sorted(slices.Values(v)) { // a list's order means nothing, and entries that stay keep their places
			out = append(out, s)
		}
		return out
	case []any:
		if len(v) == 0 {
			return []any(nil)
		}
		if _, is := v[0].(map[string]any); !is {
			var list []string
			for _, s := range v {
				list = append(list, s.(string))
			}
			return plainly(list)
		}
		var out []any
		for _, m := range v {
			t := m.(map[string]any)
			if n, is := t["down_kib_per_s"].(int64); is {
				t["down_kib_per_s"] = int(n)
			}
			out = append(out, t)
		}
		return out
	case []limit.Window:
		out := []any(nil)
		for _, w := range v {
			m := map[string]any{}
			f := reflect.ValueOf(w)
			for i := range f.NumField() {
				if !f.Field(i).IsZero() {
					m[f.Type().Field(i).Tag.Get("toml")] = f.Field(i).Interface()
				}
			}
			out = append(out, m)
		}
		return out
	case nil:
		return []any(nil)
	}
	return v
}

// TestSaveKeepsFiles: a link stays a link, the mode stays, and what cannot be read again is not written.
func TestSaveKeepsFiles(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "real.toml"), filepath.Join(dir, "peer.toml")
	if err := os.WriteFile(file, []byte("threads = 2\n"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file, link); err != nil {
		if os.Getenv("SHOAL_TEST_STRICT") == "1" {
			t.Fatal(err)
		}
		t.Skipf("this system lets its user make no symbolic link: %v", err)
	}
	if err := save(link, changes{"threads": 4}); err != nil {
		t.Fatal(err)
	}
	st, err := os.Lstat(link)
	if err != nil || st.Mode()&os.ModeSymlink == 0 {
		t.Error("the link is gone", err)
	}
	b, err := os.ReadFile(file)
	if st, _ := os.Stat(file); string(b) != "threads = 4\n" || err != nil || st.Mode().Perm() != 0o640 {
		t.Errorf("%q %v", b, err)
	}
	if err := save(link, changes{"no_such": 4}); err == nil {
		t.Error("an unknown setting was written")
	}
	left, _ := os.ReadDir(dir)
	if names := slices.Collect(func(yield func(string) bool) {
		for _, e := range left {
			if !yield(e.Name()) {
				return
			}
		}
	}); len(names) != 2 {
		t.Error(names)
	}
}
